"""`wait_ready`: waits for a server that is starting; the start goes on if the wait ends early."""

from __future__ import annotations

import logging
import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from platform_plugin.engine.spark.server.liveness import is_alive
from platform_plugin.errors import InvalidValue, ServerError, ServerStarting

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

    from platform_plugin.engine.spark.server.liveness import Watcher
    from platform_plugin.engine.spark.server.runtime import RuntimeFolder

LIMIT_VARIABLE = "PLATFORM_START_SECONDS"
_LIMIT = timedelta(minutes=5)
_TELL_EVERY_SECONDS = 30.0
_LOG = logging.getLogger(__name__)


def start_limit(environment: Mapping[str, str] = os.environ) -> timedelta:
    """How long a client waits for a start: PLATFORM_START_SECONDS, or five minutes.

    >>> start_limit({"PLATFORM_START_SECONDS": "900"}).total_seconds()
    900.0
    """
    said = environment.get(LIMIT_VARIABLE)
    if not said:
        return _LIMIT
    try:
        limit = timedelta(seconds=float(said))
    except (ValueError, OverflowError):
        limit = timedelta(0)
    if limit <= timedelta(0):
        raise InvalidValue(f"{LIMIT_VARIABLE} is {said!r}", hint="give a number of seconds, such as 900")
    return limit


def is_starting(runtime: RuntimeFolder) -> bool:
    """Whether the live server has never been ready, by its own last report."""
    return runtime.read_state().get("phase") not in ("ready", "failed")


def wait_ready(
    runtime: RuntimeFolder, process: subprocess.Popen[bytes] | None, watcher: Watcher | None, limit: timedelta
) -> dict[str, Any] | None:
    """Return the state of a starting server once it is ready, or None if it has ended and another start may succeed.

    `process` is the server's if this client started it. A start that takes longer than the limit goes on, and `ServerStarting` is raised.
    """
    began = time.monotonic()
    tell = watcher or _told_in_log()
    while True:
        state = runtime.read_state()
        phase = str(state.get("phase", "starting the server"))
        if process is not None and process.poll() is not None:
            if is_alive(runtime):
                # Another server was faster, and has the folder.
                process = None
                continue
            raise _ended(runtime, state, process.returncode)
        if process is None and not is_alive(runtime):
            if phase == "failed":
                raise _ended(runtime, state, None)
            return None
        if phase == "ready":
            return state
        waited = time.monotonic() - began
        # Others may have waited for long already.
        taken = max(waited, time.time() - float(state.get("started_at", time.time())))
        if waited >= limit.total_seconds():
            raise ServerStarting(
                f"platform server is still starting after {taken:.0f} seconds: {phase}",
                detail=runtime.read_log() or None,
                hint=f"the start goes on: try again, or wait longer with {LIMIT_VARIABLE}; `platform status` says how far it is, "
                f'`platform down` ends it, "{runtime.log}" is its log',
            )
        tell(phase, taken)
        time.sleep(0.05)


def _told_in_log() -> Watcher:
    told = 0.0

    def tell(phase: str, seconds: float) -> None:
        nonlocal told
        if seconds - told >= _TELL_EVERY_SECONDS:
            told = seconds
            _LOG.warning("waiting for the platform server: %s, for %.0f s so far", phase, seconds)

    return tell


def _ended(runtime: RuntimeFolder, state: dict[str, Any], code: int | None) -> ServerError:
    with_code = "" if code is None else f" with code {code}"
    if "message" in state:
        return ServerError(state["message"], detail=state.get("detail"), hint=state.get("hint"))
    return ServerError(
        f"platform server ended{with_code} while it started",
        detail=state.get("reason") or runtime.read_log(),
        hint=f'read "{runtime.log}"',
    )
