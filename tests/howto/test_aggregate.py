"""docs/howto/aggregate.md: an aggregate is a function and a row of the table, and views maintain it like any other."""

import pytest

from platform_plugin.errors import RefusedView
from platform_plugin.operators.group import aggregates
from platform_plugin.operators.group.split import plan_split
from platform_plugin.platform import Platform
from tests.howto.vectors import ROW
from tests.relations.views.composed import relation

MEAN = "SELECT word, vector_avg(place) AS mean FROM places GROUP BY word"
RELATIONS = {"places": relation("places", "stream", {"word": "STRING", "place": "ARRAY<FLOAT>"})}


@pytest.fixture
def registered():
    aggregates.TABLE.append(ROW)
    yield
    aggregates.TABLE.remove(ROW)


@pytest.mark.usefixtures("registered")
def test_what_is_stored_merged_and_answered():
    plan = plan_split(MEAN, RELATIONS)
    (state,) = plan.states
    assert [(column.name, str(column.type)) for column in state.partials] == [
        ("vector_sum_place", "ARRAY<FLOAT>"),
        ("n_place", "BIGINT"),
    ]
    assert plan.streams[0].sql() == (
        "SELECT places.word, vector_sum(places.place) AS vector_sum_place, count(places.place) AS n_place "
        "FROM main.places GROUP BY places.word"
    )
    assert state.merge_sql() == (
        "SELECT `rows`.word, vector_sum(`rows`.vector_sum_place) AS vector_sum_place, sum(`rows`.n_place) AS n_place "
        "FROM `rows` GROUP BY `rows`.word"
    )
    assert "transform(" in plan.upper_sql()


@pytest.mark.usefixtures("registered")
def test_what_its_parts_can_not_say_is_refused_with_what_can():
    with pytest.raises(RefusedView, match="vector_avg of STRING") as caught:
        plan_split("SELECT vector_avg(word) AS mean FROM places", RELATIONS)
    assert (caught.value.rule, caught.value.hint) == ("A1", "write vector_avg(CAST(word AS ARRAY<FLOAT>))")


def test_without_its_row_views_refuse_it():
    with pytest.raises(RefusedView, match="aggregate vector_avg can't be kept up to date part by part"):
        plan_split(MEAN, RELATIONS)


@pytest.mark.spark
@pytest.mark.usefixtures("registered", "spark_server")
def test_a_view_answers_what_its_query_does_whatever_the_runs_were(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM places (word STRING, place ARRAY<FLOAT>)")
        platform.execute(f"CREATE CONTINUOUS VIEW means AS {MEAN}")
        for rows in ("('a', array(1, 2)), ('b', NULL)", "('a', array(3, 6)), ('a', NULL)", "('b', array(0.5, -1))"):
            platform.execute(f"INSERT INTO places SELECT word, CAST(place AS ARRAY<FLOAT>) FROM VALUES {rows} AS v (word, place)")
            if "3, 6" in rows:
                platform.execute("REFRESH VIEW means")
        found, expected = (sorted(platform.execute(query)) for query in ("SELECT * FROM means", MEAN))
        assert found == expected == [("a", [2.0, 4.0]), ("b", [0.5, -1.0])]
