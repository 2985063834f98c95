"""`check_images`: finds files of before-images that are missing, cut off, needed by no feed, or named by no commit."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.commit.before_images import list_before_images
from platform_plugin.lake.read.before_images import SUFFIX
from platform_plugin.lake.read.check import CatalogueFinding
from platform_plugin.lake.upkeep.vacuum import GRACE, changed_at, find_needed_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.lake import Lake

_MISSING = "before-images that are missing"
_CUT = "before-images of another size than the catalogue notes"
_PAST = "before-images that no feed can need"
_ORPHAN = "before-images that no commit named"
_NOWHERE = Name.of(("main", "a table that is no longer known"))
_HINTS = {
    _MISSING: "feeds of changes read the data files instead, which takes longer; another client may have deleted them as orphans",
    _CUT: "restore them from a copy, or delete them: feeds of changes then read the data files",
    _PAST: "`platform expire` removes them",
    _ORPHAN: "`platform vacuum` deletes them: a statement was killed before its commit",
}


def check_images(lake: Lake) -> list[CatalogueFinding]:
    """All findings about before-images, by table. The catalogue is read and the data folder listed, but no file is opened."""
    listing = {path: info for path, info in lake.storage.listing() if SUFFIX in path and path.endswith(".parquet")}
    found: defaultdict[tuple[Name, str], list[str]] = defaultdict(list)
    with lake.reading() as connection:
        tables = _read_table_folders(connection)
        names = {uuid: name for uuid, name, _ in tables}
        rows = list_before_images(connection)
        for row in rows:
            problem = _problem(lake, row, listing.get(row.path))
            if problem is not None:
                found[names.get(row.table_uuid, _NOWHERE), problem].append(row.path)
        needed = find_needed_files(connection, lake.storage) if listing else set()
        needed.update(connection.execute(sa.select(c.SCHEDULED_FOR_DELETION.c.path)).scalars() if listing else ())
    before = datetime.now(UTC) - GRACE
    for path, info in listing.items():
        changed = changed_at(info)
        # A younger one may be of a statement that goes on to its commit.
        if path not in needed and changed is not None and changed <= before:
            owner = next((name for _, name, folder in tables if path.startswith(folder)), _NOWHERE)
            found[owner, _ORPHAN].append(path)
    return [
        CatalogueFinding(table=table, problem=problem, files=len(paths), example=min(paths), hint=_HINTS[problem])
        for (table, problem), paths in sorted(found.items(), key=lambda each: (str(each[0][0]), each[0][1]))
    ]


def _problem(lake: Lake, row: c.AnyRow, info: Mapping[str, Any] | None) -> str | None:
    """What is wrong with a file that the catalogue names, if anything is."""
    if info is None and not lake.storage.exists(row.path):
        return _MISSING
    if not row.is_needed:
        return _PAST
    size = None if info is None else info.get("size")
    return _CUT if size is not None and int(size) != row.size_bytes else None


def _read_table_folders(connection: Connection) -> list[tuple[str, Name, str]]:
    """The identity, the last name and the folder of each table, dropped ones included."""
    t, s = c.TABLE.c, c.SCHEMA.c
    query = sa.select(t.table_uuid, s.schema_name, t.table_name, s.path, t.path).join(c.SCHEMA, s.schema_id == t.schema_id)
    rows = connection.execute(query.order_by(t.begin_snapshot)).all()
    last = {str(row[0]): (Name.of((row[1], row[2])), f"{row[3] or ''}{row[4] or ''}") for row in rows}
    return [(uuid, name, folder) for uuid, (name, folder) in last.items()]
