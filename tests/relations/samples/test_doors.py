"""Every door by which rows come that this process holds in memory: samples pick theirs in the same commit."""

from threading import Barrier, Thread

import numpy as np
import pytest
import sqlalchemy as sa

from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.commit.writer import Writer
from platform_plugin.platform import Platform
from platform_plugin.relations.samples.record import find_sample
from platform_plugin.relations.samples.reservoir.growing import find_pending
from platform_plugin.relations.samples.reservoir.picks import PICK
from platform_plugin.relations.streams.feeds.ingest import run_ingest
from tests.relations.samples.streams import COLUMNS, counted_keys, ids, rows

SIZE = 6


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute(f"CREATE STREAM posts ({COLUMNS})")
        made.execute(f"CREATE SAMPLE s ON posts SIZE {SIZE} WITH (seed = 3)")
        yield made


def check(platform, count):
    """The sample is what the keys of all rows say, and none of them has to be looked at again."""
    lake = platform.lake
    there = lake.read("posts").column("id").to_numpy()
    assert len(there) == count
    assert ids(platform, "s") == sorted(there[np.argsort(counted_keys(3, 0, count))[:SIZE]].tolist())
    assert platform.sample("s").cardinality == count
    snapshot = lake.snapshot()
    assert find_pending(platform.work, find_sample(lake, lake.table("s"), snapshot), snapshot).gap_rows == 0


def insert(platform, first, last, **options):
    values = ", ".join(f"({number}, 'x', {number % 7})" for number in range(first, last))
    return platform.execute(f"INSERT INTO posts VALUES {values}", **options)


def picks(platform):
    with platform.lake.reading() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(PICK)).scalar()


def test_insert_values(platform):
    for first in range(0, 120, 30):
        assert insert(platform, first, first + 30).row_count == 30
        assert picks(platform) == first // 30 + 1, "in the commit of the statement"
        check(platform, first + 30)


def test_insert_with_columns_left_out(platform):
    platform.execute("ALTER STREAM posts ALTER COLUMN kind SET DEFAULT 'none'")
    platform.execute("INSERT INTO posts (score, id) VALUES (1, 2), (?, DEFAULT)", [5])
    found = sorted(platform.sample("s").arrow().to_pylist(), key=lambda row: row["score"])
    assert found == [{"id": 2, "kind": "none", "score": 1}, {"id": None, "kind": "none", "score": 5}]
    assert find_pending(
        platform.work, find_sample(platform.lake, platform.lake.table("s"), platform.lake.snapshot()), platform.lake.snapshot()
    ).picks


def test_sqlalchemy(platform):
    posts = sa.table("posts", sa.column("id"), sa.column("kind"), sa.column("score"))
    engine = sa.create_engine(f"platform+local:///{str(platform.lake.location.folder).lstrip('/')}")
    with engine.begin() as connection:
        connection.execute(sa.insert(posts), [{"id": number, "kind": "a", "score": 1} for number in range(40)])
        connection.execute(sa.insert(posts).values(id=40, kind="a", score=1))
    engine.dispose()
    assert picks(platform) == 2, "one for each statement"
    check(platform, 41)


def test_rows_that_a_feed_copies_from_a_table(platform):
    # Files that the stream shares with the table are left to a run: nobody has read them.
    platform.execute(f"CREATE TABLE source ({COLUMNS}, more INT)")
    platform.execute("CREATE STREAM fed FROM TABLE source")
    platform.execute("CREATE SAMPLE f ON fed SIZE 6 WITH (seed = 3)")
    platform.execute("ALTER TABLE source ADD COLUMN later INT")
    for first in (0, 30):
        append_to_source(platform, first)
        assert run_ingest(platform.work, "fed").rows == 30
        snapshot = platform.lake.snapshot()
        assert find_pending(platform.work, find_sample(platform.lake, platform.lake.table("f"), snapshot), snapshot).gap_rows == 0
        assert ids(platform, "f") == sorted(np.argsort(counted_keys(3, 0, first + 30))[:SIZE].tolist())


def append_to_source(platform, first):
    values = ", ".join(f"({number}, 'x', 1, 2, 3)" for number in range(first, first + 30))
    platform.execute(f"INSERT INTO source VALUES {values}")


def test_doors_in_turn(platform):
    with platform.stream("posts") as stream:
        for first in range(0, 200, 40):
            insert(platform, first, first + 10)
            stream.append(rows(first + 10, first + 40), wait=True)
    assert picks(platform) == 10, "each door picks for itself"
    check(platform, 200)


def test_a_batch_that_was_taken_before_is_picked_once(platform):
    insert(platform, 0, 20, batch_id="one")
    assert insert(platform, 0, 20, batch_id="one").row_count == 0
    check(platform, 20)
    assert picks(platform) == 1


@pytest.mark.parametrize("door", ["insert", "append"])
def test_a_commit_that_fails_leaves_neither_rows_nor_picks(platform, monkeypatch, door):
    def put(first, last):
        if door == "insert":
            insert(platform, first, last)
        else:
            with platform.stream("posts") as stream:
                stream.append(rows(first, last), wait=True)

    def refuse(*_, **__):
        raise InvalidValue("not today", hint="try tomorrow")

    put(0, 50)
    before = ids(platform, "s")
    with monkeypatch.context() as patch:
        patch.setattr(Writer, "finish", refuse)
        with pytest.raises(PlatformError, match="not today"):
            put(50, 90)
    assert ids(platform, "s") == before
    check(platform, 50)
    put(50, 90)  # the rows that failed had the same ids, and were to be forgotten
    check(platform, 90)


def test_two_writers_at_once(platform):
    start, failures = Barrier(2), []

    def work(put):
        try:
            start.wait(30)
            for number in range(12):
                put(number)
        except BaseException as error:  # noqa: BLE001  told to the test
            failures.append(error)

    def append(number):
        with platform.stream("posts") as stream:
            stream.append(rows(10_000 + number * 50, 10_000 + number * 50 + 50), wait=True)

    writers = [Thread(target=work, args=(put,)) for put in (append, lambda number: insert(platform, number * 20, number * 20 + 20))]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert not failures
    check(platform, 12 * 70)
