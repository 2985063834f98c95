"""`run_session`: a query over the rows that arrive until none comes for a while, answered at the session's end.

A session is a continuous view that lives as long as its query (thesis, section 3.2.4): rows are aggregated as they arrive, up to the first
grouping, and only groups are kept. A query that can't be split so keeps its rows' files until the end, and runs once.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from platform_plugin.engine.spark.session.job import Progress
from platform_plugin.errors import InvalidValue, QueryInterrupted
from platform_plugin.lake.catalogue.relations import read_streams
from platform_plugin.lake.catalogue.tables import Table
from platform_plugin.lake.upkeep.leased import SESSION
from platform_plugin.language.query.query import analyse_query
from platform_plugin.relations.arguments import check_arguments
from platform_plugin.relations.bind.names import lake_name, new_name, place_errors
from platform_plugin.relations.bind.plans import find_query_plan
from platform_plugin.relations.bind.resolve import Resolver
from platform_plugin.relations.result import Result
from platform_plugin.relations.streams.follow.collecting import CollectedAnswer, Inputs
from platform_plugin.relations.streams.follow.folding import FoldedAnswer, plan_fold
from platform_plugin.relations.streams.follow.rows import ArrivedRows, Follower
from platform_plugin.relations.streams.overrun import raise_overruns

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.streams import ArrowStream
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.upkeep.leases import Lease
    from platform_plugin.language.query.query import Query
    from platform_plugin.language.query.references import Reference
    from platform_plugin.language.text.places import Span
    from platform_plugin.relations.arguments import Arguments

_LONGEST_PAUSE_SECONDS = 0.05
_RENEWED_EVERY_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionProgress(Progress):
    """The progress of a session: rows and segments read, rows that wait, and the seconds since the last arrival."""

    rows: int
    segments: int
    lag_rows: int
    idle_seconds: float


def reads_session(text: Span | str) -> bool:
    """Whether a query reads a session.

    >>> reads_session("SELECT count(*) FROM SESSION(posts, INTERVAL '2' SECOND)"), reads_session("SELECT 'from session('")
    (True, False)
    """
    written = text if isinstance(text, str) else text.text
    if re.search(r"\bsession\s*\(", written, re.IGNORECASE) is None:
        return False
    return any(reference.session is not None for reference in analyse_query(text).relations)


def run_session(
    work: Workspace,
    text: Span | str,
    arguments: Arguments,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
    tags: tuple[str, ...] = (),
) -> Result:
    """Read the streams until their sessions have ended, then answer. Tables are read at the snapshot at which the query began."""
    query = analyse_query(text)
    check_arguments(query.parameters, arguments)
    deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
    lease = work.lake.lease(holder=SESSION)
    followers: dict[Reference, Follower] = {}

    def release() -> None:
        for follower in followers.values():
            follower.release()
        lease.release()

    try:
        for reference in query.relations:
            if (window := reference.session) is not None:
                table = _find_stream(work, reference, lease.snapshot)
                followers[reference] = Follower(work.lake, table, idle=window.idle, earliest=window.earliest, lease=lease)
        run = _Run(work, query=query, arguments=arguments, lease=lease, followers=followers, deadline=deadline, progress=progress)
        rows = run.answer(tags)
    except BaseException:
        release()
        raise
    if isinstance(rows, pa.Table):
        # It has been computed: nothing is read any more.
        release()
        return Result(rows, snapshot=lease.snapshot)
    return Result(rows, snapshot=lease.snapshot, on_close=release)


def explain_session(work: Workspace, text: Span | str, arguments: Arguments, snapshot: Snapshot) -> tuple[list[str], DataFrame]:
    """How a session would be run, and the query over what its streams hold now."""
    query = analyse_query(text)
    check_arguments(query.parameters, arguments)
    streams = {reference: _find_stream(work, reference, snapshot) for reference in query.relations if reference.session is not None}
    inputs = _inputs(work, query, arguments, snapshot, streams)
    plan = plan_fold(inputs)
    ends = ", ".join(
        f"{table.name} until nothing has come for {reference.session.idle.total_seconds():g} s"
        for reference, table in streams.items()
        if reference.session is not None
    )
    if isinstance(plan, str):
        said = [f"session of {ends}", f"rows wait for its end: {plan}"]
    else:
        by = FoldedAnswer(inputs, plan).why
        said = [f"session of {ends}", f"rows are folded into groups as they arrive, {by}:", *(part.sql() for part in plan.streams)]
    return said, inputs.whole({reference: _all_of(work, table, snapshot) for reference, table in streams.items()})[0]


def _all_of(work: Workspace, table: Table, snapshot: Snapshot) -> ArrivedRows:
    scan = work.lake.scan(table, snapshot)
    spans = [(file.row_id_start or 0, (file.row_id_start or 0) + file.record_count) for file in scan.files]
    first, last = min((start for start, _ in spans), default=0), max((end for _, end in spans), default=0)
    return ArrivedRows(scan=scan, first_row_id=first, next_row_id=last)


def _inputs(work: Workspace, query: Query, arguments: Arguments, snapshot: Snapshot, streams: dict[Reference, Table]) -> Inputs:
    resolver = Resolver(work, snapshot, arguments)
    return Inputs(
        work=work,
        query=query,
        plan=find_query_plan(work, query, snapshot, resolver),
        arguments=arguments,
        names={reference: new_name() for reference in query.relations},
        streams=streams,
        snapshot=snapshot,
        resolver=resolver,
    )


def _find_stream(work: Workspace, reference: Reference, snapshot: Snapshot) -> Table:
    lake = work.lake
    with place_errors(reference.span), lake.reading() as connection:
        relation = lake.find_relation(connection, lake_name(reference.name), snapshot)
        if not isinstance(relation, Table) or str(relation.uuid) not in read_streams(connection):
            raise InvalidValue(f'"{relation.name}" is not a stream', hint="a session is of a stream; read tables and views by their names")
    return relation


class _Run:
    """One session query, from its start to its answer."""

    def __init__(
        self,
        work: Workspace,
        *,
        query: Query,
        arguments: Arguments,
        lease: Lease,
        followers: dict[Reference, Follower],
        deadline: float | None,
        progress: ProgressHandler | None,
    ) -> None:
        self._work = work
        self._lease = lease
        self._followers = followers
        self._deadline = deadline
        self._progress = progress
        self._began = self._renewed_at = time.monotonic()
        inputs = _inputs(work, query, arguments, lease.snapshot, {reference: follower.table for reference, follower in followers.items()})
        plan = plan_fold(inputs)
        self._work_off = CollectedAnswer(inputs) if isinstance(plan, str) else FoldedAnswer(inputs, plan)
        if not self._work_off.is_certain:
            inputs.check(self.left())

    def answer(self, tags: tuple[str, ...]) -> ArrowStream | pa.Table:
        """Process what arrives, and compute the answer when all sessions have ended."""
        self._follow()
        with self._blaming():
            return self._work_off.answer(*tags, timeout=self.left(), progress=self._progress)

    def _follow(self) -> None:
        for follower in self._followers.values():
            follower.begin()
        self._tell()
        shortest = min(follower.idle.total_seconds() for follower in self._followers.values())
        pause = min(_LONGEST_PAUSE_SECONDS, shortest / 10)
        while not all(follower.ended for follower in self._followers.values()):
            moved = False
            for reference, follower in self._followers.items():
                if follower.poll() and (arrived := follower.take()) is not None:
                    moved = True
                    with self._blaming():
                        self._work_off.add(reference, arrived, timeout=self.left())
            self._tell()
            if not moved:
                time.sleep(pause)
            self._renew()

    def _blaming(self) -> Any:
        # Files that were collected or are being read are those of streams at the snapshots of their leases.
        return raise_overruns(self._work.lake, [follower.table for follower in self._followers.values()], self._lease.snapshot)

    def _renew(self) -> None:
        if time.monotonic() - self._renewed_at > _RENEWED_EVERY_SECONDS:
            self._renewed_at = time.monotonic()
            self._lease.renew()

    def left(self) -> timedelta | None:
        """The time that the query still has; it is interrupted when there is none."""
        from datetime import timedelta

        if self._deadline is None:
            return None
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise QueryInterrupted(
                f"query was interrupted after {time.monotonic() - self._began:.3g} seconds",
                detail="its session had not ended: rows kept arriving",
                hint="allow it more time, or a shorter pause between rows",
            )
        return timedelta(seconds=seconds)

    def _tell(self) -> None:
        self.left()
        if self._progress is not None:
            followers = self._followers.values()
            self._progress(
                SessionProgress(
                    tasks=0,
                    tasks_done=0,
                    tasks_running=0,
                    bytes_read=0,
                    stages=0,
                    seconds=time.monotonic() - self._began,
                    rows=sum(follower.row_count for follower in followers),
                    segments=sum(follower.segment_count for follower in followers),
                    lag_rows=sum(follower.lag_rows for follower in followers),
                    idle_seconds=min(follower.idle_seconds for follower in followers),
                )
            )
