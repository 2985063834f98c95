"""Session reads: what belongs to a session, when it ends, what is kept meanwhile, and what a reader that falls behind is told."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from datetime import timedelta

import pyarrow as pa
import pytest

from platform_plugin.engine.limits import Limits
from platform_plugin.errors import InvalidValue, PlatformError, QueryInterrupted, StreamOverrun
from platform_plugin.lake.cursors.cursor import CURSOR, read_owners
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.follow import folding, session
from platform_plugin.relations.streams.follow.rows import Follower

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake_platform(spark_server, tmp_path_factory):
    with Platform.create(tmp_path_factory.mktemp("sessions") / "lake") as made:
        made.execute("CREATE TABLE users (id INT, region STRING)")
        made.execute("INSERT INTO users VALUES (0, 'DE'), (1, 'US'), (2, 'DE')")
        made.execute("SELECT count(*) FROM users")  # Spark is awake
        yield made


@pytest.fixture
def platform(lake_platform):
    lake_platform.execute("CREATE OR REPLACE STREAM posts (id BIGINT, uid INT)")
    return lake_platform


def posts(first, count):
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "uid": pa.array([number % 3 for number in ids], pa.int32())})


@pytest.fixture(autouse=True)
def pace(monkeypatch):
    """How many times slower than written everything goes: a busy machine needs the time for what shall happen before a session ends."""
    times = min(max(os.getloadavg()[0] / (2 * (os.cpu_count() or 1)), 1.0), 6.0)
    monkeypatch.setattr(Writer, "pace", times)
    plain = Follower.__init__

    def slower(self, *given, idle, **more):
        plain(self, *given, idle=idle * times, **more)

    monkeypatch.setattr(Follower, "__init__", slower)
    return times


_WAITING: list[threading.Event] = []


def go(_=None):
    """A session has begun: those who wait for that may write."""
    for event in _WAITING:
        event.set()


class Writer:
    """Appends rows while a session runs; `plan` pairs seconds after its begin, at the usual pace, with numbers of rows."""

    pace = 1.0

    def __init__(self, platform, *plan):
        self.stream = platform.stream("posts")
        self.written = 0
        self.plan = plan
        self.thread = threading.Thread(target=self.work)
        self.begun = threading.Event()

    def work(self):
        self.begun.wait(60)
        began = time.monotonic()
        for at, count in self.plan:
            time.sleep(max(0.0, began + at * self.pace - time.monotonic()))
            self.stream.append(posts(self.written, count), wait=True)
            self.written += count

    def __enter__(self):
        _WAITING.append(self.begun)
        self.thread.start()
        return self

    def __exit__(self, *_):
        go()
        _WAITING.clear()
        self.thread.join()
        self.stream.close()


COUNT = "SELECT count(*) FROM SESSION(posts, INTERVAL '1' SECOND)"
# The same rows, in a form that has to wait for the end of the session.
COLLECTED = "SELECT count(*) FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM SESSION(posts, INTERVAL '1' SECOND))"


@pytest.fixture(params=[COUNT, COLLECTED], ids=["folded", "collected"])
def counting(request):
    return request.param


def number(platform, query, **options):
    return next(iter(platform.execute(query, **({"progress": go} | options))))[0]


def test_a_session_ends_when_nothing_comes(platform, counting):
    """RS-02, with other times."""
    began = time.monotonic()
    with Writer(platform, (0.5, 10), (1.5, 10), (8, 10)):
        assert number(platform, counting.replace("'1'", "'2'")) == 20
        assert time.monotonic() - began >= 3.5


def test_an_idle_stream_gives_an_empty_answer(platform, counting):
    """RS-03."""
    began = time.monotonic()
    assert number(platform, counting) == 0
    assert time.monotonic() - began >= 1
    grouped = platform.execute("SELECT uid, count(*) FROM SESSION(posts, '200 ms') GROUP BY uid")
    assert list(grouped) == []


@pytest.mark.parametrize(("start", "expected"), [("'now'", 3), ("'earliest'", 8)])
def test_where_a_session_starts(platform, counting, start, expected):
    """RS-05."""
    with platform.stream("posts") as stream:
        stream.append(posts(100, 5), wait=True)
    with Writer(platform, (0.4, 3)):
        assert number(platform, counting.replace("'1' SECOND", f"'2' SECOND, {start}")) == expected


def test_no_early_end_under_slow_work(platform, counting, monkeypatch, pace):
    """RS-04: what has arrived while the reader was busy counts, though longer ago than the session's time."""
    kind = folding.FoldedAnswer if counting == COUNT else session.CollectedAnswer
    plain = kind.add

    def slow(self, *args, **options):
        time.sleep(1.4 * pace)
        plain(self, *args, **options)

    monkeypatch.setattr(kind, "add", slow)
    query = counting.replace("'1' SECOND", "'1.2' SECOND")
    with Writer(platform, *((0.2 + 0.3 * turn, 7) for turn in range(8))):
        assert number(platform, query) == 56


