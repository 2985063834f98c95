"""Tables, streams and views under which another client of the lake changes something: told loudly, or without effect, never mixed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform

pytestmark = pytest.mark.spark

REGIONS = "SELECT u.region, count(*) AS n FROM posts p JOIN users u ON u.id = p.uid GROUP BY u.region"
NAMES = "SELECT u.region, g.n FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) g JOIN users u ON u.id = g.uid"


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM posts (uid INT, score INT) WITH (retention_rows = 100)")
        made.execute("CREATE TABLE users (id INT, region STRING)")
        made.execute("INSERT INTO users VALUES (1, 'DE'), (2, 'US')")
        yield made


@pytest.fixture
def other(platform, duck, tmp_path):
    """DuckDB, attached anew for each statement, so that it sees what has happened."""

    def execute(sql):
        client = duck(f"platform+local://{tmp_path}/lake")
        try:
            return client.rows(sql)
        finally:
            client.end()

    return execute


def rows(platform, sql):
    return sorted(platform.execute(sql))


def arrive(platform, *batches, maintain=True):
    for batch in batches:
        platform.execute(f"INSERT INTO posts VALUES {batch}")
        if maintain:
            assert run_maintenance(platform.work).failed == {}


def put(platform, name, found):
    with platform.lake.commit("put") as commit:
        commit.append(platform.lake.table(name), [platform.lake.write(platform.lake.table(name), found)])


CHANGES = {
    "insert": ["INSERT INTO lake.users VALUES (3, 'FR')"],
    "update": ["UPDATE lake.users SET region = 'FR' WHERE id = 2"],
    "delete": ["DELETE FROM lake.users"],
    "drop": ["DROP TABLE lake.users"],
    "replace": ["DROP TABLE lake.users", "CREATE TABLE lake.users (id INTEGER, region VARCHAR)", "INSERT INTO lake.users VALUES (1, 'XX')"],
    "rename": ["ALTER TABLE lake.users RENAME TO people"],
    "swap": ["ALTER TABLE lake.users RENAME COLUMN region TO old", "ALTER TABLE lake.users ADD COLUMN region VARCHAR"],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_refused_change_is_told_by_reads_and_runs_and_no_other_view_suffers(platform, other, change):
    platform.execute(f"CREATE VIEW firm WITH (on_table_change = 'refuse') AS {REGIONS}")
    platform.execute(f"CREATE VIEW pinned AS {REGIONS}")
    arrive(platform, "(1, 1), (2, 2)")
    platform.execute("REFRESH VIEW firm")
    before = platform.lake.snapshot()
    for sql in CHANGES[change]:
        other(sql)
    for _ in range(2):
        with pytest.raises(InvalidValue, match=r'"main\.users" has changed, which view "main\.firm" was made to refuse') as told:
            platform.execute("SELECT * FROM firm")
        assert "REBUILD VIEW main.firm" in str(told.value)
        platform.execute("INSERT INTO posts VALUES (1, 3)")
        done = run_maintenance(platform.work)
        assert (done.views, list(done.failed)) == (("main.pinned",), ["main.firm"])
    assert rows(platform, "SELECT * FROM pinned") == [("DE", 3), ("US", 1)], "as users was when the view was made"
    assert rows(platform, f"SELECT * FROM firm AT (VERSION => {before.id})") == [("DE", 1), ("US", 1)]


def test_a_view_that_refused_a_change_goes_on_when_it_is_rebuilt(platform, other):
    platform.execute(f"CREATE VIEW firm WITH (on_table_change = 'refuse') AS {REGIONS}")
    arrive(platform, "(1, 1), (2, 2)")
    other("UPDATE lake.users SET region = 'FR' WHERE id = 2")
    with pytest.raises(InvalidValue):
        platform.execute("SELECT * FROM firm")
    platform.execute("REBUILD VIEW firm")
    assert rows(platform, "SELECT * FROM firm") == [("DE", 1), ("FR", 1)]
    arrive(platform, "(1, 1), (2, 2)")
    assert rows(platform, "SELECT * FROM firm") == [("DE", 2), ("FR", 2)]


def test_merging_the_files_of_a_refused_table_changes_nothing(platform, other):
    platform.execute("INSERT INTO users VALUES (3, 'FR')")
    platform.execute(f"CREATE VIEW firm WITH (on_table_change = 'refuse') AS {REGIONS}")
    arrive(platform, "(1, 1), (3, 2)")
    other("CALL ducklake_merge_adjacent_files('lake')")
    platform.lake.merge("users", target_bytes=1 << 20)
    assert rows(platform, "SELECT * FROM firm") == [("DE", 1), ("FR", 1)]
    arrive(platform, "(1, 1), (2, 2)")
    assert rows(platform, "SELECT * FROM firm") == [("DE", 2), ("FR", 1), ("US", 1)]


def test_rows_that_another_client_adds_and_merges_are_not_overlooked(platform, other):
    platform.execute(f"CREATE VIEW named AS {NAMES}")
    platform.execute("CREATE TABLE regions (id INT)")
    platform.execute("CREATE SAMPLE some ON regions SIZE 5 WITH (seed = 1)")
    arrive(platform, "(1, 1), (3, 2)")
    for begin in (0, 100):
        put(platform, "regions", pa.table({"id": pa.array(range(begin, begin + 100), pa.int32())}))
        put(platform, "users", pa.table({"id": pa.array([begin + 7], pa.int32()), "region": ["XX"]}))
    platform.execute("REFRESH VIEW named")
    platform.execute("REFRESH SAMPLE some")
    assert rows(platform, "SELECT * FROM named") == [("DE", 1)]
    put(platform, "users", pa.table({"id": pa.array([3], pa.int32()), "region": ["FR"]}))
    put(platform, "regions", pa.table({"id": pa.array(range(200, 300), pa.int32())}))
    before = platform.lake.snapshot()
    put(platform, "regions", pa.table({"id": pa.array(range(300, 400), pa.int32())}))
    other("CALL ducklake_merge_adjacent_files('lake')")
    # The merged files begin before what is stored was made.
    assert rows(platform, "SELECT * FROM named") == [("DE", 1), ("FR", 1)]
    assert platform.sample("some").cardinality == 400
    assert platform.sample("some", version=before.id).cardinality == 300


def test_a_table_above_the_grouping_is_followed_and_its_end_is_told(platform, other):
    platform.execute(f"CREATE VIEW named AS {NAMES}")
    platform.execute("CREATE VIEW plain AS SELECT uid, count(*) AS n FROM posts GROUP BY uid")
    arrive(platform, "(1, 1), (2, 2)")
    platform.execute("REFRESH VIEW named")
    other("UPDATE lake.users SET region = 'FR' WHERE id = 2")
    assert rows(platform, "SELECT * FROM named") == [("DE", 1), ("FR", 1)]
    platform.execute("REFRESH VIEW named")
    for sql in CHANGES["swap"]:
        other(sql)
    assert rows(platform, "SELECT * FROM named") == [(None, 1), (None, 1)], "another column has the name now"
    other("DROP TABLE lake.users")
    for sql in ("SELECT * FROM named", "REFRESH VIEW named"):
        with pytest.raises(PlatformError, match=r'"main\.users" does not exist'):
            platform.execute(sql)
    arrive(platform, "(1, 3)")
    assert rows(platform, "SELECT * FROM plain") == [(1, 2), (2, 1)]
    platform.execute("CREATE TABLE users (id INT, region STRING)")
    platform.execute("INSERT INTO users VALUES (1, 'DE')")
    assert rows(platform, "SELECT * FROM named") == [("DE", 2)]


def test_results_are_stored_of_all_views_but_those_that_have_none(platform, other):
    platform.execute(f"CREATE VIEW named WITH (target_lag = '5 seconds') AS {NAMES}")
    platform.execute("CREATE VIEW plain WITH (target_lag = '5 seconds') AS SELECT uid, count(*) AS n FROM posts GROUP BY uid")
    arrive(platform, "(1, 1), (2, 2)")
    other("DROP TABLE lake.users")
    run_maintenance(platform.work, kinds=["result"])
    result = platform.execute("SELECT n FROM plain WHERE uid = 1")
    assert (list(result), result.metrics) == ([(1,)], None)


def test_a_column_of_a_stream_that_is_another_one_is_told(platform, other):
    platform.execute("CREATE VIEW sums AS SELECT uid, sum(score) AS s FROM posts GROUP BY uid")
    arrive(platform, "(1, 1), (2, 2)")
    other("ALTER TABLE lake.posts RENAME COLUMN score TO old")
    with pytest.raises(InvalidValue, match="that one is called old now"):
        platform.execute("SELECT * FROM sums")
    other("ALTER TABLE lake.posts ADD COLUMN score INTEGER")
    with pytest.raises(InvalidValue, match=r'column "score" of stream "main\.posts" is not the one'):
        platform.execute("SELECT * FROM sums")
    other("ALTER TABLE lake.posts DROP COLUMN score")
    other("ALTER TABLE lake.posts RENAME COLUMN old TO score")
    arrive(platform, "(1, 4)")
    assert rows(platform, "SELECT * FROM sums") == [(1, 5), (2, 2)]


def test_rows_that_another_client_adds_are_counted_once(platform, other):
    platform.execute(f"CREATE VIEW regions AS {REGIONS}")
    arrive(platform, "(1, 1)")
    other("INSERT INTO lake.posts VALUES (1, 2), (2, 3)")  # kept inside the catalogue
    assert rows(platform, "SELECT * FROM regions") == [("DE", 2), ("US", 1)]
    arrive(platform, "(2, 4)")
    other("CALL ducklake_flush_inlined_data('lake')")
    assert rows(platform, "SELECT * FROM regions") == [("DE", 2), ("US", 2)]
    other("INSERT INTO lake.posts SELECT 1, range FROM range(1000)")
    assert run_maintenance(platform.work).rows == 1000
    assert rows(platform, "SELECT * FROM regions") == [("DE", 1002), ("US", 2)]


def test_what_python_appends_to_a_table_meets_the_same_refusal(platform):
    users = platform.lake.table("users")
    base = platform.lake.snapshot()
    platform.execute(f"CREATE VIEW firm WITH (on_table_change = 'refuse') AS {REGIONS}")
    for told in (base, None):
        with pytest.raises(InvalidValue, match=r"can't be changed"), platform.lake.commit("append", base=told) as commit:
            commit.append(users, [platform.lake.write(users, pa.table({"id": pa.array([3], pa.int32()), "region": ["FR"]}))])
    assert rows(platform, "SELECT count(*) FROM users") == [(2,)]


def test_what_a_pinned_view_needs_no_more_may_go(platform):
    platform.execute("CREATE VIEW active AS SELECT uid, score FROM posts WHERE score > 0")
    platform.execute("CREATE VIEW pinned AS SELECT u.region, count(*) AS n FROM active p JOIN users u ON u.id = p.uid GROUP BY u.region")
    arrive(platform, "(1, 1), (2, 2), (2, -1)")
    platform.execute("DROP TABLE users")
    platform.execute("CREATE OR REPLACE VIEW active AS SELECT uid, score FROM posts")
    arrive(platform, "(2, -1), (2, 3)")
    assert rows(platform, "SELECT * FROM pinned") == [("DE", 1), ("US", 2)], "names mean what they meant"
    platform.execute("DROP VIEW active")
    assert rows(platform, "SELECT * FROM pinned") == [("DE", 1), ("US", 2)]


def test_a_stored_result_does_not_outlive_a_view_that_it_is_of(platform):
    platform.execute("CREATE VIEW sums AS SELECT uid, sum(score) AS s FROM posts GROUP BY uid")
    platform.execute(
        "CREATE VIEW best AS SELECT g.n, s.s FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) g JOIN sums s USING (uid)"
    )
    arrive(platform, "(1, 2), (1, 3)")
    platform.execute("REFRESH VIEW best")
    assert rows(platform, "SELECT * FROM best") == [(2, 5)]
    with pytest.raises(InvalidValue, match=r'view "main\.sums" can\'t be dropped'):
        platform.execute("DROP VIEW sums")
    platform.execute("CREATE OR REPLACE VIEW sums WITH (start = 'earliest') AS SELECT uid, max(score) AS s FROM posts GROUP BY uid")
    assert rows(platform, "SELECT * FROM best") == [(2, 3)]
    with pytest.raises(InvalidValue, match=r'view "main\.sums" can\'t be dropped'):
        platform.execute("DROP VIEW sums")


def test_rows_of_a_stream_that_another_client_changes_count_as_they_were_when_they_were_taken_up(platform, other):
    platform.execute("CREATE VIEW sums AS SELECT uid, count(*) AS n, sum(score) AS s FROM posts GROUP BY uid")
    arrive(platform, "(1, 1), (2, 2)")
    arrive(platform, "(1, 10), (2, 20)", maintain=False)
    other("UPDATE lake.posts SET score = 100 WHERE score = 10")
    other("DELETE FROM lake.posts WHERE score = 20")
    other("UPDATE lake.posts SET score = 500 WHERE score = 1")  # taken up long ago
    for _ in range(2):
        assert rows(platform, "SELECT * FROM sums") == [(1, 2, 101), (2, 1, 2)]
        assert not run_maintenance(platform.work).failed
    arrive(platform, "(3, 3)")
    assert rows(platform, "SELECT * FROM sums") == [(1, 2, 101), (2, 1, 2), (3, 1, 3)]
