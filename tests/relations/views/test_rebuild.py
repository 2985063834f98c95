"""Views are made anew beside what has their name, of all rows that they cover, and swapped in whole or not at all."""

from __future__ import annotations

import pytest

from platform_plugin.engine.limits import Limits
from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.values.engine_notes import parse_engine_notes
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform

pytestmark = pytest.mark.spark

REGIONS = "SELECT u.region, count(*) AS n, max(p.score) AS best FROM posts p JOIN users u ON u.id = p.uid GROUP BY u.region"


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM posts (uid INT, score INT) WITH (retention_rows = 2)")
        made.execute("CREATE TABLE users (id INT, region STRING)")
        made.execute("INSERT INTO users VALUES (1, 'DE'), (2, 'US')")
        yield made


def rows(platform, sql):
    return sorted(platform.execute(sql))


def arrive(platform, *batches):
    for batch in batches:
        platform.execute(f"INSERT INTO posts VALUES {batch}")
        run_maintenance(platform.work)


def test_a_view_is_rebuilt_from_the_history_with_the_tables_as_they_are_now(platform):
    platform.execute("CREATE TABLE past AS HISTORY OF posts")
    arrive(platform, "(1, 90), (2, 91)")  # before the view
    platform.execute(f"CREATE VIEW regions COMMENT 'by place' AS {REGIONS}")
    arrive(platform, "(1, 1), (2, 2)", "(2, 3), (1, 4)", "(2, 5), (1, 6)")
    platform.execute("UPDATE users SET region = 'FR' WHERE id = 2")
    assert rows(platform, "SELECT * FROM regions") == [("DE", 3, 6), ("US", 3, 5)]
    before = platform.lake.snapshot()
    made = platform.execute("REBUILD VIEW regions")
    assert (made.row_count, made.message) == (6, "view main.regions was rebuilt from 6 rows")
    assert rows(platform, "SELECT * FROM regions") == [("DE", 3, 6), ("FR", 3, 5)]
    assert rows(platform, f"SELECT * FROM regions AT (VERSION => {before.id})") == [("DE", 3, 6), ("US", 3, 5)]
    arrive(platform, "(2, 7), (2, 8)", "(1, 9), (1, 10)")
    assert rows(platform, "SELECT * FROM regions") == [("DE", 5, 10), ("FR", 5, 8)]
    (view,) = platform.lake.views()
    assert view.comment == "by place"
    assert len([table for table in platform.lake.tables() if "__" in table.name.relation]) == 3, "nothing of the old one is left"
    platform.execute("REBUILD VIEW regions")
    assert rows(platform, "SELECT * FROM regions") == [("DE", 5, 10), ("FR", 5, 8)]


def test_with_start_earliest_all_that_the_history_has_is_taken(platform):
    platform.execute("CREATE TABLE past AS HISTORY OF posts")
    platform.execute("INSERT INTO posts VALUES (1, 1), (2, 2)")
    platform.execute("INSERT INTO posts VALUES (1, 3), (2, 4)")
    platform.execute(f"CREATE VIEW regions WITH (start = 'earliest') AS {REGIONS}")
    assert rows(platform, "SELECT region, n FROM regions") == [("DE", 1), ("US", 1)]
    platform.execute("REBUILD VIEW regions")
    assert rows(platform, "SELECT region, n FROM regions") == [("DE", 2), ("US", 2)]


def test_several_streams_and_what_needs_row_ids(platform):
    platform.execute("CREATE STREAM likes (uid INT, weight INT) WITH (retention_rows = 2)")
    platform.execute("CREATE TABLE past AS HISTORY OF posts")
    platform.execute("CREATE TABLE past_likes AS HISTORY OF likes")
    platform.execute(
        "CREATE VIEW both AS SELECT p.uid, p.first, p.newest, l.w FROM"
        " (SELECT uid, first(score) AS first, last(score) AS newest FROM posts GROUP BY uid) p"
        " JOIN (SELECT uid, sum(weight) AS w FROM likes GROUP BY uid) l USING (uid)"
    )
    for place in range(4):
        platform.execute(f"INSERT INTO likes VALUES (1, {place}), (2, 1)")
        arrive(platform, f"(1, {place}), (2, {10 - place})")
    expected = [(1, 0, 3, 6), (2, 10, 7, 4)]
    assert rows(platform, "SELECT * FROM both") == expected
    platform.execute("REBUILD VIEW both")
    assert rows(platform, "SELECT * FROM both") == expected


def test_rows_that_are_gone_are_named(platform):
    platform.execute(f"CREATE VIEW regions AS {REGIONS}")
    arrive(platform, "(1, 1), (2, 2)")
    platform.execute("REBUILD VIEW regions")  # all is there yet
    arrive(platform, "(1, 3), (2, 4)", "(1, 5), (2, 6)")
    with pytest.raises(InvalidValue, match=r"rows 0 to 3 of stream \"main.posts\" are gone"):
        platform.execute("REBUILD VIEW regions")
    assert rows(platform, "SELECT region, n FROM regions") == [("DE", 3), ("US", 3)]


