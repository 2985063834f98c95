"""The other strategies do when rows arrive, and when somebody reads, what their names say; their answers are those of split maintenance."""

from __future__ import annotations

import pytest

from platform_plugin.errors import InvalidValue
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.views.read.stored import find_stored

pytestmark = pytest.mark.spark

QUERY = "SELECT u.region, count(*) AS n, avg(p.score) AS score FROM posts p JOIN users u ON u.id = p.uid GROUP BY u.region"
WAYS = {"split": "", "deferred": "", "eager": "", "batch": ", batch_rows = 4"}


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM posts (uid INT, score INT) WITH (retention_rows = 2)")
        made.execute("CREATE TABLE users (id INT, region STRING)")
        made.execute("INSERT INTO users VALUES (1, 'DE'), (2, 'US')")
        yield made


def rows(platform, sql):
    return sorted(platform.execute(sql))


def stored(platform, view, part):
    """The rows of a view's part."""
    lake = platform.lake
    (table,) = [table for table in lake.tables() if table.name.relation.startswith(f"{view}__{part}")]
    return sum(file.record_count for file in lake.scan(table, lake.snapshot()).files)


def is_looked_up(platform, view):
    (found,) = [found for found in platform.lake.views() if found.name.relation == view]
    return find_stored(platform.work, found, platform.lake.snapshot()) is not None


def test_all_ways_give_the_same_at_every_step(platform):
    for way, more in WAYS.items():
        platform.execute(f"CREATE VIEW by_{way} WITH (maintenance = '{way}'{more}) AS {QUERY}")
    platform.execute("UPDATE users SET region = 'FR' WHERE id = 2")  # below the grouping: pinned, whatever the way
    expected = []
    for place, maintain in enumerate([True, False, True]):
        platform.execute(f"INSERT INTO posts VALUES (1, {place}), (2, 10), (2, {place})")
        if maintain:
            run_maintenance(platform.work)
        scores = list(range(place + 1))
        expected = [
            ("DE", len(scores), sum(scores) / len(scores)),
            ("US", 2 * len(scores), (sum(scores) + 10 * len(scores)) / (2 * len(scores))),
        ]
        for way in WAYS:
            assert rows(platform, f"SELECT * FROM by_{way}") == expected, (way, place)
    for way in WAYS:
        platform.execute(f"REFRESH VIEW by_{way}")
        assert is_looked_up(platform, f"by_{way}")
        assert rows(platform, f"SELECT * FROM by_{way}") == expected, way


def test_deferred_stores_rows_and_nothing_else(platform):
    platform.execute(f"CREATE VIEW later WITH (maintenance = 'deferred') AS {QUERY}")
    platform.execute(
        "CREATE VIEW ends WITH (maintenance = 'deferred') AS SELECT uid, first(score) AS a, last(score) AS b FROM posts GROUP BY uid"
    )
    for place in range(3):
        platform.execute(f"INSERT INTO posts VALUES (1, {place}), (2, {-place})")
        run_maintenance(platform.work)
    assert rows(platform, "SELECT * FROM ends") == [(1, 0, 2), (2, 0, -2)]
    assert (stored(platform, "later", "rows_1"), stored(platform, "later", "state_1")) == (6, 0)
    assert rows(platform, "SELECT count(*) FROM posts") == [(2,)], "the ring turns: the view has its own rows"
    assert rows(platform, "SELECT region, n FROM later") == [("DE", 3), ("US", 3)]


def test_eager_has_the_result_when_the_statement_returns(platform):
    platform.execute(f"CREATE VIEW now WITH (maintenance = 'eager') AS {QUERY}")
    platform.execute("INSERT INTO posts VALUES (1, 1), (2, 2)")
    assert is_looked_up(platform, "now")
    assert rows(platform, "SELECT region, n FROM now") == [("DE", 1), ("US", 1)]
    assert stored(platform, "now", "state_1") == 2


def test_an_eager_view_that_fails_does_not_take_the_insert_with_it(platform):
    platform.execute("CREATE VIEW shares WITH (maintenance = 'eager') AS SELECT uid, sum(100 DIV score) AS s FROM posts GROUP BY uid")
    platform.execute("INSERT INTO posts VALUES (1, 0)")
    assert rows(platform, "SELECT * FROM posts") == [(1, 0)]
    assert "division by zero" in str(run_maintenance(platform.work).failed["main.shares"])


def test_batches_wait_until_they_are_full(platform):
    platform.execute(f"CREATE VIEW batched WITH (maintenance = 'batch', batch_rows = 4) AS {QUERY}")
    platform.execute("INSERT INTO posts VALUES (1, 1), (2, 2), (2, 3)")
    done = run_maintenance(platform.work)
    assert (done.views, done.results) == ((), ())
    assert stored(platform, "batched", "state_1") == 0
    assert rows(platform, "SELECT region, n FROM batched") == [("DE", 1), ("US", 2)]
    platform.execute("INSERT INTO posts VALUES (1, 1)")
    assert stored(platform, "batched", "state_1") == 2
    assert is_looked_up(platform, "batched")
    platform.execute("INSERT INTO posts VALUES (1, 1)")
    assert not is_looked_up(platform, "batched")
    assert rows(platform, "SELECT region, n FROM batched") == [("DE", 3), ("US", 2)]
    platform.execute("REFRESH VIEW batched")
    assert is_looked_up(platform, "batched")


def test_deferred_views_are_rebuilt_too(platform):
    platform.execute("CREATE TABLE past AS HISTORY OF posts")
    platform.execute(f"CREATE VIEW later WITH (maintenance = 'deferred') AS {QUERY}")
    for _ in range(3):
        platform.execute("INSERT INTO posts VALUES (1, 1), (2, 2)")
        run_maintenance(platform.work)
    platform.execute("UPDATE users SET region = 'FR' WHERE id = 2")
    platform.execute("REBUILD VIEW later")
    assert rows(platform, "SELECT region, n FROM later") == [("DE", 3), ("FR", 3)]
    assert stored(platform, "later", "rows_1") == 6


def test_a_size_of_batches_is_for_batches(platform):
    with pytest.raises(InvalidValue, match="batch_rows is for views that are maintained in batches"):
        platform.execute(f"CREATE VIEW v WITH (batch_rows = 4) AS {QUERY}")
