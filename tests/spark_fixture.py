"""One platform server for all tests that need Spark, whatever process runs them.

Start it by asking for `spark_server` (its runtime folder) or `spark_session` (an open session on it).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from platform_plugin.spark.attach import attach, start, stop
from platform_plugin.spark.runtime import RUNTIME_VARIABLE, RuntimeFolder, open_runtime
from platform_plugin.spark.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = ServerSettings(cores=2, driver_memory_mib=2048, idle_seconds=300)


@pytest.fixture(scope="session")
def spark_server() -> Iterator[RuntimeFolder]:
    """The runtime folder of a running server, which every process of this test run shares and the last one ends."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}")
    runtime = open_runtime(Path(tempfile.gettempdir()) / f"platform-test-{run[:16]}")
    before = os.environ.get(RUNTIME_VARIABLE)
    os.environ[RUNTIME_VARIABLE] = str(runtime.path)
    _count(runtime, 1)
    try:
        start(SETTINGS, runtime=runtime)
        yield runtime
    finally:
        os.environ.pop(RUNTIME_VARIABLE)
        if before is not None:
            os.environ[RUNTIME_VARIABLE] = before
        if _count(runtime, -1) == 0:
            stop(runtime=runtime)
            shutil.rmtree(runtime.path, ignore_errors=True)


@pytest.fixture(scope="session")
def spark_session(spark_server: RuntimeFolder) -> Iterator[object]:
    """One open session on the shared server; tests that change session state open their own with `attach`."""
    with attach(SETTINGS, runtime=spark_server) as session:
        yield session


def _count(runtime: RuntimeFolder, change: int) -> int:
    """Keep the number of processes that use the server, because pytest-xdist has no common end."""
    with _locked(runtime.path / "users.lock") as file:
        users = int(file.read_text() or 0) + change
        file.write_text(str(users))
        return users


@contextmanager
def _locked(path: Path) -> Iterator[Path]:
    path.touch(mode=0o600)
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path
