"""`read_by_tasks`: rows of files as a DataFrame that tasks in Python read, where Spark has no file system for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from platform_plugin.algebra.predicates.conditions import ALWAYS
from platform_plugin.algebra.types.data_types import stored_field
from platform_plugin.engine.file_parts import divide_files
from platform_plugin.engine.spark.frames.schema import to_spark_schema
from platform_plugin.engine.spark.tasks.job import require_package
from platform_plugin.engine.spark.tasks.scan import DeletionProgram, ScanProgram, TaskFolder
from platform_plugin.engine.spark.tasks.sending import make_read_function, pack, read_fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from platform_plugin.algebra.predicates.conditions import Condition
    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.engine.spark.tasks.sending import BatchesProgram
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import FileScan

ADDED = "_added"
PLACED = ("\x1ffile", "\x1fposition", "\x1frowid", "\x1fplace")
"""The columns that say where a row is: its file, its position there, its row id, and its number among all rows of the files."""
# A share that is a part of a task's time lets tasks end together, and a LIMIT end early.
_SHARES_OF_A_SLOT = 2
_FILES_OF_A_TASK = 32
# The kernel keeps little of the rows that it reads at once, a scan hands on all columns of them.
_PARTS_OF_A_KERNEL_PART = 4


def read_by_tasks(
    session: Session,
    lake: Lake,
    snapshot: Snapshot,
    fields: Sequence[Field],
    files: Sequence[FileScan],
    *,
    places: Mapping[int, int] | None = None,
    dated: bool = False,
    where: Condition = ALWAYS,
    tested: Sequence[Field] = (),
) -> DataFrame:
    """The rows of files that are part of their scans, deletes applied, as Spark's reader would give them.

    Rows that are not within a condition may be left out. With `dated` there is the snapshot that added a row, and with `places` the
    name of its file, its position, row id and place.
    """
    schema = t.StructType([t.StructField(part.name, part.dataType) for part in to_spark_schema(list(map(stored_field, fields))).fields])
    if dated:
        schema = schema.add(t.StructField(ADDED, t.LongType()))
    if places is not None:
        for name, kind in zip(PLACED, (t.StringType(), t.LongType(), t.LongType(), t.LongType()), strict=True):
            schema = schema.add(t.StructField(name, kind))
    program = ScanProgram(
        folder=TaskFolder(lake.storage.root, outside=lake.location.outside),
        snapshot=snapshot,
        fields=tuple(fields),
        where=where,
        tested=tuple(tested),
        schema=to_arrow_schema(schema, timezone="UTC"),
        dated=dated,
        places=None if places is None else {file.id: places[file.id] for file in files},
        part_rows=max(1, session.limits.task_part_rows // _PARTS_OF_A_KERNEL_PART),
    )
    count = session.read_task_slots() * _SHARES_OF_A_SLOT
    # Many small files take long for what they are asked, not for their rows.
    rows = sum(file.record_count for file in files)
    least = min(session.limits.task_least_rows // _SHARES_OF_A_SLOT, _FILES_OF_A_TASK * rows // max(1, len(files)))
    shares = divide_files(files, count, least_rows=max(1, least))
    return frame_of_shares(session, program, shares, schema, size_bytes=sum(file.size_bytes for file in files))


def read_deletions_by_tasks(session: Session, lake: Lake, snapshot: Snapshot, files: Sequence[FileScan]) -> DataFrame:
    """The positions that delete files list, with the names of the data files."""
    schema = t.StructType([t.StructField("_gone_file", t.StringType()), t.StructField("_gone_position", t.LongType())])
    program = DeletionProgram(folder=TaskFolder(lake.storage.root, outside=lake.location.outside), snapshot=snapshot)
    count = min(len(files), session.read_task_slots())
    shares = [list(files[number::count]) for number in range(count)]
    return frame_of_shares(session, program, shares, schema, size_bytes=sum(file.size_bytes for file in files))


def frame_of_shares(
    session: Session, program: BatchesProgram, shares: Sequence[Any], schema: t.StructType, *, size_bytes: int
) -> DataFrame:
    """The rows that a program reads, each share in a task of its own; Spark plans with about so many bytes."""
    require_package(session)
    if not shares:
        empty: DataFrame = session.spark.createDataFrame([], schema)
        return empty
    # What is small Spark sends to all executors; beyond twice that it does not matter how large something is.
    step = _find_step(len(shares), min(size_bytes, 2 * session.limits.broadcast_bytes))
    function = make_read_function(pack(program), [pack(share) for share in shares], step, read_fingerprint())
    # Spark knows nothing of what a function gives and takes its input for as large, which is why that has as many numbers.
    numbers = session.spark.range(0, len(shares) * step, 1, len(shares))
    if step > 1:
        numbers = numbers.where(f"id % {step} = 0")
    return numbers.mapInArrow(function, schema)


def _find_step(count: int, size_bytes: int) -> int:
    """How many numbers of eight bytes stand for each share: a power of two, so that few different queries are compiled."""
    each = size_bytes // 8 // count
    return 1 << each.bit_length()
