"""Streams that follow tables are maintained by the one loop: what is due, retries, failures, races, and batches of bounded size."""

from __future__ import annotations

from collections import Counter

import pytest

from platform_plugin.errors import InvalidValue, StorageError, UnknownObject
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.maintenance.due import describe_due
from platform_plugin.maintenance.run import find_due, run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.follow.maintained import Selection
from platform_plugin.relations.streams import feed_step
from platform_plugin.relations.streams.feeds import change_ingest, table_ingest
from platform_plugin.relations.streams.feeds.ingest import run_ingest
from tests.lake.changing import end_rows


@pytest.fixture
def url(tmp_path):
    return f"platform+local://{tmp_path}/lake"


@pytest.fixture
def platform(url):
    with Platform.create(url) as made:
        made.execute("CREATE TABLE t (id BIGINT, n BIGINT)")
        made.execute("CREATE STREAM came FROM TABLE t")
        made.execute("CREATE STREAM changed FROM TABLE t (changes = true)")
        made.execute("CREATE VIEW total AS SELECT sum(n * _weight) AS n, sum(_weight) AS k FROM changed")
        yield made


def insert(platform, *rows):
    platform.execute(f"INSERT INTO t VALUES {', '.join(map(str, rows))}")


def change(platform, ids, **new):
    return end_rows(platform.lake, platform.lake.table("t"), ids, images=True, new=new or None)


def values(platform, name="t"):
    return sorted((row["id"], row["n"]) for row in platform.lake.read(name).to_pylist())


def bag(platform):
    """The rows that the stream of changes sums up to."""
    found: Counter[tuple[int, int]] = Counter()
    for row in platform.lake.read("changed").to_pylist():
        found[row["id"], row["n"]] += row["_weight"]
        assert found[row["id"], row["n"]] in (0, 1)
    return sorted(+found)


def test_one_run_feeds_streams_and_the_views_on_them(platform):
    insert(platform, (1, 10), (2, 20))
    done = run_maintenance(platform.work)
    assert sorted(done.feeds) == ["main.came", "main.changed"]
    assert (done.fed, done.views, done.rows, done.failed) == (4, ("main.total",), 2, {})
    change(platform, [1], n=11)
    change(platform, [2])
    insert(platform, (3, 30))
    done = run_maintenance(platform.work)
    assert done.fed == 1 + 4
    assert values(platform, "came") == [(1, 10), (2, 20), (3, 30)]
    assert bag(platform) == values(platform) == [(1, 11), (3, 30)]
    assert list(platform.execute("SELECT * FROM total")) == [(41, 2)]
    before = platform.lake.snapshot()
    assert not run_maintenance(platform.work).did_anything
    assert platform.lake.snapshot() == before, "a stream whose table has not changed makes no commit"
    assert not platform.work.is_attached


def test_what_is_due_is_listed_and_not_done(platform):
    insert(platform, (1, 10))
    run_maintenance(platform.work)
    (position,) = (row[3] for row in platform.execute("SHOW CONSUMERS") if "changed" in row[0])
    change(platform, [1], n=5)
    insert(platform, (2, 20), (3, 30))
    before = platform.lake.snapshot()
    due, failed = find_due(platform.work, Selection(kinds=frozenset({"feed"})))
    assert failed == {}
    lines = describe_due(due, failed)
    assert lines[:3] == ["feed main.came consumes 2 rows", "  from main.t: rows 1 to 2", "  into main.came"]
    assert "feed main.changed consumes up to 4 changes" in lines
    assert f"  from main.t: changes after snapshot {position}, up to {before.id}" in lines
    assert platform.lake.snapshot() == before
    plan = [row[0] for row in platform.execute("EXPLAIN REFRESH STREAM came")]
    assert plan == lines[:4]
    assert platform.execute("REFRESH STREAM came").row_count == 2
    assert [row[0] for row in platform.execute("EXPLAIN REFRESH STREAM came")] == ["nothing waits for main.came"]
    assert values(platform, "changed") == [(1, 10)], "only what is named"