def test_a_pause_ends_it_also_for_a_reader_that_was_busy(platform, monkeypatch, pace):
    plain = folding.FoldedAnswer.add

    def slow(self, *args, **options):
        time.sleep(3 * pace)
        plain(self, *args, **options)

    monkeypatch.setattr(folding.FoldedAnswer, "add", slow)
    with Writer(platform, (0.2, 1), (0.4, 1), (2.4, 5)):
        assert number(platform, COUNT) == 2


def test_each_row_once_with_groups_and_tables(platform):
    """The groups of all rows, joined with a table at the snapshot at which the query began (RS-13)."""
    query = """
        SELECT u.region, count(*) AS n, sum(p.id) AS ids, max(p.id) AS last
        FROM SESSION(posts, '1 second', 'earliest') p JOIN users u ON u.id = p.uid GROUP BY u.region ORDER BY n DESC"""
    with Writer(platform, *((0.1 * turn, 1 + 13 * turn) for turn in range(12))) as writer:
        rows = [tuple(row) for row in platform.execute(query, progress=go)]
    all_rows = posts(0, writer.written).to_pylist()
    expected = []
    for region, uids in (("DE", (0, 2)), ("US", (1,))):
        ids = [row["id"] for row in all_rows if row["uid"] in uids]
        expected.append((region, len(ids), sum(ids), max(ids)))
    assert rows == expected


def test_changes_of_tables_during_a_session_do_not_show(platform):
    platform.execute("CREATE OR REPLACE TABLE rates (uid INT, rate INT)")
    platform.execute("INSERT INTO rates VALUES (0, 1), (1, 1), (2, 1)")
    query = "SELECT sum(rate) FROM SESSION(posts, '1 second') p JOIN rates r ON r.uid = p.uid"
    changed = []

    def change(_):
        go()
        if not changed:
            changed.append(platform.execute("INSERT INTO rates VALUES (0, 100)"))

    with Writer(platform, (0.4, 30), (1.2, 30)):
        assert number(platform, query, progress=change) == 60


def test_groups_are_kept_not_rows(platform, monkeypatch):
    """Memory follows the groups: what is kept of many segments never has more rows than groups, a few times over."""
    monkeypatch.setattr(platform.work, "limits", Limits(session_merge_rows=10))
    kept, plain = [], folding.FoldedAnswer.add

    def watched(self, *args, **options):
        plain(self, *args, **options)
        kept.append(sum(table.num_rows for tables in self._groups.values() for table in tables))

    monkeypatch.setattr(folding.FoldedAnswer, "add", watched)
    grouped = "SELECT uid, count(*) FROM SESSION(posts, '1 second') GROUP BY uid"
    with Writer(platform, *((0.25 * turn, 500) for turn in range(15))):
        found = Counter({row[0]: row[1] for row in platform.execute(grouped, progress=go)})
    assert found == Counter(i % 3 for i in range(15 * 500))
    assert len(kept) >= 3
    assert max(kept) <= 13


