"""`Result`: the rows of a statement, with their snapshot and the cost of the statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

import pyarrow as pa

from platform_plugin.errors import PlatformError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd

    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.engine.spark.session.streams import ArrowStream
    from platform_plugin.lake.catalogue.tables import Snapshot


# The types of columns that a result from Spark has as well.
_PLAIN = frozenset(
    [
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.date32(),
        pa.timestamp("us"),
        pa.duration("us"),
        pa.month_day_nano_interval(),
    ]
)


def has_plain_types(schema: pa.Schema) -> bool:
    """Whether rows that were computed in this process have the Arrow types that Spark would send."""
    return all(kind in _PLAIN or pa.types.is_decimal128(kind) for kind in schema.types)


class Result:
    """The result of a statement. Rows are read while they arrive, so a large result need not fit into memory.

    A result that is not read to its end holds a lease and a Spark job: close it, or use it in a `with` block.
    """

    def __init__(
        self,
        rows: pa.Table | ArrowStream,
        *,
        snapshot: Snapshot,
        message: str = "",
        row_count: int | None = None,
        metrics: JobMetrics | None = None,
        on_close: Callable[[], None] | None = None,
        on_error: Callable[[PlatformError], None] | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.message = message
        self.schema: pa.Schema = rows.schema
        self._rows = rows
        self._row_count = row_count
        self._metrics = metrics
        self._release = _Once(on_close)
        self._batches: Iterator[pa.RecordBatch] = iter(
            rows.to_batches() if isinstance(rows, pa.Table) else _begun(_streamed(rows, self._release, on_error))
        )

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    @property
    def row_count(self) -> int | None:
        """The rows that the statement wrote, or those of a result in memory; otherwise None."""
        if self._row_count is not None:
            return self._row_count
        return self._rows.num_rows if isinstance(self._rows, pa.Table) else None

    @property
    def metrics(self) -> JobMetrics | None:
        """The statement's cost in Spark, complete when all rows are read; None if Spark was not used."""
        return self._metrics if isinstance(self._rows, pa.Table) else self._rows.metrics()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that are not read yet, in Arrow batches."""
        return self._batches

    def reader(self) -> pa.RecordBatchReader:
        """The rows that are not read yet, as Arrow's own reader."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches)

    def arrow(self) -> pa.Table:
        """The rows that are not read yet, in memory."""
        return pa.Table.from_batches(list(self._batches), schema=self.schema)

    def pandas(self) -> pd.DataFrame:
        """The rows that are not read yet, as a pandas DataFrame."""
        return cast("pd.DataFrame", self.arrow().to_pandas())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The rows that are not read yet, as tuples of Python values."""
        for batch in self._batches:
            columns = [column.to_pylist() for column in batch.columns]
            if columns:
                yield from zip(*columns, strict=True)

    def close(self) -> None:
        """Release the lease and the job; doing it twice is harmless."""
        if not isinstance(self._rows, pa.Table):
            self._rows.close()
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        said = self.message or ", ".join(self.columns)
        return f"Result({said!r} at snapshot {self.snapshot.id})"


class _Once:
    """A callable that acts at its first call only."""

    def __init__(self, act: Callable[[], None] | None) -> None:
        self._act = act

    def __call__(self) -> None:
        act, self._act = self._act, None
        if act is not None:
            act()


def _begun(batches: Iterator[pa.RecordBatch | None]) -> Iterator[pa.RecordBatch]:
    """The same, released when it is dropped: a generator that was never started does not run its `finally`."""
    next(batches)
    return cast("Iterator[pa.RecordBatch]", batches)


def _streamed(stream: ArrowStream, release: _Once, on_error: Callable[[PlatformError], None] | None) -> Iterator[pa.RecordBatch | None]:
    # It knows nothing of the result, so that a result which is dropped half read lets go at once. The garbage collector would do so
    # whenever it likes, also inside a transaction of this very thread, which the release would then wait for.
    try:
        yield None
        yield from stream
    except PlatformError as error:
        if on_error is not None:
            on_error(error)
        raise
    finally:
        stream.close()
        release()
