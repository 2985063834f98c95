"""`AppendGroup`: appends that become visible together, as one segment in one commit."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.errors import CatalogueError, CommitConflict, OutcomeUnknown, PlatformError, UnknownObject
from platform_plugin.lake.catalogue.database import LostRace
from platform_plugin.lake.catalogue.identifiers import new_uuid
from platform_plugin.lake.catalogue.snapshots import find_marked
from platform_plugin.lake.ring.ends import MarkStreamEnd
from platform_plugin.relations import hooks
from platform_plugin.relations.batches import BatchAlreadyTaken, TakeBatches, read_batches
from platform_plugin.relations.streams.rows import refit_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.batches import Batch
    from platform_plugin.relations.hooks import AppendPart

    Arrived = Callable[[Table, Snapshot], None]
    """Told of rows that are in a stream, before those who appended them are."""

_PAUSE_SECONDS = 0.2
# A file that takes one core more than a fraction of a second is worth a second one beside it.
_ROWS_PER_CORE = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendOutcome:
    """The outcome of an append: the first snapshot that has its rows.

    `is_repeat` says that a batch with the same id was taken before, in that snapshot; nothing was added again.
    """

    snapshot_id: int
    row_count: int
    committed_at: datetime
    is_repeat: bool = False


class Receipt(Future[AppendOutcome]):
    """The future outcome of an append. `result()` waits for the commit; an append that no commit has taken yet can be cancelled."""

    def __init__(self, row_count: int, batch_id: str | None = None) -> None:
        super().__init__()
        self.row_count = row_count
        self.batch_id = batch_id

    def renew(self) -> None:
        """In a forked child: make a new lock, since its holder in the parent does not exist here."""
        super().__init__()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """One append that waits for its commit; its rows have the columns that the table had when they came."""

    rows: pa.Table
    table: Table
    receipt: Receipt
    size_bytes: int
    is_last: bool = False
    """Whether the stream ends with these rows."""


class AppendGroup:
    """Appends to one table that one commit takes. Every receipt gets an outcome, whatever happens."""

    def __init__(
        self, lake: Lake, entries: Sequence[Entry], *, patience_seconds: float, forgets: bool = False, arrived: Arrived | None = None
    ) -> None:
        self._lake = lake
        self._arrived = arrived
        self.table = entries[0].table
        """The table as it was found last, which may have other columns by now."""
        self._deadline = time.monotonic() + patience_seconds
        self._forgets = forgets
        # Of several appends with one batch id in the group, the first brings the rows and the others follow it.
        self._entries: dict[str | Entry, Entry] = {}
        self._followers: list[Receipt] = []
        for entry in entries:
            if entry.receipt.batch_id in self._entries:
                self._followers.append(entry.receipt)
            else:
                self._entries[entry.receipt.batch_id or entry] = entry

    def run(self) -> None:
        """Write and commit the rows, and give the receipts their outcomes."""
        try:
            while self._entries and not self._attempt():
                pass
        except PlatformError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001  whoever waits is told, as a PlatformError with this cause
            failure = PlatformError(
                f'rows for stream "{self.table.name}" could not be written', detail=str(error), hint="append them again"
            )
            failure.__cause__ = error
            self._fail(failure)

    def _attempt(self) -> bool:
        """One try from the newest snapshot on; False if other commits have taken some of the batches meanwhile."""
        base, table = self._current()
        self._answer_repeats(table)
        rows = self._gather(table)
        if not self._entries:
            return True
        counts = {entry.receipt.batch_id: entry.rows.num_rows for entry in self._entries.values() if entry.receipt.batch_id is not None}
        parts = hooks.ask_append_parts(self._lake, base, table, rows) if rows.num_rows else []
        files = _write(self._lake, table, rows) if rows.num_rows else []
        try:
            for part in parts:
                part.prepare()
            made = self._commit(base, table, files, counts, parts)
        except BatchAlreadyTaken:
            self._lake.discard(files)
            return False
        except OutcomeUnknown:
            raise  # the files may be part of a snapshot
        except BaseException:
            self._lake.discard(files)
            raise
        try:
            if files and self._arrived is not None:
                self._arrived(table, made)
        finally:
            # The rows are there, whatever became of those who were told.
            for entry in self._entries.values():
                done = AppendOutcome(snapshot_id=made.id, row_count=entry.rows.num_rows, committed_at=made.time)
                self._answer(entry.receipt, done)
            self._entries.clear()
        return True

    def _current(self) -> tuple[Snapshot, Table]:
        """The newest snapshot and the table as it is there, under whatever name; waits for a catalogue that is away."""
        while True:
            try:
                base = self._lake.snapshot()
                self.table = find_by_identity(self._lake, self.table, base)
            except CatalogueError as error:
                self._pause(error)
            else:
                return base, self.table

    def _answer_repeats(self, table: Table) -> None:
        ids = [entry.receipt.batch_id for entry in self._entries.values() if entry.receipt.batch_id is not None]
        if not ids:
            return
        taken = self._read_batches(table, ids)
        for batch in taken.values():
            entry = self._entries.pop(batch.batch_id)
            self._answer(
                entry.receipt,
                AppendOutcome(snapshot_id=batch.snapshot_id, row_count=batch.row_count, committed_at=batch.committed_at, is_repeat=True),
            )

    def _read_batches(self, table: Table, ids: Sequence[str]) -> dict[str, Batch]:
        while True:
            try:
                return read_batches(self._lake, table.uuid, ids)
            except CatalogueError as error:
                self._pause(error)

    def _gather(self, table: Table) -> pa.Table:
        """All rows in the table's present shape; an append that no longer fits is told so, and the others go on."""
        parts = []
        for key, entry in list(self._entries.items()):
            if entry.table.fields == table.fields:
                parts.append(entry.rows)
                continue
            try:
                parts.append(refit_rows(entry.rows, entry.table, table))
            except PlatformError as error:
                del self._entries[key]
                self._answer(entry.receipt, error)
        return pa.concat_tables(parts) if parts else pa.table({})

    def _commit(
        self, base: Snapshot, table: Table, files: Sequence[DataFile], counts: dict[str, int], parts: Sequence[AppendPart]
    ) -> Snapshot:
        mark = str(new_uuid())
        while True:
            try:
                with self._lake.commit(f"append to {table.name}", base=base, notes={"group": mark}) as commit:
                    if files:
                        commit.append(table, files)
                    if counts:
                        commit.also(TakeBatches(table, counts, self._forgets))
                    for part in parts:
                        commit.follow(part)
                    if any(entry.is_last for entry in self._entries.values()):
                        (commit.follow if files else commit.also)(MarkStreamEnd(table))
                for part in parts:
                    part.settle()
                return commit.made
            except OutcomeUnknown:
                made = self._find_commit(base, mark)
                if made is not None:
                    return made
            except CommitConflict as error:
                if not isinstance(error.__cause__, LostRace):
                    raise
                self._pause(error)
            except CatalogueError as error:
                self._pause(error)

    def _find_commit(self, base: Snapshot, mark: str) -> Snapshot | None:
        """Whether a commit was made that the catalogue could not acknowledge. As a writer: it may still be at it."""
        while True:
            try:
                with self._lake.writing() as connection:
                    found = find_marked(connection, mark, after=base.id)
                return None if found is None else self._lake.snapshot(found)
            except CatalogueError as error:
                self._pause(error)

    def _pause(self, error: PlatformError) -> None:
        """Wait a moment before the next try, if there is time left for one."""
        if time.monotonic() >= self._deadline:
            raise error
        time.sleep(_PAUSE_SECONDS)

    def _fail(self, error: PlatformError) -> None:
        for entry in self._entries.values():
            self._answer(entry.receipt, error)
        self._entries.clear()

    def _answer(self, receipt: Receipt, outcome: AppendOutcome | PlatformError) -> None:
        own = [receipt] if receipt.batch_id is None else [receipt, *(f for f in self._followers if f.batch_id == receipt.batch_id)]
        for place, one in enumerate(own):
            if isinstance(outcome, PlatformError):
                one.set_exception(outcome)
            elif place == 0 or outcome.is_repeat:
                one.set_result(outcome)
            else:
                one.set_result(
                    AppendOutcome(
                        snapshot_id=outcome.snapshot_id, row_count=outcome.row_count, committed_at=outcome.committed_at, is_repeat=True
                    )
                )


