"""What is accepted can be maintained: views are made, rows come in ranges, and either engine keeps what the query gives over all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_plugin.engine.limits import Limits
from platform_plugin.errors import RefusedView
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.operators.group import sharing
from platform_plugin.operators.group.sharing import ViewParts, plan_sharing
from platform_plugin.platform import Platform
from tests.engine.arrow.test_plans import table
from tests.relations.views.admitted import ADMITTED
from tests.relations.views.composed import COLUMNS, KINDS, ROWS, bag, split, whole
from tests.relations.views.queries import queries, rows, towers
from tests.relations.views.test_split_property import ask, engine, fill  # noqa: F401  a fixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import duckdb

    from platform_plugin.engine.spark.server.runtime import RuntimeFolder
    from tests.relations.views.composed import Rows

BELOW = ("not in", "exists")
"""Sub-queries in a condition below the grouping."""
PLACES = (3, 6)
"""Where the rows of each stream are cut into ranges."""


@pytest.fixture
def lake(tmp_path: Path, spark_server: RuntimeFolder) -> Callable[[], Platform]:
    del spark_server
    made: list[Platform] = []

    def create() -> Platform:
        platform = Platform.create(tmp_path / f"lake{len(made)}")
        made.append(platform)
        for name, kinds in COLUMNS.items():
            columns = ", ".join(f"{column} {kind}" for column, kind in kinds.items())
            platform.execute(f"CREATE {KINDS[name]} {name} ({columns})")
        return platform

    return create


@pytest.fixture
def platform(lake: Callable[[], Platform]) -> Iterator[Platform]:
    with lake() as made:
        yield made


@pytest.fixture
def by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all ranges and states were large."""
    monkeypatch.setenv("PLATFORM_LIMIT_CLIENT_RANGE_ROWS", "0")
    monkeypatch.setenv("PLATFORM_LIMIT_CLIENT_STATE_BYTES", "0")


def append(platform: Platform, name: str, found: Sequence[tuple[Any, ...]]) -> None:
    lake = platform.lake
    with lake.commit("append") as commit:
        commit.append(lake.table(name), [lake.write(lake.table(name), table(name, list(found)).drop_columns("_row_id"))])


def maintain(platform: Platform, texts: Sequence[str], found: Rows, places: tuple[int, ...] = PLACES) -> int:
    """Make the views v0, v1, … and let them take up all rows, range by range; how many Spark jobs that took."""
    append(platform, "users", found["users"])
    for number, text in enumerate(texts):
        platform.execute(f"CREATE CONTINUOUS VIEW v{number} AS {text}")
    jobs = 0
    for first, last in zip((0, *places), (*places, None), strict=True):
        for stream in ("posts", "likes"):
            if chosen := found[stream][first:last]:
                append(platform, stream, chosen)
        done = run_maintenance(platform.work)
        assert not done.failed, done.failed
        jobs += done.jobs
    return jobs


def check(platform: Platform, texts: Mapping[str, str], found: Rows) -> None:
    """Every view, maintained, has what its text gives over all rows."""
    maintain(platform, list(texts.values()), found)
    spark = platform.work.session.spark
    different = {}
    for number, (name, text) in enumerate(texts.items()):
        expected = bag(spark.sql(whole(text, found)).collect())
        answer = bag(list(platform.execute(f"SELECT * FROM v{number}")))
        if answer != expected:
            different[name] = (answer, expected)
    assert different == {}


def ask_if_able(platform: Platform, text: str, found: Rows) -> list[tuple[Any, ...]] | None:
    """Spark's answer over all rows; None where Spark refuses the query, or fails by itself.

    It does on some whole queries: by an assertion of its rule that orders joins, or by a plan that its tasks can't read.
    """
    from pyspark.errors import AnalysisException, PySparkException

    try:
        return bag(platform.work.session.spark.sql(whole(text, found)).collect())
    except AnalysisException:
        return None
    except PySparkException as error:
        if "INTERNAL_ERROR" in str(error) or "ClassCastException" in str(error):
            return None
        raise


