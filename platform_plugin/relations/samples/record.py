"""The catalogue's records of samples: definitions, cursors and cardinalities by snapshot, and how commits change them.

That is kept for every snapshot, so that a read at an old one finds the sample as it was.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

from platform_plugin.cache import Cache
from platform_plugin.errors import CatalogueError
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.relations import read_declarations
from platform_plugin.lake.catalogue.snapshots import oldest_snapshot
from platform_plugin.lake.catalogue.tables import read_table_names, read_tables
from platform_plugin.lake.cursors.cursor import read_cursor
from platform_plugin.lake.cursors.move import AddCursor, end_cursors, move_present
from platform_plugin.lake.ring.segments import read_ring
from platform_plugin.relations.samples.definition import Key, SampleDefinition
from platform_plugin.relations.samples.reservoir.picks import (
    PICK_TABLES,
    encode_rows,
    end_picks,
    end_picks_at,
    end_picks_before,
    insert_picks,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.samples.reservoir.picks import Picks

SAMPLE = sa.Table(
    "platform_sample",
    c.metadata,
    sa.Column("sample_uuid", sa.String, primary_key=True),
    sa.Column("snapshot_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("next_row_id", sa.BigInteger, nullable=False),
    sa.Column("of_snapshot", sa.BigInteger, nullable=False),
    sa.Column("cardinalities", sa.String, nullable=False),
)
TABLES = (SAMPLE, *PICK_TABLES)
KIND = "sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleProgress:
    """A sample's progress: the snapshot `of_snapshot` of its relation that it samples; of a stream, the rows before `next_row_id`."""

    next_row_id: int = 0
    of_snapshot: int = -1
    cardinalities: Mapping[Key, int] = field(default_factory=dict)
    snapshot_id: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """A sample of the lake: its table and its definition."""

    table: Table
    definition: SampleDefinition

    @property
    def name(self) -> str:
        """The sample's full name, for messages."""
        return str(self.table.name)


_DEFINITIONS: Cache[tuple[UUID, int], dict[str, SampleDefinition]] = Cache("definitions of samples", weigh=lambda found: 1_000 * len(found))


def definitions(lake: Lake, snapshot: Snapshot) -> dict[str, SampleDefinition]:
    """The definitions of all samples by the identity of their tables, cached, since no sample comes or goes within a schema version."""
    key = (lake.uuid, snapshot.schema_version)
    known = _DEFINITIONS.get(key)
    if known is None:
        with lake.reading() as connection:
            declared = {uuid: found for uuid, found in read_declarations(connection).items() if found.kind == KIND}
            # What was declared stays when the sample is dropped, for reads at older snapshots.
            there = read_tables(connection, snapshot.id, uuids=[UUID(uuid) for uuid in declared]) if declared else []
        known = {str(table.uuid): SampleDefinition.of(declared[str(table.uuid)].options) for table in there}
        _DEFINITIONS.put(key, known)
    return known


def find_sample(lake: Lake, table: Table, snapshot: Snapshot) -> SampleRecord | None:
    """The sample that a table holds, or None."""
    definition = definitions(lake, snapshot).get(str(table.uuid))
    return None if definition is None else SampleRecord(table=table, definition=definition)


def get_sample(lake: Lake, table: Table, snapshot: Snapshot) -> SampleRecord:
    """The sample that a table was declared as."""
    sample = find_sample(lake, table, snapshot)
    if sample is None:
        raise CatalogueError(f'sample "{table.name}" has no definition', hint="drop it and make it anew")
    return sample


def all_samples(lake: Lake, snapshot: Snapshot, *, windowed: bool | None = None) -> list[SampleRecord]:
    """All samples at a snapshot, or only those with a window, or without one."""
    known = definitions(lake, snapshot)
    wanted = [UUID(uuid) for uuid, found in known.items() if windowed in (None, found.is_windowed)]
    if not wanted:
        return []
    with lake.reading() as connection:
        return [
            SampleRecord(table=table, definition=known[str(table.uuid)]) for table in read_tables(connection, snapshot.id, uuids=wanted)
        ]


def read_progress(connection: Connection, sample: UUID, snapshot_id: int) -> SampleProgress:
    """The progress of a sample at a snapshot."""
    s = SAMPLE.c
    newest = sa.select(SAMPLE).where(s.sample_uuid == str(sample), s.snapshot_id <= snapshot_id).order_by(s.snapshot_id.desc()).limit(1)
    row = connection.execute(newest).first()
    if row is None:
        return SampleProgress()
    counts = {tuple(key): count for *key, count in json.loads(row.cardinalities)}
    return SampleProgress(next_row_id=row.next_row_id, of_snapshot=row.of_snapshot, cardinalities=counts, snapshot_id=row.snapshot_id)