def test_what_is_no_stream_of_a_table_is_not_refreshed(platform, tmp_path):
    platform.execute("CREATE STREAM pushed (id BIGINT)")
    platform.execute(f"CREATE STREAM filed (id BIGINT) FROM FILES '{tmp_path}/in/*.csv'")
    for name, said in (("t", "not a stream with a feed"), ("pushed", "not a stream with a feed"), ("filed", "does not follow a table")):
        with pytest.raises(InvalidValue, match=said):
            platform.execute(f"REFRESH STREAM {name}")
    with pytest.raises(UnknownObject, match=r"did you mean main\.came"):
        platform.execute("REFRESH STREAM cane")


def test_a_stream_that_fails_is_tried_more_rarely_and_holds_nobody_up(platform, monkeypatch):
    insert(platform, (1, 10))
    tried = []

    def failing(*given):
        tried.append(given)
        raise StorageError("the disk of this stream is full")

    monkeypatch.setattr(change_ingest.ChangeBatch, "write", failing)
    for _ in range(2):
        done = run_maintenance(platform.work)
        assert list(done.failed) == ["main.changed"]
    assert len(tried) == 1, "not again so soon"
    assert values(platform, "came") == [(1, 10)]
    monkeypatch.undo()
    assert run_maintenance(platform.work, [Name.of("changed")], again=True).feeds == ("main.changed",)
    assert bag(platform) == [(1, 10)]


def test_a_table_that_is_made_anew_stops_its_streams_and_says_so(platform):
    insert(platform, (1, 10))
    run_maintenance(platform.work)
    platform.execute("CREATE OR REPLACE TABLE t (id BIGINT, n BIGINT)")
    platform.execute("CREATE TABLE u (id BIGINT)")
    platform.execute("CREATE STREAM other FROM TABLE u")
    platform.execute("INSERT INTO u VALUES (1)")
    done = run_maintenance(platform.work)
    assert done.feeds == ("main.other",)
    assert sorted(done.failed) == ["main.came", "main.changed"]
    assert all("was dropped and created again" in error.message for error in done.failed.values())
    assert all("CREATE OR REPLACE STREAM" in error.hint for error in done.failed.values())


def beside(monkeypatch, act):
    """Let something happen once, between the step of a feed and its commit."""
    happened = []
    put = feed_step.FeedStep.put

    def interrupted(self, commit):
        if not happened:
            happened.append(True)
            act()
        put(self, commit)

    monkeypatch.setattr(feed_step.FeedStep, "put", interrupted)
    return happened


def test_two_runs_of_one_stream_give_each_row_once(platform, url, monkeypatch):
    insert(platform, (1, 10), (2, 20))
    with Platform.open(url) as other:
        happened = beside(monkeypatch, lambda: run_maintenance(other.work))
        run_maintenance(platform.work)
        assert happened
        insert(platform, (3, 30))
        change(platform, [1])
        happened = beside(monkeypatch, lambda: run_ingest(other.work, "changed"))
        run_maintenance(platform.work)
        assert happened
    assert values(platform, "came") == [(1, 10), (2, 20), (3, 30)]
    assert bag(platform) == values(platform)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP STREAM came",
        "CREATE OR REPLACE STREAM came FROM TABLE t",
        "ALTER STREAM came SET (retention_rows = 1)",
        "ALTER TABLE t ADD COLUMN more STRING",
        "CREATE OR REPLACE TABLE t (id BIGINT, n BIGINT)",
    ],
)
def test_a_run_beside_a_change_of_what_it_reads_or_writes(platform, url, monkeypatch, statement):
    insert(platform, (1, 10), (2, 20))
    with Platform.open(url) as other:
        happened = beside(monkeypatch, lambda: other.execute(statement))
        done = run_maintenance(platform.work, kinds=["feed"])
        assert happened
        again = run_maintenance(platform.work, kinds=["feed"])
    assert not set(done.failed) - {"main.came", "main.changed"}
    names = {table.name.relation for table in platform.lake.tables()}
    if "came" in names and "TABLE t (" not in statement:
        assert values(platform, "came")[-1] == (2, 20)
        assert "retention" in statement or values(platform, "came") == [(1, 10), (2, 20)]
    assert ("came" in names) == (statement != "DROP STREAM came")
    if "TABLE t (" not in statement:
        assert (done.failed, again.failed) == ({}, {})
        assert bag(platform) == [(1, 10), (2, 20)]
    # Nothing that the lost attempts wrote is left behind for ever, and no cursor of what is gone.
    holders = [row[0] for row in platform.execute("SHOW CONSUMERS")]
    assert len(holders) == len(set(holders))


