"""Continuous views through SQL: current at every read, exact at every snapshot, whatever was maintained when."""

from __future__ import annotations

import pyarrow as pa
import pytest

from platform_plugin.engine.limits import Limits
from platform_plugin.errors import InvalidValue, ObjectExists, PlatformError, RefusedView, StorageError
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.select.overview import read_overview

pytestmark = pytest.mark.spark


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        yield made


def define(platform):
    platform.execute("CREATE STREAM posts (uid INT, score INT) WITH (retention_rows = 6)")
    platform.execute("CREATE VIEW impact AS SELECT uid, count(*) AS posts, avg(score) AS score FROM posts GROUP BY uid")


def append(platform, *rows):
    lake = platform.lake
    table = lake.table("posts")
    with lake.commit("append") as commit:
        columns = {"uid": pa.array([row[0] for row in rows], pa.int32()), "score": pa.array([row[1] for row in rows], pa.int32())}
        commit.append(table, [lake.write(table, pa.table(columns))])
    return commit.made


def rows(platform, sql):
    return sorted(platform.execute(sql))


def test_a_view_is_current_before_and_after_maintenance(platform):
    define(platform)
    assert rows(platform, "SELECT * FROM impact") == []
    append(platform, (1, 10), (2, 5))
    append(platform, (1, 20))
    assert rows(platform, "SELECT * FROM impact") == [(1, 2, 15.0), (2, 1, 5.0)]
    done = run_maintenance(platform.work)
    assert (done.views, done.rows, done.groups, done.jobs) == (("main.impact",), 3, 2, 0), "small ranges need no engine"
    assert rows(platform, "SELECT * FROM impact") == [(1, 2, 15.0), (2, 1, 5.0)]
    append(platform, (2, 7))
    assert rows(platform, "SELECT uid, score FROM impact WHERE uid = 2") == [(2, 6.0)]


def test_rows_may_be_gone_once_they_are_taken_up_and_not_before(platform):
    define(platform)
    for _ in range(6):
        append(platform, (1, 10), (2, 5))
    assert rows(platform, "SELECT count(*) FROM posts") == [(12,)], "what the view has not taken up stays"
    assert rows(platform, "SELECT * FROM impact") == [(1, 6, 10.0), (2, 6, 5.0)]
    platform.execute("REFRESH VIEW impact")
    append(platform, (3, 1))
    assert rows(platform, "SELECT count(*) FROM posts") == [(7,)]
    assert rows(platform, "SELECT * FROM impact") == [(1, 6, 10.0), (2, 6, 5.0), (3, 1, 1.0)]


def test_old_snapshots_read_as_they_were(platform):
    define(platform)
    made = []
    for place in range(4):
        snapshot = append(platform, (1, place))
        made.append((snapshot.id, place))
        if place == 1:
            run_maintenance(platform.work)
            made.append((platform.lake.snapshot().id, place))
    for version, last in made:
        assert rows(platform, f"SELECT * FROM impact AT (VERSION => {version})") == [(1, last + 1, last / 2)]


def test_only_what_comes_after_its_creation_counts_unless_asked_for(platform):
    platform.execute("CREATE STREAM posts (uid INT, score INT)")
    append(platform, (1, 1))
    platform.execute("CREATE VIEW late AS SELECT count(*) AS n FROM posts")
    platform.execute("CREATE VIEW early WITH (start = 'earliest') AS SELECT count(*) AS n FROM posts")
    assert rows(platform, "SELECT l.n, e.n FROM late l, early e") == [(0, 1)]
    append(platform, (1, 1))
    assert rows(platform, "SELECT l.n, e.n FROM late l, early e") == [(1, 2)]


def test_many_views_are_maintained_by_one_job(platform, monkeypatch):
    monkeypatch.setattr(platform.work, "limits", Limits(client_range_rows=0))  # as if the ranges were large
    monkeypatch.setattr(platform.work, "engine", "spark_sql")
    define(platform)
    platform.execute("CREATE VIEW total AS SELECT count(*) AS n, sum(score) AS s FROM posts")
    platform.execute("CREATE VIEW best AS SELECT uid, max(score) AS best FROM posts WHERE score > 3 GROUP BY uid HAVING max(score) > 5")
    append(platform, (1, 10), (2, 5), (1, 2))
    done = run_maintenance(platform.work)
    assert (len(done.views), done.rows, done.jobs) == (3, 3, 1)
    assert rows(platform, "SELECT * FROM total") == [(3, 17)]
    assert rows(platform, "SELECT * FROM best") == [(1, 10)]
    again = run_maintenance(platform.work)
    assert (again.views, again.jobs) == ((), 0)