def last_progress(sample: sa.ColumnElement[str], version: sa.ColumnElement[int]) -> sa.ScalarSelect[int]:
    """The next row id of a sample at a version, as part of a query; NULL if it had consumed nothing."""
    s = SAMPLE.c
    newest = sa.select(s.next_row_id).where(s.sample_uuid == sample, s.snapshot_id <= version).order_by(s.snapshot_id.desc())
    return newest.limit(1).scalar_subquery()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachSample:
    """Lets a new sample consume a stream."""

    sample: Table
    stream: Table
    next_row_id: int

    def apply(self, w: Writer) -> None:
        ring = read_ring(w.connection, self.stream.uuid)
        if ring.first_row_id > self.next_row_id:
            raise w.conflict(f'rows of stream "{self.stream.name}" left before the sample could hold them')
        AddCursor(owner=self.sample.uuid, input=self.stream.uuid, position=self.next_row_id).apply(w)
        _note(w, self.sample, SampleProgress(next_row_id=self.next_row_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceSample:
    """Moves a sample's cursor over a range of its stream; a conflict if another run has consumed any of it."""

    sample: Table
    stream: Table
    expected: int
    progress: SampleProgress

    def apply(self, w: Writer) -> None:
        seen = read_cursor(w.connection, self.sample.uuid, self.stream.uuid)
        found = read_progress(w.connection, self.sample.uuid, w.id)
        if seen is None or found.snapshot_id != self.expected:
            raise w.conflict(
                f'another run has let sample "{self.sample.name}" consume stream "{self.stream.name}" up to row {found.next_row_id}'
            )
        # What was picked meanwhile is the sample's already.
        if seen < self.progress.next_row_id:
            move_present(w, self.stream.uuid, {str(self.sample.uuid): self.progress.next_row_id})
        end_picks_before(w, self.sample.uuid, self.progress.next_row_id)
        _note(w, self.sample, self.progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceWindow:
    """Moves a windowed sample; a conflict if another run has moved it meanwhile.

    Picks that begin at the row ids `ended` end, and `picked` are added.
    """

    sample: Table
    expected: int
    progress: SampleProgress
    ended: tuple[int, ...] = ()
    picked: tuple[Picks, ...] = ()

    def apply(self, w: Writer) -> None:
        found = read_progress(w.connection, self.sample.uuid, w.id)
        if found.snapshot_id != self.expected:
            raise w.conflict(f'another run has maintained sample "{self.sample.name}"')
        end_picks_at(w, self.sample.uuid, self.ended)
        for picks in self.picked:
            insert_picks(w, self.sample.uuid, picks.span, picks.strata, encode_rows(picks.rows))
        _note(w, self.sample, self.progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSample:
    """Records that the rows which this commit stores are the sample of its relation at a snapshot."""

    sample: Table
    progress: SampleProgress

    def apply(self, w: Writer) -> None:
        _note(w, self.sample, self.progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSamples:
    """Records the parts of a new merged sample; a conflict if one of them was dropped meanwhile."""

    sample: Table
    parts: tuple[str, ...]

    def apply(self, w: Writer) -> None:
        if len(_living(w, self.parts)) < len(self.parts):
            raise w.conflict(f'a part of sample "{self.sample.name}" was dropped meanwhile')


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveMergedSamples:
    """Checks that no other sample merges the one that is dropped; a conflict if one was created meanwhile."""

    sample: Table

    def apply(self, w: Writer) -> None:
        own = str(self.sample.uuid)
        known = read_declarations(w.connection)
        merging = _living(w, [uuid for uuid, found in known.items() if found.kind == KIND and own in found.options.get("parts", ())])
        if merging:
            raise w.conflict(f'sample "{self.sample.name}" became part of {", ".join(merging)} meanwhile')


def _living(w: Writer, uuids: Sequence[str]) -> list[str]:
    """The names of those tables that this commit leaves in being."""
    if not uuids:
        return []
    w.flush()
    return read_table_names(w.connection, w.id, [UUID(uuid) for uuid in uuids])


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachSample:
    """Removes a dropped sample's cursor, so that no stream keeps rows for it. Its progress stays for reads at older snapshots."""

    sample: Table

    def apply(self, w: Writer) -> None:
        end_cursors(w, self.sample.uuid)
        end_picks(w, self.sample.uuid)


def _note(w: Writer, sample: Table, progress: SampleProgress) -> None:
    """Note how far a sample is from this snapshot on, and forget what no snapshot that is kept needs."""
    s = SAMPLE.c
    own = s.sample_uuid == str(sample.uuid)
    needed = w.connection.execute(sa.select(sa.func.max(s.snapshot_id)).where(own, s.snapshot_id <= oldest_snapshot())).scalar()
    if needed is not None:
        w.connection.execute(sa.delete(SAMPLE).where(own, s.snapshot_id < needed))
    w.insert(
        SAMPLE,
        sample_uuid=str(sample.uuid),
        snapshot_id=w.id,
        next_row_id=progress.next_row_id,
        of_snapshot=progress.of_snapshot,
        cardinalities=json.dumps([[*key, count] for key, count in progress.cardinalities.items()]),
    )