def find_by_identity(lake: Lake, table: Table, snapshot: Snapshot) -> Table:
    """The same table at a snapshot, even under another name; a dropped one is an error."""
    try:
        found = lake.table(table.name, snapshot)
    except UnknownObject:
        found = None
    if found is None or found.uuid != table.uuid:
        found = next((other for other in lake.tables(snapshot) if other.uuid == table.uuid), None)
    if found is None:
        raise UnknownObject(f'stream "{table.name}" was dropped', hint="create it again, and open it anew")
    return found


def _write(lake: Lake, table: Table, rows: pa.Table) -> list[DataFile]:
    """Rows as files in their order: one, or one for each core where there are many."""
    parts = max(1, min(os.cpu_count() or 1, rows.num_rows // _ROWS_PER_CORE))
    length = -(-rows.num_rows // parts)
    written: list[DataFile | None] = [None] * parts
    failures: list[BaseException] = []

    def write(place: int) -> None:
        try:
            written[place] = lake.write(table, rows.slice(place * length, length))
        except BaseException as error:  # noqa: BLE001  raised again by the thread that waits
            failures.append(error)

    threads = [threading.Thread(target=write, args=(place,), name="platform-encode", daemon=True) for place in range(1, parts)]
    for thread in threads:
        thread.start()
    write(0)
    for thread in threads:
        thread.join()
    files = [file for file in written if file is not None]
    if failures:
        lake.discard(files)
        raise failures[0]
    return files


def fork_error() -> PlatformError:
    """The error in a child process for appends that its parent commits."""
    return PlatformError("this append belongs to the parent process", hint="wait for its receipt there; a child appends through its own")
