"""A changed view that is small is read without Spark, and what is read is what Spark would have said."""

from __future__ import annotations

import pyarrow as pa
import pytest

from platform_plugin.errors import PlatformError
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.follow import ranges
from platform_plugin.relations.views.read.local import read_local
from platform_plugin.state import merged

pytestmark = pytest.mark.spark

VIEWS = {
    "plain": "SELECT uid, count(*) AS n, sum(score) AS s, avg(score) AS a, min(word) AS w, max(day) AS d FROM posts GROUP BY uid",
    "money": "SELECT word, sum(price) AS paid, max(price) AS most, count(price) AS n FROM posts GROUP BY word HAVING count(*) > 1",
    "shares": "SELECT uid, sum(ratio) AS r, avg(ratio) AS a, sum(score) / count(*) AS q FROM posts WHERE ratio IS NOT NULL GROUP BY uid",
    "total": "SELECT count(*) AS n, sum(score) AS s, count_if(good) AS good, bool_and(good) AS all_good FROM posts",
    "looked_up": "SELECT u.name, count(*) AS n FROM posts p LEFT JOIN users u ON u.id = p.uid GROUP BY u.name",
    "above": "SELECT u.name, p.n FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) p JOIN users u ON u.id = p.uid WHERE p.n > 1",
    "cases": "SELECT CASE WHEN score > 2 THEN 'high' WHEN score IN (1, 2) THEN 'low' ELSE '' END AS c, count(*) AS n FROM posts GROUP BY 1",
    "top": "SELECT uid, count(*) AS n FROM posts WHERE uid IS NOT NULL GROUP BY uid ORDER BY n DESC, uid LIMIT 2",
    "distinct_users": "SELECT day, count(DISTINCT uid) AS users FROM posts GROUP BY day",
}


@pytest.fixture(scope="module")
def platform(tmp_path_factory, spark_server):
    with Platform.create(tmp_path_factory.mktemp("local") / "lake") as made:
        made.execute("CREATE STREAM posts (uid INT, score INT, word STRING, price DECIMAL(9,2), ratio DOUBLE, day DATE, good BOOLEAN)")
        made.execute("CREATE TABLE users (id INT, name STRING)")
        made.execute("INSERT INTO users VALUES (1, 'one'), (2, 'two'), (2, 'zwei'), (NULL, 'nobody')")
        for name, query in VIEWS.items():
            made.execute(f"CREATE VIEW {name} AS {query}")
        yield made


def by_spark(platform, monkeypatch, sql):
    with monkeypatch.context() as patched:
        for place in ("platform_plugin.relations.views.read.local.read_local", "platform_plugin.relations.views.read.source.read_local"):
            patched.setattr(place, lambda *_: None)
        result = platform.execute(f"SELECT * FROM ({sql})")
        return bag(result)


def bag(rows):
    return sorted((tuple(round(cell, 9) if isinstance(cell, float) else cell for cell in row) for row in rows), key=repr)


@pytest.mark.timeout(400)
def test_what_is_read_is_what_spark_would_have_said(platform, monkeypatch):
    batches = [
        "(1, 5, 'a', 1.25, 0.5, DATE '2026-01-01', true), (NULL, 1, NULL, NULL, NULL, NULL, NULL), (2, -3, 'b', 2.50, 1.5, NULL, false)",
        """(1, NULL, 'A', 0.01, -2.25, DATE '2026-01-02', NULL), (3, 2, 'ä', 7, 1e300, DATE '2026-01-01', true),
           (2, 4, 'b', -1, 0.1, DATE '1999-12-31', true), (2, 9, 'a', 3.33, 0.2, DATE '2026-01-01', true)""",
    ]
    result = platform.execute("SELECT * FROM total")
    assert (list(result), result.metrics) == ([(0, None, 0, None)], None)
    for place, batch in enumerate(batches):
        platform.execute(f"INSERT INTO posts VALUES {batch}")
        for name in VIEWS:
            result = platform.execute(f"SELECT * FROM {name}")
            assert result.metrics is None, (name, "is one of the common ones")
            assert bag(result) == by_spark(platform, monkeypatch, f"SELECT * FROM {name}"), (name, place)
        run_maintenance(platform.work)
    joined = "SELECT p.uid, p.n, t.n FROM plain p JOIN total t ON p.n < t.n"
    assert bag(platform.execute(joined)) == by_spark(platform, monkeypatch, joined)


