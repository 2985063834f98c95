"""`vacuum`: deletes scheduled files and orphans that no snapshot and no lease needs."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.errors import PathOutsideLake
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import split_chunks
from platform_plugin.lake.catalogue.formats import refuse_nested_schemas
from platform_plugin.lake.catalogue.marks import MARKER, database_identity, refuse_strangers
from platform_plugin.lake.commit.before_images import list_before_images
from platform_plugin.lake.read.scan import resolve_path
from platform_plugin.lake.upkeep.expire import table_folders
from platform_plugin.lake.upkeep.leased import LEASE_TABLES, read_leased_snapshots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.files.storage import Storage
    from platform_plugin.lake.lake import Lake

GRACE = timedelta(days=1)
_LEFT_OVER_SUFFIXES = (".parquet", ".puffin", ".crc", "_SUCCESS", ".tmp", ".inprogress")


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumOutcome:
    """What a vacuum deleted, or would delete, and which files it left, by the reason.

    Deleted are `scheduled` files, which no snapshot has any more, and `orphans`, which no commit ever named. Of the `kept` scheduled files
    those that a lease keeps are `leased`, the others are younger than the grace. `young` files are named by no commit yet, `unknown`
    ones are of no kind that the platform writes. Files are listed only if the data folder has the mark of this lake.
    """

    scheduled: int
    orphans: int
    kept: int
    bytes: int
    leased: int = 0
    young: int = 0
    unknown: int = 0
    is_listed: bool = True


def vacuum(lake: Lake, *, grace: timedelta, dry_run: bool) -> VacuumOutcome:
    """Delete scheduled files and orphans older than `grace`, except those that a lease or the catalogue still needs.

    `grace` protects readers without a lease and writers that have not committed yet: it must be longer than they take.
    """
    lake.prepare_tables(LEASE_TABLES)
    before = datetime.now(UTC) - grace
    with lake.reading() as connection:
        # Left-overs in a folder without a mark may be another lake's; nothing at all is deleted for another copy of this catalogue.
        marked = refuse_strangers(lake.storage, lake.uuid, lake.location, database_identity(connection))
    listing = _list_files(lake, before) if marked is not None else _Listing()
    # Under the writers' lock: a commit is either seen here with its files, or comes later and finds that they are gone.
    with lake.writing() as connection:
        # The paths of files are found by the tables and schemas that have them.
        refuse_nested_schemas(connection)
        held = read_leased_snapshots(connection)
        needed = find_needed_files(connection, lake.storage)
        s = c.SCHEDULED_FOR_DELETION.c
        rows = connection.execute(sa.select(s.data_file_id, s.path, s.schedule_start)).all()
        scheduled = _last_let_go(lake.storage, rows)
        moments = [scheduled[_inside(lake.storage, row.path) or row.path] for row in rows]
        old = [(row, last) for row, last in zip(rows, moments, strict=True) if last <= before]
        going = [row for row, last in old if held.since is None or last < held.since]
        orphans = {path: size for path, size in listing.old.items() if path not in needed and path not in scheduled}
        inside = list(dict.fromkeys(path for row in going if (path := _inside(lake.storage, row.path)) is not None))
        deletable = [path for path in inside if path not in needed]
        sizes = sum(orphans.values()) + sum(lake.storage.size(path) for path in deletable if lake.storage.exists(path))
        if not dry_run:
            lake.storage.delete([*deletable, *orphans])
            for part in split_chunks(going):
                for row in part:
                    connection.execute(sa.delete(c.SCHEDULED_FOR_DELETION).where(s.data_file_id == row.data_file_id, s.path == row.path))
    return VacuumOutcome(
        scheduled=len(going),
        orphans=len(orphans),
        kept=len(rows) - len(going),
        bytes=sizes,
        leased=len(old) - len(going),
        young=sum(path not in needed and path not in scheduled for path in listing.young),
        unknown=sum(path not in needed and path not in scheduled for path in listing.unknown),
        is_listed=marked is not None,
    )


def _last_let_go(storage: Storage, rows: Sequence[c.AnyRow]) -> dict[str, datetime]:
    """The last time at which a table scheduled each file: a stream and its history share files, and schedule them at different times.

    A reader of the second table may have begun long after the first had scheduled the file.
    """
    last: dict[str, datetime] = {}
    for row in rows:
        path = _inside(storage, row.path) or row.path
        last[path] = max(last.get(path, row.schedule_start), row.schedule_start)
    return last


def find_needed_files(connection: Connection, storage: Storage) -> set[str | None]:
    """The paths of all files that some kept snapshot has."""
    needed: set[str | None] = set()
    for table in (c.DATA_FILE, c.DELETE_FILE):
        rows = connection.execute(sa.select(table.c.table_id, table.c.path, table.c.path_is_relative)).all()
        folders = table_folders(connection, {row.table_id for row in rows})
        needed.update(
            resolve_path(folders.get(row.table_id, ""), row.path, relative=True) if row.path_is_relative else _inside(storage, row.path)
            for row in rows
        )
    needed.update(row.path for row in list_before_images(connection))
    return needed


def _inside(storage: Storage, path: str) -> str | None:
    """The path below the data folder; None for another program's file elsewhere, which is not ours to delete."""
    try:
        return storage.relative(path)
    except PathOutsideLake:
        return None


@dataclass(frozen=True, slots=True)
class _Listing:
    """The files of the data folder: of kinds that writers leave behind, older than a moment with their sizes or not, and of others."""

    old: dict[str, int] = field(default_factory=dict)
    young: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def _list_files(lake: Lake, before: datetime) -> _Listing:
    """All files of the data folder but its mark; files of other kinds than writers leave behind are not ours to delete."""
    listing = _Listing()
    for path, info in lake.storage.listing():
        name = posixpath.basename(path)
        if path == MARKER:
            continue
        if not name.endswith(_LEFT_OVER_SUFFIXES) and "/_temporary/" not in path:
            listing.unknown.append(path)
            continue
        changed = changed_at(info)
        if changed is not None and changed <= before:
            listing.old[path] = int(info.get("size") or 0)
        else:
            listing.young.append(path)
    return listing


def changed_at(info: dict[str, Any]) -> datetime | None:
    """When a file was last written; file systems name it differently, and a file without a time is left alone."""
    for key in ("mtime", "LastModified", "last_modified", "updated"):
        value = info.get(key)
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str):
            return datetime.fromisoformat(value).astimezone(UTC)
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
    return None
