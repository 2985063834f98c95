"""The Spark task that reads a topic: each task consumes one range of offsets and yields Arrow batches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from platform_plugin.relations.streams.feeds.kafka_topic import OffsetRange

SCHEMA = "range INT, partition INT, position BIGINT, value BINARY"
FAILURE = "reading the topic failed: "
_ARROW = pa.schema([("range", pa.int32()), ("partition", pa.int32()), ("position", pa.int64()), ("value", pa.binary())])
_AT_ONCE = 10_000
_BYTES_AT_ONCE = 16 << 20
_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 30.0


def range_reader(
    settings: dict[str, Any], topic: str, ranges: Sequence[OffsetRange]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow` over a DataFrame with the numbers of the ranges."""

    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read_range(settings, topic, number, ranges[number])

    return read


def read_range(settings: dict[str, Any], topic: str, number: int, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Every record of a range; records that compaction or a transaction removed are no gap, but an end that is not reached is an error."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, wanted.partition, wanted.start)])
        position, heard = wanted.start, time.monotonic()
        offsets: list[int] = []
        values: list[bytes | None] = []
        size = 0
        while position < wanted.end:
            # No more than there can be, because the client waits until it has so many.
            for message in consumer.consume(min(_AT_ONCE, wanted.end - position), timeout=_POLL_SECONDS):
                error, offset = message.error(), message.offset() or 0
                if error is not None:
                    if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  the client's public name for it
                        raise RuntimeError(FAILURE + f"partition {wanted.partition} at offset {position}: {error.str()}")
                    position = max(position, offset)
                    continue
                heard = time.monotonic()
                if offset >= wanted.end:
                    position = wanted.end
                    break
                value = message.value()
                offsets.append(offset)
                values.append(value)
                size += len(value or b"")
                position = offset + 1
            if len(offsets) >= _AT_ONCE or size >= _BYTES_AT_ONCE:
                yield _batch(number, wanted.partition, offsets, values)
                offsets, values, size = [], [], 0
            if time.monotonic() - heard > _PATIENCE_SECONDS:
                raise RuntimeError(
                    FAILURE + f"partition {wanted.partition} stays at offset {position} of {wanted.end} for {_PATIENCE_SECONDS:g} seconds"
                )
        if offsets:
            yield _batch(number, wanted.partition, offsets, values)
    finally:
        consumer.close()


def _batch(number: int, partition: int, offsets: list[int], values: list[bytes | None]) -> pa.RecordBatch:
    count = len(offsets)
    columns = [
        pa.array([number] * count, pa.int32()),
        pa.array([partition] * count, pa.int32()),
        pa.array(offsets, pa.int64()),
        pa.array(values, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)