def test_many_small_segments_in_a_small_ring(platform):
    """RS-06: a reader in step with the writer counts every row, though the ring holds few of them."""
    platform.execute("ALTER STREAM posts SET (retention_rows = 500)")
    with Writer(platform, *((0.02 * turn, 100) for turn in range(60))):
        assert number(platform, COUNT) == 6000
    assert platform.lake.read("posts").num_rows <= 700


def test_a_reader_that_falls_behind_is_told(platform, monkeypatch):
    """RS-07: never a wrong number."""
    platform.execute("ALTER STREAM posts SET (retention_rows = 100, overrun_grace = '1 ms')")
    plain = Follower.take
    taken = []

    def paused(self):
        arrived = plain(self)
        if not taken:
            taken.append(1)
            self._let_go()
            with platform.stream("posts") as stream:
                for turn in range(20):
                    stream.append(posts(1000 + turn * 100, 100), wait=True)
        return arrived

    monkeypatch.setattr(Follower, "take", paused)
    with Writer(platform, (0.3, 50)), pytest.raises(StreamOverrun, match="posts") as raised:
        number(platform, COUNT)
    assert raised.value.hint


def test_a_stream_that_blocks_waits_for_a_slow_session(platform, monkeypatch):
    """RS-18: the writer slows, and every row is counted."""
    platform.execute("ALTER STREAM posts SET (retention_rows = 100, on_overrun = 'block')")
    plain = folding.FoldedAnswer.add

    def slow(self, *args, **options):
        plain(self, *args, **options)
        time.sleep(0.5)

    monkeypatch.setattr(folding.FoldedAnswer, "add", slow)
    began = time.monotonic()
    with Writer(platform, *((0.3, 50) for _ in range(30))) as writer:
        assert number(platform, COUNT.replace("'1'", "'2'")) == 1500
        took = time.monotonic() - began
    assert writer.written == 1500
    assert took > 3, "the writer did not wait"
    assert platform.lake.read("posts").num_rows <= 250
    with platform.lake.reading() as connection:
        assert read_owners(connection, platform.lake.table("posts").uuid) == {}


def test_a_session_that_died_holds_nothing(platform):
    """A blocked writer finds out that the reader it waits for does not exist any more."""
    platform.execute("ALTER STREAM posts SET (retention_rows = 100, on_overrun = 'block', overrun_grace = '5 seconds')")
    table = platform.lake.table("posts")
    with platform.lake.lease(holder="session") as lease:
        follower = Follower(platform.lake, table, idle=timedelta(seconds=1), earliest=True, lease=lease)
    dead = follower._consumer.rpartition("/")[0] + "/1"  # the same process number, but begun at another time
    with platform.lake.writing() as connection:
        connection.execute(CURSOR.update().values(owner=dead))
    with platform.stream("posts") as stream:
        for turn in range(10):
            stream.append(posts(turn * 100, 100), wait=True)
    assert platform.lake.read("posts").num_rows <= 200
    follower.release()


def test_two_sessions_do_not_disturb_each_other(platform):
    """RS-12."""
    found, failed = [], []
    other = threading.Thread(target=lambda: found.append(number(platform, COUNT)))

    def abandon():
        try:
            number(platform, COUNT, timeout=timedelta(seconds=0.7))
        except QueryInterrupted as error:
            failed.append(error)

    abandoned = threading.Thread(target=abandon)
    with Writer(platform, *((0.5 + 0.1 * turn, 100) for turn in range(10))):
        other.start()
        abandoned.start()
        found.append(number(platform, COUNT))
        other.join()
        abandoned.join()
    assert found == [1000, 1000]
    assert len(failed) == 1


def test_progress_tells_rows_lag_and_idleness(platform):
    seen = []

    def watch(progress):
        go()
        if isinstance(progress, session.SessionProgress):
            seen.append(progress)

    with Writer(platform, (0.3, 10), (0.6, 10)):
        assert number(platform, COUNT, progress=watch) == 20
    assert seen[-1].rows == 20
    assert max(p.idle_seconds for p in seen) >= 0.9
    assert [p.rows for p in seen] == sorted(p.rows for p in seen)
    assert min(p.lag_rows for p in seen) == 0


