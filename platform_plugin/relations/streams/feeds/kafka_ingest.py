"""`run_kafka_batch`: ingests a batch of a topic's records, with offsets that are fixed before the read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import PlatformError, QueryFailed
from platform_plugin.lake.cursors.cursor import CURSOR_TABLES
from platform_plugin.relations.streams.feeds.declaration import feed_places
from platform_plugin.relations.streams.feeds.ingest import IngestReport
from platform_plugin.relations.streams.feeds.kafka_task import FAILURE, SCHEMA, range_reader
from platform_plugin.relations.streams.feeds.kafka_topic import (
    OffsetPlan,
    OffsetRange,
    kafka_settings,
    mask_secrets,
    plan_offsets,
    read_topic,
)
from platform_plugin.relations.streams.feeds.landing import LandedFiles, malformed_error, run_landing, run_quarantine
from platform_plugin.relations.streams.feeds.positions import note_offset, read_offsets
from platform_plugin.relations.streams.feeds.quarantine import find_quarantine, open_quarantine
from platform_plugin.relations.streams.feeds.screening import PARTITION, POSITION, SOURCE, VALUE, column, parse_records, screen_records
from platform_plugin.relations.streams.feeds.sources import SourceGap, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.relations.streams.feeds.declaration import KafkaFeed
    from platform_plugin.relations.streams.feeds.ingest import BatchLimits


def run_kafka_batch(
    work: Workspace, table: Table, feed: KafkaFeed, limits: BatchLimits, *, timeout: timedelta | None, progress: ProgressHandler | None
) -> IngestReport:
    """Read the next records of each partition and commit them together with the next offsets."""
    lake, settings = work.lake, kafka_settings(feed.brokers)
    for place in feed_places(feed):
        lake.sources.check(place)
    lake.prepare_tables(CURSOR_TABLES)
    with lake.reading() as connection:
        known = read_offsets(connection, table.uuid)
    state = read_topic(feed, settings)
    plan = plan_offsets(known, state, start=feed.start, max_rows=limits.max_rows or feed.max_rows)
    if plan.gaps and feed.on_gap == "fail":
        raise SourceGap(
            f'topic "{feed.topic}" no longer has what stream "{table.name}" would read next',
            detail="; ".join(plan.gaps),
            hint=f"to go on with what the topic has: ALTER STREAM {table.name} SET (on_gap = 'skip')",
        )
    if not plan.ranges and all(known.get(partition, (None,))[0] == position for partition, position in plan.positions.items()):
        return IngestReport(stream=str(table.name), waiting=plan.waiting)
    return _Batch(work, table, feed, settings, plan, timeout=timeout).run(known, state.topic_id, progress)


def read_records(
    session: Session, feed: KafkaFeed, settings: dict[str, Any], ranges: Sequence[OffsetRange], fields: Sequence[Field]
) -> DataFrame:
    """The records of some ranges with the columns of the stream, one task for each range; records that do not fit are marked."""
    numbers = session.spark.range(0, len(ranges), 1, len(ranges))
    records = numbers.mapInArrow(range_reader(settings, feed.topic, ranges), SCHEMA)
    placed = records.select(
        column("value").alias(VALUE),
        column("range").cast("string").alias(SOURCE),
        column("partition").alias(PARTITION),
        column("position").alias(POSITION),
    )
    refuses = feed.extra_fields == "quarantine"
    return screen_records(parse_records(placed, fields, feed.format, feed.reader, refuses_extra_fields=refuses), fields, feed.format)


class _Batch:
    """One batch, from the brokers to the commit."""

    def __init__(
        self, work: Workspace, table: Table, feed: KafkaFeed, settings: dict[str, Any], plan: OffsetPlan, *, timeout: timedelta | None
    ) -> None:
        self.work, self.table, self.feed, self.settings, self.plan, self.timeout = work, table, feed, settings, plan, timeout

    def run(self, known: Mapping[int, tuple[int, str | None]], topic_id: str | None, progress: ProgressHandler | None) -> IngestReport:
        landed, second = self._land(progress), LandedFiles()
        lake = self.work.lake
        written: list[DataFile] = list(landed.files)
        try:
            with lake.commit(f"ingest into {self.table.name}") as commit:
                commit.append(self.table, landed.files)
                if landed.malformed:
                    second = self._quarantine(commit, landed)
                    written += second.files
                for partition, position in self.plan.positions.items():
                    note_offset(commit, self.table, partition, position, topic_id, expected=known.get(partition))
        except (PlatformError, KeyboardInterrupt):
            lake.discard(written)
            raise
        return IngestReport(
            stream=str(self.table.name),
            rows=landed.rows,
            quarantined=landed.malformed,
            skipped=self.plan.skipped,
            waiting=self.plan.waiting,
            jobs=landed.jobs + second.jobs,
            tasks=landed.tasks + second.tasks,
            snapshot=commit.made.id,
        )

    def _land(self, progress: ProgressHandler | None) -> LandedFiles:
        if not self.plan.ranges:
            return LandedFiles()
        try:
            frame = self._records(self.plan.ranges)
            return run_landing(self.work.session, self.work.lake, self.table, frame, timeout=self.timeout, progress=progress)
        except QueryFailed as error:
            raise self._told(error) from error

    def _quarantine(self, commit: Commit, landed: LandedFiles) -> LandedFiles:
        lake = self.work.lake
        find_quarantine(lake, self.table, commit.base)
        few = [self.plan.ranges[int(number)] for number in landed.malformed_in]
        # The ranges are counted anew, but they are all of the same topic.
        sources = {str(number): self.feed.topic for number in range(len(few))}
        try:
            frame = self._records(few)
            if self.feed.on_malformed == "fail":
                raise malformed_error(self.work.session, self.table, frame, landed.malformed, sources=sources)
            quarantine = open_quarantine(lake, commit, self.table)
            second = run_quarantine(
                self.work.session,
                lake,
                quarantine,
                frame,
                sources=sources,
                expected=landed.malformed,
                arrived_at=datetime.now(UTC),
                timeout=self.timeout,
            )
        except QueryFailed as error:
            raise self._told(error) from error
        commit.append(quarantine, second.files)
        return second

    def _records(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        session = self.work.session
        with session.job(timeout=self.timeout):
            return read_records(session, self.feed, self.settings, ranges, self.table.fields)

    def _told(self, error: QueryFailed) -> PlatformError:
        """A task's own words for what the brokers did, instead of its traceback."""
        _, found, said = (error.detail or "").partition(FAILURE)
        if not found:
            return error
        return SourceUnavailable(
            f'topic "{self.feed.topic}" could not be read to the end of the batch',
            detail=mask_secrets(said.split(" (")[0].strip(), self.settings),
            hint="nothing of the batch was kept; the next one reads it again",
        )
