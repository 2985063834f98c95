"""Errors for files that a reader misses: rows were evicted, a snapshot expired, files were merged, or a file is lost."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

import sqlalchemy as sa

from platform_plugin.errors import PlatformError, QueryFailed, SnapshotExpired, StorageError, StreamOverrun
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.tables import read_snapshot, read_tables
from platform_plugin.lake.ring.segments import refuse_overrun
from platform_plugin.lake.upkeep.leased import read_lease_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.storage import Storage
    from platform_plugin.lake.lake import Lake

_GONE = ("PATH_NOT_FOUND", "FILE_NOT_EXIST", "FileNotFoundException", "does not exist", "No such file")


def explain_failed_query(lake: Lake, error: BaseException | None, snapshot: Snapshot, tables: Sequence[Table] = ()) -> PlatformError | None:
    """The error that replaces an error of Spark's about a missing file of the lake; None for any other error."""
    path = find_missing_file(lake.storage, error) if isinstance(error, QueryFailed) else None
    return None if path is None else explain_missing(lake, path, snapshot, tables)


def find_missing_file(storage: Storage, error: PlatformError) -> str | None:
    """The path, below the data folder, of the file that an error of Spark's reports as missing."""
    said = f"{error} {error.__cause__ or ''}"
    if not any(word in said for word in _GONE):
        return None
    # Hadoop has other names of the schemes, and the form of URLs.
    folder = storage.absolute("").split("://", 1)[-1]
    found = re.search(re.escape(folder) + r"(.+?\.parquet)", said) or re.search(re.escape(folder) + r"(.+?\.parquet)", unquote(said))
    return None if found is None else unquote(found[1]) if "%" in found[1] and not storage.exists(found[1]) else found[1]


def explain_missing(lake: Lake, path: str, snapshot: Snapshot, tables: Sequence[Table] = ()) -> PlatformError:
    """The reason why a reader of a snapshot misses a file; `tables` are those that it reads, where they are known."""
    with lake.reading() as connection:
        named = _named_by(connection, path)
        owners = _owners(connection, path, named, snapshot)
        # A session reads files that came after the snapshot at which it began.
        came = read_snapshot(connection, id=max((begin for _, begin, _ in named), default=0))
        reached = came if came is not None and came.id > snapshot.id else snapshot
        for table in owners or tables:
            try:
                refuse_overrun(connection, table, reached)
            except StreamOverrun as overrun:
                return overrun
        is_kept = read_snapshot(connection, id=snapshot.id) is not None
        lease = _said_lease(connection, snapshot)
    of = " or ".join(f'"{table.name}"' for table in owners)
    what = f'file "{path}" of table {of}' if of else f'file "{path}"'
    detail = f"{what} is missing; {lease}"
    if not is_kept:
        return SnapshotExpired(
            f"snapshot {snapshot.id} expired while it was read",
            detail=detail,
            hint="read the newest one, or take a lease before a long read",
        )
    if not any(begin <= snapshot.id and (end is None or end > snapshot.id) for _, begin, end in named):
        return SnapshotExpired(
            f"snapshot {snapshot.id} had its files merged while it was read",
            detail=detail,
            hint="read it again, or take a lease first",
        )
    return StorageError(
        f"{what} is missing",
        detail=f"snapshot {snapshot.id} has it; {lease}",
        hint="it was removed by hand or by another program; restore it from a copy",
    )


def _named_by(connection: Connection, path: str) -> list[tuple[int, int, int | None]]:
    """The tables that have a file, and from which snapshot to which; names of files are unique in a lake."""
    name = posixpath.basename(path)
    found: list[tuple[int, int, int | None]] = []
    for table in (c.DATA_FILE, c.DELETE_FILE):
        query = sa.select(table.c.table_id, table.c.begin_snapshot, table.c.end_snapshot)
        found += [(row[0], row[1], row[2]) for row in connection.execute(query.where(table.c.path.endswith(name, autoescape=True)))]
    return found


def _owners(connection: Connection, path: str, named: Sequence[tuple[int, int, int | None]], snapshot: Snapshot) -> list[Table]:
    """The tables that have a file, or else those whose folder it lies in: a stream and its history share theirs."""
    ids = sorted({table_id for table_id, _, _ in named})
    if ids:
        return read_tables(connection, snapshot.id, ids=ids)
    return [table for table in read_tables(connection, snapshot.id) if path.startswith(table.path)]


def _said_lease(connection: Connection, snapshot: Snapshot) -> str:
    until = read_lease_end(connection, snapshot.id)
    return f"no lease holds snapshot {snapshot.id}" if until is None else f"snapshot {snapshot.id} is under lease until {until:%F %T} UTC"
