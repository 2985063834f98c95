"""`ArrowStream`: the rows of one query as Arrow batches, fetched while they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from platform_plugin.engine.spark.session.job import Job
    from platform_plugin.engine.spark.session.metrics import JobMetrics


class ArrowStream:
    """The rows of one query as Arrow batches; memory holds a few batches and not the result."""

    def __init__(
        self,
        job: Job,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        *,
        is_complete: bool = False,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.job = job
        self.schema = schema
        self.is_complete = is_complete
        """Whether all rows have left the server, so that what they were computed from may go."""
        self._batches = batches
        self._on_close = on_close

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches

    def reader(self) -> pa.RecordBatchReader:
        """Return the remaining rows as Arrow's own reader."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches)

    def read_all(self) -> pa.Table:
        """Return the remaining rows as one table in memory."""
        return pa.Table.from_batches(list(self._batches), schema=self.schema)

    def metrics(self) -> JobMetrics:
        return self.job.metrics()

    def close(self) -> None:
        """Release the query; what it still runs is interrupted."""
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()
        if self._on_close is not None:
            self._on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
