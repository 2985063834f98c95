"""Attaching: find the user's platform server, or start it, or replace it when it is dead or wedged."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import ServerError
from platform_plugin.spark.control import ask
from platform_plugin.spark.java import java_home
from platform_plugin.spark.runtime import RuntimeFolder, hold, open_runtime
from platform_plugin.spark.settings import ServerSettings

if TYPE_CHECKING:
    from platform_plugin.spark.session import Session

Watcher = Callable[[str, float], None]
"""Told what is being waited for, and for how many seconds it has been."""

START_TIMEOUT = timedelta(seconds=120)
_ANSWER_SECONDS = 5.0
_LEAST_FREE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """What is known about the user's platform server."""

    running: bool
    phase: str
    runtime: Path
    log: Path
    details: dict[str, Any]


def attach(
    settings: ServerSettings | None = None,
    *,
    runtime: RuntimeFolder | None = None,
    watcher: Watcher | None = None,
    timeout: timedelta = START_TIMEOUT,
) -> Session:
    """Return a session on the user's platform server, which is started if there is none and replaced if it does not answer.

    A server that runs already is used as it is, whatever `settings` say.
    """
    runtime = runtime or open_runtime()
    for _ in range(2):
        state = _bring_up(settings or ServerSettings(), runtime, watcher, timeout)
        session = _open(runtime, state)
        if session is not None:
            return session
        _end_wedged(runtime, watcher)
    raise ServerError(
        f'platform server in "{runtime.path}" answers its control socket but no query',
        hint=f'read "{runtime.log}", then run `platform down`',
    )


def connect(url: str) -> Session:
    """Return a session on a Spark Connect endpoint that somebody else runs, `sc://host:port`, or refuse at once."""
    from pyspark.errors import PySparkException

    from platform_plugin.spark.channel import EndpointChannel
    from platform_plugin.spark.session import Session

    try:
        channel = EndpointChannel(url)
    except PySparkException as error:
        raise ServerError("the Spark endpoint's URL is not one", detail=error.getMessage(), hint="write sc://host:port") from error
    host, _, port = channel.target.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except OSError as error:
        raise ServerError(
            f'Spark endpoint "{channel.target}" can\'t be reached',
            detail=str(error),
            hint="check the address, and that a Spark Connect server listens there",
        ) from error
    return Session(channel)


def start(
    settings: ServerSettings | None = None,
    *,
    runtime: RuntimeFolder | None = None,
    watcher: Watcher | None = None,
    timeout: timedelta = START_TIMEOUT,
) -> ServerStatus:
    """Make sure that the user's platform server runs, and return its status."""
    runtime = runtime or open_runtime()
    _bring_up(settings or ServerSettings(), runtime, watcher, timeout)
    return status(runtime=runtime)


def stop(*, runtime: RuntimeFolder | None = None, seconds: float = 15.0) -> bool:
    """End the user's platform server and return whether there was one; one that does not obey is killed."""
    runtime = runtime or open_runtime()
    with _starting(runtime, None, timedelta(seconds=seconds + 10)):
        if not _alive(runtime):
            return False
        with suppress(ServerError):
            ask(runtime.control, "stop", seconds=_ANSWER_SECONDS)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                if not _alive(runtime):
                    return True
                time.sleep(0.05)
        _kill(runtime)
        return True


def status(*, runtime: RuntimeFolder | None = None) -> ServerStatus:
    """Return what the user's platform server says about itself; never starts one."""
    runtime = runtime or open_runtime()
    if not _alive(runtime):
        return ServerStatus(running=False, phase="not running", runtime=runtime.path, log=runtime.log, details={})
    try:
        details = ask(runtime.control, "status", seconds=_ANSWER_SECONDS)
    except ServerError:
        return ServerStatus(running=True, phase="not answering", runtime=runtime.path, log=runtime.log, details=runtime.read_state())
    return ServerStatus(running=True, phase=str(details.pop("phase")), runtime=runtime.path, log=runtime.log, details=details)


def interrupt(tag: str, *, runtime: RuntimeFolder | None = None) -> int:
    """Stop the running queries under `tag` in every session of the user's platform server, and return how many there were."""
    runtime = runtime or open_runtime()
    return int(ask(runtime.control, "interrupt", tag=tag)["interrupted"]) if _alive(runtime) else 0


def _bring_up(settings: ServerSettings, runtime: RuntimeFolder, watcher: Watcher | None, timeout: timedelta) -> dict[str, Any]:
    """Return the state of a server that is ready."""
    state = _says(runtime)
    if state and state["phase"] == "ready":
        return state
    with _starting(runtime, watcher, timeout):
        # Asked twice, because a loaded machine is slow, and killing a live server is worse than waiting.
        state = _says(runtime)
        if state and state["phase"] != "ready":
            # Whoever started it has died meanwhile.
            state = _wait_ready(runtime, None, watcher, timeout)
        if state:
            return state
        if _alive(runtime):
            if watcher is not None:
                watcher("replacing a server that does not answer", 0.0)
            _kill(runtime)
        return _spawn(settings, runtime, watcher, timeout)


