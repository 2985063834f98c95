"""A prepared selection gives what the kernel gives, and a parameter what a constant gives."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.algebra.plan.nodes import Output
from platform_plugin.algebra.plan.relations import RelationFacts
from platform_plugin.engine.arrow.plans import run_plan
from platform_plugin.engine.arrow.prepared import bind_values, prepare_selection
from platform_plugin.engine.arrow.values import NotSupportedByArrow
from platform_plugin.language.query.plan import plan_query
from platform_plugin.language.query.query import analyse_query
from tests.engine.arrow.operators import COLUMNS, FIELDS, FIXED, tables, values_of

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import Query

TABLES = {"0": tables(FIXED)["a"]}
SCHEMAS = {"0": TABLES["0"].schema}
CONSTANTS = {
    "k": [-1, 0, 2, 7],
    "g": [0, 2, 1 << 40],
    "s": ["", "a", "B", "ü🎉"],
    "b": [True, False],
    "d": [date(2024, 2, 29), date(2030, 1, 1)],
    "m": [Decimal("-0.01"), Decimal("1.25"), 0, 3],
    "w": [Decimal("1.2500"), 7],
}


def plan_of(text: str) -> Query:
    def facts(_: Any) -> RelationFacts:
        return RelationFacts(name=("0",), kind="table", columns=tuple(Output(name=field.name, type=field.type) for field in FIELDS))

    planned = plan_query(analyse_query(text), facts).planned
    assert planned is not None
    return planned.plan


def written(value: Any) -> str:
    match value:
        case bool():
            return str(value).upper()
        case str():
            return f"'{value}'"
        case date():
            return f"DATE '{value}'"
    return str(value)


@st.composite
def selections(draw: st.DrawFn) -> tuple[str, str, dict[str, Any]]:
    """A selection with constants, the same with parameters, and their values."""
    constants, parameters, values = [], [], {}
    for number in range(draw(st.integers(0, 3))):
        column = draw(st.sampled_from(sorted(CONSTANTS)))
        shape = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "in", "between", "null", "not null"]))
        found = [draw(st.sampled_from(CONSTANTS[column])) for _ in range(2)]
        names = [f":p{number}_{place}" for place in range(2)]
        values |= {name[1:]: value for name, value in zip(names, found, strict=True)}
        for said, texts in ((constants, [written(value) for value in found]), (parameters, names)):
            said.append(
                f"{column} IN ({texts[0]}, {texts[1]})"
                if shape == "in"
                else f"{column} BETWEEN {texts[0]} AND {texts[1]}"
                if shape == "between"
                else f"{column} IS {shape.upper()}"
                if "null" in shape
                else f"{column} {shape} {texts[0]}"
            )
    chosen = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4, unique=True))
    select = f"SELECT {', '.join(chosen)} FROM a"
    both = [f"{select} WHERE {' AND '.join(said)}" if said else select for said in (constants, parameters)]
    return both[0], both[1], values


@settings(max_examples=60, deadline=None)
@given(found=selections())
def test_a_prepared_selection_is_what_the_kernel_gives(found: tuple[str, str, dict[str, Any]]) -> None:
    text, with_parameters, values = found
    expected = run_plan(plan_of(text), TABLES)
    prepared = prepare_selection(plan_of(text), SCHEMAS)
    assert prepared is not None
    answered = prepared.run(TABLES, ())
    assert answered is not None
    assert (answered.schema, answered.to_pylist()) == (expected.schema, expected.to_pylist())
    bound = prepare_selection(plan_of(with_parameters), SCHEMAS)
    assert bound is not None
    again = bound.run(TABLES, values)
    assert again is not None
    assert again.to_pylist() == expected.to_pylist()


@settings(max_examples=30, deadline=None)
@given(found=selections())
def test_values_of_parameters_are_what_constants_are(found: tuple[str, str, dict[str, Any]]) -> None:
    text, with_parameters, values = found
    if any(isinstance(value, Decimal) for value in values.values()):
        return
    plan = bind_values(plan_of(with_parameters), values)
    assert values_of(run_plan(plan, TABLES)) == values_of(run_plan(plan_of(text), TABLES))


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(found=selections())
def test_both_hold_for_many_more(found: tuple[str, str, dict[str, Any]]) -> None:
    test_a_prepared_selection_is_what_the_kernel_gives.hypothesis.inner_test(found)
    test_values_of_parameters_are_what_constants_are.hypothesis.inner_test(found)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("SELECT k FROM a WHERE k = :p", {"p": 1 << 40}),
        ("SELECT k FROM a WHERE k = :p", {"p": 1.5}),
        ("SELECT k FROM a WHERE k = :p", {"p": "1"}),
        ("SELECT k FROM a WHERE k = :p", {"p": True}),
        ("SELECT k FROM a WHERE m = :p", {"p": Decimal("1.255")}),
        ("SELECT k FROM a WHERE k = :p", {"p": None}),
        ("SELECT k FROM a WHERE k = ?", ()),
    ],
)
def test_values_of_other_types_are_not_compared(text: str, values: Any) -> None:
    prepared = prepare_selection(plan_of(text), SCHEMAS)
    assert prepared is not None
    assert prepared.run(TABLES, values) is None


@pytest.mark.parametrize("value", [1.5, Decimal("1.5"), None, 1 << 63])
def test_a_value_whose_type_only_spark_knows_is_refused(value: Any) -> None:
    with pytest.raises(NotSupportedByArrow):
        bind_values(plan_of("SELECT k + :p AS v FROM a"), {"p": value})


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k + 1 AS v FROM a",
        "SELECT k FROM a WHERE k = 1 OR k = 2",
        "SELECT k FROM a WHERE x > 0.5",
        "SELECT k FROM a WHERE k = 1.5",
        "SELECT k FROM a WHERE k = g",
        "SELECT k FROM a WHERE t > TIMESTAMP '2026-01-01'",
        "SELECT DISTINCT k FROM a",
    ],
)
def test_what_is_more_than_a_selection_is_not_prepared(text: str) -> None:
    assert prepare_selection(plan_of(text), SCHEMAS) is None


def test_rows_of_other_columns_are_left_alone() -> None:
    prepared = prepare_selection(plan_of("SELECT k FROM a WHERE k = 1"), SCHEMAS)
    assert prepared is not None
    assert prepared.run({"0": pa.table({"k": [1]})}, ()) is None
