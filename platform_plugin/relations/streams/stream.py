"""`Stream`: a stream that is open for appends from Python, without Spark."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress
from datetime import timedelta
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any, Self

from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.ring.ends import END_TABLES
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.relations.batches import check_batch_id
from platform_plugin.relations.streams.append import Committer, Grouping, WhenFull
from platform_plugin.relations.streams.group import AppendOutcome, Entry, Receipt, find_by_identity
from platform_plugin.relations.streams.pending import PendingAppends
from platform_plugin.relations.streams.rows import shape_rows

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import TracebackType
    from uuid import UUID

    import pyarrow as pa

    from platform_plugin.lake.catalogue.tables import Name, Table
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.streams.group import Arrived

_EXIT_SECONDS = 30.0


class Stream:
    """A stream that this process appends to. Use it in a `with` block: leaving it commits the appends that still wait.

    >>> import tempfile
    >>> from platform_plugin import Platform
    >>> platform = Platform.create(tempfile.mkdtemp() + "/lake")
    >>> _ = platform.execute("CREATE STREAM posts (uid INT, content STRING)")
    >>> with platform.stream("posts") as posts:
    ...     receipt = posts.append([{"uid": 12, "content": "It's great to process streams"}])
    ...     repeated = posts.append([{"uid": 13, "content": "once"}], batch_id="b1"), posts.append([{"uid": 13}], batch_id="b1")
    >>> receipt.result().row_count, [done.result().is_repeat for done in repeated]
    (1, [False, True])
    >>> platform.lake.read("posts").num_rows
    2
    >>> platform.close()
    """

    def __init__(
        self, lake: Lake, committer: Committer, pending: PendingAppends, *, when_full: WhenFull, timeout: timedelta | None
    ) -> None:
        self._lake = lake
        self._committer = committer
        self._pending = pending
        self._when_full = when_full
        self._timeout_seconds = None if timeout is None else timeout.total_seconds()
        self._closed = False
        self._known: tuple[Table, pa.Schema] | None = None
        self._renew()
        _OPEN.add(self)

    def _renew(self) -> None:
        self._process = os.getpid()
        self._pending.settle_process()
        self._failure: PlatformError | None = None
        _flush_when_this_process_ends()

    @property
    def name(self) -> Name:
        """The stream's name in the lake, when it was last read."""
        return self._committer.table.name

    def append(self, rows: Any, *, batch_id: str | None = None, wait: bool = False, last: bool = False) -> Receipt:
        """Append rows: an Arrow table or record batch, a pandas frame, or a list of dicts.

        Rows that don't fit are refused at once; other errors come with the receipt. The rows become visible together, or not at all. With
        `batch_id` they are added once however often they are appended, by whatever process. With `wait` the call returns when they are
        committed. With `last` the stream ends in the same commit, so that sessions over it answer at once; a
        repeated batch ends nothing. Arrow rows are not copied: don't change the memory below them.
        """
        if self._closed:
            raise InvalidValue(f'stream "{self.name}" is closed', hint="open it again with platform.stream(...)")
        if self._process != os.getpid():
            self._renew()
        if batch_id is not None:
            check_batch_id(batch_id)
        table, shaped = self._shape(rows)
        receipt = Receipt(shaped.num_rows, batch_id)
        if last:
            self._lake.prepare_tables(END_TABLES)
        elif shaped.num_rows == 0 and batch_id is None:
            newest = self._lake.snapshot()
            receipt.set_result(AppendOutcome(snapshot_id=newest.id, row_count=0, committed_at=newest.time))
            return receipt
        entry = Entry(rows=shaped, table=table, receipt=receipt, size_bytes=shaped.nbytes, is_last=last)
        self._pending.add(receipt, self._committer)
        try:
            self._committer.put(entry, when_full=self._when_full, timeout_seconds=self._timeout_seconds)
        except BaseException:
            self._pending.forget(receipt)
            raise
        # This also keeps the handle, and with it the flush at the end of the process, until the outcome is known.
        receipt.add_done_callback(self._forget if wait else self._note)
        if wait:
            self._pending.wait(self.name, None, [receipt])
            receipt.result()
        return receipt

    def _shape(self, rows: Any) -> tuple[Table, pa.Table]:
        table = self._committer.table
        if self._known is None or self._known[0] is not table:
            self._known = (table, arrow_schema(table.fields))
        try:
            return table, shape_rows(rows, *self._known)
        except InvalidValue:
            # The stream may have got a column since it was last looked at.
            newest = find_by_identity(self._lake, table, self._lake.snapshot())
            if newest.fields == table.fields:
                raise
        self._committer.table = newest
        return newest, shape_rows(rows, newest)

    def _forget(self, done: Future[AppendOutcome]) -> None:
        self._pending.forget(done)

    def _note(self, done: Future[AppendOutcome]) -> None:
        failure = self._pending.note(done)
        self._failure = self._failure or failure

    def flush(self, timeout: timedelta | None = None) -> None:
        """Wait until everything that the platform has appended to the stream is committed, through whatever handle.

        The first failure since the last flush is raised: of this handle, or else of one that no flush has reported.
        """
        if self._process != os.getpid():
            self._renew()
        self._pending.wait(self.name, timeout)
        (own, self._failure), untold = (self._failure, None), self._pending.take_failure()
        failure = own or untold
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Flush and refuse further rows; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        _OPEN.discard(self)
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            with suppress(PlatformError):  # the error of the block matters more
                self.close()

    def __repr__(self) -> str:
        return f'Stream("{self.name}"{", closed" if self._closed else ""})'