def test_time_outs_interrupt_and_leave_nothing(platform, counting):
    with Writer(platform, *((0.2 * turn, 10) for turn in range(15))):
        began = time.monotonic()
        with pytest.raises(QueryInterrupted, match="interrupted after"):
            number(platform, counting.replace("'1'", "'5'"), timeout=timedelta(seconds=1.5))
        assert time.monotonic() - began < 60
    from platform_plugin.lake.catalogue.catalogue import PLATFORM_LEASE

    with platform.lake.reading() as connection:
        assert connection.execute(PLATFORM_LEASE.select().where(PLATFORM_LEASE.c.holder.like("session%"))).all() == []


def test_columns_and_names(platform):
    with platform.stream("posts") as stream:
        stream.append(posts(0, 4), wait=True)
    query = "SELECT _row_id, uid, _arrived_at IS NOT NULL FROM SESSION(main.posts, '300 ms', 'earliest') AS p WHERE id > 0 ORDER BY 1"
    assert [tuple(row) for row in platform.execute(query)] == [(1, 1, True), (2, 2, True), (3, 0, True)]
    qualified = (
        "SELECT posts.uid, count(*) AS n FROM SESSION(posts, '300 ms', 'earliest') WHERE posts.id > :least GROUP BY posts.uid ORDER BY uid"
    )
    assert [tuple(row) for row in platform.execute(qualified, {"least": 0})] == [(0, 1), (1, 1), (2, 1)]
    none = "SELECT uid, count(*), min(id) FROM SESSION(posts, '300 ms', 'earliest') WHERE id > 99 GROUP BY uid"
    assert list(platform.execute(none)) == []
    ordered = "SELECT uid, count(*) AS n FROM SESSION(posts, '300 ms', 'earliest') GROUP BY uid ORDER BY n DESC, uid DESC LIMIT 2"
    assert [tuple(row) for row in platform.execute(ordered)] == [(0, 2), (2, 1)]


def test_explain_says_how_a_session_is_worked_off(platform):
    said = [row[0] for row in platform.execute("EXPLAIN SELECT uid, count(*) FROM SESSION(posts, '2 seconds') GROUP BY uid")]
    assert said[:2] == [
        "session of main.posts until nothing has come for 2 s",
        "rows are folded into groups as they arrive, by the Arrow kernel, in this process or on the executors:",
    ]
    assert "GROUP BY" in said[2]
    assert any("Physical Plan" in line for line in said)
    waits = [row[0] for row in platform.execute("EXPLAIN SELECT id FROM SESSION(posts, '2 seconds')")]
    assert waits[1].startswith("rows wait for its end: ")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM SESSION(users, '1 second')", "is not a stream"),
        ("SELECT * FROM SESSION(poss, '1 second')", "does not exist"),
        ("SELECT wrong FROM SESSION(posts, '1 hour')", "wrong"),
        ("SELECT * FROM SESSION(posts, INTERVAL '0' SECOND)", "how long a session waits"),
        ("SELECT * FROM SESSION(posts, 2)", "how long a session waits"),
        ("SELECT * FROM SESSION(posts)", "a time after which it ends"),
        ("SELECT * FROM SESSION(posts, '1 second', 'late')", "can't start at"),
        ("INSERT INTO users SELECT id, 'x' FROM SESSION(posts, '1 second')", "can't be read here"),
        ("CREATE TABLE t AS SELECT * FROM SESSION(posts, '1 second')", "can't be read here"),
        ("CREATE VIEW v AS SELECT * FROM SESSION(posts, '1 second')", "session"),
    ],
)
def test_what_is_wrong_is_pointed_at_before_anything_is_waited_for(platform, query, said):
    began = time.monotonic()
    with pytest.raises(PlatformError, match=said) as raised:
        platform.execute(query)
    assert time.monotonic() - began < 60
    assert getattr(raised.value, "line", 0) == 1, raised.value


def test_only_selects_read_sessions(platform):
    with pytest.raises(InvalidValue):
        platform.execute("DELETE FROM users WHERE id IN (SELECT uid FROM SESSION(posts, '1 second'))")
