"""Expiry: old snapshots are removed from the catalogue, and files that only they need are scheduled for deletion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import split_chunks
from platform_plugin.lake.catalogue.formats import VIEW_COLUMN_TAG, inlined_rows, is_newer, own_columns
from platform_plugin.lake.catalogue.interval_columns import forget_intervals
from platform_plugin.lake.catalogue.tables import read_snapshot
from platform_plugin.lake.commit.before_images import forget_before_images
from platform_plugin.lake.commit.data_operations import has_table, inlined_data_tables
from platform_plugin.lake.commit.passes import hold_passes
from platform_plugin.lake.cursors.holding import hold_changes
from platform_plugin.lake.read.scan import resolve_path
from platform_plugin.lake.upkeep.folding import fold_rows
from platform_plugin.lake.upkeep.leased import LEASE_TABLES, read_leased_snapshots, read_newest_lease

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.lake import Lake


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireOutcome:
    """What an expiry removed, or would remove."""

    snapshots: int
    files: int
    leased: int
    gated: int = 0
    """Snapshots that stay because only they have what passed a gate last."""
    rows: int = 0
    """Rows of the platform's own tables that went with them."""
    consumed: int = 0
    """Snapshots that stay because a consumer's next changes of a table begin behind them."""
    holders: tuple[str, ...] = ()
    """Those consumers, each with its table and its snapshot."""


def expire(lake: Lake, older_than: datetime, *, dry_run: bool = False) -> ExpireOutcome:
    """Forget snapshots older than a time, but for the newest, those under lease, what passed a gate last, and what consumers still need.

    A dry run does the same and rolls it back, so that its result is exact.
    """
    moment = older_than if older_than.tzinfo is not None else older_than.replace(tzinfo=UTC)
    lake.prepare_tables(LEASE_TABLES)
    with lake.writing() as connection:
        held = read_leased_snapshots(connection)
        newest = read_snapshot(connection)
        s = c.SNAPSHOT.c
        old = (
            connection.execute(sa.select(s.snapshot_id).where(s.snapshot_time < moment, s.snapshot_id != (newest.id if newest else -1)))
            .scalars()
            .all()
        )
        before = connection.begin_nested() if dry_run else None
        passed = hold_passes(connection, newest) if newest is not None else frozenset()
        leased = [snapshot_id for snapshot_id in old if snapshot_id in held.snapshots]
        gated = [snapshot_id for snapshot_id in old if snapshot_id in passed and snapshot_id not in held.snapshots]
        consumers = hold_changes(connection, newest) if newest is not None else {}
        kept = {*held.snapshots, *passed}
        consumed = [snapshot_id for snapshot_id in old if snapshot_id in consumers and snapshot_id not in kept]
        holders = tuple(
            f"{each.name} of {each.table.name} at snapshot {snapshot_id}" for snapshot_id in consumed for each in consumers[snapshot_id]
        )
        outcome = ExpireOutcome(snapshots=0, files=0, leased=len(leased), gated=len(gated), consumed=len(consumed), holders=holders)
        going = [snapshot_id for snapshot_id in old if snapshot_id not in kept and snapshot_id not in consumers]
        if not going:
            if before is not None:
                before.rollback()
            return outcome
        for ids in split_chunks(going):
            for table in (c.SNAPSHOT_CHANGES, c.SNAPSHOT):
                connection.execute(sa.delete(table).where(table.c.snapshot_id.in_(ids)))
        files = _schedule_unreachable(connection)
        _forget_unreachable(connection)
        rows = fold_rows(connection)
        if before is not None:
            before.rollback()
    return replace(outcome, snapshots=len(going), files=files, rows=rows)


def is_unreachable(table: sa.FromClause) -> sa.ColumnElement[bool]:
    """The condition for rows that no existing snapshot sees."""
    kept = sa.select(sa.literal(1)).where(
        c.SNAPSHOT.c.snapshot_id >= table.c.begin_snapshot, c.SNAPSHOT.c.snapshot_id < table.c.end_snapshot
    )
    return sa.and_(table.c.end_snapshot.is_not(None), ~kept.exists())


def _schedule_unreachable(connection: Connection) -> int:
    """Move files that no kept snapshot has from the catalogue to the list of files to delete."""
    f, d = c.DATA_FILE, c.DELETE_FILE
    data = connection.execute(sa.select(f.c.data_file_id, f.c.table_id, f.c.path, f.c.path_is_relative).where(is_unreachable(f))).all()
    gone = [row.data_file_id for row in data]
    deletes: list[c.AnyRow] = list(
        connection.execute(sa.select(d.c.delete_file_id, d.c.table_id, d.c.path, d.c.path_is_relative).where(is_unreachable(d))).all()
    )
    for ids in split_chunks(gone):
        deletes += connection.execute(
            sa.select(d.c.delete_file_id, d.c.table_id, d.c.path, d.c.path_is_relative).where(d.c.data_file_id.in_(ids), ~is_unreachable(d))
        ).all()
    images = [(file_id, -1, path, True) for file_id, path in forget_before_images(connection)]
    schedule_deletion(connection, [*data, *deletes, *images])
    forget_files(connection, gone)
    for ids in split_chunks([row.delete_file_id for row in deletes]):
        connection.execute(sa.delete(d).where(d.c.delete_file_id.in_(ids)))
    return len(data) + len(deletes) + len(images)