@pytest.mark.spark
@pytest.mark.usefixtures("by_spark")
def test_sub_queries_below_the_grouping_are_maintained_by_spark(
    platform: Platform,
    engine: duckdb.DuckDBPyConnection,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(engine, ROWS)
    assert maintain(platform, [ADMITTED[name] for name in BELOW], ROWS, places=()) > 0
    # Read without Spark, which has had its chance.
    monkeypatch.setattr(platform.work, "limits", Limits(client_range_rows=0))
    monkeypatch.setattr(platform.work, "engine", "spark_sql")
    for number, name in enumerate(BELOW):
        assert bag(list(platform.execute(f"SELECT * FROM v{number}"))) == ask(engine, ADMITTED[name]), name


@pytest.mark.parametrize("name", ADMITTED)
def test_every_admitted_query_can_be_written_as_what_runs_are_given(name: str) -> None:
    plan = split(ADMITTED[name])
    for stream in plan.stream_names:
        for query in plan_sharing([ViewParts(view="v", plan=plan)], stream).queries:
            assert "SELECT" in query.sql()


def check_parts(engine: duckdb.DuckDBPyConnection, texts: list[str], found: Rows) -> None:  # noqa: F811
    """What is written for several views at once adds to each of their parts what the part alone would."""
    fill(engine, found)
    views = [ViewParts(view=f"v{number}", plan=split(text)) for number, text in enumerate(texts)]
    statics = [
        f"{view.view}_{part.name} AS ({part.sql({'main.users': 'users'})})"
        for view in views
        for part in view.plan.statics
        if part.feeds is None
    ]
    parts = {(view.view, part.name): (view, part) for view in views for part in view.plan.streams}
    for stream in ("posts", "likes"):
        for query in plan_sharing(views, f"main.{stream}").queries:
            made = ", ".join([*statics, f"made AS ({query.sql({f'main.{stream}': f'{stream}_rows'})})"])
            for shared in query.parts:
                view, part = parts.pop((shared.view, shared.part))
                names = {name: f"{view.view}_{name}" for name in part.statics}
                alone = ask(engine, f"WITH {made} {part.sql({part.stream: f'{stream}_rows', **names})}")
                added = ask(engine, f"WITH {made} {shared.sql('made')}")
                if not added:
                    # Of no rows several grouping sets give no total, and a part that is alone adds that of nothing.
                    names[part.stream] = "nothing"
                    nothing = f"nothing AS (SELECT * FROM {stream}_rows WHERE false)"
                    added = ask(engine, f"WITH {made}, {nothing} {part.sql(names)}")
                assert added == alone
    assert not parts


@settings(max_examples=10)
@given(texts=st.lists(queries(), min_size=1, max_size=4), found=rows())
def test_what_runs_are_given_for_random_queries_adds_what_each_part_says(
    engine: duckdb.DuckDBPyConnection,  # noqa: F811
    texts: list[str],
    found: Rows,
) -> None:
    check_parts(engine, texts, found)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(max_examples=40)
@given(texts=st.lists(queries(), min_size=1, max_size=4), found=rows())
def test_so_it_does_for_many_more(engine: duckdb.DuckDBPyConnection, texts: list[str], found: Rows) -> None:  # noqa: F811
    check_parts(engine, texts, found)


@pytest.mark.spark
def test_a_view_that_could_not_be_maintained_is_refused_when_it_is_made(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    written = sharing.SharedQuery.sql
    monkeypatch.setattr(sharing.SharedQuery, "sql", lambda *given, **more: written(*given, **more).replace("count(*)", "count(nobody)"))
    with pytest.raises(RefusedView, match="can't be maintained") as caught:
        # Of columns that are certain Spark is not asked.
        platform.execute("CREATE VIEW v AS SELECT uid, count(*) AS n, max(regexp_replace(content, 'a', 'b')) AS c FROM posts GROUP BY uid")
    assert "nobody" in str(caught.value.detail)
    assert "line 1, column" in str(caught.value.detail)
    assert platform.lake.views() == []


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("largest", ["spark", "arrow"])
def test_every_admitted_query_is_maintained_by_either_engine(platform: Platform, request: pytest.FixtureRequest, largest: str) -> None:
    if largest == "spark":
        request.getfixturevalue("by_spark")
    check(platform, ADMITTED, ROWS)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("largest", ["spark", "arrow"])
def test_random_queries_are_maintained_by_either_engine(lake: Callable[[], Platform], request: pytest.FixtureRequest, largest: str) -> None:
    if largest == "spark":
        request.getfixturevalue("by_spark")

    @settings(max_examples=4, suppress_health_check=list(HealthCheck))
    @given(texts=st.lists(st.one_of(queries(), towers().map(lambda tower: tower[0])), min_size=12, max_size=12, unique=True), found=rows())
    def example(texts: list[str], found: Rows) -> None:
        with lake() as platform:
            expected = {text: answer for text in texts if (answer := ask_if_able(platform, text, found)) is not None}
            assert len(expected) > len(texts) / 2
            maintain(platform, list(expected), found)
            answers = {text: bag(list(platform.execute(f"SELECT * FROM v{number}"))) for number, text in enumerate(expected)}
            assert answers == expected

    example()
