"""Folding: files that were read long ago and are gone are forgotten, and a mark says up to where all were read.

A mark lies before every remembered file and every waiting one, so that a name or time out of line (a clock that stepped, a stray file)
keeps it back and never moves it on. A file that appears before the mark may have been read: it is reported, once, and never read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from platform_plugin.relations.streams.feeds.sources import FoldFiles, Marks, has_marks, read_fold_time, read_remembered_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.relations.streams.feeds.declaration import FilesFeed
    from platform_plugin.relations.streams.feeds.sources import RememberedFile, SourceFile

# Looking for what may be folded costs what is remembered, so it is done so often in the time that files are remembered for.
_LOOKS = 24


def find_fold(
    connection: Connection, uuid: UUID, feed: FilesFeed, listing: Sequence[SourceFile], *, unread: Iterable[SourceFile], now: datetime
) -> FoldFiles | None:
    """The files to fold now; None also if this was checked a short time ago."""
    if feed.ordered_by is None or not has_marks(connection):
        return None
    tried_at = read_fold_time(connection, uuid)
    if tried_at is not None and abs(now - tried_at) < feed.remember / _LOOKS:
        return None
    return plan_fold(str(uuid), read_remembered_files(connection, uuid), feed, listing, unread=unread, now=now)


def plan_fold(
    stream: str,
    remembered: Iterable[RememberedFile],
    feed: FilesFeed,
    listing: Sequence[SourceFile],
    *,
    unread: Iterable[SourceFile],
    now: datetime,
) -> FoldFiles | None:
    """The files to fold: read before the feed's bound, gone from the listing, and before every remembered or unread file."""
    key, bound = _key_of(feed.ordered_by), now - feed.remember
    old: list[tuple[Any, str]] = []
    ahead = [key(file.uri, file.modified, now) for file in unread]
    for file in remembered:
        place = key(file.uri, file.modified, file.read_at or now)
        if file.read_at is None or file.read_at > bound:
            ahead.append(place)
        else:
            old.append((place, file.uri))
    if not ahead:
        return None
    least, there = min(ahead), {file.uri for file in listing}
    gone = [(place, uri) for place, uri in old if uri not in there and place < least]
    mark = max((place for place, _ in gone), default=None)
    marks = Marks() if mark is None else Marks(name=mark) if feed.ordered_by == "name" else Marks(time=mark)
    return FoldFiles(stream, tuple(uri for _, uri in gone), marks)


def _key_of(ordered_by: str | None) -> Any:
    """What files are ordered by; one whose file system tells no time counts from when it was read."""
    if ordered_by == "name":
        return lambda uri, _modified, _read_at: uri
    return lambda _uri, modified, read_at: read_at.timestamp() if modified is None else modified