def test_tables_above_the_grouping_are_followed_and_those_below_are_pinned(platform):
    platform.execute("CREATE STREAM posts (uid INT, score INT)")
    platform.execute("CREATE TABLE users (id INT, region STRING)")
    platform.execute("INSERT INTO users VALUES (1, 'DE'), (2, 'US')")
    made = platform.execute(
        "CREATE VIEW regions AS SELECT u.region, count(*) AS n FROM posts p JOIN users u ON u.id = p.uid GROUP BY u.region"
    )
    assert str(made.message).endswith("; main.users below its grouping was read now and is not read again but by REBUILD VIEW main.regions")
    facts = {row[0]: row[1] for row in platform.execute("DESCRIBE EXTENDED regions")}
    assert facts["# read at its creation"] == "main.users, below its grouping; REBUILD VIEW main.regions reads them again"
    assert "# changed since its creation" not in facts
    platform.execute(
        "CREATE VIEW named AS SELECT u.region, i.n FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) i JOIN users u ON u.id = i.uid"
    )
    append(platform, (1, 1), (2, 1), (2, 2))
    platform.lake.merge("users")
    assert (platform.execute("DESCRIBE regions").message, read_overview(str(platform.lake.location)).pinned) == ("", ())
    platform.execute("UPDATE users SET region = 'FR' WHERE id = 2")
    (pinned,) = read_overview(str(platform.lake.location)).pinned
    assert (pinned.schema, pinned.name, pinned.tables) == ("main", "regions", ("main.users",))
    told = f"main.regions read main.users at snapshot {pinned.read_at}, and it has changed since; REBUILD VIEW main.regions reads it"
    assert platform.execute("DESCRIBE regions").message == f"{told} as it is now"
    assert ("# changed since its creation", "main.users") in [row[:2] for row in platform.execute("DESCRIBE EXTENDED regions")]
    assert rows(platform, "SELECT * FROM regions") == [("DE", 1), ("US", 2)]
    assert rows(platform, "SELECT * FROM named") == [("DE", 1), ("FR", 2)]
    run_maintenance(platform.work)
    assert rows(platform, "SELECT * FROM regions") == [("DE", 1), ("US", 2)]
    assert rows(platform, "SELECT * FROM named") == [("DE", 1), ("FR", 2)]
    platform.execute("REBUILD VIEW regions")
    assert (platform.execute("DESCRIBE regions").message, read_overview(str(platform.lake.location)).pinned) == ("", ())
    platform.execute("CREATE OR REPLACE TABLE users (id INT, region STRING)")
    assert [each.tables for each in read_overview(str(platform.lake.location)).pinned] == [("main.users",)]


@pytest.mark.parametrize("largest", [0, Limits().client_state_bytes])
def test_additions_are_compacted_and_nothing_is_counted_twice(platform, monkeypatch, largest):
    monkeypatch.setattr(platform.work, "limits", Limits(client_state_bytes=largest))  # with Spark and without
    define(platform)
    compacted = 0
    for place in range(12):
        append(platform, (place % 3, place))
        done = run_maintenance(platform.work)
        compacted += done.compacted
        assert done.jobs == (done.compacted if largest == 0 else 0)
    assert compacted
    lake = platform.lake
    (state,) = [table for table in lake.tables() if "state" in table.name.relation]
    assert len(lake.scan(state, lake.snapshot()).files) < 8
    assert rows(platform, "SELECT uid, posts FROM impact") == [(0, 4), (1, 4), (2, 4)]


def test_a_row_that_one_view_cannot_digest_does_not_hold_up_the_others(platform):
    define(platform)
    platform.execute("CREATE VIEW shares AS SELECT uid, sum(100 DIV score) AS s FROM posts GROUP BY uid")
    append(platform, (1, 10), (2, 0))
    done = run_maintenance(platform.work)
    assert done.views == ("main.impact",)
    assert "division by zero" in str(done.failed["main.shares"])
    assert rows(platform, "SELECT uid, posts FROM impact") == [(1, 1), (2, 1)]
    with pytest.raises(PlatformError, match="division by zero"):
        rows(platform, "SELECT * FROM shares")


def test_a_disk_that_fails_is_no_view_s_fault(platform, monkeypatch):
    define(platform)
    append(platform, (1, 10))

    def full(*_given, **_more):
        raise StorageError("no space is left")

    with monkeypatch.context() as patched:
        patched.setattr(type(platform.lake), "write", full)
        with pytest.raises(StorageError, match="no space"):
            run_maintenance(platform.work)
    assert run_maintenance(platform.work).views == ("main.impact",), "nothing is held back once there is space"


