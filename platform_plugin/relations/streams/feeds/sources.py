"""The catalogue's records of the files that streams have read or refused, written by the commit of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.errors import PlatformError
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import is_among, split_chunks
from platform_plugin.lake.commit.data_operations import has_table
from platform_plugin.lake.cursors.cursor import has_cursors
from platform_plugin.lake.cursors.move import forget_cursors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.lake import Lake

SOURCE_FILE = sa.Table(
    "platform_source_file",
    c.metadata,
    sa.Column("relation_uuid", sa.String, primary_key=True),
    sa.Column("uri", sa.String, primary_key=True),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
    sa.Column("version", sa.String, nullable=False),
    sa.Column("state", sa.String, nullable=False),
    sa.Column("snapshot_id", sa.BigInteger, nullable=False),
    sa.Column("reported_version", sa.String),
    # Earlier versions have no such columns; whoever writes makes them.
    sa.Column("read_at", c.UtcTimestamp),
    sa.Column("modified", sa.Double),
)
# What is left of files that were read long ago and are gone: up to which name or time of modification everything was read.
SOURCE_FOLD = sa.Table(
    "platform_source_fold",
    c.metadata,
    sa.Column("relation_uuid", sa.String, primary_key=True),
    sa.Column("name_mark", sa.String),
    sa.Column("time_mark", sa.Double),
    sa.Column("folded_count", sa.BigInteger, nullable=False),
    sa.Column("tried_at", c.UtcTimestamp, nullable=False),
)
FILE_TABLES = (SOURCE_FILE, SOURCE_FOLD)

READ, REFUSED, LATE = "read", "refused", "late"


class SourceUnavailable(PlatformError):
    """A source can't be read now; another attempt later may help."""


