"""A topic's partitions and offsets: their present ends, the offsets of the next batch, and the client's settings."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from platform_plugin.distribution import install_line
from platform_plugin.errors import InvalidValue
from platform_plugin.relations.streams.feeds.sources import SourceGap, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from platform_plugin.relations.streams.feeds.declaration import KafkaFeed

PREFIX = "PLATFORM_KAFKA_"
_TIMEOUT_SECONDS = 15.0
_IDENTITY_SECONDS = 3.0
# What ingestion relies on; the environment can't change it.
_FIXED = {
    "group.id": "platform-ingest",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
    "log_level": 0,
}
_nameless: set[str] = set()  # brokers too old to tell a topic's identity


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Offsets of one partition, from the first up to but not including the last."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """The first offset and the one after the last of each partition, and the topic's identity if the brokers give it."""

    watermarks: Mapping[int, tuple[int, int]]
    topic_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPlan:
    """The ranges of a batch, the next offset of each partition, and how many records are left or were skipped."""

    ranges: tuple[OffsetRange, ...]
    positions: Mapping[int, int]
    waiting: int = 0
    skipped: int = 0
    gaps: tuple[str, ...] = ()


def plan_offsets(
    known: Mapping[int, tuple[int, str | None]], state: TopicState, *, start: str, max_rows: int, range_rows: int = 100_000
) -> OffsetPlan:
    """The offsets of a batch, shared fairly among the partitions. Where the next records are gone, it reports a gap and goes on after it.

    >>> state = TopicState(watermarks={0: (0, 10), 1: (5, 100)})
    >>> plan = plan_offsets({0: (4, None), 1: (2, None)}, state, start="earliest", max_rows=20)
    >>> [(r.partition, r.start, r.end) for r in plan.ranges], plan.waiting, plan.skipped
    ([(0, 4, 10), (1, 5, 19)], 81, 3)
    >>> plan.gaps
    ('partition 1 begins at offset 5, 3 records after the next one to read, 2',)
    """
    is_new = bool(known) and any(then is not None and state.topic_id not in (None, then) for _, then in known.values())
    gaps = ["the topic was deleted and created again"] if is_new else []
    gaps += [f"partition {partition} is gone" for partition in sorted(known.keys() - state.watermarks.keys())]
    begins: dict[int, int] = {}
    skipped = 0
    for partition, (low, high) in sorted(state.watermarks.items()):
        if partition not in known or is_new:
            # A partition that was added later is read from its beginning, or the records before its discovery would be lost.
            begins[partition] = high if start == "latest" and not known else low
            continue
        begin = known[partition][0]
        if begin < low:
            gaps.append(f"partition {partition} begins at offset {low}, {low - begin} records after the next one to read, {begin}")
            skipped += low - begin
        elif begin > high:
            gaps.append(f"partition {partition} ends at offset {high}, before the next one to read, {begin}: the topic was created again")
        begins[partition] = low if begin < low or begin > high else begin
    shares = _shares({partition: state.watermarks[partition][1] - begin for partition, begin in begins.items()}, max_rows)
    ends = {partition: begins[partition] + share for partition, share in shares.items()}
    ranges = [
        OffsetRange(partition=partition, start=start_, end=min(start_ + range_rows, ends[partition]))
        for partition in sorted(begins)
        for start_ in range(begins[partition], ends[partition], range_rows)
    ]
    return OffsetPlan(
        ranges=tuple(ranges),
        positions=ends,
        waiting=sum(state.watermarks[partition][1] - end for partition, end in ends.items()),
        skipped=skipped,
        gaps=tuple(gaps),
    )