def test_views_over_views(platform):
    define(platform)
    platform.execute("CREATE VIEW high AS SELECT uid FROM impact WHERE score > 7")
    platform.execute("CREATE VIEW number AS SELECT count(*) AS n FROM impact")
    append(platform, (1, 10), (2, 5))
    assert rows(platform, "SELECT * FROM high") == [(1,)]
    assert rows(platform, "SELECT * FROM number") == [(2,)]


def test_a_query_without_grouping_is_computed_when_read(platform):
    define(platform)
    made = platform.execute("CREATE VIEW recent AS SELECT uid FROM posts WHERE score > 3")
    assert made.message == "view main.recent created; it is computed when it is read"
    append(platform, (1, 10), (2, 1))
    assert rows(platform, "SELECT * FROM recent") == [(1,)]
    with pytest.raises(RefusedView):
        platform.execute("CREATE CONTINUOUS VIEW other AS SELECT uid FROM posts")


def test_what_a_view_needs_can_not_be_dropped_under_it_and_goes_with_it(platform):
    define(platform)
    platform.execute("CREATE SAMPLE few ON posts SIZE 3")
    with pytest.raises(InvalidValue, match=r'stream "main\.posts" is read by main\.impact and sampled by main\.few') as refused:
        platform.execute("DROP STREAM posts CASCADE")
    assert refused.value.hint == "drop first: DROP VIEW main.impact; DROP SAMPLE main.few. CASCADE is for schemas"
    platform.execute("DROP SAMPLE few")
    with pytest.raises(ObjectExists):
        platform.execute("CREATE VIEW impact AS SELECT count(*) AS n FROM posts")
    append(platform, (1, 10))
    platform.execute("CREATE OR REPLACE VIEW impact AS SELECT count(*) AS n FROM posts")
    append(platform, (1, 10))
    assert rows(platform, "SELECT * FROM impact") == [(1,)]
    platform.execute("DROP VIEW impact")
    assert [table.name.relation for table in platform.lake.tables()] == ["posts"]
    platform.execute("DROP STREAM posts")


