"""Intervals in views: what Spark gives over all rows, from each engine, stored results and views over views; DuckDB reads numbers."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from platform_plugin.errors import InvalidStatement, UnsupportedType
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from platform_plugin.engine.spark.server.runtime import RuntimeFolder

STAY = "SELECT user, max(at) - min(at) AS stay, max(day) - min(day) AS days, count(*) AS n FROM visits GROUP BY user"
KEPT = """SELECT user, sum(ended - at) AS total, avg(ended - at) AS mean, max(ended - at) AS longest, count(DISTINCT ended - at) AS d,
    sort_array(collect_list(ended - at)) AS every, min_by(ended - at, at) AS first, max(struct(ended - at AS t, n)) AS largest,
    sum(n * INTERVAL '1' MONTH) AS months, avg(n * INTERVAL '1' MONTH) AS mean_months, make_ym_interval(1, sum(n)) AS more
    FROM visits GROUP BY user"""
BY_LENGTH = "SELECT ended - at AS length, count(*) AS n FROM visits GROUP BY ended - at"
VIEWS = {"stays": STAY, "kept": KEPT, "by_length": BY_LENGTH}
ROWS = (
    [(1, 10, 5, 1), (1, 30, 9, 2), (2, 5, None, 3)],
    [(1, 3, 4, 4), (2, 7, 7, None), (None, 1, 2, 7)],
    [(2, 90, 91, 1), (3, 2, 60, 2)],
)


def insert(platform: Platform, rows: list[tuple[Any, ...]]) -> None:
    base = datetime(2026, 1, 1)  # noqa: DTZ001

    def text(minutes: int | None) -> str:
        return "NULL" if minutes is None else f"'{base + timedelta(minutes=minutes)}'"

    values = [
        f"({'NULL' if user is None else user}, {text(at)}, {text(ended)}, '{date(2026, 1, 1 + at % 28)}', {'NULL' if n is None else n})"
        for user, at, ended, n in rows
    ]
    platform.execute(f"INSERT INTO visits VALUES {', '.join(values)}")


@pytest.fixture
def platform(tmp_path: Path, spark_server: RuntimeFolder) -> Iterator[Platform]:
    del spark_server
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM visits (user INT, at TIMESTAMP_NTZ, ended TIMESTAMP_NTZ, day DATE, n INT)")
        yield made


def rows(platform: Platform, query: str) -> list[Any]:
    return sorted((tuple(row) for row in platform.execute(query)), key=repr)


def kinds(found: pa.Table) -> list[str]:
    """The types of columns, without what Spark guesses of NULL."""
    return [str(kind).replace(" not null", "") for kind in found.schema.types]


@pytest.mark.spark
@pytest.mark.parametrize("largest", ["spark", "arrow"])
def test_intervals_of_views_are_those_of_all_rows(platform: Platform, monkeypatch: pytest.MonkeyPatch, largest: str) -> None:
    if largest == "spark":
        monkeypatch.setenv("PLATFORM_LIMIT_CLIENT_RANGE_ROWS", "0")
        monkeypatch.setenv("PLATFORM_LIMIT_CLIENT_STATE_BYTES", "0")
    for name, text in VIEWS.items():
        platform.execute(f"CREATE VIEW {name} AS {text}")
    platform.execute("CREATE VIEW above AS SELECT user, stay * 2 AS twice, stay > INTERVAL '20' MINUTE AS long FROM stays")
    for step, found in enumerate(ROWS):
        insert(platform, found)
        for name, text in VIEWS.items():
            assert rows(platform, f"SELECT * FROM {name}") == rows(platform, text), (name, step)
        if step == 1:
            done = run_maintenance(platform.work)
            assert not done.failed, done.failed
    expected = {name: platform.execute(text).arrow() for name, text in VIEWS.items()}
    for name, text in VIEWS.items():
        platform.execute(f"REFRESH VIEW {name}")
        assert rows(platform, f"SELECT * FROM {name}") == rows(platform, text), "the stored result"
        found = platform.execute(f"SELECT * FROM {name}").arrow()
        assert kinds(found) == kinds(expected[name])
    twice = rows(platform, "SELECT user, twice FROM above")
    assert twice == sorted(((user, 2 * stay) for user, stay, *_ in rows(platform, "SELECT * FROM stays")), key=repr)
    assert rows(platform, "SELECT user FROM above WHERE long") == [(1,), (2,)]


@pytest.mark.spark
def test_the_types_of_intervals_are_sparks(platform: Platform) -> None:
    for name, text in VIEWS.items():
        platform.execute(f"CREATE VIEW {name} AS {text}")
    described = {row[0]: row[1] for name in VIEWS for row in platform.execute(f"DESCRIBE {name}")}
    assert described | {"stay": "INTERVAL DAY TO SECOND", "days": "INTERVAL DAY", "months": "INTERVAL YEAR TO MONTH"} == described
    assert described["every"] == "ARRAY<INTERVAL DAY TO SECOND>"
    insert(platform, ROWS[0])
    for refreshed in (False, True):
        if refreshed:
            platform.execute("REFRESH VIEW stays")
            platform.execute("REFRESH VIEW kept")
        told = rows(platform, "SELECT typeof(stay), typeof(days) FROM stays LIMIT 1")
        assert told == [("interval day to second", "interval day")]
        assert rows(platform, "SELECT typeof(months), typeof(mean_months) FROM kept LIMIT 1") == [
            ("interval year to month", "interval year to month")
        ]


def test_a_small_view_of_intervals_needs_no_spark_and_duckdb_reads_microseconds(
    lake_url: str, monkeypatch: pytest.MonkeyPatch, duck: Any
) -> None:
    from platform_plugin.engine.workspace import Workspace

    def refuse(_: Workspace) -> None:
        raise AssertionError("Spark is asked")

    with monkeypatch.context() as patched:
        patched.setattr(Workspace, "session", property(refuse))
        with Platform.create(lake_url) as made:
            made.execute("CREATE STREAM visits (user INT, at TIMESTAMP_NTZ, ended TIMESTAMP_NTZ, day DATE, n INT)")
            made.execute(f"CREATE VIEW stays AS {STAY}")
            made.execute("CREATE VIEW longest AS SELECT user, max(ended - at) AS longest FROM visits GROUP BY user")
            insert(made, ROWS[0])
            assert run_maintenance(made.work).jobs == 0
            insert(made, ROWS[1])
            found = made.execute("SELECT user, stay, days FROM stays WHERE user = 1")
            assert (list(found), found.metrics) == ([(1, timedelta(minutes=27), timedelta(days=8))], None)
            found = made.execute("SELECT user, longest FROM longest")
            assert found.schema.field("longest").type == pa.duration("us")
            assert sorted(found, key=repr) == [(1, timedelta(minutes=1)), (2, timedelta(0)), (None, timedelta(minutes=1))]
            assert run_maintenance(made.work).jobs == 0
    connection = duck(lake_url)
    (state,) = connection.execute("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'longest__state%'").fetchone()
    column = next(row[0] for row in connection.execute(f'DESCRIBE "{state}"').fetchall() if row[0] != "user")
    described = {row[0]: row[1] for row in connection.execute(f'DESCRIBE "{state}"').fetchall()}
    assert described[column] == "BIGINT"
    assert connection.execute(f'SELECT max("{column}") FROM "{state}" WHERE user = 1').fetchone() == (60_000_000,)


@pytest.mark.spark
def test_merged_files_older_snapshots_and_upkeep_keep_intervals(platform: Platform) -> None:
    platform.execute(f"CREATE VIEW kept AS {KEPT}")
    versions = []
    for found in ROWS:
        insert(platform, found)
        platform.execute("REFRESH VIEW kept")
        versions.append((platform.lake.snapshot().id, rows(platform, "SELECT * FROM kept")))
    merged = [platform.lake.merge(table.name).files_before for table in platform.lake.tables() if "__" in str(table.name)]
    assert max(merged) > 1
    for version, expected in versions:
        assert rows(platform, f"SELECT * FROM kept AT (VERSION => {version})") == expected
    platform.execute("REBUILD VIEW kept")


@pytest.mark.spark
def test_a_view_over_a_view_and_a_sample_of_one_have_intervals(platform: Platform) -> None:
    platform.execute(f"CREATE VIEW stays AS {STAY}")
    insert(platform, [row for found in ROWS for row in found])
    platform.execute("CREATE VIEW plain AS SELECT sum(stay) AS total, max(days) AS days FROM stays")
    assert rows(platform, "SELECT * FROM plain") == rows(platform, f"SELECT sum(stay), max(days) FROM ({STAY})")


@pytest.mark.spark
def test_tables_have_no_intervals(platform: Platform) -> None:
    platform.execute(f"CREATE VIEW stays AS {STAY}")
    with pytest.raises(UnsupportedType, match="INTERVAL DAY TO SECOND, which a table can't hold"):
        platform.execute("CREATE TABLE kept AS SELECT * FROM stays")
    with pytest.raises(InvalidStatement, match="INTERVAL DAY TO SECOND is not a type of a table's column"):
        platform.execute("CREATE TABLE kept (stay INTERVAL DAY TO SECOND)")
    with pytest.raises(UnsupportedType, match="which a lake can't hold"):
        platform.execute("CREATE VIEW calendar AS SELECT user, make_interval(0, max(n)) AS i FROM visits GROUP BY user")