def _spawn(settings: ServerSettings, runtime: RuntimeFolder, watcher: Watcher | None, timeout: timedelta) -> dict[str, Any]:
    java = java_home()
    _check_space(settings, runtime)
    _check_port(settings)
    for leftover in (runtime.state, runtime.control, runtime.token):
        leftover.unlink(missing_ok=True)
    shutil.rmtree(runtime.path / "scratch", ignore_errors=True)
    runtime.write(runtime.settings, json.dumps(settings.as_dict()))
    with suppress(OSError):
        os.replace(runtime.log, runtime.log.with_suffix(".previous.log"))
    package_root = str(Path(__file__).parents[2])
    path = os.pathsep.join([package_root, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {
        **os.environ,
        "JAVA_HOME": str(java),
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
        if settings.master is None
        else os.environ.get("SPARK_LOCAL_IP", ""),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": path,
    }
    for foreign in (
        "SPARK_REMOTE",
        "SPARK_CONNECT_MODE_ENABLED",
        "SPARK_CONNECT_AUTHENTICATE_TOKEN",
        "PYSPARK_GATEWAY_PORT",
        "MASTER",
        "SPARK_HOME",
        "SPARK_LOCAL_DIRS",
    ):
        environment.pop(foreign, None)
    try:
        runtime.log.touch(mode=0o600)
        with runtime.log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "platform_plugin.spark.server", str(runtime.path)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={k: v for k, v in environment.items() if v}, cwd=runtime.path, start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        raise ServerError(
            "platform server can't be started", detail=str(error), hint=f'check that "{runtime.path}" can be written'
        ) from error
    state = _wait_ready(runtime, process, watcher, timeout)
    if state is not None:
        return state
    if process.poll() is None:
        _kill(runtime, process)
        raise ServerError(
            f"platform server was not ready after {timeout.total_seconds():g} seconds",
            detail=runtime.read_log(),
            hint=f'read "{runtime.log}"; a busy machine needs more time',
        )
    reason = runtime.read_state().get("reason") or runtime.read_log()
    raise ServerError(f"platform server ended with code {process.returncode} while it started", detail=reason, hint=f'read "{runtime.log}"')


def _wait_ready(
    runtime: RuntimeFolder, process: subprocess.Popen[bytes] | None, watcher: Watcher | None, timeout: timedelta
) -> dict[str, Any] | None:
    began = time.monotonic()
    while (waited := time.monotonic() - began) < timeout.total_seconds():
        if (process.poll() is not None) if process is not None else not _alive(runtime):
            return None
        state = runtime.read_state()
        if state.get("phase") == "ready":
            return state
        if watcher is not None:
            watcher(str(state.get("phase", "starting the server")), waited)
        time.sleep(0.05)
    return None


def _says(runtime: RuntimeFolder) -> dict[str, Any] | None:
    """Return the live server's answer to a ping."""
    if _alive(runtime):
        with suppress(ServerError):
            return ask(runtime.control, "ping", seconds=_ANSWER_SECONDS)
    return None


def _open(runtime: RuntimeFolder, state: dict[str, Any]) -> Session | None:
    """Return a session that has answered, or None when the server takes connections but answers nothing."""
    from platform_plugin.spark.channel import LoopbackChannel
    from platform_plugin.spark.faults import ServerLost
    from platform_plugin.spark.session import Session

    try:
        token = runtime.token.read_text()
    except OSError as error:
        raise ServerError(
            f'runtime folder "{runtime.path}" has lost its token', detail=str(error), hint="run `platform down`, then try again"
        ) from error
    with suppress(ServerLost):
        return Session(LoopbackChannel(port=int(state["port"]), token=token), control=runtime.control, log=runtime.log)
    return None


def _end_wedged(runtime: RuntimeFolder, watcher: Watcher | None) -> None:
    if watcher is not None:
        watcher("replacing a server that answers no query", 0.0)
    with _starting(runtime, None, timedelta(seconds=20)):
        if _alive(runtime):
            _kill(runtime)


@contextmanager
def _starting(runtime: RuntimeFolder, watcher: Watcher | None, timeout: timedelta) -> Iterator[None]:
    began = time.monotonic()
    while True:
        with hold(runtime.start_lock) as held:
            if held:
                yield
                return
        waited = time.monotonic() - began
        if waited > timeout.total_seconds():
            raise ServerError(
                f'another process has been starting the server in "{runtime.path}" for too long', hint="run `platform status`"
            )
        if watcher is not None:
            watcher(str(runtime.read_state().get("phase", "another process starts the server")), waited)
        time.sleep(0.05)


def _alive(runtime: RuntimeFolder) -> bool:
    with hold(runtime.server_lock) as held:
        return not held


def _kill(runtime: RuntimeFolder, process: subprocess.Popen[bytes] | None = None) -> None:
    """Kill the server that holds the lock, with its JVM, if it is this user's, and wait until the lock is free."""
    try:
        pid = process.pid if process is not None else int(runtime.server_lock.read_text())
        owner = os.stat(f"/proc/{pid}").st_uid if os.path.isdir("/proc/self") else os.getuid()
    except (OSError, ValueError) as error:
        raise ServerError(
            f'platform server in "{runtime.path}" does not answer and can\'t be identified',
            hint=f'end the process that holds "{runtime.server_lock}"',
        ) from error
    if owner != os.getuid():
        raise ServerError(f"platform server with process id {pid} belongs to somebody else", hint="ask its owner to run `platform down`")
    jvm = runtime.read_state().get("jvm_pid")
    with suppress(ProcessLookupError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
    if isinstance(jvm, int):
        with suppress(OSError):
            if os.getpgid(jvm) == pid:
                os.kill(jvm, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while _alive(runtime):
        if time.monotonic() > deadline:
            raise ServerError(
                f"platform server with process id {pid} can't be ended", hint="it may be stuck in the kernel; restart the machine"
            )
        time.sleep(0.05)


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
