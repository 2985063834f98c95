"""Ingestion of topics, from a broker in a process of its own: every record once, gaps told, and logins nowhere to be seen."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from platform_plugin.errors import CommitConflict, InvalidValue, PlatformError
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.feeds import kafka_ingest
from platform_plugin.relations.streams.feeds.ingest import BatchLimits, run_ingest
from platform_plugin.relations.streams.feeds.kafka_topic import read_topic
from platform_plugin.relations.streams.feeds.positions import read_offsets
from platform_plugin.relations.streams.feeds.sources import SourceGap, SourceUnavailable

pytest.importorskip("confluent_kafka")
_spec = importlib.util.spec_from_file_location("broker", Path(__file__).parents[1] / "broker.py")
broker_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(broker_module)

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def broker():
    broker = broker_module.Broker()
    yield broker
    broker.stop()


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(f"platform+local://{tmp_path}/lake") as platform:
        yield platform


@pytest.fixture
def topic(request):
    return f"topic-{abs(hash(request.node.name))}"


def records(*ids):
    return [json.dumps({"id": number, "name": f"n{number}"}).encode() for number in ids]


def ids(platform):
    return sorted(row[0] for row in platform.execute("SELECT id FROM s"))


def quarantine(platform):
    return [tuple(row) for row in platform.execute("SELECT raw, reason FROM s__quarantine ORDER BY source_partition, position")]


def test_records_are_read_once_with_where_to_go_on_in_the_same_commit(platform, broker, topic, tmp_path, duck):
    platform.execute(f"CREATE STREAM s (id INT NOT NULL, name STRING) FROM KAFKA '{broker.address}/{topic}'")
    broker.send(topic, records(*range(1000)))
    report = run_ingest(platform.work, "s")
    assert (report.rows, report.jobs, report.tasks, report.waiting, report.quarantined) == (1000, 1, 4, 0, 0)
    again = run_ingest(platform.work, "s")
    assert (again.rows, again.snapshot) == (0, None), "nothing new, nothing committed"
    broker.send(topic, records(*range(1000, 1003)))
    assert run_ingest(platform.work, "s").rows == 3
    assert duck(f"platform+local://{tmp_path}/lake").rows("SELECT count(*), count(DISTINCT id), min(name) FROM s") == [(1003, 1003, "n0")]


def test_batches_are_bounded_and_say_how_far_behind_they_are(platform, broker, topic):
    platform.execute(f"CREATE STREAM s (id INT) FROM KAFKA '{broker.address}/{topic}' (max_rows 10)")
    broker.send(topic, records(*range(25)))
    seen = [(report.rows, report.waiting) for report in (run_ingest(platform.work, "s") for _ in range(3))]
    assert seen == [(10, 15), (10, 5), (5, 0)]
    broker.send(topic, records(25, 26))
    assert run_ingest(platform.work, "s", limits=BatchLimits(max_rows=1)).waiting == 1
    assert len(ids(platform)) == 26


def test_latest_means_from_the_first_ingestion_on(platform, broker, topic):
    broker.send(topic, records(1, 2, 3))
    platform.execute(f"CREATE STREAM s (id INT) FROM KAFKA '{broker.address}/{topic}' (start 'latest')")
    assert run_ingest(platform.work, "s").rows == 0
    broker.send(topic, records(4))
    assert run_ingest(platform.work, "s").rows == 1
    assert ids(platform) == [4]


MALFORMED = {
    b'{"id": "x"}': 'column "id" takes INT, not "x"',
    b"": "it is not a JSON object",
    b'[{"id":1},{"id":2}]': "it is not a JSON object",
    b'{"id":1,"name":"\xff"}': "it is not UTF-8",
    b'{"name":"a"}': 'column "id" must not be NULL',
    b"null": "it is not a JSON object",
    None: "it has no value",
}


def test_malformed_records_go_to_the_quarantine_with_their_bytes_and_offsets(platform, broker, topic):
    platform.execute(f"CREATE STREAM s (id INT NOT NULL, name STRING) FROM KAFKA '{broker.address}/{topic}'")
    broker.send(topic, records(10), partition=0)
    broker.send(topic, [*MALFORMED, *records(11)], partition=2)
    report = run_ingest(platform.work, "s")
    assert (report.rows, report.quarantined, report.jobs) == (2, len(MALFORMED), 2)
    assert quarantine(platform) == list(MALFORMED.items())
    places = [tuple(row) for row in platform.execute("SELECT DISTINCT source, source_partition, position FROM s__quarantine ORDER BY 3")]
    assert places == [(topic, 2, offset) for offset in range(len(MALFORMED))]
    assert ids(platform) == [10, 11]


def test_fields_that_the_stream_has_not(platform, broker, topic):
    platform.execute(f"CREATE STREAM s (id INT) FROM KAFKA '{broker.address}/{topic}' (extra_fields 'quarantine')")
    broker.send(topic, [b'{"id": 1}', b'{"id": 2, "more": 3}'])
    assert (run_ingest(platform.work, "s").rows, ids(platform)) == (1, [1])
    assert quarantine(platform) == [(b'{"id": 2, "more": 3}', 'it has a field "more" that the stream does not have')]


def test_csv_records(platform, broker, topic):
    platform.execute(f"CREATE STREAM s (id INT, name STRING) FROM KAFKA '{broker.address}/{topic}' (FORMAT csv, DELIMITER ';')")
    broker.send(topic, [b"1;a", b"2;", b"x;b", b"3"], partition=0)
    assert (run_ingest(platform.work, "s").rows, ids(platform)) == (2, [1, 2])
    assert quarantine(platform) == [(b"x;b", 'column "id" takes INT, not "x"'), (b"3", "it has 1 value, 2 expected")]


def test_a_malformed_record_fails_the_batch_where_that_is_declared(platform, broker, topic):
    platform.execute(f"CREATE STREAM s (id INT) FROM KAFKA '{broker.address}/{topic}' (on_malformed 'fail')")
    broker.send(topic, [*records(1), b"nonsense"], partition=3)
    with pytest.raises(InvalidValue) as caught:
        run_ingest(platform.work, "s")
    assert f"{topic}, partition 3, offset 1: it is not a JSON object: nonsense" in caught.value.detail
    assert ids(platform) == []
    platform.execute("ALTER STREAM s SET (on_malformed = 'quarantine')")
    assert run_ingest(platform.work, "s").rows == 1


def test_records_that_left_the_topic_are_a_gap(platform, broker, topic):
    platform.execute(f"CREATE STREAM s (id INT) FROM KAFKA '{broker.address}/{topic}'")
    broker.send(topic, records(1), partition=0)
    run_ingest(platform.work, "s")
    filler = b'{"id": 2, "x": "' + b"x" * 500_000 + b'"}'
    broker.send(topic, [filler] * 30, partition=0)  # the broker keeps 5 MB
    with pytest.raises(SourceGap, match="no longer has what stream") as caught:
        run_ingest(platform.work, "s")
    assert "ALTER STREAM main.s SET (on_gap = 'skip')" in caught.value.hint
    assert "partition 0 begins at offset" in caught.value.detail
    platform.execute("ALTER STREAM s SET (on_gap = 'skip')")
    report = run_ingest(platform.work, "s")
    assert report.skipped > 0
    assert report.rows + report.skipped == 30


def test_a_topic_that_was_created_again_is_a_gap(platform, topic):
    first, second = broker_module.Broker(), broker_module.Broker()
    door = broker_module.Door(first)
    try:
        platform.execute(f"CREATE STREAM s (id INT) FROM KAFKA '{door.address}/{topic}'")
        first.send(topic, records(*range(20)))
        assert run_ingest(platform.work, "s").rows == 20
        second.send(topic, records(100, 101))
        door.broker = second
        with pytest.raises(SourceGap) as caught:
            run_ingest(platform.work, "s")
        assert "the topic was created again" in caught.value.detail
        platform.execute("ALTER STREAM s SET (on_gap = 'skip')")
        assert run_ingest(platform.work, "s").rows == 2
        assert ids(platform) == [*range(20), 100, 101]
    finally:
        door.close()
        first.stop()
        second.stop()


def test_an_identity_that_changes_is_a_gap_even_if_the_offsets_fit(platform, broker, topic, monkeypatch):
    platform.execute(f"CREATE STREAM s (id INT) FROM KAFKA '{broker.address}/{topic}' (on_gap 'skip')")
    broker.send(topic, records(1, 2))
    identity = ["one"]

    def identified(feed, settings):
        from dataclasses import replace

        return replace(read_topic(feed, settings), topic_id=identity[0])

    monkeypatch.setattr(kafka_ingest, "read_topic", identified)
    run_ingest(platform.work, "s")
    identity[0] = "two"
    assert run_ingest(platform.work, "s").rows == 2, "all of the new topic"
    with platform.lake.reading() as connection:
        assert {topic_id for _, topic_id in read_offsets(connection, platform.lake.table("s").uuid).values()} == {"two"}


@pytest.mark.slow
def test_a_missing_topic_and_missing_brokers_are_told_apart(platform, broker):
    platform.execute(f"CREATE STREAM s (id INT) FROM KAFKA '{broker.address}/nobody-made-this'")
    with pytest.raises(SourceGap, match='topic "nobody-made-this" does not exist'):
        run_ingest(platform.work, "s")
    platform.execute("CREATE STREAM far (id INT) FROM KAFKA '127.0.0.1:1/posts'")
    with pytest.raises(SourceUnavailable, match=r"brokers at .* can't be asked"):
        run_ingest(platform.work, "far")


def test_logins_are_neither_kept_nor_told(platform, broker, topic, monkeypatch, tmp_path):
    monkeypatch.setenv("PLATFORM_KAFKA_SASL_PASSWORD", "hunter2")
    monkeypatch.setenv("PLATFORM_KAFKA_CLIENT_ID", "tests")
    platform.execute(f"CREATE STREAM s (id INT) FROM KAFKA '{broker.address}/{topic}'")
    broker.send(topic, records(1))
    run_ingest(platform.work, "s")
    monkeypatch.setenv("PLATFORM_KAFKA_SASL_MECHANISM", "hunter2-is-no-mechanism")
    monkeypatch.setenv("PLATFORM_KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    with pytest.raises(PlatformError) as caught:
        run_ingest(platform.work, "s")
    assert "hunter2" not in repr(caught.value.__dict__) + str(caught.value)
    with platform.lake.reading() as connection:
        kept = read_declaration(connection, platform.lake.table("s").uuid)
    assert "hunter2" not in repr(kept)
    assert b"hunter2" not in (tmp_path / "lake" / "lake.sqlite").read_bytes()


def test_two_ingesters_on_one_topic_repeat_nothing(platform, broker, topic, tmp_path):
    platform.execute(f"CREATE STREAM s (id INT) FROM KAFKA '{broker.address}/{topic}' (max_rows 8)")
    broker.send(topic, records(*range(40)))

    def work_off():
        with Platform.open(f"platform+local://{tmp_path}/lake") as other:
            for _ in range(60):
                try:
                    if run_ingest(other.work, "s").caught_up:
                        return
                except CommitConflict:
                    continue

    threads = [threading.Thread(target=work_off) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert ids(platform) == list(range(40))


KILLED = """
import os, signal, sys
from platform_plugin.platform import Platform
from platform_plugin.lake.commit import commit
from platform_plugin.lake.commit import writer
from platform_plugin.relations.streams.feeds import kafka_ingest
from platform_plugin.relations.streams.feeds import landing
from platform_plugin.relations.streams.feeds.ingest import run_ingest

