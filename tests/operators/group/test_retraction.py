"""The partial aggregates of A and B without those of B are those of A: on Spark for every function with a rule, and on the kernel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from platform_plugin.algebra.functions import FUNCTIONS, RETRACT_RULES, can_retract
from platform_plugin.algebra.plan.nodes import Column, Item, Scalar
from platform_plugin.algebra.plan.traversal import map_nodes
from platform_plugin.engine.arrow.calls import aggregate
from platform_plugin.engine.arrow.values import ArrowRows, evaluate
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.operators.group.aggregates import SPLIT
from platform_plugin.operators.group.body import read_body
from platform_plugin.operators.group.calls import read_call
from platform_plugin.operators.group.retraction import Retraction, plan_retraction
from tests.operators.group.test_aggregates import ARGUMENTS

if TYPE_CHECKING:
    from platform_plugin.engine.spark.session.session import Session

TYPES = {"score": "INT", "ratio": "DOUBLE", "amount": "DECIMAL(9,2)", "content": "STRING"}
ARROW = {"score": pa.int32(), "ratio": pa.float64(), "amount": pa.decimal128(9, 2), "content": pa.string()}
ABLE = sorted(name for name in SPLIT if can_retract(name))
CALLS = [f"{name}{ARGUMENTS.get(name, '(score)')}" for name in ABLE] + [
    "count(*)",
    "count(DISTINCT content)",
    "sum(DISTINCT score)",
    "sum(amount)",
    "sum(ratio)",
    "avg(amount)",
    "avg(ratio)",
    "var_pop(ratio)",
    "collect_list(content)",
    "mode(content)",
    "sum(score) FILTER (WHERE ratio > 0)",
]
# Both engines read them; what the kernel leaves to Spark is not asked of it.
ON_THE_KERNEL = ["count(*)", "count(score)", "sum(score)", "avg(score)", "count_if(score > 1)"]


def retraction(text: str) -> Retraction | None:
    call = read_call(read_body(f"SELECT {text} AS v").expressions[0].this)
    column = next((node.name for argument in call.args for node in argument.find_all(exp.Column)), None)
    return plan_retraction(call, parse_type(TYPES[column]) if column else None, lambda: exp.column("row_id"))


def test_every_aggregate_that_splits_has_a_rule_and_no_other() -> None:
    assert {name for name, function in FUNCTIONS.items() if function.retract is not None and function.canonical == name} == SPLIT
    assert {function.retract for function in FUNCTIONS.values()} - {None} == set(RETRACT_RULES)
    assert all(RETRACT_RULES[rule].startswith("no: " if rule.startswith("not-") else "yes: ") for rule in RETRACT_RULES)


@pytest.mark.parametrize("name", sorted(SPLIT))
def test_what_is_planned_is_what_the_table_says(name: str) -> None:
    found = retraction(f"{name}{ARGUMENTS.get(name, '(score)')}")
    assert (None if found is None else found.rule) == (FUNCTIONS[name].retract if can_retract(name) else None)


def test_distinct_values_are_counted_so_that_they_can_leave() -> None:
    assert retraction("count(DISTINCT score)").rule == "number"
    assert retraction("listagg(DISTINCT content, ',')") is None
    assert retraction("max(DISTINCT score)") is None


_SCORES = st.none() | st.integers(-1000, 1000)
_RATIOS = st.none() | st.floats(-1e4, 1e4, width=32)
_AMOUNTS = st.none() | st.decimals(-1000, 1000, places=2)
_ROWS = st.tuples(st.booleans(), _SCORES, _RATIOS, _AMOUNTS, st.none() | st.sampled_from("abc"))
_GROUPS = st.lists(st.lists(_ROWS, min_size=1, max_size=8), min_size=1, max_size=12)


def literal(value: Any, kind: str) -> str:
    return f"CAST({'NULL' if value is None else repr(str(value))} AS {kind})"


def text_of(node: exp.Expr) -> str:
    return node.sql("spark", normalize_functions=False)


def partials(found: Retraction, where: str) -> str:
    """The state of some of the rows: its keys, then its partials."""
    keys = ["g", *(f"{text_of(key)} AS k{place}" for place, key in enumerate(found.keys))]
    columns = [f"{text_of(part.value)} AS p{place}" for place, part in enumerate(found.parts)]
    return f"SELECT {', '.join([*keys, *columns])} FROM rows WHERE {where} GROUP BY {', '.join(str(n + 1) for n in range(len(keys)))}"


def comparable(value: Any) -> Any:
    """The same with room for floats that rounding may have moved."""
    if isinstance(value, tuple):
        return tuple(comparable(part) for part in value)
    return pytest.approx(value, rel=1e-6, abs=1e-2) if isinstance(value, float) else value


def by_key(rows: list[Any], found: Retraction) -> dict[Any, Any]:
    """Partials, lists in order, by the keys of their group."""
    width = 1 + len(found.keys)
    return {row[:width]: tuple(sorted(part) if isinstance(part, list) else part for part in row[width:]) for row in rows}


# One of each rule and form; the others are slow by their number only.
CORE = {"sum(amount)", "avg(ratio)", "bit_xor(score)", "var_pop(ratio)", "corr(score, ratio)", "collect_list(content)", "mode(content)"}


@pytest.mark.spark
@pytest.mark.parametrize("text", [pytest.param(text, marks=[] if text in CORE else pytest.mark.slow) for text in CALLS])
def test_the_rest_is_what_is_left(spark_session: Session, text: str) -> None:
    found = retraction(text)
    assert found is not None
    names = [f"k{place}" for place in range(len(found.keys))]
    sides = {side: [exp.column(f"p{place}", table=side) for place in range(len(found.parts))] for side in ("whole", "gone")}
    rest = ", ".join(text_of(value) for value in found.without(sides["whole"], sides["gone"]))
    equal = " AND ".join(f"whole.{name} <=> gone.{name}" for name in ("g", *names))

    @settings(max_examples=3, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(groups=_GROUPS)
    def check(groups: list[list[tuple[Any, ...]]]) -> None:
        rows = [
            f"({number}, {gone}, {', '.join(literal(value, kind) for value, kind in zip(row, TYPES.values(), strict=True))})"
            for number, group in enumerate(groups)
            for gone, *row in [(True, None, None, None, None), *group]
        ]
        with_rows = f"WITH rows(g, gone, {', '.join(TYPES)}) AS (VALUES {', '.join(rows)}) "
        joined = f"({partials(found, 'true')}) AS whole JOIN ({partials(found, 'gone')}) AS gone ON {equal}"
        heads = ", ".join(f"whole.{name}" for name in ("g", *names))
        run = spark_session.spark.sql
        actual = by_key(run(f"{with_rows} SELECT {heads}, {rest} FROM {joined}").collect(), found)
        left = by_key(run(with_rows + partials(found, "NOT gone")).collect(), found)
        columns = ", ".join(text_of(part.value) for part in found.parts)
        nothing = tuple(run(f"{with_rows} SELECT {columns} FROM rows WHERE false").first())
        for key, values in actual.items():
            assert values == comparable(left.get(key, nothing)), key

    check()


def of_alias(node: exp.Expr) -> exp.Expr:
    """An expression whose columns are those of the only relation."""
    return map_nodes(node, lambda found: exp.column(found.name, table="rows") if isinstance(found, exp.Column) else None)


def kernel_state(found: Retraction, rows: list[tuple[Any, ...]]) -> dict[str, pa.Array]:
    columns = {Column("rows", name): pa.array([row[place] for row in rows], ARROW[name]) for place, name in enumerate(TYPES)}
    calls = [Item(value=Scalar(of_alias(part.value)), name=f"p{place}") for place, part in enumerate(found.parts)]
    table = aggregate(ArrowRows(columns=columns, count=len(rows)), [], calls)
    return {name: table.column(name) for name in table.column_names}


@pytest.mark.parametrize("text", ON_THE_KERNEL)
@given(rows=st.lists(_ROWS, max_size=12))
def test_the_kernel_takes_rows_back_too(text: str, rows: list[tuple[Any, ...]]) -> None:
    found = retraction(text)
    assert found is not None
    whole, gone, left = (
        kernel_state(found, [row[1:] for row in rows if keep(row)]) for keep in (lambda _: True, lambda row: row[0], lambda row: not row[0])
    )
    columns = {Column(side, name): values for side, state in (("whole", whole), ("gone", gone)) for name, values in state.items()}
    sides = [[exp.column(name, table=side) for name in whole] for side in ("whole", "gone")]
    rest = [evaluate(Scalar(value), ArrowRows(columns=columns, count=1)) for value in found.without(*sides)]
    assert [value.to_pylist() for value in rest] == [left[name].to_pylist() for name in left]


@given(
    values=st.lists(st.tuples(st.booleans(), st.floats(-1e3, 1e3, width=32)), min_size=1, max_size=30),
    far=st.sampled_from([0.0, 1e6]),
)
def test_spreads_far_from_zero_lose_few_digits(values: list[tuple[bool, float]], far: float) -> None:
    """Chan's formula backwards in plain Python, beside the definition."""

    def moments(numbers: list[float]) -> tuple[float, float, float]:
        mean = math.fsum(numbers) / len(numbers) if numbers else 0.0
        return float(len(numbers)), mean, math.fsum((number - mean) ** 2 for number in numbers)

    (n, mean, m2), (m, gone, g2), (rest, _, expected) = (
        moments([far + value for leaves, value in values if leaves in which]) for which in ((True, False), (True,), (False,))
    )
    if rest:
        assert m2 - g2 - (gone - mean) ** 2 * n * m / rest == pytest.approx(expected, rel=1e-6, abs=1e-3 * len(values))
