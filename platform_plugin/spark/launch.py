"""Launching: start the server's process, detached from whoever needs it first, and wait until it is ready."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import ServerError
from platform_plugin.spark.java import java_home
from platform_plugin.spark.liveness import Watcher, alive

if TYPE_CHECKING:
    from datetime import timedelta

    from platform_plugin.spark.runtime import RuntimeFolder
    from platform_plugin.spark.settings import ServerSettings

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
"""Variables that would lead the server's Spark elsewhere: to another Spark, another master, another token."""


def launch(settings: ServerSettings, runtime: RuntimeFolder, watcher: Watcher | None, timeout: timedelta) -> dict[str, Any]:
    """Start a server in a folder that has none, and return its state once it is ready; the caller holds the right to start."""
    java = java_home()
    _check_space(settings, runtime)
    _check_port(settings)
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
                [sys.executable, "-m", "platform_plugin.spark.server", str(runtime.path)],
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
    state = wait_ready(runtime, process, watcher, timeout)
    if state is not None:
        return state
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise ServerError(
            f"platform server was not ready after {timeout.total_seconds():g} seconds",
            detail=runtime.read_log(),
            hint=f'read "{runtime.log}"; a busy machine needs more time',
        )
    reason = runtime.read_state().get("reason") or runtime.read_log()
    raise ServerError(f"platform server ended with code {process.returncode} while it started", detail=reason, hint=f'read "{runtime.log}"')


def wait_ready(
    runtime: RuntimeFolder, process: subprocess.Popen[bytes] | None, watcher: Watcher | None, timeout: timedelta
) -> dict[str, Any] | None:
    """Return the state of the server that is starting once it is ready, or None when it ended or took too long."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) < timeout.total_seconds():
        if (process.poll() is not None) if process is not None else not alive(runtime):
            return None
        state = runtime.read_state()
        if state.get("phase") == "ready":
            return state
        if watcher is not None:
            watcher(str(state.get("phase", "starting the server")), waited)
        time.sleep(0.05)
    return None


def _plan_environment(settings: ServerSettings, java: Path) -> dict[str, str]:
    """Return the server's environment: this Python and this package, for its workers as well, and the Java that was found."""
    kept = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    if settings.master is None:
        kept.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    roots = [str(Path(__file__).parents[2]), *filter(None, [kept.get("PYTHONPATH")])]
    return {
        **kept,
        "JAVA_HOME": str(java),
        "PYSPARK_PYTHON": sys.executable,
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
