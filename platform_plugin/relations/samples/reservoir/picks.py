"""Picks in the catalogue: the local reservoir of a range of a stream, written by the commit that appends the range.

It holds the rows of the range with keys at most a bound, and the row count of the range, stratum by stratum. Picks never change; when they
are merged, or their rows leave a window, they end with that commit, and stay for reads at older snapshots.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import split_chunks
from platform_plugin.lake.catalogue.snapshots import oldest_snapshot
from platform_plugin.lake.migrations.picks import VERSION
from platform_plugin.lake.migrations.version import read_version
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.relations.samples.keys.keys import EVERY
from platform_plugin.relations.samples.keys.lowest import LowestRows
from platform_plugin.relations.samples.keys.weights import keys_of_sampled
from platform_plugin.relations.samples.strata import group_positions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.relations.samples.definition import Key
    from platform_plugin.relations.samples.record import SampleRecord

    Integers = NDArray[np.int64]


def _columns() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("sample_uuid", sa.String, nullable=False),
        sa.Column("first_row_id", sa.BigInteger, nullable=False),
        sa.Column("begin_snapshot", sa.BigInteger, nullable=False),
        sa.Column("end_snapshot", sa.BigInteger),
        sa.Column("next_row_id", sa.BigInteger, nullable=False),
        sa.Column("strata", sa.String, nullable=False),
        sa.Column("rows", sa.LargeBinary),
    )


PICK = sa.Table("platform_pick", c.metadata, *_columns(), sa.PrimaryKeyConstraint("sample_uuid", "first_row_id", "begin_snapshot"))
# Those that have ended are many where snapshots are kept for long, and few ask for them: apart from the others, they are in nobody's way.
ENDED_PICK = sa.Table(
    "platform_ended_pick",
    c.metadata,
    *_columns(),
    sa.PrimaryKeyConstraint("end_snapshot", "sample_uuid", "first_row_id", "begin_snapshot"),
)
PICK_TABLES = (PICK, ENDED_PICK)
ROW = "_row"
# Half as many pages of the catalogue are written for some microseconds. Arrow's own messages begin otherwise.
_CODEC = pa.Codec("lz4_raw")
_COMPRESSED = b"lz4 "
_SIZE_BYTES = 4
LARGEST_BYTES = 1 << 20
"""Larger picks are not written with an append: a run draws them from the stream's rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picks:
    """The local reservoir of the rows from `first_row_id` up to `next_row_id`: each stratum's row count, and the bound of its keys.

    The rows have the columns of the sample, and their row id.
    """

    first_row_id: int
    next_row_id: int
    strata: Mapping[Key, tuple[int, int]]
    rows: pa.Table

    @property
    def span(self) -> tuple[int, int]:
        """The range of row ids that it covers."""
        return self.first_row_id, self.next_row_id


def encode_rows(rows: pa.Table) -> bytes | None:
    """Rows in the catalogue's form: one compressed batch without its schema, which is the sample's and never changes."""
    if not rows.num_rows:
        return None
    batches = rows.combine_chunks().to_batches()
    return encode_batch(batches[0] if len(batches) == 1 else pa.concat_batches(batches))


def encode_batch(rows: pa.RecordBatch) -> bytes:
    """The same for rows that are one batch and not empty."""
    plain = rows.serialize()
    size: bytes = plain.size.to_bytes(_SIZE_BYTES, "little")
    small: bytes = _CODEC.compress(plain, asbytes=True)
    return _COMPRESSED + size + small


def decode_rows(data: bytes | None, schema: pa.Schema) -> pa.Table:
    """Rows from the catalogue's form."""
    if data is None:
        return pa.Table.from_batches([], schema=schema)
    plain = pa.py_buffer(data)
    if data.startswith(_COMPRESSED):  # the first versions kept them as they are
        head = len(_COMPRESSED) + _SIZE_BYTES
        plain = _CODEC.decompress(plain.slice(head), int.from_bytes(data[len(_COMPRESSED) : head], "little"))
    return pa.Table.from_batches([pa.ipc.read_record_batch(plain, schema)], schema=schema)


def pick_schema(sample: SampleRecord) -> pa.Schema:
    """The columns of picks."""
    return arrow_schema(sample.table.fields).append(pa.field(ROW, pa.int64()))


def read_picks(connection: Connection, sample: SampleRecord, snapshot_id: int, *, first_row_id: int = 0) -> list[Picks]:
    """The picks of a sample that are live at a snapshot and reach beyond a row id, ordered by row id."""
    wanted = {"sample": str(sample.table.uuid), "version": snapshot_id, "beyond": first_row_id}
    schema = pick_schema(sample)
    return [
        Picks(
            first_row_id=first,
            next_row_id=end,
            strata={tuple(key): (count, bound) for *key, count, bound in json.loads(strata)},
            rows=decode_rows(data, schema),
        )
        for first, end, strata, data in connection.execute(_READ if has_pick_tables(connection) else _select_live(connection), wanted)
    ]


def has_pick_tables(connection: Connection) -> bool:
    """Whether both tables are there for certain; a lake of an earlier version may lack them until somebody writes to it."""
    return read_version(connection) >= VERSION