def test_batches_of_changes_keep_to_their_limits(platform):
    platform.execute("CREATE STREAM small FROM TABLE t (changes = true, max_files = 2)")
    platform.execute("CREATE STREAM appended FROM TABLE t (max_files = 2)")
    insert(platform, (0, 0))
    run_maintenance(platform.work)
    for number in range(1, 8):
        insert(platform, (number, number))
    # The loop takes one batch a run, until nothing is left.
    runs = 0
    while run_maintenance(platform.work, [Name.of("appended")]).feeds:
        runs += 1
    assert runs >= 4
    assert values(platform, "appended") == values(platform)
    change(platform, [1, 3], n=100)
    batches = []
    while not (report := run_ingest(platform.work, "small")).caught_up or report.snapshot is not None:
        batches.append(report.rows)
    assert sum(batches) >= 8
    assert max(batches) <= 4, batches
    assert len(batches) >= 4
    found: Counter[tuple[int, int]] = Counter()
    for row in platform.lake.read("small").to_pylist():
        found[row["id"], row["n"]] += row["_weight"]
    assert sorted(+found) == values(platform)


def test_one_step_serves_the_loop_and_the_service_of_feeds(platform, monkeypatch):
    written = []
    for batch in (table_ingest.AppendBatch, change_ingest.ChangeBatch):
        plain = batch.write
        monkeypatch.setattr(batch, "write", lambda self, *given, plain=plain: written.append(type(self)) or plain(self, *given))
    insert(platform, (1, 10))
    run_maintenance(platform.work)
    insert(platform, (2, 20))
    run_ingest(platform.work, "came")
    run_ingest(platform.work, "changed")
    assert Counter(written) == {table_ingest.AppendBatch: 2, change_ingest.ChangeBatch: 2}


@pytest.mark.spark
def test_many_changes_are_written_by_tasks(url, spark_server, monkeypatch):
    with Platform.create(url, limits={"client_change_rows": 5}) as platform:
        platform.execute("CREATE TABLE t (id BIGINT, n BIGINT)")
        insert(platform, *((number, number) for number in range(50)))
        platform.execute("CREATE STREAM changed FROM TABLE t (changes = true)")
        run_maintenance(platform.work)
        change(platform, list(range(0, 50, 5)), n=-1)
        change(platform, [1, 2])
        insert(platform, (100, 100))
        due, _ = find_due(platform.work, Selection())
        assert due[0].engine.startswith("spark")
        with monkeypatch.context() as patch:
            patch.setattr(change_ingest, "_changed_rows", None)
            done = run_maintenance(platform.work)
        assert (done.fed, done.failed) == (23, {})
        assert done.jobs > 0
        rows = platform.lake.read("changed").to_pylist()[50:]
        assert [(row["id"], row["_weight"]) for row in rows[:4]] == [(0, -1), (0, 1), (1, -1), (2, -1)]
        assert Counter(row["_change_type"] for row in rows) == {"update_before": 10, "update_after": 10, "delete": 2, "insert": 1}
        assert bag(platform) == values(platform)
