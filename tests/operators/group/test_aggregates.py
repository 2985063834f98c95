from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from platform_plugin.algebra.functions import AGGREGATES, FUNCTIONS, RETRACT_RULES, canonical_name
from platform_plugin.errors import RefusedView
from platform_plugin.operators.group.aggregates import REFUSED, SPLIT, TABLE
from tests.relations.views.composed import split

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = Path(__file__).parents[3] / "docs" / "views" / "aggregates.md"


def written() -> str:
    lines = ["| aggregates | stored | merge | answer | rows taken back |", "|---|---|---|---|---|"]
    lines += [f"| {shown(row.functions)} | {row.stored} | {row.merge} | {row.answer} | {taken_back(row.functions)} |" for row in TABLE]
    return "\n".join(lines)


def shown(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def taken_back(names: tuple[str, ...]) -> str:
    """The rule of a row's functions; where they differ, each rule with its functions."""
    rules = {name: RETRACT_RULES[FUNCTIONS[name].retract or ""] for name in names}
    by_rule = {rule: [name for name in names if rules[name] == rule] for rule in rules.values()}
    return "; ".join(rule if len(by_rule) == 1 else f"{shown(own)} {rule}" for rule, own in by_rule.items())


def test_the_page_shows_the_table() -> None:
    assert written() in PAGE.read_text()


def test_the_page_names_what_is_refused() -> None:
    text = PAGE.read_text()
    kin = {"approx_top_k_accumulate", "approx_top_k_combine", "measure"} | {name for name in REFUSED if name.startswith("tuple")}
    assert all(f"`{name}`" in text for name in REFUSED - kin)


def test_every_aggregate_of_spark_is_split_or_refused() -> None:
    assert {canonical_name(name) for name in AGGREGATES} == SPLIT | REFUSED | {"grouping", "grouping_id"}
    assert not SPLIT & REFUSED


def test_the_list_of_aggregates_has_all_that_pyspark_lists() -> None:
    from pyspark.sql import functions

    source = Path(str(functions.__file__)).read_text()
    section = source[source.index("# Aggregate Functions") : source.index("# Window Functions")]
    own = {"count_distinct", "sum_distinct", "listagg_distinct", "string_agg_distinct", "product"}  # names of Python's own, not of SQL
    assert set(re.findall(r'"(\w+)"', section)) - own <= AGGREGATES


ARGUMENTS = {
    "percentile": "(score, 0.5)",
    "percentile_approx": "(score, 0.5)",
    "percentile_cont": "(0.5) WITHIN GROUP (ORDER BY score)",
    "percentile_disc": "(0.5) WITHIN GROUP (ORDER BY score)",
    "histogram_numeric": "(score, 5)",
    "min_by": "(content, score)",
    "max_by": "(content, score)",
    "listagg": "(content, ',')",
    "count_if": "(score > 1)",
    **dict.fromkeys(("corr", "covar_pop", "covar_samp"), "(score, ratio)"),
    **dict.fromkeys((name for name in SPLIT if name.startswith("regr_")), "(score, ratio)"),
}


@pytest.mark.parametrize("name", sorted(SPLIT))
def test_each_of_the_table_splits(name: str) -> None:
    plan = split(f"SELECT uid, {name}{ARGUMENTS.get(name, '(score)')} AS answer FROM posts GROUP BY uid")
    (part,) = plan.streams
    assert plan.state(part.state).keys[0].name == "uid"
    assert [column.name for column in plan.columns] == ["uid", "answer"]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_each_of_the_others_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(RefusedView, match=name) as caught:
        split(f"SELECT uid, {name}(score) AS answer FROM posts GROUP BY uid")
    assert caught.value.rule == "A1"


def stored(query: str) -> list[tuple[str, str]]:
    """The stored columns of a query's only state, with their types."""
    (state,) = split(query).states
    return [(column.name, str(column.type)) for column in state.columns]


def test_the_raw_parts_are_stored_and_never_the_users_expression() -> None:
    assert stored("SELECT uid, 2 * sum(amount) + 1 AS a, sum(score) / count(*) AS b FROM posts GROUP BY uid") == [
        ("uid", "INT"),
        ("sum_amount", "DECIMAL(19,2)"),
        ("sum_score", "BIGINT"),
        ("n", "BIGINT"),
    ]


def test_what_several_aggregates_need_is_stored_once() -> None:
    columns = stored("SELECT avg(score) AS a, sum(score) AS b, count(score) AS c, stddev(score) AS d, variance(score) AS e FROM posts")
    assert [name for name, _ in columns] == ["sum_score", "n_score", "moments_score"]


def test_a_filter_makes_another_column_of_the_same_kind() -> None:
    columns = stored("SELECT sum(score) AS a, sum(score) FILTER (WHERE uid > 1) AS b FROM posts")
    assert [name for name, _ in columns] == ["sum_score", "sum_score_2"]


def test_an_average_of_bigints_adds_doubles_as_spark_does_so_that_it_cannot_overflow() -> None:
    assert stored("SELECT avg(weight) AS a FROM likes") == [("sum_weight", "DOUBLE"), ("n_weight", "BIGINT")]


def test_sums_of_decimals_keep_their_type_at_every_merge() -> None:
    plan = split("SELECT sum(amount) AS a FROM posts")
    assert plan.states[0].merge_sql() == "SELECT CAST(sum(`rows`.sum_amount) AS DECIMAL(19,2)) AS sum_amount FROM `rows`"


def test_the_type_of_an_argument_is_asked_for_only_where_it_matters() -> None:
    from platform_plugin.algebra.types.data_types import Primitive
    from platform_plugin.operators.group.split import plan_split
    from tests.relations.views.composed import RELATIONS

    asked: list[str] = []

    def typer(sql: str) -> tuple[Primitive, ...]:
        asked.append(sql)
        return (Primitive("float64"),)

    query = "SELECT max(from_json(content, 'x INT').x) AS a, sum(from_json(content, 'x INT').x) AS b FROM posts"
    plan = plan_split(query, RELATIONS, typer=typer)
    assert asked == ["SELECT from_json(posts.content, 'x INT').x AS argument FROM main.posts"]
    assert [str(column.type) for column in plan.states[0].columns] == ["None", "DOUBLE"]


def test_distinct_values_are_keys_of_a_state_of_their_own() -> None:
    plan = split("SELECT uid, count(DISTINCT content) AS d, sum(score) AS s FROM posts GROUP BY uid")
    assert [[column.name for column in state.columns] for state in plan.states] == [["uid", "sum_score"], ["uid", "content", "n"]]
    assert plan.notes == ("count keeps every different content of a group, with the number of its rows",)


def test_row_ids_are_asked_for_only_where_the_order_matters() -> None:
    plan = split("SELECT first(content) AS a FROM posts")
    assert plan.streams[0].row_id
    assert not split("SELECT max(content) AS a FROM posts").streams[0].row_id
