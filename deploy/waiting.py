"""Waiting: what takes longer than a second says so, on a terminal in one line that is written over, elsewhere in ever fewer lines."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

LONGEST_PAUSE_SECONDS = 25.0
"""Between two lines in a file or a pipe, whose reader takes half a minute of silence for the end."""


class Ticker:
    """A block that takes longer than a second says what it is at and for how long.

    >>> with Ticker("counting"):
    ...     sum(range(10))
    45
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> None:
        self._began = time.monotonic()
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _tell(self) -> None:
        shown, pause = False, 1.0
        while not self._over.wait(pause):
            line = f"    {self._what} … {time.monotonic() - self._began:.0f} s"
            if sys.stdout.isatty():
                print(f"\r{line}", end="", flush=True)
                shown = True
            else:
                print(line, flush=True)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        if shown:
            print("\r\033[K", end="", flush=True)
