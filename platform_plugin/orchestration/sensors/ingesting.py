"""The ingestion sensor: finds streams whose sources have unread rows, and requests a batch for each."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from platform_plugin.engine.workspace import Workspace
from platform_plugin.errors import PlatformError
from platform_plugin.lake.catalogue.relations import read_declarations
from platform_plugin.lake.catalogue.tables import read_tables
from platform_plugin.lake.files.sources import EVERYWHERE
from platform_plugin.language.text.counting import count_text
from platform_plugin.orchestration.runs.jobs import RunNeed
from platform_plugin.orchestration.sensors.firing import Decision, build_sensor, checks_of, count_failures, pause_seconds
from platform_plugin.relations.streams.feeds.declaration import FilesFeed, TableFeed, read_declared_feed
from platform_plugin.relations.streams.feeds.file_listing import plan_batch, read_listing
from platform_plugin.relations.streams.feeds.ingest import BatchLimits
from platform_plugin.relations.streams.feeds.sources import read_known_files, read_marks
from platform_plugin.relations.streams.feeds.table_ingest import find_table_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import dagster as dg

    from platform_plugin.lake.catalogue.tables import Name, Snapshot, Table
    from platform_plugin.lake.files.sources import Sources
    from platform_plugin.lake.lake import Lake
    from platform_plugin.orchestration.runs.jobs import Jobs
    from platform_plugin.orchestration.sensors.firing import Moment
    from platform_plugin.relations.streams.feeds.declaration import Feed
    from platform_plugin.relations.streams.feeds.sources import SourceFile

SENSOR_NAME = "bounded_ingestion"
POOL = "ingestion"
POLL_SECONDS = 30.0
"""The interval at which a source is read that can't be checked cheaply, such as a topic."""
# Looking at a folder of very many files must not take more than this share of a sensor's time.
_SHARE = 0.2
# What takes longer than that is found out by a run, since a tick that takes a minute is ended.
_LONGEST_SECONDS = 10.0
_LISTED_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLook:
    """What is unread in a source, or None if only reading it can tell."""

    waiting: int | None
    what: str

    @property
    def told(self) -> str:
        """What is unread, as a sentence.

        >>> SourceLook(waiting=1, what="files").told, SourceLook(waiting=2000, what="rows").told
        ('1 new file', '2,000 new rows')
        """
        return count_text(self.waiting or 0, f"new {self.what.removesuffix('s')}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The files of a glob, or the error of listing them, and the time that it took."""

    files: Sequence[SourceFile] = ()
    trouble: PlatformError | None = None
    seconds: float = 0.0


def read_listings(globs: Collection[str], *, sources: Sources = EVERYWHERE, seconds: float = _LONGEST_SECONDS) -> dict[str, Listing]:
    """The files of some globs, several listed at a time; a glob that takes too long is left out."""
    waiting, found = deque(dict.fromkeys(globs)), dict[str, Listing]()

    def work() -> None:
        with suppress(IndexError):
            while True:
                glob = waiting.popleft()
                began = time.monotonic()
                try:
                    found[glob] = Listing(files=read_listing(glob, sources), seconds=time.monotonic() - began)
                except PlatformError as error:
                    found[glob] = Listing(trouble=error)

    end = time.monotonic() + seconds
    # Not of a pool, which would keep its process from ending.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(_LISTED_AT_ONCE, len(waiting)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0.0))
    waiting.clear()
    return dict(found)


def look_at_source(lake: Lake, stream: Table, feed: Feed, listings: Mapping[str, Listing]) -> SourceLook:
    """How much of a source is unread, by a listing or from the catalogue; no row is read."""
    if isinstance(feed, TableFeed):
        found = find_table_batch(Workspace(lake), stream, feed, BatchLimits())
        waiting = 0 if found is None else found.waiting.row_count
        if found is not None and (found.waiting.first > 0 or feed.start == "latest"):
            # Rows in the catalogue are not counted, and who starts with the latest has to begin somewhere.
            waiting = max(waiting, 1)
        return SourceLook(waiting=waiting, what="changes" if feed.changes else "rows")
    with lake.reading() as connection:
        match feed:
            case FilesFeed() if feed.glob not in listings:
                return SourceLook(waiting=None, what="files")
            case FilesFeed():
                listing = listings[feed.glob]
                if listing.trouble is not None:
                    raise listing.trouble
                known = read_known_files(connection, stream.uuid, listing.files)
                settle = feed.settle.total_seconds()
                batch = plan_batch(
                    listing.files,
                    known,
                    max_files=feed.max_files,
                    max_bytes=feed.max_bytes,
                    now=time.time(),
                    settle_seconds=settle,
                    marks=read_marks(connection, stream.uuid),
                )
                return SourceLook(waiting=sum(map(len, (batch.files, batch.waiting, batch.changed, batch.late))), what="files")
            case _:
                return SourceLook(waiting=None, what="records")


def read_streams_with_sources(lake: Lake, snapshot: Snapshot) -> list[tuple[Name, Feed]]:
    """The streams of a lake that have a feed, with the feed."""
    found = []
    with lake.reading() as connection:
        declared = {uuid: feed for uuid, declaration in read_declarations(connection).items() if (feed := read_declared_feed(declaration))}
        if declared:
            uuids = [UUID(uuid) for uuid in declared]
            found = [(table.name, declared[str(table.uuid)]) for table in read_tables(connection, snapshot.id, uuids=uuids)]
    return found


def build_ingestion_sensor(
    url: str,
    jobs: Jobs,
    *,
    asset_key: Callable[[Name], dg.AssetKey],
    running: bool = True,
) -> dg.SensorDefinition:
    """The sensor that lets streams read their sources: one run for all streams with unread rows, one batch for each."""

    def decide(moment: Moment) -> Decision:
        ended = [run for run in moment.runs if run.ended is not None]
        due: list[tuple[Name, str]] = []
        troubles: list[str] = []
        memory: dict[str, Any] = {}
        streams = [
            (name, feed) for name, feed in read_streams_with_sources(moment.lake, moment.snapshot) if jobs.can_run(asset_key(name), moment)
        ]
        looked: list[tuple[Name, Feed]] = []
        for name, feed in streams:
            known = moment.memory.get(str(name), {})
            now = moment.now.timestamp()
            failures = count_failures(ended, POOL, str(name))
            if ended and failures and ended[0].ended is not None and pause_seconds(failures) > now - ended[0].ended.timestamp():
                troubles.append(f"{name} failed and is tried again later")
                memory[str(name)] = known
                continue
            if now < known.get("next", 0.0):
                memory[str(name)] = known
                continue
            looked.append((name, feed))
        listings = read_listings([feed.glob for _, feed in looked if isinstance(feed, FilesFeed)], sources=moment.lake.sources)
        for name, feed in looked:
            now = moment.now.timestamp()
            try:
                look = look_at_source(moment.lake, moment.lake.table(name, moment.snapshot), feed, listings)
            except PlatformError as error:
                troubles.append(error.message)
                continue
            # An unmeasurable source is polled; a measurable one is looked at again when that costs little.
            listing = listings.get(feed.glob, Listing()) if isinstance(feed, FilesFeed) else Listing()
            pause = POLL_SECONDS if look.waiting is None else listing.seconds / _SHARE
            memory[str(name)] = {"next": now + pause if pause > 1 else 0.0}
            if look.waiting is None or look.waiting > 0:
                due.append((name, look.told if look.waiting else f"its {look.what} are read every {pause:.0f} s"))
        if not due:
            told = f"nothing new in the feeds of {count_text(len(streams), 'stream')}"
            return Decision(reason="; ".join([*troubles, told]), memory=memory)
        newest = moment.snapshot.id
        needs = [RunNeed(key=asset_key(name), name=name, reason=why) for name, why in due]
        checks = checks_of(moment, (need.key for need in needs))
        asks = jobs.ask(needs, checks, pool=POOL, runs=moment.runs, first=newest, last=newest)
        return Decision(asks=tuple(asks), memory=memory)

    return build_sensor(
        SENSOR_NAME,
        url,
        decide,
        description="Ingests what is new in the feeds of streams, a bounded batch at a time.",
        jobs=jobs.all,
        running=running,
    )
