"""`run_file_batch`: ingests a batch of unread files, each whole or not at all, in one commit."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue, PlatformError, QueryFailed, StorageError
from platform_plugin.relations.streams.feeds.file_damage import find_damage
from platform_plugin.relations.streams.feeds.file_folding import find_fold
from platform_plugin.relations.streams.feeds.file_listing import FileBatch, plan_batch, read_changed, read_listing
from platform_plugin.relations.streams.feeds.file_reading import may_be_malformed, read_files, source_key
from platform_plugin.relations.streams.feeds.file_shapes import RefusedFile, Shape, Shapes, read_shapes
from platform_plugin.relations.streams.feeds.ingest import IngestReport
from platform_plugin.relations.streams.feeds.landing import LandedFiles, RecountMismatch, malformed_error, run_landing, run_quarantine
from platform_plugin.relations.streams.feeds.quarantine import FileNote, find_quarantine, note_rows, open_quarantine
from platform_plugin.relations.streams.feeds.sources import (
    LATE,
    READ,
    REFUSED,
    FoldFiles,
    RecordFiles,
    RecordReported,
    SourceFile,
    prepare_file_sources,
    read_known_files,
    read_marks,
    total_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.relations.streams.feeds.declaration import FilesFeed
    from platform_plugin.relations.streams.feeds.ingest import BatchLimits

_LATE = "the file came after those with later names or times were read and forgotten, perhaps itself among them; it is not read"
_CHANGED = "the file changed after it was ingested; it is not read again: put new rows into a new file"


class _Unsteady(Exception):
    """Files changed while they were read, so this attempt is discarded."""

    def __init__(self, files: Sequence[SourceFile]) -> None:
        super().__init__()
        self.files = files


def run_file_batch(
    work: Workspace, table: Table, feed: FilesFeed, limits: BatchLimits, *, timeout: timedelta | None, progress: ProgressHandler | None
) -> IngestReport:
    """Read the oldest unread files and commit their rows."""
    lake = work.lake
    prepare_file_sources(lake)
    listing = read_listing(feed.glob, lake.sources)
    with lake.reading() as connection:
        known, marks = read_known_files(connection, table.uuid, listing), read_marks(connection, table.uuid)
    batch = plan_batch(
        listing,
        known,
        max_files=limits.max_files or feed.max_files,
        max_bytes=limits.max_bytes or feed.max_bytes,
        now=time.time(),
        settle_seconds=feed.settle.total_seconds(),
        marks=marks,
    )
    if batch.late and feed.on_change == "fail":
        raise InvalidValue(
            f'file "{batch.late[0].uri}" came late: files with later names or times were read into stream "{table.name}" and forgotten',
            hint="give it a later name or time if it was not read; on_change = 'report' goes on without reading it",
        )
    if batch.changed and feed.on_change == "fail":
        raise InvalidValue(
            f'file "{batch.changed[0].uri}" changed after stream "{table.name}" had read it',
            hint="write new rows into new files; on_change = 'report' goes on without reading it again",
        )
    with lake.reading() as connection:
        unread = (*batch.files, *batch.waiting, *batch.settling, *batch.empty)
        fold = find_fold(connection, table.uuid, feed, listing, unread=unread, now=datetime.now(UTC))
    return _Attempt(work, table, feed, batch, fold=fold, timeout=timeout, progress=progress).run()


class _Attempt:
    """One batch. Files that turn out to be unreadable or to change are removed from it, and the rest is tried again."""

    def __init__(
        self,
        work: Workspace,
        table: Table,
        feed: FilesFeed,
        batch: FileBatch,
        *,
        fold: FoldFiles | None,
        timeout: timedelta | None,
        progress: ProgressHandler | None,
    ) -> None:
        self.work, self.table, self.feed, self.batch, self.fold = work, table, feed, batch, fold
        self.timeout, self.progress = timeout, progress
        self.files = list(batch.files)
        self.refused: list[RefusedFile] = []
        self.unsteady: list[SourceFile] = []
        self.jobs = self.tasks = 0

    def run(self) -> IngestReport:
        while self.files or self.refused or self.batch.changed or self.batch.late:
            shapes = read_shapes(self.feed, self.files, self.table.fields)
            self._refuse(shapes.refused)
            try:
                landed = self._land(shapes)
                return self._commit(shapes, landed)
            except _Unsteady as signal:
                self._drop(signal.files)
                self.unsteady += signal.files
        return self._report(LandedFiles(), quarantined=0, snapshot=None)

    def _refuse(self, refused: Sequence[RefusedFile]) -> None:
        if refused and self.feed.on_malformed == "fail":
            raise InvalidValue(
                f'file "{refused[0].file.uri}" can\'t be read into stream "{self.table.name}": {refused[0].reason}',
                hint="correct or remove it, or go on without it: on_malformed = 'quarantine'",
            )
        self.refused += refused
        self.files = [file for file in self.files if all(file is not one.file for one in refused)]

    def _drop(self, files: Sequence[SourceFile]) -> None:
        self.files = [file for file in self.files if file not in files]
        self.refused = [one for one in self.refused if one.file not in files]

    def _land(self, shapes: Shapes) -> LandedFiles:
        if not shapes.groups:
            return LandedFiles()
        session = self.work.session
        try:
            with session.job(timeout=self.timeout):
                frame = read_files(session, self.feed, shapes.groups, self.table.fields)
            doubtful = may_be_malformed(self.feed, shapes.groups, self.table.fields)
            landed = run_landing(
                session, self.work.lake, self.table, frame, doubtful=doubtful, timeout=self.timeout, progress=self.progress
            )
        except (QueryFailed, StorageError) as error:
            changed = read_changed(self.files)
            if changed:
                raise _Unsteady(changed) from error
            unreadable = _named(error, self.files)
            damage = None if unreadable is None else find_damage(self.feed, unreadable)
            if unreadable is None or damage is None:
                raise
            self._refuse([RefusedFile(file=unreadable, reason=damage)])
            return self._land(read_shapes(self.feed, self.files, self.table.fields))
        self._count(landed)
        return landed

    def _commit(self, shapes: Shapes, landed: LandedFiles) -> IngestReport:
        lake, uuid = self.work.lake, str(self.table.uuid)
        written: list[DataFile] = list(landed.files)
        try:
            with lake.commit(f"ingest into {self.table.name}") as commit:
                commit.append(self.table, landed.files)
                written += self._quarantine(commit, shapes, landed)
                commit.also(RecordFiles(uuid, tuple(self.files), READ))
                commit.also(RecordFiles(uuid, tuple(one.file for one in self.refused), REFUSED))
                commit.also(RecordFiles(uuid, self.batch.late, LATE))
                commit.also(RecordReported(uuid, self.batch.changed))
                if self.fold is not None:
                    commit.also(self.fold)
                # The last thing before the commit: rows of a file that changed meanwhile may be half old and half new.
                changed = read_changed([*self.files, *(one.file for one in self.refused)])
                if changed:
                    raise _Unsteady(changed)
        except (_Unsteady, PlatformError, KeyboardInterrupt):
            lake.discard(written)
            raise
        return self._report(landed, quarantined=landed.malformed, snapshot=commit.made.id)

    def _quarantine(self, commit: Commit, shapes: Shapes, landed: LandedFiles) -> list[DataFile]:
        notes = [FileNote(source=one.file.uri, reason=f"the file was refused: {one.reason}") for one in self.refused]
        notes += [FileNote(source=file.uri, reason=_CHANGED) for file in self.batch.changed]
        notes += [FileNote(source=file.uri, reason=_LATE) for file in self.batch.late]
        if not notes and not landed.malformed:
            return []
        lake, arrived_at = self.work.lake, datetime.now(UTC)
        written: list[DataFile] = []
        try:
            # Looked for before anything is read again: a table that is in its place is an error.
            find_quarantine(lake, self.table, commit.base)
            if landed.malformed and self.feed.on_malformed == "fail":
                raise self._malformed(shapes, landed)
            quarantine = open_quarantine(lake, commit, self.table)
            if landed.malformed:
                written += self._write_malformed(quarantine, shapes, landed, arrived_at)
            if notes:
                written.append(lake.write(quarantine, note_rows(notes, arrived_at)))
        except PlatformError:
            lake.discard(written)
            raise
        commit.append(quarantine, written)
        return written

    def _write_malformed(self, quarantine: Table, shapes: Shapes, landed: LandedFiles, arrived_at: datetime) -> Sequence[DataFile]:
        try:
            second = self._write_quarantine(quarantine, shapes, landed, arrived_at, as_written=True)
        except RecountMismatch:
            # A line that Spark's reader and its function understand differently; the reader's word is what was counted.
            second = self._write_quarantine(quarantine, shapes, landed, arrived_at, as_written=False)
        self._count(second)
        return second.files

    def _write_quarantine(
        self, quarantine: Table, shapes: Shapes, landed: LandedFiles, arrived_at: datetime, *, as_written: bool
    ) -> LandedFiles:
        session = self.work.session
        few, names = _only(shapes, landed.malformed_in)
        with session.job(timeout=self.timeout):
            frame = read_files(session, self.feed, few, self.table.fields, as_written=as_written)
        return run_quarantine(
            session,
            self.work.lake,
            quarantine,
            frame,
            sources=names,
            expected=landed.malformed,
            arrived_at=arrived_at,
            timeout=self.timeout,
        )

    def _malformed(self, shapes: Shapes, landed: LandedFiles) -> InvalidValue:
        session, fields, feed = self.work.session, self.table.fields, self.feed
        few, names = _only(shapes, landed.malformed_in)
        with session.job(timeout=self.timeout):
            frame = read_files(session, feed, few, fields, as_written=True)
        return malformed_error(session, self.table, frame, landed.malformed, sources=names)

    def _count(self, landed: LandedFiles) -> None:
        self.jobs += landed.jobs
        self.tasks += landed.tasks

    def _report(self, landed: LandedFiles, *, quarantined: int, snapshot: int | None) -> IngestReport:
        return IngestReport(
            stream=str(self.table.name),
            rows=landed.rows,
            files=len(self.files),
            quarantined=quarantined,
            refused=tuple(one.file.uri for one in self.refused),
            changed=tuple(file.uri for file in self.batch.changed),
            late=tuple(file.uri for file in self.batch.late),
            unsteady=tuple(file.uri for file in self.unsteady),
            settling=len(self.batch.settling),
            waiting=len(self.batch.waiting),
            waiting_bytes=total_bytes(self.batch.waiting),
            jobs=self.jobs,
            tasks=self.tasks,
            snapshot=snapshot,
        )


def _only(shapes: Shapes, sources: Sequence[str]) -> tuple[list[tuple[Shape, tuple[SourceFile, ...]]], dict[str, str]]:
    """The groups with nothing but the files that Spark names, and what we call these."""
    names = {source: source_key(source) for source in sources}
    wanted = set(names.values())
    few = [(shape, tuple(file for file in files if file.uri in wanted)) for shape, files in shapes.groups]
    return [(shape, files) for shape, files in few if files], names


def _named(error: PlatformError, files: Sequence[SourceFile]) -> SourceFile | None:
    """The file that Spark's error is about, if it says."""
    found = re.search(r"reading file (.*)\. \(FAILED_READ_FILE", error.detail or "")
    if found is None:
        return None
    told = {found[1], source_key(found[1]), source_key(found[1].replace("%", "%25"))}
    return next((file for file in files if file.uri in told or re.sub(r"\s+", " ", file.uri) in told), None)
