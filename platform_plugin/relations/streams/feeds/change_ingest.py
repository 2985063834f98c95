"""`run_change_batch`: ingests the changes of a table, each with its kind and weight, since the snapshot that the feed has come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.errors import InvalidValue, PlatformError, SnapshotExpired
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.catalogue.tables import read_snapshot
from platform_plugin.lake.cursors.cursor import CURSOR_TABLES, read_cursors
from platform_plugin.lake.cursors.holding import holding_note
from platform_plugin.lake.cursors.move import MoveCursor
from platform_plugin.lake.files.files import fit_rows
from platform_plugin.lake.read.changes import nullable_fields
from platform_plugin.lake.read.read import iter_rows
from platform_plugin.relations import hooks
from platform_plugin.relations.streams.feeds.ingest import IngestReport
from platform_plugin.relations.streams.feeds.sources import SourceGap
from platform_plugin.state.change import read_change

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.streams.feeds.declaration import TableFeed

CHANGE_TYPE, WEIGHT = "_change_type", "_weight"
_INSERT, _DELETE, _BEFORE, _AFTER = "insert", "delete", "update_before", "update_after"


def change_columns(table: Table) -> tuple[Field, ...]:
    """The columns of a stream of a table's changes: those of the table, and the kind and the weight of each change."""
    names = {field.name.lower() for field in table.fields}
    if clash := names.intersection((CHANGE_TYPE, WEIGHT)):
        raise InvalidValue(f'table "{table.name}" has a column "{min(clash)}" of its own', hint="rename it to follow its changes")
    plain = (Field(name=field.name, type=field.type, comment=field.comment) for field in nullable_fields(table))
    return (*plain, Field(name=CHANGE_TYPE, type=Primitive("varchar")), Field(name=WEIGHT, type=Primitive("int64")))


def refuse_changes_of(lake: Lake, table: Table) -> None:
    """Refuse a relation that is no table."""
    with lake.reading() as connection:
        kind = read_declaration(connection, table.uuid).kind
    if kind != "table":
        raise InvalidValue(f'"{table.name}" is a {kind}, not a table', hint="a stream is followed by continuous views and samples")


def run_change_batch(work: Workspace, stream: Table, feed: TableFeed, table: Table) -> IngestReport:
    """Append the table's net changes since the last batch to the stream, and move the cursor in the same commit.

    The first batch gives all rows of the table as inserts, or, if the feed starts with the latest, none.
    """
    lake = work.lake
    lake.prepare_tables(CURSOR_TABLES)
    until = lake.snapshot()
    with lake.reading() as connection:
        cursors = list(read_cursors(connection, [stream.uuid]).values())
    cursor = next((each for each in cursors if each.input == str(table.uuid)), None)
    if cursors and cursor is None:
        raise SourceGap(
            f'table "{table.name}" is not the one that stream "{stream.name}" read before: it was dropped and created again',
            hint=f"create the stream anew: CREATE OR REPLACE STREAM {stream.name} FROM TABLE {table.name}",
        )
    if cursor is not None and cursor.position == until.id:
        return IngestReport(stream=str(stream.name))
    # The rows of a batch are read under a lease: an expiry may come before its commit.
    with lake.lease(until, holder="ingest"):
        if cursor is None:
            parts = _present_rows(lake, table, until) if feed.start == "earliest" else iter(())
        else:
            parts = iter([_changed_rows(lake, stream, table, cursor.position, until)])
        written, rows = [], []
        try:
            for part in parts:
                if part.num_rows:
                    rows.append(fit_rows(_of_stream(part, stream), stream.fields))
                    written.append(lake.write(stream, rows[-1]))
            base = lake.snapshot()
            held = pa.concat_tables(rows) if len(rows) == 1 else None
            own = [] if held is None else hooks.ask_append_parts(lake, base, stream, held)
            with lake.commit(f"ingest changes of {table.name} into {stream.name}", base=base) as commit:
                if written:
                    commit.append(stream, written)
                for each in own:
                    commit.follow(each)
                commit.also(_move(stream, table, None if cursor is None else cursor.position, until))
            for each in own:
                each.settle()
        except PlatformError:
            lake.discard(written)
            raise
    count = sum(file.record_count for file in written)
    return IngestReport(stream=str(stream.name), rows=count, files=len(written), snapshot=commit.made.id)


def _move(stream: Table, table: Table, expected: int | None, until: Snapshot) -> MoveCursor:
    note = holding_note(f"stream {stream.name}")
    return MoveCursor(
        owner=stream.uuid,
        input=table.uuid,
        expected=expected,
        expected_note=None if expected is None else note,
        position=until.id,
        note=note,
        consumer=f'the feed of stream "{stream.name}"',
        is_traced=False,
    )


def _present_rows(lake: Lake, table: Table, snapshot: Snapshot) -> Iterator[pa.Table]:
    """All rows of the table, as rows that came, a file at a time."""
    for rows in iter_rows(lake, lake.scan(table, snapshot)):
        yield _marked(rows, np.full(rows.num_rows, _INSERT), np.ones(rows.num_rows, dtype=np.int64))


def _changed_rows(lake: Lake, stream: Table, table: Table, position: int, until: Snapshot) -> pa.Table:
    with lake.reading() as connection:
        after = read_snapshot(connection, id=position)
        if after is None:
            raise SnapshotExpired(
                f'stream "{stream.name}" has read table "{table.name}" up to snapshot {position}, which has expired',
                detail="what has changed since is not known any more",
                hint=f"create the stream anew: CREATE OR REPLACE STREAM {stream.name} FROM TABLE {table.name} …; and leave out"
                " on_unconsumed = 'drop' of the table to keep what its feeds need",
            )
        change = read_change(connection, table, after=after, until=until)
    rows = change.rows(lake)
    row_ids, weights = rows.column(0).to_numpy(), rows.column(2).to_numpy()
    both = np.intersect1d(row_ids[weights < 0], row_ids[weights > 0])
    is_half = np.isin(row_ids, both)
    kinds = np.where(weights < 0, np.where(is_half, _BEFORE, _DELETE), np.where(is_half, _AFTER, _INSERT))
    order = np.lexsort((weights, row_ids))
    values = rows.select(list(range(3, rows.num_columns)))
    return _marked(values.take(pa.array(order)), kinds[order], weights[order])


def _marked(rows: pa.Table, kinds: np.ndarray, weights: np.ndarray) -> pa.Table:
    marked = rows.append_column(CHANGE_TYPE, pa.array(kinds.tolist(), pa.string()))
    return marked.append_column(WEIGHT, pa.array(weights, pa.int64()))


def _of_stream(rows: pa.Table, stream: Table) -> pa.Table:
    """The columns that the stream has too: the table may have been altered since the stream was created."""
    return rows.select([field.name for field in stream.fields if field.name in rows.column_names])