def _sources(connection: Connection | None) -> tuple[sa.FromClause, sa.FromClause]:
    """Both tables; given a `connection`, no rows stand for one that is missing."""
    if connection is None:
        return PICK, ENDED_PICK
    look = sa.inspect(connection)
    picks, ended = (table if look.has_table(table.name) else _no_rows(table) for table in (PICK, ENDED_PICK))
    return picks, ended


def _no_rows(table: sa.Table) -> sa.Subquery:
    return sa.select(*(sa.cast(sa.null(), column.type).label(column.name) for column in table.c)).where(sa.false()).subquery()


def live_picks(connection: Connection | None = None) -> sa.CompoundSelect[Any]:
    """The rows of the picks of a `sample` that are live at a `version`.

    Who may meet a lake of an earlier version, because nothing is written, gives the `connection`.
    """
    sample, version = sa.bindparam("sample", type_=sa.String), sa.bindparam("version", type_=sa.BigInteger)
    picks, ended = _sources(connection)
    p, e = picks.c, ended.c
    return sa.union_all(
        sa.select(picks).where(
            p.sample_uuid == sample, p.begin_snapshot <= version, sa.or_(p.end_snapshot.is_(None), p.end_snapshot > version)
        ),
        sa.select(ended).where(e.sample_uuid == sample, e.end_snapshot > version, e.begin_snapshot <= version),
    )


def _select_live(connection: Connection | None = None) -> sa.Select[Any]:
    live = live_picks(connection).subquery().c
    query = sa.select(live.first_row_id, live.next_row_id, live.strata, live.rows)
    return query.where(live.next_row_id > sa.bindparam("beyond", type_=sa.BigInteger)).order_by(live.first_row_id)


# Made once: to put a statement together takes longer than to run it.
_READ = _select_live()


def insert_picks(w: Writer, sample: UUID, span: tuple[int, int], strata: Mapping[Key, tuple[int, int]], rows: bytes | None) -> None:
    """Add picks to a commit."""
    w.insert(
        PICK,
        sample_uuid=str(sample),
        first_row_id=span[0],
        begin_snapshot=w.id,
        next_row_id=span[1],
        strata=json.dumps([[*key, count, bound] for key, (count, bound) in strata.items()]),
        rows=rows,
    )


def unmerged_picks(connection: Connection | None = None) -> sa.Subquery:
    """The live picks of all samples, with the sample and the range of each, to be joined with other rows; see `live_picks`."""
    p = _sources(connection)[0].c
    return sa.select(p.sample_uuid, p.first_row_id, p.next_row_id).where(p.end_snapshot.is_(None)).subquery()


def end_picks(w: Writer, sample: UUID) -> None:
    """End the live picks of a sample, and delete picks, also of dropped samples, that no snapshot needs."""
    _end_picks(w, sample)


def end_picks_before(w: Writer, sample: UUID, row_id: int) -> None:
    """The same for picks that begin before a row id."""
    _end_picks(w, sample, PICK.c.first_row_id < row_id)


def end_picks_at(w: Writer, sample: UUID, row_ids: Sequence[int]) -> None:
    """The same for picks that begin at some row ids."""
    for part in split_chunks(row_ids):
        _end_picks(w, sample, PICK.c.first_row_id.in_(part))


def _end_picks(w: Writer, sample: UUID, *conditions: sa.ColumnElement[bool]) -> None:
    own, ended = PICK.c.sample_uuid == str(sample), PICK.c.end_snapshot.is_not(None)
    w.connection.execute(sa.update(PICK).where(own, ~ended, *conditions).values(end_snapshot=w.id))
    # Also those of an earlier version, which left them where they were.
    w.connection.execute(sa.insert(ENDED_PICK).from_select([column.name for column in PICK.c], sa.select(PICK).where(own, ended)))
    w.connection.execute(sa.delete(PICK).where(own, ended))
    w.connection.execute(sa.delete(ENDED_PICK).where(ENDED_PICK.c.end_snapshot <= oldest_snapshot()))


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledPicks:
    """Several picks as one: their rows, and the rows of each stratum, by places among the rows."""

    rows: pa.Table
    held: Mapping[Key, LowestRows]

    @property
    def row_ids(self) -> Integers:
        """The row ids of the rows."""
        return np.asarray(self.rows.column(ROW).to_numpy(), dtype=np.int64)


def pool_picks(sample: SampleRecord, picks: Sequence[Picks]) -> PooledPicks:
    """Picks of several ranges as one: all rows below the lowest of their bounds are there."""
    rows = pa.concat_tables([pa.Table.from_batches([], schema=pick_schema(sample)), *(each.rows for each in picks)])
    counts: dict[Key, int] = {}
    bounds: dict[Key, int] = {}
    for each in picks:
        for key, (count, bound) in each.strata.items():
            counts[key] = counts.get(key, 0) + count
            bounds[key] = min(bounds.get(key, EVERY), bound)
    keys = keys_of_sampled(sample.definition, rows, rows.column(ROW).to_numpy())
    places = group_positions(rows, sample.definition.strata)
    none = np.empty(0, dtype=np.int64)
    held = {
        key: LowestRows(cardinality=count, bound=EVERY, keys=keys[places.get(key, none)], places=places.get(key, none)).up_to(bounds[key])
        for key, count in counts.items()
    }
    return PooledPicks(rows=rows, held=held)
