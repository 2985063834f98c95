"""`Committer`: the thread that groups a process's appends to one stream and commits them."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from platform_plugin.errors import BufferFull, InvalidValue
from platform_plugin.relations.streams.group import AppendGroup, Entry, fork_error

if TYPE_CHECKING:
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.streams.group import Arrived

WhenFull = Literal["block", "fail"]

_IDLE_SECONDS = 5.0
_FORGET_EVERY_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """How appends are grouped into commits: for how long, up to what size, and how many may wait.

    A lone append waits `linger` for others; while a commit runs, appends wait for the next one anyway. A group ends with the append that
    reaches `segment_rows` or `segment_bytes`. `patience` is how long an append waits for a catalogue that can't be reached.

    >>> Grouping(segment_rows=0)
    Traceback (most recent call last):
    platform_plugin.errors.InvalidValue: segment_rows can't be 0
      hint: give at least 1
    """

    linger: timedelta = timedelta(milliseconds=20)
    segment_rows: int = 1_000_000
    segment_bytes: int = 128 * 1024 * 1024
    buffer_rows: int = 4_000_000
    buffer_bytes: int = 512 * 1024 * 1024
    patience: timedelta = timedelta(seconds=60)

    def __post_init__(self) -> None:
        for name in ("segment_rows", "segment_bytes", "buffer_rows", "buffer_bytes"):
            if getattr(self, name) < 1:
                raise InvalidValue(f"{name} can't be {getattr(self, name)}", hint="give at least 1")
        for name in ("linger", "patience"):
            if getattr(self, name) < timedelta(0):
                raise InvalidValue(f"{name} can't be negative", hint="give a timedelta of 0 or more")


class Committer:
    """One thread that commits a process's appends to one table. It starts with the first append and ends when no more come."""

    def __init__(self, lake: Lake, table: Table, grouping: Grouping, arrived: Arrived | None = None) -> None:
        self.table = table
        """The table as it was found last: its columns may be others by now."""
        self._lake = lake
        self._grouping = grouping
        self._arrived_rows = arrived
        self._reset()
        _ALIVE.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._waiting: deque[tuple[float, Entry]] = deque()
        self._held_rows = 0
        self._held_bytes = 0
        self._hurry = False
        self._ending = False
        self._thread: threading.Thread | None = None
        self._forgot_at = time.monotonic() - _FORGET_EVERY_SECONDS

    def put(self, entry: Entry, *, when_full: WhenFull, timeout_seconds: float | None) -> None:
        """Add one append to the buffer. If the buffer is full, the caller waits at most the time-out, or the append fails at once."""
        rows, size, limits = entry.rows.num_rows, entry.size_bytes, self._grouping
        if rows > limits.buffer_rows or size > limits.buffer_bytes:
            raise InvalidValue(
                f'{rows} rows of {size} bytes do not fit the buffer of stream "{entry.table.name}"',
                detail=f"it holds {limits.buffer_rows} rows and {limits.buffer_bytes} bytes",
                hint="append fewer at a time, or open the stream with larger buffer_rows and buffer_bytes",
            )
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self._lock:
            while self._held_rows + rows > limits.buffer_rows or self._held_bytes + size > limits.buffer_bytes:
                left = 0.0 if when_full == "fail" else None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise BufferFull(
                        f'the buffer of stream "{entry.table.name}" is full',
                        detail=f"{self._held_rows} rows, {self._held_bytes} bytes wait for their commit; these were not taken",
                        hint="append them again later, or open the stream with larger buffer_rows and buffer_bytes",
                    )
                self._room.wait(left)
            self._held_rows += rows
            self._held_bytes += size
            self._waiting.append((time.monotonic(), entry))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="platform-append", daemon=True)
                self._thread.start()
            else:
                self._arrived.notify()

    def hurry(self) -> None:
        """Commit the waiting appends without waiting for more."""
        with self._lock:
            if self._waiting:
                self._hurry = True
                self._arrived.notify()

    def end(self) -> None:
        """Commit the waiting appends and end the thread; the next append starts another."""
        with self._lock:
            thread = self._thread
            self._ending = self._hurry = thread is not None
            self._arrived.notify()
        if thread is not None:
            thread.join()
            self._ending = False

    def _work(self) -> None:
        while (entries := self._next_group()) is not None:
            taken = [entry for entry in entries if entry.receipt.set_running_or_notify_cancel()]
            try:
                if taken:
                    now = time.monotonic()
                    forgets = now - self._forgot_at >= _FORGET_EVERY_SECONDS
                    self._forgot_at = now if forgets else self._forgot_at
                    patience = self._grouping.patience.total_seconds()
                    group = AppendGroup(self._lake, taken, patience_seconds=patience, forgets=forgets, arrived=self._arrived_rows)
                    group.run()
                    self.table = group.table
            finally:
                with self._lock:
                    self._held_rows -= sum(entry.rows.num_rows for entry in entries)
                    self._held_bytes -= sum(entry.size_bytes for entry in entries)
                    self._room.notify_all()

    def _next_group(self) -> list[Entry] | None:
        """The next appends to commit together, or None when none have come for a while: then the thread ends."""
        with self._lock:
            while not self._is_ripe():
                if not self._waiting:
                    if self._ending or (not self._arrived.wait(_IDLE_SECONDS) and not self._waiting):
                        self._thread = None
                        return None
                    continue
                self._arrived.wait(max(0.0, self._waiting[0][0] + self._grouping.linger.total_seconds() - time.monotonic()))
            entries: list[Entry] = []
            rows = size = 0
            while self._waiting and rows < self._grouping.segment_rows and size < self._grouping.segment_bytes:
                _, entry = self._waiting.popleft()
                entries.append(entry)
                rows += entry.rows.num_rows
                size += entry.size_bytes
            if not self._waiting:
                self._hurry = False
            return entries

    def _is_ripe(self) -> bool:
        if not self._waiting:
            return False
        waited = time.monotonic() - self._waiting[0][0]
        full = self._held_rows >= self._grouping.segment_rows or self._held_bytes >= self._grouping.segment_bytes
        return self._hurry or full or waited >= self._grouping.linger.total_seconds()

    def forget_parent(self) -> None:
        """In a forked child: drop the parent's appends, thread and locks."""
        inherited = [entry for _, entry in self._waiting]
        self._reset()
        for entry in inherited:
            entry.receipt.renew()
            entry.receipt.set_exception(fork_error())


_ALIVE: weakref.WeakSet[Committer] = weakref.WeakSet()


def _after_fork() -> None:
    for committer in list(_ALIVE):
        committer.forget_parent()


os.register_at_fork(after_in_child=_after_fork)
