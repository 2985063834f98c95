"""ALTER of views: options that leave a view what it is are set in place, everything else is refused. Of tables: tests/relations/tables."""

import pytest

from platform_plugin.errors import InvalidStatement, PlatformError
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM s (k BIGINT, v BIGINT)")
        platform.execute("CREATE VIEW sums WITH (start = 'earliest') AS SELECT k, sum(v) AS t FROM s GROUP BY k")
        platform.execute("INSERT INTO s VALUES (1, 2), (1, 3)")
        yield platform


def shown(platform, name="sums"):
    return next(iter(platform.execute(f"SHOW CREATE VIEW {name}")))[0]


def test_options_are_set_in_place_and_nothing_starts_over(platform):
    run_maintenance(platform.work, kinds=["view"])
    platform.execute("ALTER VIEW sums SET (engine = 'spark_sql', target_lag = '5 seconds')")
    assert "engine = 'spark_sql'" in shown(platform)
    assert "target_lag = '5 seconds'" in shown(platform)
    assert "start = 'earliest'" in shown(platform)
    assert not any("consumes" in row[0] for row in platform.execute("EXPLAIN REFRESH VIEW sums"))
    platform.execute("ALTER CONTINUOUS VIEW sums SET (engine = 'auto')")
    assert "engine = 'auto'" in shown(platform)
    assert [tuple(row) for row in platform.execute("SELECT * FROM sums")] == [(1, 5)]


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("ALTER VIEW sums SET (start = 'now')", 'option "start" of view "main.sums" is fixed'),
        ("ALTER VIEW sums SET (batch_rows = 5)", "batch_rows is for views that are maintained in batches"),
        ("ALTER VIEW sums RENAME TO others", "only options can be altered"),
        ("ALTER TABLE sums SET (suite = 'x')", '"main.sums" is a view, not a table'),
        ("ALTER VIEW s SET (engine = 'local')", '"main.s" is a stream, not a view'),
        ("ALTER VIEW nowhere SET (engine = 'local')", "does not exist"),
    ],
)
def test_everything_else_is_refused(platform, statement, told):
    before = shown(platform), platform.lake.snapshot().id
    with pytest.raises(PlatformError, match=told):
        platform.execute(statement)
    assert (shown(platform), platform.lake.snapshot().id) == before


def test_a_wrong_engine_is_refused_with_the_four(platform):
    for statement in ("ALTER VIEW sums SET (engine = 'flink')", "CREATE SAMPLE few ON s SIZE 2 WITH (engine = 'flink')"):
        with pytest.raises(InvalidStatement) as caught:
            platform.execute(statement)
        assert "expected 'auto' or 'local' or 'executors' or 'spark_sql'" in str(caught.value)


@pytest.mark.spark
@pytest.mark.usefixtures("spark_server")
def test_a_view_that_stores_nothing_has_no_options(platform):
    platform.execute("CREATE VIEW plain AS SELECT k FROM s")
    with pytest.raises(PlatformError, match="is not a continuous view"):
        platform.execute("ALTER VIEW plain SET (engine = 'local')")
