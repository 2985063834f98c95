"""Folding: of files that are gone and were read long ago a mark remains, where a feed says that names or times of its files grow.

A mark lies before every file that is remembered and every one that waits, so that a name or time out of line (a clock that stepped, a stray
file) holds it back and never drags it along. A file that is found before the mark may have been read: it is told, once, and never read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.lake.catalogue.bulk import chunks
from platform_plugin.lake.commit.data_operations import has_table
from platform_plugin.relations.streams.feeds.sources import SOURCE_FILE, SOURCE_FOLD, Marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.streams.feeds.declaration import FilesFeed
    from platform_plugin.relations.streams.feeds.sources import SourceFile

# Looking for what may be folded costs what is remembered, so it is done so often in the time that files are remembered for.
_LOOKS = 24


@dataclass(frozen=True, slots=True)
class FoldFiles:
    """Files that were read are forgotten one by one, and known by a mark."""

    relation_uuid: str
    uris: tuple[str, ...]
    marks: Marks

    def apply(self, w: Writer) -> None:
        t, f = SOURCE_FILE.c, SOURCE_FOLD.c
        own = f.relation_uuid == self.relation_uuid
        for part in chunks(self.uris):
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


def prepare_file_sources(lake: Lake) -> None:
    """Make the tables that remember files, and give those of earlier versions the columns that folding wants."""
    lake.prepare_tables([SOURCE_FILE, SOURCE_FOLD])
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


def plan_fold(
    connection: Connection, uuid: UUID, feed: FilesFeed, listing: Sequence[SourceFile], *, unread: Iterable[SourceFile], now: datetime
) -> FoldFiles | None:
    """What may be folded: read before the feed's bound, gone from the listing, and before everything that is still remembered or unread."""
    if feed.ordered_by is None or not has_table(connection, SOURCE_FOLD.name) or not _is_time(connection, uuid, feed.remember, now):
        return None
    t = SOURCE_FILE.c
    own, bound = t.relation_uuid == str(uuid), now - feed.remember
    recent = connection.execute(sa.select(t.uri, t.modified, t.read_at).where(own, sa.or_(t.read_at.is_(None), t.read_at > bound))).all()
    key = _key_of(feed.ordered_by)
    ahead = [key(row.uri, row.modified, row.read_at or now) for row in recent]
    ahead += [key(file.uri, file.modified, now) for file in unread]
    if not ahead:
        return None
    least, there = min(ahead), {file.uri for file in listing}
    old = connection.execute(sa.select(t.uri, t.modified, t.read_at).where(own, t.read_at <= bound)).all()
    gone = [(found, row.uri) for row in old if row.uri not in there and (found := key(row.uri, row.modified, row.read_at)) < least]
    mark = max((found for found, _ in gone), default=None)
    marks = Marks() if mark is None else Marks(name=mark) if feed.ordered_by == "name" else Marks(time=mark)
    return FoldFiles(str(uuid), tuple(uri for _, uri in gone), marks)


def _key_of(ordered_by: str) -> Any:
    """What files are ordered by; one whose file system tells no time counts from when it was read."""
    if ordered_by == "name":
        return lambda uri, _modified, _read_at: uri
    return lambda _uri, modified, read_at: read_at.timestamp() if modified is None else modified


def _is_time(connection: Connection, uuid: UUID, remember: timedelta, now: datetime) -> bool:
    f = SOURCE_FOLD.c
    tried_at = connection.execute(sa.select(f.tried_at).where(f.relation_uuid == str(uuid))).scalar()
    return tried_at is None or abs(now - tried_at) >= remember / _LOOKS
