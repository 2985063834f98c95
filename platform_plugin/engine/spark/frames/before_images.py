"""`write_ended_rows`: before-images of a commit that ends many rows, read and written by Spark's tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import types as t
from pyspark.sql.connect import functions as f

from platform_plugin.engine.spark.frames.changes import number_rows
from platform_plugin.engine.spark.frames.file_access import find_file_access
from platform_plugin.engine.spark.frames.scan import FILE, POSITION, ROWID, find_deleted, finish_rows
from platform_plugin.engine.spark.frames.schema import to_spark_schema
from platform_plugin.engine.spark.frames.task_write import write_images_by_tasks
from platform_plugin.engine.spark.frames.write import is_written_by_spark, with_field_ids, write_folder
from platform_plugin.lake.catalogue.identifiers import new_uuid
from platform_plugin.lake.commit.before_images import BeforeImages
from platform_plugin.lake.files.files import ROW_ID, ROW_ID_FIELD, SNAPSHOT_ID, SNAPSHOT_ID_FIELD
from platform_plugin.lake.read.before_images import SUFFIX
from platform_plugin.lake.read.changes import nullable_fields
from platform_plugin.lake.read.scan import DeleteList

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.files.files import DeleteFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import FileScan, TableScan

_MOMENT = "\x1fadded"


def write_ended_rows(
    session: Session,
    lake: Lake,
    scan: TableScan,
    deletes: Mapping[int, DeleteFile],
    emptied: Collection[int],
    *,
    timeout: timedelta | None = None,
) -> list[BeforeImages]:
    """Write the rows that new delete files end in their data files, and all rows of emptied files, as before-images.

    No row and no position goes through the client: the tasks read the data files and the delete files that were written for the commit.
    """
    if not is_written_by_spark(scan.table):
        return []
    partly, whole = [file for file in scan.files if file.id in deletes], [file for file in scan.files if file.id in set(emptied)]
    frames = [
        frame for frame in (_listed(session, lake, scan, partly, deletes), _surviving(session, lake, scan, whole)) if frame is not None
    ]
    if not frames:
        return []
    frame = frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])
    table: Table = replace(scan.table, fields=nullable_fields(scan.table))
    schema = to_spark_schema(table.fields)
    for field, number in ((ROW_ID_FIELD, ROW_ID), (SNAPSHOT_ID_FIELD, SNAPSHOT_ID)):
        schema = schema.add(t.StructField(field.name, t.LongType(), metadata={"parquet.field.id": number}))
    rows = frame.toDF(*schema.names).select(*map(with_field_ids, schema.fields))
    if find_file_access(session, lake.storage).by_tasks:
        return write_images_by_tasks(session, lake, scan.table, rows, timeout=timeout)
    folder = f"{table.path}{new_uuid()}{SUFFIX}"
    try:
        with session.job(timeout=timeout):
            files = write_folder(lake, table, rows, folder)
    except BaseException:
        lake.storage.delete(path for path, _ in list(lake.storage.listing(folder)))
        raise
    lake.storage.delete(file.path for file in files if not file.record_count)
    return [BeforeImages(path=file.path, row_count=file.record_count, size_bytes=file.size_bytes) for file in files if file.record_count]


def _surviving(session: Session, lake: Lake, scan: TableScan, files: Sequence[FileScan]) -> DataFrame | None:
    """The rows of files that the scan has, with their row ids and the snapshots that added them."""
    if not files:
        return None
    fields = nullable_fields(scan.table)
    return finish_rows(_rows_of(session, lake, scan, files), fields, also=(ROWID, _MOMENT))


def _listed(
    session: Session, lake: Lake, scan: TableScan, files: Sequence[FileScan], deletes: Mapping[int, DeleteFile]
) -> DataFrame | None:
    """Those of them that new delete files list."""
    if not files:
        return None
    frame = _rows_of(session, lake, scan, files)
    lists = {file.id: DeleteList(path=deletes[file.id].path, delete_count=deletes[file.id].delete_count) for file in files}
    listed = find_deleted(session, lake, scan, [file._replace(deletes=lists[file.id], positions=()) for file in files])
    found = frame.join(listed, (frame[FILE] == listed["_gone_file"]) & (frame[POSITION] == listed["_gone_position"]), "left_semi")
    return finish_rows(found, nullable_fields(scan.table), also=(ROWID, _MOMENT))


def _rows_of(session: Session, lake: Lake, scan: TableScan, files: Sequence[FileScan]) -> DataFrame:
    added = {file.id: file.begin_snapshot for file in files}
    frame = number_rows(session, lake, nullable_fields(scan.table), files, added, snapshot=scan.snapshot, name=_MOMENT)
    frame = frame.withColumn(_MOMENT, f.coalesce(f.col("_added"), f.col(_MOMENT)))
    if any(file.until is not None for file in files):
        frame = frame.where(f.col(_MOMENT) <= scan.snapshot.id)
    if not any(file.deletes is not None or file.positions for file in files):
        return frame
    gone = find_deleted(session, lake, scan, files)
    return frame.join(gone, (frame[FILE] == gone["_gone_file"]) & (frame[POSITION] == gone["_gone_position"]), "left_anti")
