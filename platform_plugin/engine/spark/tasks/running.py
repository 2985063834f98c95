"""`run_sent`, `merge_sent`, `run_rows_sent` and `read_sent`: the beginning of a task on an executor."""

from __future__ import annotations

import pickle
from itertools import chain
from typing import TYPE_CHECKING

from platform_plugin.cache import Cache
from platform_plugin.engine.spark.tasks.failure import passing_failures
from platform_plugin.engine.spark.tasks.sending import pack, read_fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from platform_plugin.engine.spark.tasks.sending import BatchesProgram, MergingProgram, Program, RowsProgram

__all__ = ["merge_sent", "read_fingerprint", "read_sent", "run_rows_sent", "run_sent"]

# A worker runs many tasks of the same job.
_PROGRAMS: Cache[bytes, Program] = Cache("programs of tasks", weigh=lambda _: 500_000)


def run_sent(program: bytes, share: bytes) -> bytes:
    """Run a program over a share, both as they were sent; what it gave, as it is sent back."""
    known = _PROGRAMS.find(program, lambda: pickle.loads(program))  # noqa: S301  the bytes came with the code that runs here
    return pack(known.run(pickle.loads(share)))  # noqa: S301


def merge_sent(program: bytes, answers: Sequence[bytes]) -> bytes:
    """Merge what a program gave for all shares, as it was sent back; one answer for all, as it is sent on."""
    known: MergingProgram = pickle.loads(program)  # noqa: S301  the bytes came with the code that runs here
    return pack(known.merge([pickle.loads(answer) for answer in answers]))  # noqa: S301


def run_rows_sent(program: bytes, batches: Iterator[pa.RecordBatch]) -> bytes:
    """Run a program, as it was sent, over rows; nothing where there are none."""
    first = next(batches, None)
    if first is None:
        return b""
    known: RowsProgram = pickle.loads(program)  # noqa: S301  the bytes came with the code that runs here
    with passing_failures():
        return pack(known.run_rows(chain([first], batches)))


def read_sent(program: bytes, share: bytes) -> Iterator[pa.RecordBatch]:
    """The rows that a program reads for a share, both as they were sent."""
    known: BatchesProgram = pickle.loads(program)  # noqa: S301  the bytes came with the code that runs here
    with passing_failures():
        yield from known.read(pickle.loads(share))  # noqa: S301
