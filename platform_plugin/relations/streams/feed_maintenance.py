"""`FeedMaintenance`: how streams that follow tables of the lake consume what has come to these, in the loop of maintenance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.errors import PlatformError
from platform_plugin.lake.catalogue.relations import find_declared
from platform_plugin.lake.catalogue.tables import read_tables
from platform_plugin.relations.follow.maintained import DueRelation, Maintenance
from platform_plugin.relations.streams.feed_step import FEED
from platform_plugin.relations.streams.feeds.declaration import TABLE_FEED, TableFeed, read_declared_feed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.relations.follow.maintained import JointScan, Maintained, RunControl, Selection, Step, WaitingInput
    from platform_plugin.relations.streams.feed_step import FeedBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingFeed:
    """A stream with something in its table that it has not read."""

    stream: Table
    batch: FeedBatch

    @property
    def name(self) -> str:
        """The stream's name."""
        return str(self.stream.name)

    @property
    def kind(self) -> str:
        """The word of its maintenance."""
        return FEED

    @property
    def uuid(self) -> UUID:
        """The stream's identity, by which its cursor is found."""
        return self.stream.uuid

    @property
    def twins(self) -> tuple[str, ...]:
        """None: a feed has one stream."""
        return ()

    @property
    def inputs(self) -> tuple[WaitingInput, ...]:
        """The next batch."""
        return (self.batch.waiting,)


class FeedMaintenance(Maintenance[PendingFeed]):
    """Streams over tables. Files and topics are not among them: whoever reads these waits for the world outside."""

    kind = FEED
    precedes = True

    def may_be_due(self, work: Workspace, selection: Selection) -> bool:
        """Whether any stream of the lake follows a table."""
        if selection.kinds is not None and FEED not in selection.kinds:
            return False
        with work.lake.reading() as connection:
            return bool(find_declared(connection, "stream", TABLE_FEED))

    def find(self, work: Workspace, snapshot: Snapshot, selection: Selection) -> tuple[list[PendingFeed], dict[str, PlatformError]]:
        """The streams whose table has rows or changes for them, and the errors of those that can't go on."""
        found: list[PendingFeed] = []
        failed: dict[str, PlatformError] = {}
        if selection.kinds is not None and FEED not in selection.kinds:
            return found, failed
        for stream, feed in _read_feeds(work, snapshot):
            if not selection.has(stream.name, FEED):
                continue
            try:
                batch = find_batch(work, stream, feed)
            except PlatformError as error:
                failed[str(stream.name)] = error
            else:
                found += [] if batch is None else [PendingFeed(stream=stream, batch=batch)]
        return found, failed

    def conditions(self, work: Workspace, snapshot: Snapshot, pending: PendingFeed) -> list[Maintained]:
        """Nothing to maintain before, but what a gate of another process holds back stays."""
        from platform_plugin.relations.streams.feeds.ingest import refuse_bypass

        del snapshot
        refuse_bypass(work, pending.stream)
        return []

    def due(self, work: Workspace, snapshot: Snapshot, pending: PendingFeed, control: RunControl) -> DueRelation:
        """The batch."""
        del work, snapshot, control
        return DueRelation(name=pending.name, kind=FEED, inputs=pending.inputs, writes=(pending.name,), engine=pending.batch.engine)

    def step(
        self, work: Workspace, snapshot: Snapshot, pending: Sequence[PendingFeed], control: RunControl, joint: Sequence[JointScan]
    ) -> tuple[list[Step], dict[str, PlatformError]]:
        """Write the next batch of each stream."""
        del snapshot, joint
        steps: list[Step] = []
        failed: dict[str, PlatformError] = {}
        try:
            for each in pending:
                try:
                    steps.append(each.batch.write(work, control))
                except PlatformError as error:
                    failed[each.name] = error
        except BaseException:
            work.lake.discard(file for step in steps for file in step.files)
            raise
        return steps, failed


FEEDS = FeedMaintenance()


def find_batch(work: Workspace, stream: Table, feed: TableFeed) -> FeedBatch | None:
    """The next batch of a stream's table, or None if nothing waits in it."""
    from platform_plugin.relations.streams.feeds.ingest import BatchLimits
    from platform_plugin.relations.streams.feeds.table_ingest import find_table_batch

    return find_table_batch(work, stream, feed, BatchLimits())


def _read_feeds(work: Workspace, snapshot: Snapshot) -> list[tuple[Table, TableFeed]]:
    with work.lake.reading() as connection:
        declared = find_declared(connection, "stream", TABLE_FEED)
        streams = read_tables(connection, snapshot.id, uuids=list(declared)) if declared else []
    feeds = ((stream, read_declared_feed(declared[stream.uuid])) for stream in streams)
    return [(stream, feed) for stream, feed in feeds if isinstance(feed, TableFeed)]
