"""Pruning is sound: DuckDB gives the same answer on full tables and on what predicates and needed columns leave of them."""

from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.algebra.plan.predicates import Comparison, IsNotNull, IsNull, OneOf
from tests.algebra.rules.plans import plan_text, predicates

COLUMNS = ("k", "x", "y")
values = st.none() | st.integers(0, 2)
rows = st.lists(st.tuples(st.integers(0, 1), values, values), min_size=1, max_size=6)
# Bare names are ambiguous in most joins, so they are the rarer ones.
columns = st.sampled_from(["p.k", "p.x", "p.y", "q.k", "q.x", "q.y", "x"])
alone = st.sampled_from(["k", "x", "y", "p.x"])
constants = st.sampled_from(["0", "1", "2", "-1", "NULL"])


def conditions_on(columns):
    atoms = st.one_of(
        st.builds("{} {} {}".format, columns, st.sampled_from(["=", "<", ">=", "<>"]), constants | columns),
        st.builds("{} {} {}".format, constants, st.sampled_from(["=", "<=", ">"]), columns),
        st.builds("{} IS {}NULL".format, columns, st.sampled_from(["", "NOT "])),
        st.builds("{} IN ({}, {})".format, columns, constants, constants),
        st.builds("{} BETWEEN {} AND {}".format, columns, constants, constants),
    )
    return st.recursive(
        atoms,
        lambda inner: (
            st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "AND", "OR"]), inner) | st.builds("NOT ({})".format, inner)
        ),
        max_leaves=5,
    )