class Streams:
    """The streams that one platform appends to: handles of one stream share its committer."""

    def __init__(self, lake: Lake, arrived: Arrived | None = None) -> None:
        self._lake = lake
        self._arrived = arrived
        self._lock = threading.Lock()
        self._committers: dict[tuple[object, Grouping], Committer] = {}
        self._pending: dict[UUID, PendingAppends] = {}
        self._names: dict[UUID, Name] = {}
        self._handles: weakref.WeakSet[Stream] = weakref.WeakSet()
        self._process = os.getpid()

    def open(
        self,
        name: str | tuple[str, str],
        *,
        grouping: Grouping | None = None,
        when_full: WhenFull = "block",
        timeout: timedelta | None = None,
    ) -> Stream:
        """A handle on a stream; another relation is refused."""
        if when_full not in ("block", "fail"):
            raise InvalidValue(f"when_full can't be {when_full!r}", hint='give "block" or "fail"')
        table = self._lake.table(name)
        with self._lake.reading() as connection:
            declaration = read_declaration(connection, table.uuid)
        if declaration.kind != "stream":
            raise InvalidValue(f'"{table.name}" is a table, not a stream', hint="rows of a table come by INSERT or COPY")
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            key = (table.uuid, grouping or Grouping())
            committer = self._committers.get(key)
            if committer is None:
                committer = self._committers[key] = Committer(self._lake, table, key[1], self._arrived)
            committer.table = table
            self._names[table.uuid] = table.name
            pending = self._pending.setdefault(table.uuid, PendingAppends())
            handle = Stream(self._lake, committer, pending, when_full=when_full, timeout=timeout)
            self._handles.add(handle)
        return handle

    def wait(self, timeout: timedelta | None = None) -> None:
        """Wait until what was appended to any stream so far is committed or has failed; receipts and flushes raise the failures."""
        for uuid, pending in list(self._pending.items()):
            if not pending.is_empty:
                pending.wait(self._names[uuid], timeout)

    def close(self) -> None:
        """Close every handle; the first failure is raised when all are closed."""
        failures = []
        for handle in list(self._handles):
            try:
                handle.close()
            except PlatformError as error:
                failures.append(error)
        for committer in self._committers.values():
            committer.end()
        self._committers.clear()
        failures += [failure for pending in self._pending.values() if (failure := pending.take_failure()) is not None]
        if failures:
            raise failures[0]


_OPEN: weakref.WeakSet[Stream] = weakref.WeakSet()
_ARRANGED: set[int] = set()


def _flush_when_this_process_ends() -> None:
    # Not atexit: processes of multiprocessing leave without it, but they do run finalizers.
    if os.getpid() not in _ARRANGED:
        _ARRANGED.clear()
        _ARRANGED.add(os.getpid())
        Finalize(None, _flush_all, exitpriority=10)


def _flush_all() -> None:
    """What was appended is committed before the process ends; what can't be is told."""
    for handle in list(_OPEN):
        if handle._process == os.getpid():  # noqa: SLF001  of this module
            handle.flush(timedelta(seconds=_EXIT_SECONDS))
