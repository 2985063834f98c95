"""`ProgressLine`: one line on standard error about anything that takes longer than a second."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Self, TextIO

from platform_plugin.cli.output.amounts import byte_text, seconds_text

if TYPE_CHECKING:
    from platform_plugin.engine.spark.session.job import Progress

_PATIENCE_SECONDS = 1.0
_REDRAW_SECONDS = 0.15
_TELL_EVERY_SECONDS = 30.0
_WIDTH = 24


class ProgressLine:
    """Shows progress during a `with` block. It draws nothing unless its stream is a terminal."""

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self._label = label
        self._stream = stream or sys.stderr
        self._seen: Progress | None = None
        self._began = time.monotonic()
        self._told_at = 0.0
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, phase: str, seconds: float) -> None:
        """Show how far the start of the server is; off a terminal, one line is written each half minute."""
        self._label = phase
        if self._thread is None and seconds - self._told_at >= _TELL_EVERY_SECONDS:
            self._told_at = seconds
            self._stream.write(f"waiting for the platform server: {phase}, for {seconds_text(seconds)} so far\n")
            self._stream.flush()

    def advance(self, progress: Progress) -> None:
        """Show how far a running query is."""
        self._label, self._seen = "running", progress

    def reset(self, label: str) -> None:
        """Count the time from now on, for the next statement of a shell."""
        self._label, self._seen, self._began = label, None, time.monotonic()

    def start(self) -> None:
        """Begin to count; the line appears after the first second."""
        if self._thread is None and self._stream.isatty():
            self._done.clear()
            self._thread = threading.Thread(target=self._draw, name="progress", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Remove the line, so that rows can be printed."""
        if self._thread is not None:
            self._done.set()
            self._thread.join()
            self._thread = None

    def _draw(self) -> None:
        if self._done.wait(_PATIENCE_SECONDS):
            return
        while not self._done.wait(_REDRAW_SECONDS):
            text = progress_text(self._label, time.monotonic() - self._began, self._seen)
            self._stream.write("\r" + text[: shutil.get_terminal_size().columns - 1] + "\x1b[K")
            self._stream.flush()
        self._stream.write("\r\x1b[K")
        self._stream.flush()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def progress_text(label: str, seconds: float, seen: Progress | None = None) -> str:
    """The text of the line.

    >>> progress_text("starting Spark", 3)
    'starting Spark … 3.00 s'
    """
    if seen is not None and isinstance(idle := getattr(seen, "idle_seconds", None), float):
        # A session read: what has come so far, and how near its end is.
        return f"session: {getattr(seen, 'rows', 0)} rows, nothing for {seconds_text(idle)}, {seconds_text(seconds)}"
    if seen is None or seen.tasks == 0:
        return f"{label} … {seconds_text(seconds)}"
    filled = round(_WIDTH * seen.tasks_done / seen.tasks)
    bar = "━" * filled + "─" * (_WIDTH - filled)
    read = f", {byte_text(seen.bytes_read)} read" if seen.bytes_read else ""
    return f"{bar} {seen.tasks_done}/{seen.tasks} tasks, {seen.tasks_running} running{read}, {seconds_text(seconds)}"