url, place, name, when = sys.argv[1:]
owner = {"kafka_ingest": kafka_ingest, "landing": landing, "Writer": writer.Writer, "Commit": commit.Commit}[place]
real = getattr(owner, name)

def dies(*args, **kwargs):
    if when == "after":
        real(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)

with Platform.open(url) as platform:
    setattr(owner, name, dies)
    run_ingest(platform.work, "s")
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_anywhere_it_neither_loses_nor_repeats_a_record(platform, broker, topic, tmp_path):
    url = f"platform+local://{tmp_path}/lake"
    platform.execute(f"CREATE STREAM s (id INT) FROM KAFKA '{broker.address}/{topic}'")
    places = [
        ("kafka_ingest", "read_topic", "after"),
        ("landing", "run_write", "after"),
        ("kafka_ingest", "run_quarantine", "after"),
        ("Writer", "finish", "before"),
        ("Writer", "finish", "after"),
        ("Commit", "_attempt", "after"),
    ]
    for number, (place, name, when) in enumerate(places):
        broker.send(topic, [*records(number), b"bad"])
        command = [sys.executable, "-c", KILLED, url, place, name, when]
        killed = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        assert killed.returncode == -9, (place, name, when, killed.stderr)
    run_ingest(platform.work, "s")
    assert ids(platform) == list(range(len(places)))
    assert [raw for raw, _ in quarantine(platform)] == [b"bad"] * len(places)
