"""Liveness: whether a server holds the runtime folder, what it answers, and how a silent one is killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platform_plugin.engine.spark.server.control import ask
from platform_plugin.engine.spark.server.runtime import RuntimeFolder, hold_lock
from platform_plugin.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

Watcher = Callable[[str, float], None]
"""Called with what a client waits for, and for how many seconds it has waited."""

ANSWER_SECONDS = 5.0


def is_alive(runtime: RuntimeFolder) -> bool:
    """Return whether a server holds the folder's lock; a reused process id can't fake that."""
    with hold_lock(runtime.server_lock, shared=True) as held:
        return not held


def ask_state(runtime: RuntimeFolder) -> dict[str, Any] | None:
    """Return the live server's answer to a ping."""
    if is_alive(runtime):
        with suppress(ServerError):
            return ask(runtime.control, "ping", seconds=ANSWER_SECONDS)
    return None


@contextmanager
def hold_start_lock(runtime: RuntimeFolder, watcher: Watcher | None, timeout: timedelta) -> Iterator[None]:
    """Wait for the start lock, which starting, replacing and stopping need, and hold it."""
    began = time.monotonic()
    while True:
        with hold_lock(runtime.start_lock) as held:
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


def kill(runtime: RuntimeFolder) -> None:
    """Kill the server that holds the folder, with its JVM, if it is this user's, and wait until the folder is free."""
    pid = None
    deadline = time.monotonic() + 2
    while is_alive(runtime) and (pid := _find_server(runtime)) is None:
        # It may be on its way out by itself.
        if time.monotonic() > deadline:
            raise ServerError(
                f'platform server in "{runtime.path}" does not answer and can\'t be identified',
                hint=f'end the process that holds "{runtime.server_lock}"',
            )
        time.sleep(0.05)
    if pid is None:
        return
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
    while is_alive(runtime):
        if time.monotonic() > deadline:
            raise ServerError(
                f"platform server with process id {pid} can't be ended", hint="it may be stuck in the kernel; restart the machine"
            )
        time.sleep(0.05)


def _find_server(runtime: RuntimeFolder) -> int | None:
    """Return the process that the lock names, once it is sure that it is a server and this user's, because it will be killed."""
    try:
        pid = int(runtime.server_lock.read_text())
    except (OSError, ValueError):
        return None
    if not Path("/proc/self").exists():
        return pid
    try:
        owner = Path(f"/proc/{pid}").stat().st_uid
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    if owner != os.getuid():
        raise ServerError(f"platform server with process id {pid} belongs to somebody else", hint="ask its owner to run `platform down`")
    return pid if b"platform_plugin" in command else None