def schedule_deletion(connection: Connection, rows: Sequence[c.AnyRow | tuple[int, int, str, bool]]) -> None:
    """Schedule files for deletion, at a time not before the newest lease's; a row has id, table id, path and whether it is relative.

    A file beyond the data folder is another's, whom no client that works off the list asks.
    """
    rows = [row for row in rows if row[3] or _is_inside(connection, row[2])]
    if not rows:
        return
    newest = read_snapshot(connection)
    leased = read_newest_lease(connection)
    # Never before a lease's or a snapshot's own time, even if the clock went back: vacuum compares these times.
    now = max(datetime.now(UTC), *(moment for moment in (newest.time if newest else None, leased) if moment is not None))
    folders = table_folders(connection, {row[1] for row in rows})
    connection.execute(
        sa.insert(c.SCHEDULED_FOR_DELETION),
        [
            {
                "data_file_id": row[0],
                "path": resolve_path(folders.get(row[1], ""), row[2], relative=row[3]),
                "path_is_relative": row[3],
                "schedule_start": now,
            }
            for row in rows
        ],
    )


def _is_inside(connection: Connection, path: str) -> bool:
    root = connection.execute(sa.select(c.METADATA.c.value).where(c.METADATA.c.key == "data_path", c.METADATA.c.scope.is_(None))).scalar()
    return root is not None and path.removeprefix("file://").startswith(root.removeprefix("file://")) and ".." not in path.split("/")


def table_folders(connection: Connection, table_ids: set[int]) -> dict[int, str]:
    """The folder of each table, dropped ones included."""
    t, s = c.TABLE.c, c.SCHEMA.c
    found: dict[int, str] = {}
    for ids in split_chunks(sorted(table_ids)):
        query = sa.select(t.table_id, t.path, s.path).join(c.SCHEMA, s.schema_id == t.schema_id).where(t.table_id.in_(ids))
        found |= {row[0]: f"{row[2] or ''}{row[1] or ''}" for row in connection.execute(query)}
    return found


def forget_files(connection: Connection, file_ids: Sequence[int]) -> None:
    """Remove all catalogue rows of data files."""
    for ids in split_chunks(file_ids):
        for table in (c.DATA_FILE, c.FILE_COLUMN_STATS, c.FILE_PARTITION_VALUE, c.FILE_VARIANT_STATS):
            connection.execute(sa.delete(table).where(table.c.data_file_id.in_(ids)))
        # The delete files themselves were scheduled by the caller.
        connection.execute(sa.delete(c.DELETE_FILE).where(c.DELETE_FILE.c.data_file_id.in_(ids)))


def _forget_unreachable(connection: Connection) -> None:
    """Remove relations, columns and inlined rows that no kept snapshot has."""
    inlined = connection.execute(sa.select(c.INLINED_DATA_TABLES.c.table_name)).scalars().all()
    for name in _names_with_ends(connection, inlined, own_columns(connection)[2]):
        rows = inlined_rows(connection, name)
        connection.execute(sa.delete(rows).where(is_unreachable(rows)))
    # All shapes of a table stay as long as one of them: inlined rows are found by the names that they were written with.
    shape = c.TABLE.alias()
    kept = sa.select(shape.c.table_id).where(~is_unreachable(shape))
    gone = set(connection.execute(sa.select(c.TABLE.c.table_id).where(c.TABLE.c.table_id.not_in(kept))).scalars())
    of_views = (VIEW_COLUMN_TAG,) if is_newer(connection) else ()
    versioned = {table.name: table for table in (c.COLUMN_TAG, c.TAG, *of_views, c.VIEW, c.SCHEMA, c.PARTITION_INFO, c.SORT_INFO)}
    for name in _names_with_ends(connection, list(versioned), "end_snapshot"):
        connection.execute(sa.delete(versioned[name]).where(is_unreachable(versioned[name])))
    mapping = c.COLUMN_MAPPING.c
    for table_id in sorted(gone):
        named = sa.select(mapping.mapping_id).where(mapping.table_id == table_id)
        connection.execute(sa.delete(c.NAME_MAPPING).where(c.NAME_MAPPING.c.mapping_id.in_(named)))
        for unversioned in (
            c.TABLE,
            c.COLUMN,
            c.TABLE_STATS,
            c.TABLE_COLUMN_STATS,
            c.PARTITION_COLUMN,
            c.SORT_EXPRESSION,
            c.SCHEMA_VERSIONS,
            c.COLUMN_MAPPING,
        ):
            connection.execute(sa.delete(unversioned).where(unversioned.c.table_id == table_id))
        for name in [*inlined_data_tables(connection, table_id), f"ducklake_inlined_delete_{table_id}"]:
            if has_table(connection, name):
                connection.execute(sa.schema.DropTable(sa.Table(name, sa.MetaData())))
        connection.execute(sa.delete(c.INLINED_DATA_TABLES).where(c.INLINED_DATA_TABLES.c.table_id == table_id))
        connection.execute(sa.delete(c.METADATA).where(c.METADATA.c.scope == "table", c.METADATA.c.scope_id == table_id))
    forget_intervals(connection, gone)


def _names_with_ends(connection: Connection, names: Sequence[str], end: str) -> list[str]:
    """The tables among those of some names in which a row has ended: only there can a row be unreachable. All are asked together."""
    quote = connection.dialect.identifier_preparer.quote
    found: list[str] = []
    for start in range(0, len(names), 100):
        part = names[start : start + 100]
        asked = (f"SELECT {at} WHERE EXISTS (SELECT 1 FROM {quote(name)} WHERE {end} IS NOT NULL)" for at, name in enumerate(part))
        found += [part[at] for at in sorted(connection.execute(sa.text(" UNION ALL ".join(asked))).scalars())]
    return found
