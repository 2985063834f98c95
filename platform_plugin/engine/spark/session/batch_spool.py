"""`BatchSpool`: the rows of a result that are not read yet, in memory and, beyond a limit, in a temporary file.

The server keeps a result until it is taken, so it is taken at once, however slowly it is read.
"""

from __future__ import annotations

import tempfile
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from platform_plugin.engine.spark.session.month_intervals import read_months, with_months
from platform_plugin.errors import QueryFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class BatchSpool:
    """The batches of one result, in their order; nothing of them is left on disk, however the process ends."""

    def __init__(self, *, memory: int, folder: Path | None = None) -> None:
        self.schema: pa.Schema = pa.schema([])
        self._sent: pa.Schema | None = None
        self._folder = folder
        self._room = memory
        self._batches: list[pa.RecordBatch] = []
        self._file: IO[bytes] | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def expect(self, schema: pa.Schema) -> None:
        """Set the schema of the batches."""
        if self._sent is not schema:
            self._sent, self.schema = schema, with_months(schema)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take one more batch."""
        batch = read_months(batch)
        self._room -= batch.nbytes
        if self._room >= 0:
            self._batches.append(batch)
            return
        try:
            if self._writer is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  it lives as long as the rows
                self._writer = pa.ipc.new_stream(self._file, batch.schema)
            self._writer.write_batch(batch)
        except OSError as error:
            raise _not_kept(error) from error

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, once, and free each batch after it."""
        try:
            self._batches.reverse()
            while self._batches:
                yield self._batches.pop()
            if self._writer is not None and self._file is not None:
                try:
                    self._writer.close()
                    self._file.seek(0)
                except OSError as error:
                    raise _not_kept(error) from error
                yield from pa.ipc.open_stream(self._file)
        finally:
            self.close()

    def close(self) -> None:
        self._batches.clear()
        if self._file is not None:
            self._file.close()
            self._file = None


def _not_kept(error: OSError) -> QueryFailed:
    return QueryFailed(
        "the rows of a result can't be kept until they are read",
        detail=str(error),
        hint=f'free space in "{tempfile.gettempdir()}", or set TMPDIR to a folder on another disk',
    )
