"""`Spool`: a result too large for the server's memory, which tasks write to files and the client reads from there."""

from __future__ import annotations

import re
import shutil
import threading
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as t
from pyspark.sql.connect import functions as f

from platform_plugin.errors import PlatformError, StorageError
from platform_plugin.lake.values.months import from_months

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.tasks.sending import RowsProgram
    from platform_plugin.lake.files.storage import Storage

_ROW_GROUP_BYTES = 16 * 1024 * 1024
_BATCH_ROWS = 65_536
_BATCH_BYTES = 8 * 1024 * 1024
_PART = re.compile(r"part-(\d+)-[^/]*\.parquet$")
_WAIT_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolFolder:
    """The part of a folder, which both Spark and this process reach, that belongs to one session."""

    storage: Storage
    path: str

    def remove(self, below: str = "") -> None:
        """Remove all files that are left; those that can't be removed are left to the folder's owner."""
        path = f"{self.path}{below}"
        with suppress(PlatformError, OSError):
            if self.storage.is_local:
                shutil.rmtree(self.storage.absolute(path), ignore_errors=True)
            else:
                self.storage.delete(list(dict(self.storage.listing(path))))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolProgram:
    """Writes the rows of a task as a file with the number of the task, where Spark can't write files itself."""

    storage: Storage
    path: str

    def run_rows(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Write one file; those of a task that was lost are removed with the folder."""
        from pyspark import TaskContext

        context = TaskContext.get()
        first = next(batches)
        name = f"{self.path}part-{0 if context is None else context.partitionId():05d}-{uuid4().hex}.parquet"
        with self.storage.open(name, "wb") as file, pq.ParquetWriter(file, first.schema, compression="snappy") as writer:
            for batch in chain([first], batches):
                writer.write_batch(batch)


class Spool:
    """One result that travels through files. Rows come in their order, each file as soon as it and all before it are written.

    Use it as a context manager: at its end the files are removed, and `interrupt` is called if they are still being written.
    """

    def __init__(
        self,
        folder: SpoolFolder,
        frame: DataFrame,
        schema: pa.Schema,
        *,
        within: AbstractContextManager[None],
        interrupt: Callable[[], None],
        write_by_tasks: Callable[[DataFrame, RowsProgram], None] | None = None,
    ) -> None:
        self._folder = folder
        self._name = f"{uuid4().hex}/"
        self._frame = frame
        self._schema = schema
        self._within = within
        self._interrupt = interrupt
        self._write_by_tasks = write_by_tasks
        self._error: BaseException | None = None
        self._writing = threading.Thread(target=self._write, name="platform-spool", daemon=True)

    def _write(self) -> None:
        try:
            with self._within:
                if self._write_by_tasks is not None:
                    program = SpoolProgram(storage=self._folder.storage, path=f"{self._folder.path}{self._name}")
                    self._write_by_tasks(_storable(self._frame), program)
                    return
                uri = self._folder.storage.uri(f"{self._folder.path}{self._name}")
                writer = _storable(self._frame).write.mode("append").option("compression", "snappy")
                writer.option("parquet.block.size", _ROW_GROUP_BYTES).parquet(uri)
        except BaseException as error:  # noqa: BLE001  raised again where the rows are read
            self._error = error

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, which are read while they are written."""
        position = -1
        while True:
            finished = not self._writing.is_alive()
            if finished and self._error is not None:
                raise self._error
            # Tasks of Python write files under their own names, and a listing of a store is dear.
            found = self._parts() if finished or (self._folder.storage.is_local and self._write_by_tasks is None) else {}
            # A task without rows writes no file, so until all are there only the very next one is known to be next.
            for number in sorted(found):
                if number > position and (finished or number == position + 1):
                    yield from self._read(found[number])
                    position = number
            if finished:
                return
            self._writing.join(_WAIT_SECONDS)

    def _parts(self) -> dict[int, str]:
        """The files that are written to their end, by the number of their task."""
        below = f"{self._folder.path}{self._name}"
        listed = (path.removeprefix(below) for path, _ in self._folder.storage.listing(below))
        return {int(match[1]): below + path for path in listed if "/" not in path and (match := _PART.match(path))}

    def _read(self, path: str) -> Iterator[pa.RecordBatch]:
        with self._folder.storage.open_arrow(path) as file:
            try:
                parts = pq.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
                for batch in parts.iter_batches(_batch_rows(parts.metadata), use_threads=False):
                    columns = [_fitted(column, kind) for column, kind in zip(batch.columns, self._schema.types, strict=True)]
                    yield pa.RecordBatch.from_arrays(columns, schema=self._schema)
            except pa.ArrowException as error:
                raise StorageError(f'file "{path}" of a result can\'t be read', detail=str(error), hint="run the query again") from error
        self._folder.storage.delete([path])

    def __enter__(self) -> Self:
        self._writing.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._writing.is_alive():
            self._interrupt()
            self._writing.join(20)
        self._folder.remove(self._name)


def _batch_rows(metadata: pq.FileMetaData) -> int:
    """So many rows that a batch of them is a few mebibytes, however long they are."""
    size = sum(int(metadata.row_group(place).total_byte_size) for place in range(metadata.num_row_groups))
    return min(max(_BATCH_BYTES * int(metadata.num_rows) // max(size, 1), 16), _BATCH_ROWS)


def _storable(frame: DataFrame) -> DataFrame:
    """The columns under names that differ, and in types that files can have."""
    fields = frame.schema.fields
    if "variant" in frame.schema.simpleString():
        # Else their parts go into columns of their own, which differ from file to file.
        frame.sparkSession.conf.set("spark.sql.variant.writeShredding.enabled", "false")
    numbered = frame.toDF(*(f"_{place}" for place in range(len(fields))))
    return numbered.select(*(f.col(f"_{place}").cast(_stored(field.dataType)) for place, field in enumerate(fields)))


def _stored(kind: t.DataType) -> t.DataType:
    match kind:
        case t.NullType():
            return t.IntegerType()
        case t.ArrayType():
            return t.ArrayType(_stored(kind.elementType), kind.containsNull)
        case t.MapType():
            return t.MapType(_stored(kind.keyType), _stored(kind.valueType), kind.valueContainsNull)
        case t.StructType():
            # What is NULL as a whole is so in all of its parts, which Arrow's writer checks.
            return t.StructType([t.StructField(part.name, _stored(part.dataType)) for part in kind.fields])
    return kind


def _fitted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column as the server would have sent it."""
    if column.type == kind:
        return column
    if pa.types.is_null(kind):
        return pa.nulls(len(column))
    if pa.types.is_duration(kind) and pa.types.is_int64(column.type):
        return column.view(kind)
    if kind == pa.month_day_nano_interval():
        return from_months(column)
    if pa.types.is_struct(kind):
        # By name, since files have the parts of a VARIANT the other way round.
        found = [part.name for part in column.type]
        by_name = sorted(found) == sorted(part.name for part in kind) and len(set(found)) == len(found)
        parts = [_fitted(column.field(part.name if by_name else place), part.type) for place, part in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if pa.types.is_map(kind):
        keys, items = _fitted(column.keys, kind.key_type), _fitted(column.items, kind.item_type)
        return pa.MapArray.from_arrays(column.offsets, keys, items, type=kind, mask=column.is_null() if column.null_count else None)
    if pa.types.is_list(kind):
        values = _fitted(column.values, kind.value_type)
        return pa.ListArray.from_arrays(column.offsets, values, type=kind, mask=column.is_null() if column.null_count else None)
    return column.cast(kind)
