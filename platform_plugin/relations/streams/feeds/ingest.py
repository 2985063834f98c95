"""`run_ingest`: reads one batch of a stream's feed and commits it together with the cursor of the feed."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import CommitConflict, InvalidValue
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.catalogue.stalls import read_gate_stalls
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.commit.gates import GateRefusal
from platform_plugin.relations import hooks
from platform_plugin.relations.follow.maintained import RunControl
from platform_plugin.relations.missing import name_missing_relations
from platform_plugin.relations.streams.feeds.declaration import FilesFeed, KafkaFeed, read_declared_feed

if TYPE_CHECKING:
    from datetime import timedelta

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.relations.streams.feeds.declaration import Feed

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """The largest size of one batch; None stands for the feed's own limit."""

    max_files: int | None = None
    max_bytes: int | None = None
    max_rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """What a batch did. `snapshot` is the one that it made, or None if there was nothing to do; `waiting` is left to read."""

    stream: str
    rows: int = 0
    files: int = 0
    quarantined: int = 0
    refused: tuple[str, ...] = ()
    """Files that could not be read; the quarantine has the reasons."""
    changed: tuple[str, ...] = ()
    """Files that changed after they were read. They are not read again."""
    late: tuple[str, ...] = ()
    """Files before the mark up to which everything was read. They are not read."""
    unsteady: tuple[str, ...] = ()
    """Files that changed while they were read. A later batch reads them."""
    settling: int = 0
    skipped: int = 0
    """Records that the source no longer had, if the feed skips them."""
    waiting: int = 0
    """Files or records that are left to read."""
    waiting_bytes: int = 0
    jobs: int = 0
    tasks: int = 0
    seconds: float = 0.0
    snapshot: int | None = None

    @property
    def caught_up(self) -> bool:
        """Whether nothing was left to read when the batch began."""
        return not self.waiting and not self.unsteady

    def as_dict(self) -> dict[str, Any]:
        """The report for programs."""
        return asdict(self)


def run_ingest(
    work: Workspace,
    stream: str | Name,
    *,
    limits: BatchLimits | None = None,
    past_gate: bool = False,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> IngestReport:
    """Read one batch of a stream's feed, at most as large as the limits, and commit it.

    Rows and the feed's cursor are one commit, so that a crash at any point neither loses nor repeats a row. If another process ingests the
    same feed, one of the two wins and the other reads again what is left. What a gate of another process holds back is refused, unless
    it is to come `past_gate`.
    """
    began = time.monotonic()
    for attempt in range(_ATTEMPTS):
        table, feed = find_feed(work, stream)
        if not past_gate:
            refuse_bypass(work, table)
        try:
            with work.lake.gates.ignoring(table.name) if past_gate else nullcontext():
                report = _run_batch(work, table, feed, limits or BatchLimits(), timeout=timeout, progress=progress)
        except CommitConflict:
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        if report.snapshot is not None and report.rows:
            hooks.notify_appended(work, table, work.lake.snapshot())
        return replace(report, seconds=round(time.monotonic() - began, 3))
    raise AssertionError  # unreachable: the last attempt returns or raises


def refuse_bypass(work: Workspace, table: Table) -> None:
    """Refuse to read a batch that a gate holds back, which this process does not have."""
    if work.lake.gates.find(table.name) is not None:
        return
    for stall in read_gate_stalls(work.lake, [table.name]):
        raise GateRefusal(
            f'{stall.gate} holds back what stream "{table.name}" has to read, and nothing was read without it',
            detail=stall.reason,
            hint=f"{stall.hint or 'read it with the gate'}; `platform ingest --past-gate` reads it without the gate",
        )


def find_feed(work: Workspace, stream: str | Name) -> tuple[Table, Feed]:
    """A stream by name, and its feed; a relation without a feed is an error."""
    snapshot = work.lake.snapshot()
    with name_missing_relations(work.lake, Name.of(stream), snapshot, "stream"):
        table = work.lake.table(stream, snapshot)
    with work.lake.reading() as connection:
        declaration = read_declaration(connection, table.uuid)
    if declaration.kind != "stream":
        raise InvalidValue(f'"{table.name}" is a {declaration.kind}, not a stream', hint="only streams have a feed")
    feed = read_declared_feed(declaration)
    if feed is None:
        raise InvalidValue(
            f'stream "{table.name}" has no feed: rows are pushed into it', hint="CREATE STREAM … FROM FILES, KAFKA or TABLE declares one"
        )
    return table, feed


def _run_batch(
    work: Workspace, table: Table, feed: Feed, limits: BatchLimits, *, timeout: timedelta | None, progress: ProgressHandler | None
) -> IngestReport:
    if isinstance(feed, FilesFeed):
        from platform_plugin.relations.streams.feeds.file_ingest import run_file_batch

        return run_file_batch(work, table, feed, limits, timeout=timeout, progress=progress)
    if isinstance(feed, KafkaFeed):
        from platform_plugin.relations.streams.feeds.kafka_ingest import run_kafka_batch

        return run_kafka_batch(work, table, feed, limits, timeout=timeout, progress=progress)
    from platform_plugin.relations.streams.feeds.table_ingest import run_table_batch

    return run_table_batch(work, table, feed, limits, RunControl(timeout=timeout, progress=progress))