def test_a_sample_that_a_view_reads_is_read_with_what_it_has_picked(platform):
    platform.execute("CREATE STREAM rated (uid INT, score INT)")
    platform.execute("CREATE SAMPLE some ON rated SIZE 100")
    platform.execute(
        "CREATE VIEW of_some AS SELECT g.uid, g.n, x.score FROM (SELECT uid, count(*) AS n FROM rated GROUP BY uid) g"
        " JOIN some x ON x.uid = g.uid"
    )
    platform.execute("INSERT INTO rated VALUES (1, 5), (2, 6)")
    result = platform.execute("SELECT * FROM of_some")
    assert result.metrics is None
    assert sorted(result) == [(1, 1, 5), (2, 1, 6)]


def test_merged_states_are_kept_and_only_what_is_new_is_read(platform, monkeypatch):
    read = []

    def reading(lake, scan, **more):
        read.append((scan.table.name.relation.split("__")[0], len(scan.files)))
        return found(lake, scan, **more)

    found = merged.read_rows
    for _ in range(3):
        platform.execute("INSERT INTO posts VALUES (7, 1, 'x', 1, 1, NULL, true)")
        run_maintenance(platform.work)
    list(platform.execute("SELECT * FROM plain"))
    for place in (merged, ranges):
        monkeypatch.setattr(place, "read_rows", reading)
    platform.execute("INSERT INTO posts VALUES (7, 1, 'x', 1, 1, NULL, true)")
    before = {row[0]: row[1] for row in platform.execute("SELECT uid, n FROM plain")}
    assert read == [("posts", 1)], "the state is at hand"
    run_maintenance(platform.work)
    read.clear()
    assert {row[0]: row[1] for row in platform.execute("SELECT uid, n FROM plain")} == before
    assert read == [("plain", 1)], "one addition is new"
    for _ in range(8):
        platform.execute("INSERT INTO posts VALUES (7, 1, 'x', 1, 1, NULL, true)")
        run_maintenance(platform.work)
    lake = platform.lake
    (state,) = [table for table in lake.tables() if table.name.relation.startswith("plain__state")]
    files = lake.scan(state, lake.snapshot()).files
    assert any("-base" in file.path for file in files)
    read.clear()
    after = {row[0]: row[1] for row in platform.execute("SELECT uid, n FROM plain")}
    assert after == before | {7: before[7] + 8}
    assert read == [("plain", 8)], "also of additions that were compacted since, and not of what they became"


def test_errors_and_what_engines_do_not_agree_on_are_sparks(platform, monkeypatch):
    platform.execute("CREATE STREAM odd (id INT, n BIGINT, x DOUBLE)")
    platform.execute("CREATE VIEW sums AS SELECT sum(n) AS s FROM odd")
    platform.execute("CREATE VIEW quotients AS SELECT sum(n) / sum(id) AS q FROM odd")
    platform.execute("CREATE VIEW largest AS SELECT id, max(x) AS x FROM odd GROUP BY id")
    lake = platform.lake
    table = lake.table("odd")
    with lake.commit("nan") as commit:
        rows = pa.table({"id": pa.array([0, 0], pa.int32()), "n": pa.array([1, 2], pa.int64()), "x": [float("nan"), 1.0]})
        commit.append(table, [lake.write(table, rows)])
    result = platform.execute("SELECT * FROM largest")
    assert str(list(result)) == "[(0, nan)]", "for Spark NaN is the largest"
    with pytest.raises(PlatformError, match="division by zero"):
        list(platform.execute("SELECT * FROM quotients"))
    platform.execute(f"INSERT INTO odd VALUES (1, {2**63 - 1}, 0)")
    with pytest.raises(PlatformError, match="overflow"):
        list(platform.execute("SELECT * FROM sums"))


def test_two_groupings_of_one_stream_are_read_without_spark_though_each_looks_at_other_columns(platform):
    platform.execute(
        "CREATE VIEW both_ways AS SELECT a.uid, a.n, b.s FROM (SELECT uid, count(word) AS n FROM posts GROUP BY uid) a "
        "JOIN (SELECT day, sum(score) AS s FROM posts GROUP BY day) b ON a.n = b.s"
    )
    platform.execute("INSERT INTO posts VALUES (5, 1, 'x', 1, 1, DATE '2030-01-01', true)")
    work = platform.work
    snapshot = work.lake.snapshot()
    with work.lake.reading() as connection:
        view = work.lake.find_relation(connection, Name(schema="main", relation="both_ways"), snapshot)
    found = read_local(work, view, snapshot)
    assert found is not None
    assert found.rows.to_pylist() == [{"uid": 5, "n": 1, "s": 1}]
