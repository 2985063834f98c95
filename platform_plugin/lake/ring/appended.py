"""`read_appended`: the rows that came to a stream between two snapshots; rows that left the stream are no change of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.algebra.predicates.conditions import ALWAYS
from platform_plugin.errors import StreamOverrun
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.formats import inlined_rows
from platform_plugin.lake.commit.data_operations import inlined_data_tables
from platform_plugin.lake.read.changes import check_range
from platform_plugin.lake.read.moves import read_expired_snapshots
from platform_plugin.lake.read.net_changes import InlinedChange, NetChanges, with_deletes
from platform_plugin.lake.read.pruning import plan_exclusions
from platform_plugin.lake.read.scan import fields_of_version, file_scan_of
from platform_plugin.lake.ring.segments import read_ring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.algebra.predicates.conditions import Condition
    from platform_plugin.lake.catalogue.tables import Snapshot, Table


def read_appended(connection: Connection, stream: Table, *, after: Snapshot, until: Snapshot, where: Condition = ALWAYS) -> NetChanges:
    """Plan the rows that came, also those that were evicted since; an error if some of them are deleted already."""
    check_range(connection, after, until)
    f = c.DATA_FILE.c
    came = sa.func.coalesce(f.partial_max, f.begin_snapshot) > after.id
    query = sa.select(c.DATA_FILE).where(f.table_id == stream.id, f.begin_snapshot <= until.id, came).order_by(f.data_file_id)
    rows = connection.execute(query).all()
    _refuse_lost_rows(connection, stream, rows, after, until)
    excluded = list(plan_exclusions(stream, where, sqlite=connection.dialect.name == "sqlite"))
    if excluded:
        rows = connection.execute(query.where(*excluded)).all()
    return NetChanges(
        table=stream,
        after=after,
        until=until,
        added=tuple(with_deletes(connection, stream, [file_scan_of(stream, row) for row in rows], until)),
        inlined=tuple(_read_inlined(connection, stream, after, until)),
        where=where,
        only_came=True,
    )


def _refuse_lost_rows(connection: Connection, stream: Table, rows: Sequence[c.AnyRow], after: Snapshot, until: Snapshot) -> None:
    """An error if rows that came in the range are no longer there: their files are deleted, or forgotten with expired snapshots."""
    ring = read_ring(connection, stream.uuid)
    deleted = [row for row in rows if row.end_snapshot is not None and row.end_snapshot <= ring.released_snapshot]
    if not deleted and read_expired_snapshots(connection, after=after.id, until=until.id):
        f = c.DATA_FILE.c
        then = sa.select(sa.func.max(f.row_id_start + f.record_count)).where(
            f.table_id == stream.id, c.is_visible_at(c.DATA_FILE, after.id)
        )
        reached = connection.execute(then).scalar() or 0
        first = min((row.row_id_start for row in rows), default=reached)
        lost = first > reached
    else:
        lost = bool(deleted)
    if lost:
        raise StreamOverrun(
            f'rows that came to stream "{stream.name}" after snapshot {after.id} have left and are deleted',
            detail=f"it holds rows {ring.first_row_id} to {ring.next_row_id - 1} now",
            hint="begin at a newer snapshot, keep more with retention, or give the stream a history",
        )


def _read_inlined(connection: Connection, stream: Table, after: Snapshot, until: Snapshot) -> list[InlinedChange]:
    found = []
    for name, schema_version in inlined_data_tables(connection, stream.id or 0).items():
        rows = inlined_rows(connection, name)
        came = sa.select(sa.literal(1)).where(rows.c.begin_snapshot > after.id, rows.c.begin_snapshot <= until.id)
        if connection.execute(came.limit(1)).first() is not None:
            found.append(InlinedChange(name=name, fields=fields_of_version(connection, stream, stream.id or 0, schema_version)))
    return found