def test_a_rebuild_that_fails_changes_nothing(platform):
    platform.execute("CREATE TABLE past AS HISTORY OF posts")
    platform.execute(
        "CREATE VIEW shares AS SELECT u.region, sum(p.score DIV u.id) AS s FROM posts p JOIN users u ON u.id = p.uid GROUP BY u.region"
    )
    arrive(platform, "(1, 4), (2, 4)", "(1, 4), (2, 4)")
    platform.execute("UPDATE users SET id = 0 WHERE id = 1")
    arrive(platform, "(1, 4), (0, 4)")
    files = sorted(path for path, _ in platform.lake.storage.listing(""))
    with pytest.raises(PlatformError, match="division by zero"):
        platform.execute("REBUILD VIEW shares")
    assert rows(platform, "SELECT * FROM shares") == [("DE", 12), ("US", 4)]
    assert sorted(path for path, _ in platform.lake.storage.listing("")) == files


def test_a_table_can_be_kept_from_changing(platform):
    platform.execute(f"CREATE VIEW regions WITH (on_table_change = 'refuse') AS {REGIONS}")
    for sql in (
        "INSERT INTO users VALUES (3, 'FR')",
        "UPDATE users SET region = 'FR'",
        "DELETE FROM users",
        "ALTER TABLE users ADD COLUMN age INT",
        "DROP TABLE users",
        "CREATE OR REPLACE TABLE users (id INT, region STRING)",
    ):
        with pytest.raises(InvalidValue, match=r'"main.users" can\'t be changed: view "main.regions" looks it up'):
            platform.execute(sql)
    arrive(platform, "(1, 1), (2, 2)")
    assert rows(platform, "SELECT region, n FROM regions") == [("DE", 1), ("US", 1)]
    platform.execute("REBUILD VIEW regions")
    with pytest.raises(InvalidValue):
        platform.execute("DELETE FROM users")
    platform.execute("CREATE OR REPLACE VIEW regions AS SELECT count(*) AS n FROM posts")
    platform.execute("INSERT INTO users VALUES (3, 'FR')")


VIEWS = {
    "sums": "SELECT uid, count(*) AS n, sum(score) AS s, max(score) AS m FROM posts GROUP BY uid",
    "ends": "SELECT uid, first(score) AS f, last(score) AS l, max(_row_id) AS id FROM posts WHERE score > 2 GROUP BY uid",
    "times": "SELECT date_trunc('DAY', _arrived_at) IS NOT NULL AS is_known, count(DISTINCT score) AS n FROM posts GROUP BY 1",
    "regions": "SELECT u.region, count(*) AS n, sum(p.score) AS s FROM posts p JOIN users u ON u.id = p.uid GROUP BY u.region",
    "kept": "SELECT count(*) AS n, min(score) AS m FROM posts",
}


@pytest.mark.parametrize("engine", ["local", "executors", "spark_sql"])
def test_each_engine_rebuilds_what_maintenance_has_made(platform, duck, engine):
    platform.execute("CREATE TABLE past AS HISTORY OF posts")
    for name, body in VIEWS.items():
        platform.execute(f"CREATE VIEW {name} AS {body}")
    arrive(platform, *(f"({number % 3}, {number}), (NULL, {number % 5})" for number in range(6)))
    before = {name: sorted(platform.execute(f"SELECT * FROM {name}"), key=repr) for name in VIEWS}
    platform.work.engine = engine
    platform.work.limits = Limits(task_least_rows=1, task_part_rows=3)
    for name in VIEWS:
        assert platform.execute(f"REBUILD VIEW {name}").row_count == 12
        (note,) = parse_engine_notes(platform.lake.commits(limit=1)[0].notes)
        assert (note["engine"], note["relations"], note["rows"]) == (engine, [f"main.{name}"], 12)
        # Spark SQL joins the times of arrival, which are sent to its tasks by another job.
        assert note["jobs"] <= {"local": 0, "executors": 1, "spark_sql": 2}[engine]
    assert {name: sorted(platform.execute(f"SELECT * FROM {name}"), key=repr) for name in VIEWS} == before
    arrive(platform, "(1, 50), (NULL, 60)")
    every = "SELECT uid, score FROM past UNION ALL SELECT uid, score FROM posts"
    found = duck(str(platform.lake.location)).rows(f"SELECT uid, count(*), sum(score), max(score) FROM ({every}) GROUP BY uid")
    assert sorted(platform.execute("SELECT * FROM sums"), key=repr) == sorted(map(tuple, found), key=repr)