def _shares(available: Mapping[int, int], budget: int) -> dict[int, int]:
    """Parts of a budget: nobody gets more than is there, and what one does not need others get."""
    shares: dict[int, int] = {}
    left = budget
    for place, (partition, count) in enumerate(sorted(available.items(), key=lambda item: item[1])):
        shares[partition] = min(count, left // (len(available) - place))
        left -= shares[partition]
    return shares


def kafka_settings(brokers: str, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The settings of the brokers' client: PLATFORM_KAFKA_SASL_USERNAME sets `sasl.username`, and so on. They are never shown.

    >>> kafka_settings("one:9092", {"PLATFORM_KAFKA_SECURITY_PROTOCOL": "SASL_SSL"})["security.protocol"]
    'SASL_SSL'
    """
    found = os.environ if environment is None else environment
    given = {name.removeprefix(PREFIX).lower().replace("_", "."): value for name, value in found.items() if name.startswith(PREFIX)}
    return {**given, **_FIXED, "bootstrap.servers": brokers}


def mask_secrets(text: str, settings: Mapping[str, Any]) -> str:
    """A message of the client without the values that come from the environment.

    >>> mask_secrets("login as ann with 1234 failed", {"sasl.username": "ann", "sasl.password": "1234"})
    'login as *** with *** failed'
    """
    values = {str(value) for name, value in settings.items() if name not in _FIXED and name != "bootstrap.servers"}
    for value in sorted(filter(None, values), key=len, reverse=True):
        text = text.replace(value, "***")
    return text


def read_topic(feed: KafkaFeed, settings: Mapping[str, Any]) -> TopicState:
    """Ask the brokers for a topic's partitions and their offsets."""
    with _consumer(feed, settings) as consumer, _explained(feed, settings):
        from confluent_kafka import TopicPartition

        found = consumer.list_topics(feed.topic, timeout=_TIMEOUT_SECONDS).topics[feed.topic]
        if found.error is not None or not found.partitions:
            raise SourceGap(
                f'topic "{feed.topic}" does not exist at "{feed.brokers}"',
                detail=None if found.error is None else found.error.str(),
                hint="create it, or look for a misspelt name; what was ingested from it stays",
            )
        marks = {
            partition: consumer.get_watermark_offsets(TopicPartition(feed.topic, partition), timeout=_TIMEOUT_SECONDS)
            for partition in found.partitions
        }
        if any(mark is None for mark in marks.values()):
            raise SourceUnavailable(f'topic "{feed.topic}" does not tell its offsets in time', hint="check the brokers, then try again")
        return TopicState(watermarks=marks, topic_id=_read_identity(feed, settings))


def _read_identity(feed: KafkaFeed, settings: Mapping[str, Any]) -> str | None:
    """The topic's identity, which a topic of the same name that is created later does not share; brokers before 2.8 have none."""
    if feed.brokers in _nameless:
        return None
    from concurrent.futures import TimeoutError as TooLate

    from confluent_kafka import KafkaException, TopicCollection
    from confluent_kafka.admin import AdminClient

    kept = {name: value for name, value in settings.items() if name not in _FIXED or name == "log_level"}
    try:
        answer = AdminClient(kept).describe_topics(TopicCollection([feed.topic]), request_timeout=_IDENTITY_SECONDS)
        identity = answer[feed.topic].result(_IDENTITY_SECONDS + 1).topic_id
    except (KafkaException, TooLate):
        _nameless.add(feed.brokers)
        return None
    return None if identity is None else str(identity)


@contextmanager
def _consumer(feed: KafkaFeed, settings: Mapping[str, Any]) -> Iterator[Any]:
    try:
        from confluent_kafka import Consumer, KafkaException
    except ImportError as error:
        raise InvalidValue(f'topic "{feed.topic}" can\'t be read: the Kafka client is not installed', hint=install_line("kafka")) from error
    try:
        consumer = Consumer(dict(settings))
    except KafkaException as error:
        raise InvalidValue(
            "the Kafka client refuses its settings",
            detail=mask_secrets(error.args[0].str(), settings),
            hint=f"check the environment's {PREFIX}…",
        ) from error
    try:
        yield consumer
    finally:
        consumer.close()


@contextmanager
def _explained(feed: KafkaFeed, settings: Mapping[str, Any]) -> Iterator[None]:
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise SourceUnavailable(
            f'brokers at "{feed.brokers}" can\'t be asked for topic "{feed.topic}"',
            detail=mask_secrets(error.args[0].str(), settings),
            hint=f"check that they run and can be reached; logins come from {PREFIX}SECURITY_PROTOCOL, {PREFIX}SASL_USERNAME, …",
        ) from error
