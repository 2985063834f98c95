"""One platform server for all tests that need Spark, whatever process runs them.

Start it by asking for `spark_server` (its runtime folder) or `spark_session` (an open session on it).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from platform_plugin.engine.spark.server.attach import attach, start, stop
from platform_plugin.engine.spark.server.runtime import RUNTIME_VARIABLE, RuntimeFolder, locate_runtime, open_runtime
from platform_plugin.engine.spark.server.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUN_VARIABLE = "PLATFORM_TEST_RUN"
"""Handed down to every process of a test run, so that what it leaves can be told from what others run on this machine."""

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
        os.environ.pop(RUNTIME_VARIABLE, None)
        if before is not None:
            os.environ[RUNTIME_VARIABLE] = before
        if _count(runtime, -1) == 0:
            stop(runtime=runtime)
            shutil.rmtree(runtime.path, ignore_errors=True)


@contextmanager
def server_of_its_own(folder: Path) -> Iterator[RuntimeFolder]:
    """A server that no other test uses, for those that count what runs on it."""
    before = os.environ.get(RUNTIME_VARIABLE)
    runtime = open_runtime(folder)
    os.environ[RUNTIME_VARIABLE] = str(runtime.path)
    try:
        start(SETTINGS, runtime=runtime)
        yield runtime
    finally:
        os.environ.pop(RUNTIME_VARIABLE, None)
        if before is not None:
            os.environ[RUNTIME_VARIABLE] = before
        stop(runtime=runtime)


@pytest.fixture(autouse=True)
def no_unasked_server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that is not marked `spark` can't start a server, least of all in the user's own runtime folder: its folder is a file."""
    if request.node.get_closest_marker("spark"):
        request.getfixturevalue("spark_server")
    else:
        monkeypatch.setenv(RUNTIME_VARIABLE, str(Path(__file__)))


@pytest.fixture(autouse=True, scope="session")
def no_server_left_behind() -> Iterator[None]:
    """Fails the run if a process that a test started has forgotten the variable and left a server in the user's own folder."""
    run = os.environ.setdefault(_RUN_VARIABLE, uuid4().hex)
    yield
    default = locate_runtime({name: value for name, value in os.environ.items() if name != RUNTIME_VARIABLE})
    with suppress(OSError, ValueError):
        pid = int((default / "server.lock").read_text())
        started = f"{_RUN_VARIABLE}={run}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert not started, f"a test of this run has started the platform server {pid} in {default}, the user's own runtime folder"


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
