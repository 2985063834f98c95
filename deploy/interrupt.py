"""Interrupts: Ctrl-C, a SIGINT that reached only make, and the end of the terminal end a command and what it has started.

    python -m deploy.interrupt deploy.demo

runs that module in a session of its own, with a temporary folder as its argument, and ends both with it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from platform_plugin.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EVERY_SECONDS = 0.5
CLIENTS_GONE_SECONDS = 5.0
"""How long the platform server may take to notice that a client was killed."""


def main(arguments: Sequence[str]) -> int:
    """Run a module to its end, or to the signal that asks for one."""
    (module,) = arguments
    ended: list[int] = []
    heed_interrupts(ended.append)
    folder = tempfile.mkdtemp(prefix=f"platform-{module.rpartition('.')[2]}-")
    try:
        server = SparkServer()
        # A library may have handlers of its own for signals, and imports take seconds: the module is not asked, for its folder goes anyway.
        command = [sys.executable, "-m", module, folder]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True) as process:
            while not ended:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(0.2)
            kill_session(process)
        print("\nending", flush=True)
        left = "the Spark server goes on: it ran before, or serves others" if server.end() else "nothing is left behind"
        print(f"ended by {'Ctrl-C' if ended[0] == signal.SIGINT else signal.Signals(ended[0]).name}; {left}", flush=True)
        return 128 + ended[0]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def heed_interrupts(heed: Callable[[int], None]) -> None:
    """Call `heed` with the number of each signal that asks for an end, wherever this was started and whoever the signal was sent to."""
    signals = [signal.SIGINT, signal.SIGTERM]
    # `nohup` lets a command outlive its terminal on purpose. A shell lets what it starts in the background ignore Ctrl-C by habit.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    for number in signals:
        signal.signal(number, lambda number, _: heed(number))
    watch_make()


def watch_make() -> None:
    """Make waits for its command when it is sent SIGINT, and tells it nothing: send it to this process as well."""
    make = os.getppid()
    if _read(f"/proc/{make}/comm").strip() not in ("make", "gmake") or not _catches_sigint(make):
        return

    def watch() -> None:
        while os.getppid() == make and _catches_sigint(make):
            time.sleep(EVERY_SECONDS)
        if os.getppid() == make:
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, name="watch make", daemon=True).start()


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a session, and all that it started there, without asking."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class SparkServer:
    """The platform server as it was when a command began: one that the command has started is ended with it."""

    def __init__(self) -> None:
        from platform_plugin.engine.spark.server.liveness import is_alive
        from platform_plugin.engine.spark.server.runtime import open_runtime

        try:
            self._was_there = is_alive(open_runtime())
        except ServerError:
            # Its folder can't be used, which is told by what needs it.
            self._was_there = False

    def end(self) -> bool:
        """End the server unless it was there before or serves others; returns whether one goes on."""
        from platform_plugin.engine.spark.server.attach import status, stop

        until = time.monotonic() + CLIENTS_GONE_SECONDS
        with suppress(ServerError):
            while (found := status()).running:
                if not self._was_there and not found.details.get("watched_sessions"):
                    stop()
                elif self._was_there or time.monotonic() > until:
                    return True
                time.sleep(0.1)
        return False


def _catches_sigint(process: int) -> bool:
    """Whether a process has a handler for SIGINT; make gives its own up when it has been called."""
    masks = dict(line.split(":", 1) for line in _read(f"/proc/{process}/status").splitlines() if ":" in line)
    return bool(int(masks.get("SigCgt", "0"), 16) >> (signal.SIGINT - 1) & 1)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
