"""A result lets go of what it holds at its end, when it is closed, and as soon as nobody has it any more."""

from __future__ import annotations

import gc
from datetime import UTC, datetime

import pyarrow as pa

from platform_plugin.lake.catalogue.tables import Snapshot
from platform_plugin.relations.result import Result

SNAPSHOT = Snapshot(id=1, time=datetime(2026, 1, 1, tzinfo=UTC), schema_version=1, next_catalog_id=1, next_file_id=1)


class Stream:
    schema = pa.schema([("a", pa.int64())])

    def __init__(self):
        self.closed = 0

    def __iter__(self):
        return iter([pa.record_batch({"a": [1, 2]}), pa.record_batch({"a": [3]})])

    def close(self):
        self.closed += 1

    def metrics(self):
        return None


def test_it_lets_go_once_at_its_end():
    released = []
    result = Result(Stream(), snapshot=SNAPSHOT, on_close=lambda: released.append(1))
    assert list(result) == [(1,), (2,), (3,)]
    assert released == [1]
    result.close()
    assert released == [1]


def test_it_lets_go_when_it_is_dropped_half_read_without_the_garbage_collector():
    gc.disable()
    try:
        for take in (lambda result: next(iter(result)), lambda result: next(result.batches())):
            released, stream = [], Stream()
            take(Result(stream, snapshot=SNAPSHOT, on_close=lambda held=released: held.append(1)))
            assert released == [1]
            assert stream.closed
    finally:
        gc.enable()
