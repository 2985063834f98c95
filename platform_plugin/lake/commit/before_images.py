"""Before-images in the catalogue: the files that hold the rows which a commit ended, so that the change feed need not look for them.

A table's rows of one snapshot are in such files all together or not at all. A file that is missing costs time and never an answer: the same
rows are still in the data files that they were deleted from.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import split_chunks
from platform_plugin.lake.catalogue.formats import inlined_rows
from platform_plugin.lake.commit.data_operations import has_table, inlined_data_tables

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.writer import Writer

GONE = sa.Table(
    "platform_gone",
    c.metadata,
    sa.Column("table_uuid", sa.String, primary_key=True),
    sa.Column("snapshot_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("path", sa.String, primary_key=True),
    # As data files have one: another client's list of files to delete tells files apart by it.
    sa.Column("file_id", sa.BigInteger, nullable=False),
    sa.Column("row_count", sa.BigInteger, nullable=False),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
)
BEFORE_IMAGE_TABLES = (GONE,)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeImages:
    """A file of before-images below the data folder; `snapshot_id` is the snapshot that ended the rows, or None before the commit."""

    path: str
    row_count: int
    size_bytes: int
    snapshot_id: int | None = None


@dataclass(frozen=True, slots=True)
class KeepBeforeImages:
    """Names the files with the rows that this commit ends in a table; all of them, or it is an error."""

    table: Table
    files: tuple[BeforeImages, ...]

    def apply(self, w: Writer) -> None:
        table_id = w.table_id(self.table)
        w.require_files(file.path for file in self.files)
        w.flush()
        given, ended = sum(file.row_count for file in self.files), _count_ended(w, table_id)
        if given != ended:
            raise InvalidValue(
                f'the before-images of table "{self.table.name}" have {given} of the {ended} rows that the commit ends',
                hint="give those of all rows that it ends in the table, or none",
            )
        for file in self.files:
            w.insert(
                GONE,
                table_uuid=str(self.table.uuid),
                snapshot_id=w.id,
                path=file.path,
                file_id=w.new_file_id(),
                row_count=file.row_count,
                size_bytes=file.size_bytes,
            )


def _count_ended(w: Writer, table_id: int) -> int:
    """How many rows of a table this commit ends."""
    f, d = c.DATA_FILE.c, c.DELETE_FILE.c
    connection = w.connection
    ended = sa.select(f.data_file_id).where(f.table_id == table_id, f.end_snapshot == w.id)
    total = connection.execute(sa.select(sa.func.sum(f.record_count)).where(f.table_id == table_id, f.end_snapshot == w.id)).scalar() or 0
    own = d.table_id == table_id
    replaced = connection.execute(sa.select(sa.func.sum(d.delete_count)).where(own, d.end_snapshot == w.id)).scalar() or 0
    added = connection.execute(sa.select(sa.func.sum(d.delete_count)).where(own, d.begin_snapshot == w.id)).scalar() or 0
    count = int(total) + int(added) - int(replaced)
    if has_table(connection, f"ducklake_inlined_delete_{table_id}"):
        deletes = c.inlined_delete_table(table_id)
        count -= connection.execute(sa.select(sa.func.count()).select_from(deletes).where(deletes.c.file_id.in_(ended))).scalar_one()
    for name in inlined_data_tables(connection, table_id):
        rows = inlined_rows(connection, name)
        count += connection.execute(sa.select(sa.func.count()).select_from(rows).where(rows.c.end_snapshot == w.id)).scalar_one()
    return count


def read_before_images(connection: Connection, table: Table, *, after: int, until: int) -> dict[int, list[BeforeImages]]:
    """The files of before-images of a table, by the snapshot that ended their rows."""
    found: defaultdict[int, list[BeforeImages]] = defaultdict(list)
    if has_table(connection, GONE.name):
        g = GONE.c
        query = sa.select(g.snapshot_id, g.path, g.row_count, g.size_bytes).where(
            g.table_uuid == str(table.uuid), g.snapshot_id > after, g.snapshot_id <= until
        )
        for row in connection.execute(query.order_by(g.snapshot_id, g.path)):
            file = BeforeImages(path=row.path, row_count=row.row_count, size_bytes=row.size_bytes, snapshot_id=row.snapshot_id)
            found[row.snapshot_id].append(file)
    return dict(found)


def was_imaged(table: Table, snapshot: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Whether all rows of a table that a snapshot ended are in files of before-images that a feed may read; the lake must have such files.

    Where the snapshot before it has expired, the deletes of the expired ones can't be told from its own: then none of them may be used.
    """
    own = sa.select(sa.literal(1)).where(GONE.c.table_uuid == str(table.uuid), GONE.c.snapshot_id == snapshot)
    return sa.and_(own.exists(), sa.select(sa.literal(1)).where(c.SNAPSHOT.c.snapshot_id == snapshot - 1).exists())


def list_before_images(connection: Connection) -> Sequence[c.AnyRow]:
    """All files of before-images that the catalogue names: table, snapshot, path, rows, bytes, and whether feeds need it."""
    if not has_table(connection, GONE.name):
        return []
    g = GONE.c
    query = sa.select(g.table_uuid, g.snapshot_id, g.path, g.row_count, g.size_bytes, _is_needed().label("is_needed"))
    return connection.execute(query.order_by(g.table_uuid, g.snapshot_id)).all()


def _is_needed() -> sa.ColumnElement[bool]:
    """Whether a feed may begin before the commit of a file's rows: that snapshot is still kept."""
    return sa.select(sa.literal(1)).where(c.SNAPSHOT.c.snapshot_id == GONE.c.snapshot_id - 1).exists()


def name_before_images(connection: Connection, paths: Collection[str]) -> set[str]:
    """Those of some paths at which the catalogue has before-images."""
    found: set[str] = set()
    if has_table(connection, GONE.name):
        for part in split_chunks(sorted(paths)):
            found.update(connection.execute(sa.select(GONE.c.path).where(GONE.c.path.in_(part))).scalars())
    return found


def forget_before_images(connection: Connection) -> list[tuple[int, str]]:
    """Remove those that no feed may read any more; returns their file ids and paths, so that the files can be deleted."""
    if not has_table(connection, GONE.name):
        return []
    g = GONE.c
    old = [(row.file_id, row.path) for row in connection.execute(sa.select(g.file_id, g.path).where(~_is_needed()))]
    if old:
        connection.execute(sa.delete(GONE).where(~_is_needed()))
    return old