class SourceGap(PlatformError):
    """A source no longer has the next records, so that to go on would leave records out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file of a source when it was listed; `version` changes whenever its content may have changed."""

    uri: str
    size_bytes: int
    version: str
    modified: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFile:
    """A file that was read or refused, its version then, and the newest version whose change was reported."""

    version: str
    state: str = READ
    reported_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The name, or the time of modification, up to which a stream has read all files of its source and forgotten those that are gone.

    >>> Marks(name="b").covers(SourceFile(uri="a", size_bytes=1, version="1"))
    True
    """

    name: str | None = None
    time: float | None = None

    def covers(self, file: SourceFile) -> bool:
        """Whether a file without a record may have been read."""
        by_time = self.time is not None and file.modified is not None and file.modified <= self.time
        return by_time or (self.name is not None and file.uri <= self.name)

    def raised(self, other: Marks) -> Marks:
        """The higher of each."""
        names = [mark for mark in (self.name, other.name) if mark is not None]
        times = [mark for mark in (self.time, other.time) if mark is not None]
        return Marks(name=max(names, default=None), time=max(times, default=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedFile:
    """A file with a record; `read_at` is None if an earlier version wrote it, without the time."""

    uri: str
    modified: float | None
    read_at: datetime | None


@dataclass(frozen=True, slots=True)
class RecordFiles:
    """Records files as read or refused; a conflict if another ingester has recorded one of them meanwhile."""

    relation_uuid: str
    files: tuple[SourceFile, ...]
    state: str

    def apply(self, w: Writer) -> None:
        t = SOURCE_FILE.c
        versions = {file.uri: file.version for file in self.files}
        for part in split_chunks(list(versions)):
            condition = sa.and_(t.relation_uuid == self.relation_uuid, t.uri.in_(part))
            found = w.connection.execute(sa.select(t.uri, t.version, t.state).where(condition)).all()
            self._refuse_folded(w, set(part) - {row.uri for row in found})
            for row in found:
                if row.state != REFUSED or row.version == versions[row.uri]:
                    raise w.conflict(f'file "{row.uri}" was ingested by another process')
            # A file that was refused, and so gave no row, may come again as another.
            w.connection.execute(sa.delete(SOURCE_FILE).where(condition))
        for file in self.files:
            w.insert(
                SOURCE_FILE,
                relation_uuid=self.relation_uuid,
                uri=file.uri,
                size_bytes=file.size_bytes,
                version=file.version,
                state=self.state,
                snapshot_id=w.id,
                reported_version=None,
                read_at=w.time,
                modified=file.modified,
            )

    def _refuse_folded(self, w: Writer, uris: set[str]) -> None:
        """A file that is not remembered was perhaps read by another ingester, and forgotten since this one looked."""
        marks = read_marks(w.connection, self.relation_uuid)
        folded = next((file for file in self.files if file.uri in uris and marks.covers(file)), None)
        if folded is not None and self.state != LATE:
            raise w.conflict(f'file "{folded.uri}" was ingested by another process')


@dataclass(frozen=True, slots=True)
class RecordReported:
    """Records that changes of files were reported, each once."""

    relation_uuid: str
    files: tuple[SourceFile, ...]

    def apply(self, w: Writer) -> None:
        for file in self.files:
            w.update_later(SOURCE_FILE, {"relation_uuid": self.relation_uuid, "uri": file.uri}, {"reported_version": file.version})


@dataclass(frozen=True, slots=True)
class FoldFiles:
    """Deletes the records of files and raises the mark over them."""

    relation_uuid: str
    uris: tuple[str, ...]
    marks: Marks

    def apply(self, w: Writer) -> None:
        t, f = SOURCE_FILE.c, SOURCE_FOLD.c
        own = f.relation_uuid == self.relation_uuid
        for part in split_chunks(self.uris):
            w.connection.execute(sa.delete(SOURCE_FILE).where(t.relation_uuid == self.relation_uuid, t.uri.in_(part)))
        # Versions before this one don't say when they read a file.
        undated = sa.and_(t.relation_uuid == self.relation_uuid, t.read_at.is_(None))
        w.connection.execute(sa.update(SOURCE_FILE).where(undated).values(read_at=w.time))
        row = w.connection.execute(sa.select(f.name_mark, f.time_mark, f.folded_count).where(own)).first()
        known = Marks() if row is None else Marks(name=row.name_mark, time=row.time_mark)
        marks = known.raised(self.marks)
        values: dict[str, Any] = {
            "name_mark": marks.name,
            "time_mark": marks.time,
            "folded_count": len(self.uris) + (row.folded_count if row is not None else 0),
            "tried_at": w.time,
        }
        if row is None:
            w.insert(SOURCE_FOLD, relation_uuid=self.relation_uuid, **values)
        else:
            w.connection.execute(sa.update(SOURCE_FOLD).where(own).values(values))


@dataclass(frozen=True, slots=True)
class ForgetSources:
    """Deletes the records of a stream that is dropped in the same commit."""

    relation_uuid: str

    def apply(self, w: Writer) -> None:
        for table in FILE_TABLES:
            if has_table(w.connection, table.name):
                w.connection.execute(sa.delete(table).where(table.c.relation_uuid == self.relation_uuid))
        if has_cursors(w.connection):
            forget_cursors(w, self.relation_uuid)


def prepare_file_sources(lake: Lake) -> None:
    """Create the tables of records, and add the columns for folding to those of earlier versions."""
    lake.prepare_tables(FILE_TABLES)
    with lake.reading() as connection:
        if not _missing(connection):
            return
    with lake.writing() as connection:
        quote = connection.dialect.identifier_preparer.quote
        missing = _missing(connection)
        for column in missing:
            kind = column.type.compile(connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {quote(SOURCE_FILE.name)} ADD COLUMN {quote(column.name)} {kind}")
        if missing:
            # Nobody knows when; from now on they are remembered for as long as a file that is read now.
            connection.execute(sa.update(SOURCE_FILE).where(SOURCE_FILE.c.read_at.is_(None)).values(read_at=datetime.now(UTC)))


def _missing(connection: Connection) -> list[sa.Column[Any]]:
    there = {column["name"] for column in sa.inspect(connection).get_columns(SOURCE_FILE.name)}
    return [column for column in SOURCE_FILE.c if column.name not in there]


def read_known_files(connection: Connection, uuid: UUID, files: Sequence[SourceFile]) -> dict[str, KnownFile]:
    """The records of some files, by URI; the cost depends on the files asked for, not on all that were read."""
    if not files or not has_table(connection, SOURCE_FILE.name):
        return {}
    t = SOURCE_FILE.c
    query = sa.select(t.uri, t.version, t.state, t.reported_version).where(t.relation_uuid == str(uuid))
    return {
        row.uri: KnownFile(version=row.version, state=row.state, reported_version=row.reported_version)
        for part in split_chunks([file.uri for file in files])
        for row in connection.execute(query.where(is_among(connection, t.uri, part)))
    }


def read_marks(connection: Connection, uuid: UUID | str) -> Marks:
    """The marks of a stream's source."""
    if not has_marks(connection):
        return Marks()
    f = SOURCE_FOLD.c
    row = connection.execute(sa.select(f.name_mark, f.time_mark).where(f.relation_uuid == str(uuid))).first()
    return Marks() if row is None else Marks(name=row.name_mark, time=row.time_mark)


def read_fold_time(connection: Connection, uuid: UUID) -> datetime | None:
    """The last time at which a stream's files were checked for folding."""
    return connection.execute(sa.select(SOURCE_FOLD.c.tried_at).where(SOURCE_FOLD.c.relation_uuid == str(uuid))).scalar()


def read_remembered_files(connection: Connection, uuid: UUID) -> list[RememberedFile]:
    """All files of a stream with records."""
    t = SOURCE_FILE.c
    query = sa.select(t.uri, t.modified, t.read_at).where(t.relation_uuid == str(uuid))
    return [RememberedFile(uri=row.uri, modified=row.modified, read_at=row.read_at) for row in connection.execute(query)]


def has_marks(connection: Connection) -> bool:
    """Whether the catalogue has the table of marks."""
    return has_table(connection, SOURCE_FOLD.name)


def total_bytes(files: Sequence[SourceFile]) -> int:
    """The total bytes of some files."""
    return sum(file.size_bytes for file in files)
