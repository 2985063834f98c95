"""`change_frame` and `step_frame`: changes as a DataFrame; files and positions travel with the plan, and no row goes through the client."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.connect import functions as f

from platform_plugin.algebra.types.data_types import Map, Primitive
from platform_plugin.engine.spark.frames.scan import (
    FILE,
    PLACE,
    POSITION,
    ROWID,
    arrow_frame,
    arrow_relation,
    file_name,
    find_deleted,
    finish_rows,
    quoted_column,
    read_files,
)
from platform_plugin.lake.read.changes import find_deletions, nullable_fields
from platform_plugin.lake.read.net_changes import NetChanges
from platform_plugin.lake.read.read import has_row_ids
from platform_plugin.lake.read.scan import FileScan, TableScan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.commit.before_images import BeforeImages
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.changes import ChangedFile, Changes

CHANGE_TYPE, ROW_ID, SNAPSHOT, WEIGHT = "_change_type", "_row_id", "_snapshot", "_weight"
INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_before", "update_after"
_SNAPSHOT = "\x1fsnapshot"
_MOMENT = "\x1fmoment"
_ENDED = "\x1fended"


def change_frame(session: Session, lake: Lake, change: NetChanges, fields: Sequence[Field]) -> DataFrame:
    """Net changes with these columns of the table, and behind them their kinds, row ids, snapshots and weights."""
    known = nullable_fields(change.table)
    fresh, others = _divide(session, lake, change)
    parts = []
    if fresh:
        came = _came(session, lake, change, fresh, fields)
        parts.append(came.select(*_columns(fields), *_marks(INSERT, 1, ROWID, _SNAPSHOT)))
    arrived = [_came(session, lake, change, others, known)] if others else []
    left = list(_went(session, lake, change, known))
    if change.inlined:
        inlined = NetChanges(
            table=change.table, after=change.after, until=change.until, added=(), inlined=change.inlined, only_came=change.only_came
        )
        went, came_in = inlined.read_fields(lake, known)
        for rows, side in ((went, left), (came_in, arrived)):
            if len(rows.row_ids):
                side.append(_of_arrow(session, known, rows.rows, rows.row_ids, rows.snapshots))
    if not left:
        parts += [rows.select(*_columns(fields), *_marks(INSERT, 1, ROWID, _SNAPSHOT)) for rows in arrived]
    elif not arrived:
        parts.append(_distinct(_union(left)).select(*_columns(fields), *_marks(DELETE, -1, ROWID, _SNAPSHOT)))
    else:
        parts.append(_paired(_distinct(_union(left)), _union(arrived), fields, known))
    return _union(parts) if parts else _empty(session, fields)


def step_frame(session: Session, lake: Lake, changes: Changes, fields: Sequence[Field]) -> DataFrame:
    """Every step of changes with these columns of the table, and behind them their kinds, row ids, snapshots and weights."""
    after, until = changes.after.id, changes.until.id
    came = [part for part in changes.files if part.is_added]
    left = [part for part in changes.files if part.end_snapshot is not None or part.delete_versions or part.inlined_deletes]
    # A row that came deleted, as the history of a stream takes it up, was never there.
    is_there = f.col(_ENDED) > f.col(_MOMENT)
    parts = []
    if came:
        rows = _followed(session, lake, changes, came, fields).where(is_there & _within(_MOMENT, after, until))
        parts.append(_step(rows.withColumn(_SNAPSHOT, f.col(_MOMENT)), fields, INSERT, 1))
    if left:
        imaged = sorted({images.snapshot_id for images in changes.images if images.snapshot_id is not None})
        rows = _followed(session, lake, changes, left, fields).where(is_there & _within(_ENDED, after, until))
        rows = rows.where(~f.col(_ENDED).isin(imaged)) if imaged else rows
        parts.append(_step(rows.withColumn(_SNAPSHOT, f.col(_ENDED)), fields, DELETE, -1))
    if changes.images:
        files = [_image_scan(number, images) for number, images in enumerate(changes.images)]
        moments = {file.id: images.snapshot_id or 0 for file, images in zip(files, changes.images, strict=True)}
        rows = _dated(session, lake, fields, files, moments, snapshot=changes.until)
        parts.append(_step(rows.withColumn(_SNAPSHOT, f.col(_MOMENT)), fields, DELETE, -1))
    inlined = changes.read_inlined(lake, [field.name for field in fields])
    for kind, weight in ((INSERT, 1), (DELETE, -1)):
        found = inlined.filter(pc.equal(inlined.column(2), kind)) if inlined.num_rows else inlined
        if found.num_rows:
            values = found.select(list(range(3, found.num_columns)))
            rows = _of_arrow(session, fields, values, found.column(1), found.column(0))
            parts.append(rows.select(*_columns(fields), *_marks(kind, weight, ROWID, _SNAPSHOT)))
    return _with_halves(_union(parts), changes) if parts else _empty(session, fields)


def _with_halves(steps: DataFrame, changes: Changes) -> DataFrame:
    """Steps in which the two halves of an update are called so, without the rows that a snapshot only moved."""
    both = f.expr(f"count(1) OVER (PARTITION BY `{ROW_ID}`, `{SNAPSHOT}`) > 1")
    names = steps.columns
    marked = steps.withColumn(_ENDED, both)
    if changes.moves:
        marked = marked.where(~(f.col(_ENDED) & f.col(SNAPSHOT).isin(sorted(changes.moves))))
    half = f.when(f.col(WEIGHT) > 0, f.lit(AFTER)).otherwise(f.lit(BEFORE))
    return marked.withColumn(CHANGE_TYPE, f.when(f.col(_ENDED), half).otherwise(f.col(CHANGE_TYPE))).select(*map(quoted_column, names))


def _within(moment: str, after: int, until: int) -> Any:
    return (f.col(moment) > after) & (f.col(moment) <= until)


def _step(rows: DataFrame, fields: Sequence[Field], kind: str, weight: int) -> DataFrame:
    finished = finish_rows(rows, fields, also=(ROWID, _SNAPSHOT))
    return finished.select(*_columns(fields), *_marks(kind, weight, ROWID, _SNAPSHOT))


def _followed(session: Session, lake: Lake, changes: Changes, parts: Sequence[ChangedFile], fields: Sequence[Field]) -> DataFrame:
    """The rows of files, with the snapshots that added them and that ended them; the latter is beyond all where none did."""
    never = np.iinfo(np.int64).max
    moments = {part.file.id: part.file.begin_snapshot for part in parts}
    frame = _dated(session, lake, fields, [part.file for part in parts], moments, snapshot=changes.until)
    frame = frame.withColumn(_MOMENT, f.coalesce(f.col("_added"), f.col(_MOMENT)))
    ended: Any = f.lit(never).cast("bigint")
    closed = [part for part in parts if part.end_snapshot is not None]
    if closed:
        ends = {"_end_file": [file_name(part.file.path) for part in closed], "_end": [part.end_snapshot for part in closed]}
        known = f.broadcast(arrow_frame(session, pa.table({name: pa.array(values) for name, values in ends.items()})))
        frame = frame.join(known, frame[FILE] == known["_end_file"], "left")
        ended = f.coalesce(f.col("_end"), ended)
    listed = [part for part in parts if part.delete_versions or part.inlined_deletes]
    if listed:
        # What ended with its file needs no position.
        gone = arrow_frame(session, list_deletions(lake, [replace(part, end_snapshot=None) for part in listed], changes.until, after=-1))
        gone = gone.withColumnRenamed(_SNAPSHOT, "_gone_at")
        frame = frame.join(gone, (frame[FILE] == gone["_gone_file"]) & (frame[POSITION] == gone["_gone_position"]), "left")
        ended = f.coalesce(f.col("_gone_at"), ended)
    return frame.withColumn(_ENDED, ended)


def _divide(session: Session, lake: Lake, change: NetChanges) -> tuple[list[FileScan], list[FileScan]]:
    """Files of rows that were never there before, and those that may have rows under ids of rows that went."""
    if change.is_append_only or len(change.added) > session.limits.plan_files:
        return (list(change.added), []) if change.is_append_only else ([], list(change.added))
    sure = {file.id for file in change.added if file.partial_max is None and not has_row_ids(lake, file, change.until)}
    return [file for file in change.added if file.id in sure], [file for file in change.added if file.id not in sure]


def _columns(fields: Sequence[Field]) -> list[Any]:
    return [quoted_column(field.name) for field in fields]


def _marks(kind: str, weight: int, row_id: str, snapshot: str) -> list[Any]:
    return [
        f.lit(kind).alias(CHANGE_TYPE),
        f.col(row_id).alias(ROW_ID),
        f.col(snapshot).alias(SNAPSHOT),
        f.lit(weight).cast("bigint").alias(WEIGHT),
    ]


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionAll(frame)
    return whole


def _distinct(frame: DataFrame) -> DataFrame:
    """Each row once: one with a before-image may be found in its data file too."""
    return frame.dropDuplicates([ROWID])


def _came(session: Session, lake: Lake, change: NetChanges, files: Sequence[FileScan], fields: Sequence[Field]) -> DataFrame:
    """The rows of files that came, with their row ids and the snapshots that added them."""
    frame = _dated(session, lake, fields, files, {file.id: file.begin_snapshot for file in files}, snapshot=change.until)
    frame = frame.withColumn(_SNAPSHOT, f.coalesce(f.col("_added"), f.col(_MOMENT)))
    frame = frame.where((f.col(_SNAPSHOT) > change.after.id) & (f.col(_SNAPSHOT) <= change.until.id))
    if any(file.deletes is not None or file.positions for file in files):
        gone = f.broadcast(find_deleted(session, lake, TableScan(table=change.table, snapshot=change.until, files=tuple(files)), files))
        frame = frame.join(gone, (frame[FILE] == gone["_gone_file"]) & (frame[POSITION] == gone["_gone_position"]), "left_anti")
    return finish_rows(frame, fields, also=(ROWID, _SNAPSHOT))


def _went(session: Session, lake: Lake, change: NetChanges, fields: Sequence[Field]) -> Iterable[DataFrame]:
    """The rows that went, with their row ids and the snapshots that ended them, by the places that they are read from."""
    old = f.coalesce(f.col("_added"), f.lit(-1)) <= change.after.id
    if change.images:
        files = [_image_scan(number, images) for number, images in enumerate(change.images)]
        moments = {file.id: images.snapshot_id or 0 for file, images in zip(files, change.images, strict=True)}
        frame = _dated(session, lake, fields, files, moments, snapshot=change.until).where(old)
        yield finish_rows(frame.withColumn(_SNAPSHOT, f.col(_MOMENT)), fields, also=(ROWID, _SNAPSHOT))
    whole = [part for part in change.losing if part.end_snapshot is not None and not part.delete_versions and not part.inlined_deletes]
    if whole:
        moments = {part.file.id: part.end_snapshot or 0 for part in whole}
        frame = _dated(session, lake, fields, [part.file for part in whole], moments, snapshot=change.until).where(old)
        yield finish_rows(frame.withColumn(_SNAPSHOT, f.col(_MOMENT)), fields, also=(ROWID, _SNAPSHOT))
    partly = [part for part in change.losing if part not in whole]
    if partly:
        frame = _dated(
            session, lake, fields, [part.file for part in partly], {part.file.id: 0 for part in partly}, snapshot=change.until
        ).where(old)
        gone = f.broadcast(arrow_frame(session, list_deletions(lake, partly, change.until, after=change.after.id)))
        joined = frame.join(gone, (frame[FILE] == gone["_gone_file"]) & (frame[POSITION] == gone["_gone_position"]), "inner")
        yield finish_rows(joined, fields, also=(ROWID, _SNAPSHOT))


def list_deletions(lake: Lake, parts: Sequence[ChangedFile], until: Snapshot, *, after: int) -> pa.Table:
    """The positions of files at which rows were deleted in a range, with the snapshots that did it."""
    names, positions, moments = [], [], []
    for part in parts:
        deleted = find_deletions(lake, part, until)
        found = np.flatnonzero((deleted > after) & (deleted <= until.id))
        names.append(pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(found), dtype=np.int32)), [file_name(part.file.path)]))
        positions.append(found)
        moments.append(deleted[found])
    return pa.table(
        {
            "_gone_file": pa.chunked_array(names).cast(pa.string()),
            "_gone_position": pa.array(np.concatenate(positions), pa.int64()),
            _SNAPSHOT: pa.array(np.concatenate(moments), pa.int64()),
        }
    )


def _image_scan(number: int, images: BeforeImages) -> FileScan:
    return FileScan(
        id=-1 - number,
        path=images.path,
        record_count=images.row_count,
        size_bytes=images.size_bytes,
        footer_bytes=0,
        row_id_start=None,
        begin_snapshot=-1,
    )


def number_rows(
    session: Session,
    lake: Lake,
    fields: Sequence[Field],
    files: Sequence[FileScan],
    numbers: dict[int, int],
    *,
    snapshot: Snapshot,
    name: str,
) -> DataFrame:
    """The rows of files with their row ids, the snapshots that added them where the file says it, and a number of each file."""
    frame = read_files(session, lake, fields, files, snapshot=snapshot, places=numbers, dated=True)
    return frame.withColumn(name, f.col(PLACE) - f.col(POSITION))


def _dated(
    session: Session, lake: Lake, fields: Sequence[Field], files: Sequence[FileScan], moments: dict[int, int], *, snapshot: Snapshot
) -> DataFrame:
    return number_rows(session, lake, fields, files, moments, snapshot=snapshot, name=_MOMENT)


def _paired(went: DataFrame, came: DataFrame, fields: Sequence[Field], known: Sequence[Field]) -> DataFrame:
    """Rows that went beside those that came under the same id, without pairs that are equal in all columns."""
    names = [f"_{place}" for place in range(len(known))]
    old = went.toDF(*(f"old{name}" for name in names), "old_id", "old_at")
    new = came.toDF(*(f"new{name}" for name in names), "new_id", "new_at")
    both = old.join(new, f.col("old_id") == f.col("new_id"), "full_outer")
    paired = f.col("old_id").isNotNull() & f.col("new_id").isNotNull()
    same: Any = paired
    for name, field in zip(names, known, strict=True):
        same = same & _comparable(f.col(f"old{name}"), field).eqNullSafe(_comparable(f.col(f"new{name}"), field))
    chosen = [names[place] for place in (known.index(field) for field in fields)]

    def side(prefix: str, kinds: tuple[str, str], weight: int) -> Any:
        values = [f.col(f"{prefix}{name}").alias(name) for name in chosen]
        marks = [
            f.when(paired, f.lit(kinds[0])).otherwise(f.lit(kinds[1])).alias(CHANGE_TYPE),
            f.col(f"{prefix}_id").alias(ROW_ID),
            f.col(f"{prefix}_at").alias(SNAPSHOT),
            f.lit(weight).cast("bigint").alias(WEIGHT),
        ]
        return f.when(f.col(f"{prefix}_id").isNotNull(), f.struct(*values, *marks))

    sides = f.array_compact(f.array(side("old", (BEFORE, DELETE), -1), side("new", (AFTER, INSERT), 1)))
    rows = both.where(~same).select(f.inline(sides))
    return rows.toDF(*(field.name for field in fields), CHANGE_TYPE, ROW_ID, SNAPSHOT, WEIGHT)


def _comparable(column: Any, field: Field) -> Any:
    """A value that Spark compares: it has no equality of maps."""
    if any(isinstance(part.type, Map) for part in field.walk()):
        return f.to_json(f.struct(column.alias("value")))
    return column


def _of_arrow(session: Session, fields: Sequence[Field], rows: pa.Table, row_ids: Any, snapshots: Any) -> DataFrame:
    numbers = {ROWID: row_ids, _SNAPSHOT: snapshots}
    whole = rows
    for name, values in numbers.items():
        whole = whole.append_column(name, values if isinstance(values, pa.ChunkedArray) else pa.array(values, pa.int64()))
    return arrow_relation(session, (*fields, *(_number(name) for name in numbers)), whole)


def _number(name: str) -> Field:
    from platform_plugin.algebra.types.data_types import Field

    return Field(name=name, type=Primitive("int64"))


def _empty(session: Session, fields: Sequence[Field]) -> DataFrame:
    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.values.types import arrow_schema

    own = (Field(name=CHANGE_TYPE, type=Primitive("varchar")), *(_number(name) for name in (ROW_ID, SNAPSHOT, WEIGHT)))
    whole = (*fields, *own)
    return arrow_relation(session, whole, pa.Table.from_batches([], schema=arrow_schema(whole)))