conditions = conditions_on(columns)
matches = st.just("p.k = q.k") | conditions
joins = st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
outer = st.sampled_from(["LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
selected = st.sampled_from(["count(*)", "sum(p.x)", "count(p.k)", "*", "p.*"])
selected_alone = st.sampled_from(["count(*)", "sum(p.x)", "count(k), max(x)", "*", "p.*"])
queries = st.one_of(
    st.builds("SELECT {} FROM t p WHERE {}".format, selected_alone, conditions_on(alone)),
    st.builds("SELECT {} FROM t p {} u q ON {} WHERE {}".format, selected, joins, matches, conditions),
    st.builds("SELECT {} FROM t p {} u q ON {} WHERE {}".format, selected, joins, matches, conditions),
    # IS NULL above an outer join is what tells the side that joining fills with NULLs.
    st.builds(
        "SELECT {} FROM t p {} u q ON p.k = q.k WHERE {} IS NULL".format, selected, outer, st.sampled_from(["p.k", "p.x", "q.k", "q.x"])
    ),
    st.builds("SELECT count(*) FROM t p, u q WHERE {}".format, conditions),
    st.builds("SELECT count(*) FROM t p WHERE EXISTS (SELECT * FROM u q WHERE {})".format, conditions),
    st.builds(
        "WITH q AS (SELECT * FROM u WHERE {}) SELECT p.y FROM t p {} q ON {} WHERE {}".format,
        conditions_on(st.just("x")),
        joins,
        matches,
        conditions,
    ),
)


def keeps(predicate, row):
    value = row.get(predicate.column.lower(), ...)
    if value is ...:
        return True
    match predicate:
        case Comparison(op=op, value=constant):
            compare = {"=": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}[op]
            return value is not None and getattr(value, compare)(constant)
        case OneOf(values=constants):
            return value in constants if value is not None else False
        case IsNull():
            return value is None
        case IsNotNull():
            return value is not None


def answer(text, tables):
    with duckdb.connect() as connection:
        for name, found in tables.items():
            table = pa.table(
                [[row[column] for row in found] for column in COLUMNS], schema=pa.schema([(column, pa.int64()) for column in COLUMNS])
            )
            connection.register(name, table)
        try:
            return sorted(connection.execute(text).fetchall(), key=repr)
        except duckdb.BinderException:
            return None


@settings(max_examples=300)
@given(queries, rows, rows)
def test_what_is_pruned_never_matters(text, first, second):
    full = {"t": [dict(zip(COLUMNS, row, strict=True)) for row in first], "u": [dict(zip(COLUMNS, row, strict=True)) for row in second]}
    expected = answer(text, full)
    if expected is None:
        return
    query, plan = plan_text(text)
    pruned = {}
    for reference in query.relations:
        left = [
            row for row in full[reference.name.relation] if all(keeps(predicate, row) for predicate in plan.predicates_of(reference, ()))
        ]
        columns = plan.columns_of(query, reference)
        if columns is not None:
            left = [{column: value if column in columns else None for column, value in row.items()} for row in left]
        pruned[f"v{reference.index}"] = left
    rendered = query.render({reference: f"v{reference.index}" for reference in query.relations})
    assert answer(rendered.text.replace("`", '"'), pruned) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x = 1 AND 2 < y", (Comparison("x", "=", 1), Comparison("y", ">", 2))),
        ("(x BETWEEN 1 AND :hi) AND k IN (1, NULL, 'a')", (Comparison("x", ">=", 1), Comparison("x", "<=", 9), OneOf("k", (1, "a")))),
        ("t.x IS NOT NULL AND x <=> 3", (IsNotNull("x"), Comparison("x", "=", 3))),
        ("x = 1 OR y = 2", ()),
        ("NOT x = 1", ()),
        ("x = NULL AND x = :none", ()),
        ("x + 1 = 2 AND abs(x) = 1 AND x = y", ()),
        ("x = 'it''s' 'b'", (Comparison("x", "=", "it'sb"),)),
        ("x <> -1.5", (Comparison("x", "!=", Decimal("-1.5")),)),
        ("x IN (" + ", ".join(["1"] * 500) + ")", (OneOf("x", (1,) * 500),)),
        ("x = double('nan')", ()),
    ],
)
def test_pruning_predicates(condition, expected):
    assert predicates(f"SELECT 1 FROM t WHERE {condition}", "t", {"hi": 9}) == expected


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("t p JOIN u", True),
        ("t p LEFT JOIN u", True),
        ("u LEFT JOIN t p", False),
        ("u RIGHT JOIN t p", True),
        ("t p RIGHT JOIN u", False),
        ("t p FULL JOIN u", False),
        ("t p, u", True),
        ("t p SEMI JOIN u", True),
        ("t TABLESAMPLE (5 ROWS) p", False),
        ("(t p JOIN u)", True),
    ],
)
def test_only_preserved_sides_are_pruned(source, kept):
    assert predicates(f"SELECT 1 FROM {source} WHERE p.x = 1", "t") == ((Comparison("x", "=", 1),) if kept else ())


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM (SELECT k, x AS z FROM t) WHERE z = 1",
        "WITH a AS (SELECT * FROM t) SELECT k FROM a WHERE x = 1",
        "SELECT x, n FROM (SELECT x, count(*) AS n FROM t GROUP BY x) WHERE x = 1 AND n > 2",
        "SELECT * FROM (SELECT x FROM t UNION ALL SELECT y FROM u) WHERE x = 1",
        "SELECT DISTINCT x FROM t WHERE x = 1",
        "SELECT 1 FROM u LEFT JOIN t ON u.k = t.k AND t.x = 1",
        "SELECT x, count(*) FROM t GROUP BY x HAVING x = 1",
        "WITH a AS (SELECT * FROM t WHERE x = 1) SELECT 1 FROM a p JOIN a q ON p.k = q.k WHERE p.y = 2",
    ],
)
def test_conditions_go_down_to_the_relation(text):
    assert predicates(text, "t") == (Comparison("x", "=", 1),)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM (SELECT x FROM t LIMIT 5) WHERE x = 1",
        "SELECT * FROM (SELECT x + 1 AS x FROM t) WHERE x = 1",
        "SELECT * FROM (SELECT x, row_number() OVER (ORDER BY y) AS n FROM t) WHERE x = 1",
        "SELECT * FROM (SELECT max(x) AS x FROM t) WHERE x = 1",
        "SELECT * FROM (SELECT x FROM t UNION ALL SELECT region FROM users) WHERE x = 1",
        "SELECT * FROM (SELECT x, sum(y) FROM t GROUP BY ROLLUP (x)) WHERE x IS NULL",
        "SELECT 1 FROM t p JOIN t q ON p.k = q.k WHERE p.x = 1 AND q.x = 2 AND EXISTS (SELECT 1 FROM u WHERE u.x = 1)",
    ],
)
def test_other_conditions_stay_above(text):
    assert predicates(text, "t") == ()