def test_two_runs_at_once_count_nothing_twice(platform, tmp_path):
    import threading

    define(platform)
    others = [Platform.open(tmp_path / "lake") for _ in range(2)]
    for place in range(4):
        append(platform, (place % 2, 1), (place % 2, 1))
        threads = [threading.Thread(target=run_maintenance, args=(other.work,)) for other in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert rows(platform, "SELECT sum(posts) FROM impact") == [(2 * (place + 1),)]
    for other in others:
        other.close()


def test_lists_leave_the_parts_of_views_out_and_nobody_writes_them(platform):
    define(platform)
    append(platform, (1, 10), (2, 1))
    (state,) = [table.name.relation for table in platform.lake.tables() if "__state" in table.name.relation]
    assert rows(platform, "SHOW TABLES")[0][1:3] == ("impact", "view")
    assert [row[1] for row in rows(platform, "SHOW TABLES")] == ["impact", "posts"]
    for sql in (f"INSERT INTO {state} VALUES (1, 1, 1)", f"DELETE FROM {state}", f"DROP TABLE {state}", f"UPDATE {state} SET uid = 1"):
        with pytest.raises(InvalidValue, match=r"part of a continuous view|is a state"):
            platform.execute(sql)
    platform.execute("REFRESH VIEW impact")
    append(platform, (1, 10))
    said = {row[0]: row[1] for row in platform.execute("DESCRIBE EXTENDED impact")}
    assert (said["uid"], said["posts"], said["score"]) == ("INT", "BIGINT", "DOUBLE")
    assert said["# consumed of main.posts"] == "up to row 1, 1 rows wait and are merged when it is read"
    assert said["# state_1"].startswith("2 rows, ")
    assert state not in str(said), "a name that nobody can use"
    assert any(row[1] is not None and row[1].endswith(f" of main.{state}") for row in platform.execute("DESCRIBE FORMATTED impact"))


def test_what_can_not_be_refreshed_or_rebuilt_is_said(platform):
    define(platform)
    platform.execute("CREATE VIEW recent AS SELECT uid FROM posts")
    for sql, says in {
        "REBUILD VIEW recent": "is not a continuous view",
        "REFRESH VIEW recent": "is not a continuous view",
        "REFRESH VIEW posts": "is not a continuous view",
        "REFRESH VIEW impac": "does not exist",
    }.items():
        with pytest.raises(PlatformError, match=says):
            platform.execute(sql)


def test_columns_are_named_by_the_view(platform):
    define(platform)
    made = platform.execute("CREATE VIEW named (who COMMENT 'the user', n) AS SELECT uid, count(*) FROM posts GROUP BY uid")
    assert made.message == (
        "view main.named created; reads are current, and `platform maintain`, REFRESH VIEW or a Dagster sensor keeps them cheap"
    )
    append(platform, (1, 10))
    assert platform.execute("SELECT * FROM named").columns == ["who", "n"]
    assert [row[0] for row in platform.execute("DESCRIBE named")] == ["who", "n"]


def test_explain_says_how_a_view_would_be_split_and_makes_nothing(platform):
    define(platform)
    before = platform.lake.snapshot()
    said = "\n".join(row[0] for row in platform.execute("EXPLAIN CREATE VIEW total AS SELECT count(*) AS n FROM posts"))
    assert "stream part" in said
    assert "upper part" in said
    assert "a range of main.posts is read by 1 query" in said
    assert platform.lake.snapshot() == before
    said = list(platform.execute("EXPLAIN CREATE VIEW top AS SELECT uid FROM posts ORDER BY score LIMIT 3"))
    assert said == [("view main.top groups no stream: it is computed when it is read",)]
    with pytest.raises(RefusedView) as refused:
        platform.execute("EXPLAIN CREATE CONTINUOUS VIEW top AS SELECT uid FROM posts ORDER BY score LIMIT 3")
    assert refused.value.rule


def test_views_share_what_they_look_up_as_long_as_it_is_the_same(platform):
    platform.execute("CREATE STREAM posts (uid INT, score INT)")
    platform.execute("CREATE TABLE users (id INT, region STRING)")
    platform.execute("INSERT INTO users VALUES (1, 'DE'), (2, 'US')")
    query = "FROM posts p JOIN users u ON u.id = p.uid WHERE u.region = 'DE'"
    for name, what in {"one": "count(*) AS n", "two": "sum(p.score) AS n"}.items():
        platform.execute(f"CREATE VIEW {name} AS SELECT {what} {query}")

    def statics():
        return sorted(table.name.relation[:3] for table in platform.lake.tables() if "__static" in table.name.relation)

    assert statics() == ["one"]
    platform.execute("INSERT INTO users VALUES (3, 'DE')")
    platform.execute(f"CREATE VIEW three AS SELECT count(*) AS n {query}")
    assert statics() == ["one", "thr"], "the table has changed since"
    append(platform, (1, 5), (3, 5))
    done = run_maintenance(platform.work)
    assert (done.views, done.failed) == (("main.one", "main.three", "main.two"), {})
    assert rows(platform, "SELECT one.n, two.n, three.n FROM one, two, three") == [(1, 5, 2)]
    platform.execute("DROP VIEW one")
    append(platform, (1, 5))
    assert rows(platform, "SELECT two.n, three.n FROM two, three") == [(10, 3)]
    platform.execute("CREATE OR REPLACE VIEW two AS SELECT count(*) AS n FROM posts")
    assert statics() == ["thr"]


def test_a_column_of_the_stream_becomes_wider_and_so_does_what_views_keep_of_it(platform):
    platform.execute("CREATE STREAM posts (uid INT, score INT, price DECIMAL(6,2)) WITH (retention_rows = 2)")
    query = "SELECT uid, max(score) AS high, min(price) AS low, sum(price) AS paid, count(DISTINCT score) AS n FROM {} GROUP BY uid"
    platform.execute(f"CREATE VIEW impact AS {query.format('posts')}")
    platform.execute("CREATE TABLE every (uid INT, score BIGINT, price DECIMAL(12,2))")

    def add(values):
        for table in ("posts", "every"):
            platform.execute(f"INSERT INTO {table} VALUES {values}")

    add("(1, 10, 1.50), (2, 5, 2.25)")
    platform.execute("REFRESH VIEW impact")
    platform.execute("ALTER STREAM posts ALTER COLUMN score TYPE BIGINT")
    platform.execute("ALTER STREAM posts ALTER COLUMN price TYPE DECIMAL(12,2)")
    for more in ("(1, 5000000000, 1234567890.25), (2, 5, 3)", "(1, 6000000000, 1), (3, 1, 9999999999.99)"):
        add(more)
        assert rows(platform, "SELECT * FROM impact") == rows(platform, query.format("every"))
        platform.execute("REFRESH VIEW impact")
        assert rows(platform, "SELECT * FROM impact") == rows(platform, query.format("every"))
    assert [row[1] for row in platform.execute("DESCRIBE impact")] == ["INT", "BIGINT", "DECIMAL(12,2)", "DECIMAL(22,2)", "BIGINT"]
