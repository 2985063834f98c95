"""Offsets: a batch is planned so that no record is read twice and none is left out without a word."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.relations.streams.feeds.kafka_topic import TopicState, kafka_settings, plan_offsets


def test_the_first_batch_starts_where_the_feed_says():
    state = TopicState(watermarks={0: (3, 10), 1: (0, 0)})
    assert plan_offsets({}, state, start="earliest", max_rows=100).positions == {0: 10, 1: 0}
    latest = plan_offsets({}, state, start="latest", max_rows=100)
    assert (latest.ranges, latest.positions, latest.gaps) == ((), {0: 10, 1: 0}, ())


def test_a_partition_that_is_added_later_is_read_from_its_beginning():
    plan = plan_offsets({0: (10, None)}, TopicState(watermarks={0: (0, 10), 1: (0, 5)}), start="latest", max_rows=100)
    assert [(r.partition, r.start, r.end) for r in plan.ranges] == [(1, 0, 5)]


def test_gaps_are_named():
    def gaps(known, watermarks, topic_id=None):
        return plan_offsets(known, TopicState(watermarks=watermarks, topic_id=topic_id), start="earliest", max_rows=9).gaps

    assert "begins at offset 5, 3 records after" in gaps({0: (2, None)}, {0: (5, 9)})[0]
    assert "ends at offset 9, before the next one to read, 12" in gaps({0: (12, None)}, {0: (5, 9)})[0]
    assert gaps({0: (9, None), 1: (1, None)}, {0: (5, 9)}) == ("partition 1 is gone",)
    assert gaps({0: (9, "one")}, {0: (0, 9)}, "two") == ("the topic was deleted and created again",)
    assert gaps({0: (9, "one")}, {0: (0, 9)}, "one") == ()
    assert gaps({0: (9, "one")}, {0: (0, 9)}) == (), "brokers that tell no identity are believed"


@given(
    st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 50), st.integers(0, 200)), min_size=1),
    st.integers(1, 60),
    st.integers(1, 20),
)
def test_batches_read_every_offset_once_within_their_limit(partitions, max_rows, range_rows):
    watermarks = {partition: (low, low + count) for partition, (low, count) in partitions.items()}
    state = TopicState(watermarks=watermarks)
    known = {}
    read = []
    for _ in range(2000):
        plan = plan_offsets(known, state, start="earliest", max_rows=max_rows, range_rows=range_rows)
        batch = [(r.partition, offset) for r in plan.ranges for offset in range(r.start, r.end)]
        assert len(batch) <= max_rows
        assert all(0 < r.end - r.start <= range_rows for r in plan.ranges)
        assert not plan.gaps
        read += batch
        assert plan.waiting == sum(high - low for low, high in watermarks.values()) - len(read)
        known = {partition: (position, None) for partition, position in plan.positions.items()}
        if not plan.waiting:
            break
        assert batch, "it would never end"
    assert sorted(read) == sorted((p, offset) for p, (low, high) in watermarks.items() for offset in range(low, high))


def test_settings_come_from_the_environment_only_and_do_not_change_what_ingestion_relies_on():
    given = {
        "PLATFORM_KAFKA_SASL_PASSWORD": "secret",
        "PLATFORM_KAFKA_AUTO_OFFSET_RESET": "latest",
        "PLATFORM_KAFKA_BOOTSTRAP_SERVERS": "evil:1",
    }
    settings = kafka_settings("one:1", given)
    assert settings["sasl.password"] == "secret"
    assert (settings["auto.offset.reset"], settings["bootstrap.servers"]) == ("error", "one:1")
