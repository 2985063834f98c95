"""`write_by_tasks` and `write_images_by_tasks`: rows of a DataFrame as files that tasks in Python write, where Spark can't."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from platform_plugin.engine.spark.tasks.job import RowsPart, require_package, run_job
from platform_plugin.engine.spark.tasks.writing import ImageProgram, WriteProgram
from platform_plugin.lake.catalogue.identifiers import new_uuid
from platform_plugin.lake.files.data_folder import DataFolder

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.before_images import BeforeImages
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake


def write_by_tasks(
    session: Session,
    lake: Lake,
    table: Table,
    frame: DataFrame,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> tuple[list[DataFile], JobMetrics]:
    """Write a DataFrame that has the table's columns, and perhaps their row ids; on an error all files are removed."""
    return _run(session, lake, table, frame, WriteProgram, timeout=timeout, progress=progress)


def write_images_by_tasks(
    session: Session, lake: Lake, table: Table, frame: DataFrame, *, timeout: timedelta | None = None
) -> list[BeforeImages]:
    """Write rows that end, with their row ids and the snapshots that added them; on an error all files are removed."""
    return _run(session, lake, table, frame, ImageProgram, timeout=timeout)[0]


def _run(
    session: Session,
    lake: Lake,
    table: Table,
    frame: DataFrame,
    kind: type[WriteProgram | ImageProgram],
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> tuple[list[Any], JobMetrics]:
    # Rows may be counted on their way, so the job must not be begun only to find that the package is missing.
    require_package(session)
    below = replace(table, path=f"{table.path}{new_uuid()}/")
    folder = DataFolder(lake.storage.root, outside=lake.location.outside)
    program = kind(folder=folder, table=below, memory_bytes=session.limits.write_memory_bytes)
    try:
        job = run_job(session, [], [RowsPart(frame, program)], timeout=timeout, progress=progress)
    except BaseException:
        # Also what tasks wrote of which nobody heard.
        lake.storage.delete([path for path, _ in lake.storage.listing(below.path)])
        raise
    return [file for files in job.answers[0] for file in files], job.metrics
