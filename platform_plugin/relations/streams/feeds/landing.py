"""`run_landing`: writes the records of a batch that fit as files of the stream, and the others to its quarantine."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.connect import functions as f
from pyspark.sql.connect.observation import Observation

from platform_plugin.engine.spark.frames.write import run_write, shape_frame
from platform_plugin.errors import InvalidValue, QueryFailed
from platform_plugin.relations.streams.feeds.quarantine import COLUMNS, quarantine_frame
from platform_plugin.relations.streams.feeds.screening import BAD, SOURCE, column

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedFiles:
    """Files that no commit names yet, the number of records that did not fit, and the sources of these."""

    files: tuple[DataFile, ...] = ()
    malformed: int = 0
    malformed_in: tuple[str, ...] = ()
    jobs: int = 0
    tasks: int = 0

    @property
    def rows(self) -> int:
        """The number of rows in the files."""
        return sum(file.record_count for file in self.files)


class RecountMismatch(QueryFailed):
    """The records that do not fit were counted in one reading, and another reading has not as many."""


def run_landing(
    session: Session,
    lake: Lake,
    table: Table,
    frame: DataFrame,
    *,
    doubtful: bool = True,
    timeout: timedelta | None,
    progress: ProgressHandler | None,
) -> LandedFiles:
    """Write the records that fit. The same job counts the others and notes their sources, so that a clean batch is read once.

    Records that are not `doubtful` are not checked.
    """
    seen = Observation(f"landing-{uuid.uuid4().hex}")
    with session.job(timeout=timeout):
        names = [field.name for field in table.fields]
        if doubtful:
            sources = f.collect_set(f.when(column(BAD), column(SOURCE)))
            watched = frame.observe(cast("Any", seen), f.count_if(column(BAD)).alias("malformed"), sources.alias("sources"))
            frame = watched.where(~column(BAD))
        good = shape_frame(frame.select(*[column(name) for name in names]), table.fields, names, parsed=True)
    files, metrics = run_write(session, lake, table, good, timeout=timeout, progress=progress)
    found: dict[str, Any] = seen.get if doubtful else {"malformed": 0, "sources": []}
    return LandedFiles(
        files=tuple(files),
        malformed=int(found["malformed"]),
        malformed_in=tuple(sorted(found["sources"])),
        jobs=_jobs(metrics),
        tasks=metrics.tasks,
    )


def run_quarantine(
    session: Session,
    lake: Lake,
    quarantine: Table,
    frame: DataFrame,
    *,
    sources: Mapping[str, str],
    expected: int,
    arrived_at: datetime,
    timeout: timedelta | None,
) -> LandedFiles:
    """Write the records that do not fit, read again from the few sources that have any; an error unless as many as were counted."""
    with session.job(timeout=timeout):
        rows = shape_frame(quarantine_frame(frame, dict(sources), arrived_at), quarantine.fields, [field.name for field in COLUMNS])
    files, metrics = run_write(session, lake, quarantine, rows, timeout=timeout)
    landed = LandedFiles(files=tuple(files), jobs=_jobs(metrics), tasks=metrics.tasks)
    if landed.rows != expected:
        lake.discard(files)
        raise RecountMismatch(
            f"{expected} malformed records were counted and {landed.rows} found again",
            hint="their source changes while it is read; try again",
        )
    return landed


def malformed_error(session: Session, stream: Table, frame: DataFrame, count: int, *, sources: Mapping[str, str]) -> InvalidValue:
    """The error for a batch with malformed records, if the feed fails on them; it shows the first."""
    from datetime import UTC, datetime

    first = session.arrow(quarantine_frame(frame, dict(sources), datetime.now(UTC)).limit(1)).read_all().to_pylist()
    detail = None
    if first:
        raw = first[0]["raw"]
        shown = "" if raw is None else ": " + bytes(raw[:200]).decode("utf-8", "replace")
        place = "" if first[0]["position"] is None else f", partition {first[0]['source_partition']}, offset {first[0]['position']}"
        detail = f"{first[0]['source']}{place}: {first[0]['reason']}{shown}"
    return InvalidValue(
        f'{count} malformed {"record" if count == 1 else "records"} for stream "{stream.name}"; nothing of the batch was kept',
        detail=detail,
        hint="correct the source, or let them go to a table beside the stream: on_malformed = 'quarantine'",
    )


def _jobs(metrics: JobMetrics) -> int:
    return metrics.jobs or 0
