"""`launch`: starts the server's process, detached from the client that starts it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from platform_plugin.engine.spark.server.cluster import check_master
from platform_plugin.engine.spark.server.java import java_home
from platform_plugin.errors import InvalidValue, ServerError

if TYPE_CHECKING:
    from platform_plugin.engine.spark.server.runtime import RuntimeFolder
    from platform_plugin.engine.spark.server.settings import ServerSettings

_LEAST_FREE_BYTES = 64 * 1024 * 1024
_FOREIGN = {
    "MASTER",
    "PYSPARK_GATEWAY_PORT",
    "SPARK_CONNECT_AUTHENTICATE_TOKEN",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_HOME",
    "SPARK_LOCAL_DIRS",
    "SPARK_REMOTE",
}
"""Variables that would point the server's Spark elsewhere: to another Spark, another master, another token."""


SHARED_TOKEN_VARIABLE = "PLATFORM_SERVER_TOKEN"  # noqa: S105 - a name, not a token
"""The token of a server that clients on other machines use; without it each server makes one that only its user can read."""
_SHORTEST_TOKEN = 16

_SERVER = ("-m", "platform_plugin.engine.spark.server.server")


def launch(settings: ServerSettings, runtime: RuntimeFolder) -> subprocess.Popen[bytes]:
    """Start a server in a folder that has none, and return its process once it holds the folder's lock or has ended.

    The caller holds the start lock and releases it: the next client then sees that a start is under way.
    """
    java = java_home()
    _check_space(settings, runtime)
    _check_port(settings)
    _check_token()
    if settings.master is not None:
        check_master(settings.master)
    for leftover in (runtime.state, runtime.control, runtime.token):
        leftover.unlink(missing_ok=True)
    shutil.rmtree(runtime.path / "scratch", ignore_errors=True)
    runtime.write(runtime.settings, json.dumps(settings.as_dict()))
    with suppress(OSError):
        runtime.log.replace(runtime.log.with_suffix(".previous.log"))
    try:
        runtime.log.touch(mode=0o600)
        with runtime.log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *_SERVER, str(runtime.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_plan_environment(settings, java),
                cwd=runtime.path,
                start_new_session=True,
            )
    except OSError as error:
        raise ServerError(
            "platform server can't be started", detail=str(error), hint=f'check that "{runtime.path}" can be written'
        ) from error
    while process.poll() is None and not _holds(runtime, process):
        time.sleep(0.02)
    return process


def _holds(runtime: RuntimeFolder, process: subprocess.Popen[bytes]) -> bool:
    # Not by trying the lock, which the process itself is about to take.
    try:
        return runtime.server_lock.read_text() == str(process.pid)
    except OSError:
        return False


def _plan_environment(settings: ServerSettings, java: Path) -> dict[str, str]:
    """Return the server's environment: this Python and this package, for its workers as well, and the Java that was found."""
    kept = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    if settings.master is None:
        kept.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    roots = [str(Path(__file__).parents[4]), *filter(None, [kept.get("PYTHONPATH")])]
    return {
        **kept,
        "JAVA_HOME": str(java),
        "PYSPARK_PYTHON": settings.executor_python or sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(roots),
    }


def _check_space(settings: ServerSettings, runtime: RuntimeFolder) -> None:
    for folder in filter(None, (str(runtime.path), settings.scratch)):
        with suppress(FileNotFoundError):
            if shutil.disk_usage(folder).free < _LEAST_FREE_BYTES:
                raise ServerError(
                    f'the disk of "{folder}" is full', hint="free 64 MiB, or set PLATFORM_RUNTIME_DIR to a folder on another disk"
                )


def _check_token() -> None:
    if 0 < len(os.environ.get(SHARED_TOKEN_VARIABLE, "")) < _SHORTEST_TOKEN:
        raise InvalidValue(
            f"the token in {SHARED_TOKEN_VARIABLE} is short",
            detail="whoever guesses it runs any code as this user",
            hint=f"give at least {_SHORTEST_TOKEN} characters, such as those of `openssl rand -hex 32`",
        )


def _check_port(settings: ServerSettings) -> None:
    if settings.port == 0:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.address, settings.port))
        except OSError as error:
            raise ServerError(
                f'port "{settings.port}" of "{settings.address}" is taken',
                detail=str(error),
                hint="choose another port; 0 takes any free one",
            ) from error
