"""Liveness: whether a server holds the runtime folder, what it says, and how one that says nothing is ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import ServerError
from platform_plugin.spark.control import ask
from platform_plugin.spark.runtime import RuntimeFolder, hold

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from datetime import timedelta

Watcher = Callable[[str, float], None]
"""Told what is being waited for, and for how many seconds it has been."""

ANSWER_SECONDS = 5.0


def alive(runtime: RuntimeFolder) -> bool:
    """Return whether a server holds the folder, by its lock, which no reuse of a process id can fake."""
    with hold(runtime.server_lock, shared=True) as held:
        return not held


def ask_state(runtime: RuntimeFolder) -> dict[str, Any] | None:
    """Return the live server's answer to a ping."""
    if alive(runtime):
        with suppress(ServerError):
            return ask(runtime.control, "ping", seconds=ANSWER_SECONDS)
    return None


@contextmanager
def starting(runtime: RuntimeFolder, watcher: Watcher | None, timeout: timedelta) -> Iterator[None]:
    """Wait for the right to start, replace or stop the server, and hold it."""
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


def kill(runtime: RuntimeFolder, process: subprocess.Popen[bytes] | None = None) -> None:
    """Kill the server that holds the lock, with its JVM, if it is this user's, and wait until the lock is free."""
    try:
        pid = process.pid if process is not None else int(runtime.server_lock.read_text())
        owner = os.getuid()
        if Path("/proc/self").exists():
            owner = Path(f"/proc/{pid}").stat().st_uid
            if b"platform_plugin" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                raise ValueError(f"process {pid} is no platform server")
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
    while alive(runtime):
        if time.monotonic() > deadline:
            raise ServerError(
                f"platform server with process id {pid} can't be ended", hint="it may be stuck in the kernel; restart the machine"
            )
        time.sleep(0.05)
