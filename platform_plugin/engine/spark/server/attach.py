"""`attach`, `start`, `stop` and `status`: a client finds the user's platform server, or starts or replaces it."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from platform_plugin.engine.spark.server.control import ask
from platform_plugin.engine.spark.server.launch import launch
from platform_plugin.engine.spark.server.liveness import ANSWER_SECONDS, Watcher, ask_state, hold_start_lock, is_alive, kill
from platform_plugin.engine.spark.server.readiness import is_starting, start_limit, wait_ready
from platform_plugin.engine.spark.server.runtime import RuntimeFolder, open_runtime
from platform_plugin.engine.spark.server.settings import ServerSettings
from platform_plugin.errors import ServerError
from platform_plugin.lake.files.storage import Storage

if TYPE_CHECKING:
    from pathlib import Path

    from platform_plugin.engine.spark.session.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """The state of the user's platform server."""

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
    timeout: timedelta | None = None,
) -> Session:
    """Return a session on the user's platform server, which is started if there is none and replaced if it does not answer.

    A running server is used as it is, whatever `settings` say. A start that takes longer than `timeout` goes on without this client; the
    default is PLATFORM_START_SECONDS, or five minutes.
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
    """Return a session on another Spark Connect endpoint, `sc://host:port`; one that does not answer is an error at once."""
    from pyspark.errors import PySparkException

    from platform_plugin.engine.spark.server.channel import EndpointChannel
    from platform_plugin.engine.spark.session.session import Session

    try:
        channel = EndpointChannel(url)
    except (PySparkException, ValueError) as error:
        # What stands for a port may be a piece of a secret, so Python's own words are not repeated.
        said = error.getMessage() if isinstance(error, PySparkException) else None
        raise ServerError("the Spark endpoint's URL is not one", detail=said, hint="write sc://host:port") from None
    host, _, port = channel.target.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except (OSError, OverflowError, UnicodeError) as error:
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
    timeout: timedelta | None = None,
) -> ServerStatus:
    """Start the user's platform server unless it runs, and return its status."""
    runtime = runtime or open_runtime()
    _bring_up(settings or ServerSettings(), runtime, watcher, timeout)
    return status(runtime=runtime)


def stop(*, runtime: RuntimeFolder | None = None, seconds: float = 15.0) -> bool:
    """Stop the user's platform server and return whether there was one; one that does not stop is killed."""
    runtime = runtime or open_runtime()
    with hold_start_lock(runtime, None, timedelta(seconds=seconds + 10)):
        if not is_alive(runtime):
            return False
        with suppress(ServerError):
            ask(runtime.control, "stop", seconds=ANSWER_SECONDS)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                if not is_alive(runtime):
                    return True
                time.sleep(0.05)
        kill(runtime)
        return True


def status(*, runtime: RuntimeFolder | None = None, timeout: timedelta = timedelta(seconds=ANSWER_SECONDS)) -> ServerStatus:
    """Return the status that the user's platform server reports within `timeout`; never starts one."""
    runtime = runtime or open_runtime()
    if not is_alive(runtime):
        return ServerStatus(running=False, phase="not running", runtime=runtime.path, log=runtime.log, details={})
    try:
        details = ask(runtime.control, "status", seconds=timeout.total_seconds())
    except ServerError:
        return ServerStatus(running=True, phase="not answering", runtime=runtime.path, log=runtime.log, details=runtime.read_state())
    return ServerStatus(running=True, phase=str(details.pop("phase")), runtime=runtime.path, log=runtime.log, details=details)


def interrupt(tag: str, *, runtime: RuntimeFolder | None = None) -> int:
    """Stop the running queries under `tag` in every session of the user's platform server, and return how many there were."""
    runtime = runtime or open_runtime()
    return int(ask(runtime.control, "interrupt", tag=tag)["interrupted"]) if is_alive(runtime) else 0


def _bring_up(settings: ServerSettings, runtime: RuntimeFolder, watcher: Watcher | None, timeout: timedelta | None) -> dict[str, Any]:
    """Return the state of a server that is ready."""
    timeout = timeout or start_limit()
    deadline = time.monotonic() + timeout.total_seconds()
    while True:
        state = ask_state(runtime)
        if state and state["phase"] == "ready":
            return state
        process = None
        if state is None:
            with hold_start_lock(runtime, watcher, timeout):
                # Asked twice, because a loaded machine is slow, and killing a live server is worse than waiting.
                state = ask_state(runtime)
                held = is_alive(runtime)
                # One that has never been ready may be too busy to answer; its start is nobody's to end but the user's.
                if held and state is None and not is_starting(runtime):
                    if watcher is not None:
                        watcher("replacing a server that does not answer", 0.0)
                    kill(runtime)
                    held = False
                if not held:
                    process = launch(settings, runtime)
        # Outside of the lock, so that others can see how far it is, or end it.
        ready = wait_ready(runtime, process, watcher, timedelta(seconds=max(0.0, deadline - time.monotonic())))
        if ready is not None:
            return ready


def _open(runtime: RuntimeFolder, state: dict[str, Any]) -> Session | None:
    """Return a session that has answered, or None when the server takes connections but answers nothing."""
    from platform_plugin.engine.spark.server.channel import LoopbackChannel
    from platform_plugin.engine.spark.session.session import TASK_BYTES, Session
    from platform_plugin.engine.spark.session.spool import SpoolFolder
    from platform_plugin.errors import ServerLost

    try:
        token = runtime.token.read_text()
    except OSError as error:
        raise ServerError(
            f'runtime folder "{runtime.path}" has lost its token', detail=str(error), hint="run `platform down`, then try again"
        ) from error
    with suppress(ServerLost):
        channel = LoopbackChannel(port=int(state["port"]), token=token)
        session = Session(channel, control=runtime.control, log=runtime.log, task_bytes=int(state.get("task_bytes", TASK_BYTES)))
        session.executors_here = bool(state.get("executors_here", True))
        if state.get("results"):
            _, identity = session.spark.identity
            session.spool = SpoolFolder(storage=Storage(state["results"]), path=f"{identity}/")
        return session
    return None


def _end_wedged(runtime: RuntimeFolder, watcher: Watcher | None) -> None:
    if watcher is not None:
        watcher("replacing a server that answers no query", 0.0)
    with hold_start_lock(runtime, None, timedelta(seconds=20)):
        if is_alive(runtime):
            kill(runtime)
