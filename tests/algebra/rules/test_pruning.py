"""Pruning is sound: DuckDB gives the same answer on full tables and on what conditions and needed columns leave of them."""

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.algebra.predicates.conditions import ALWAYS, compare, is_in
from platform_plugin.algebra.types.data_types import Field, Primitive
from tests.algebra.rules.plans import FIELDS, condition, plan_text

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


@settings(max_examples=100)
@given(queries, rows, rows)
def test_what_is_pruned_never_matters(text, first, second):
    full = {"t": [dict(zip(COLUMNS, row, strict=True)) for row in first], "u": [dict(zip(COLUMNS, row, strict=True)) for row in second]}
    expected = answer(text, full)
    if expected is None:
        return
    query, plan = plan_text(text)
    pruned = {}
    for reference in query.relations:
        where = plan.formula_of(reference, ()).condition(FIELDS)
        left = [row for row in full[reference.name.relation] if where.contains(row)]
        columns = plan.columns_of(query, reference)
        if columns is not None:
            left = [{column: value if column in columns else None for column, value in row.items()} for row in left]
        pruned[f"v{reference.index}"] = left
    rendered = query.render({reference: f"v{reference.index}" for reference in query.relations})
    assert answer(rendered.text.replace("`", '"'), pruned) == expected


@pytest.mark.slow
@settings(max_examples=2000)
@given(queries, rows, rows)
def test_nor_does_it_in_many_more_queries(text, first, second):
    test_what_is_pruned_never_matters.hypothesis.inner_test(text, first, second)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("x = 1 AND 2 < y", "x: {1} and y: (2, inf)"),
        ("(x BETWEEN 1 AND :hi) AND k IN (2, NULL, 1)", "k: {1}, {2} and x: [1, 9]"),
        ("t.X IS NOT NULL AND x <=> 3", "x: {3}"),
        ("x = 1 OR y = 2", "x: {1} or y: {2}"),
        ("NOT (x = 1 OR y IS NULL)", "x: (-inf, 1), (1, inf) and y: (-inf, inf)"),
        ("x NOT IN (1, :hi)", "x: (-inf, 1), (1, 9), (9, inf)"),
        ("x = NULL", "no row"),
        ("x <> :none", "no row"),
        ("x <=> :none", "x: NULL"),
        ("x > :missing", "x: (-inf, inf), of which some may fail"),
        ("x + 1 = 2 AND abs(x) = 1", "every row, of which some may fail"),
        ("x = y", "x: (-inf, inf) and y: (-inf, inf), of which some may fail"),
        ("x <> -1.5", "x: (-inf, -1.5), (-1.5, inf)"),
        ("x = double('nan') OR x = 2", "x: (-inf, inf), of which some may fail"),
        ("x = 'one'", "x: (-inf, inf), of which some may fail"),
    ],
)
def test_conditions_of_relations(where, expected):
    assert str(condition(f"SELECT 1 FROM t WHERE {where}", "t", {"hi": 9, "none": None})) == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("region = 'it''s' 'b'", "region: {it'sb}"),
        ("region LIKE 'ab%' OR region LIKE r'a\\%'", "region: {a%}, [ab, ac)"),
        ("region = 1", "region: (-inf, inf), of which some may fail"),
        ("rate = 1", "every row, of which some may fail"),
    ],
)
def test_conditions_on_texts_and_on_columns_of_unknown_types(where, expected):
    assert str(condition(f"SELECT 1 FROM users WHERE {where}", "users")) == expected


def test_long_lists_are_read_in_full():
    text = f"SELECT 1 FROM t WHERE x IN ({', '.join(map(str, range(500)))})"
    assert condition(text, "t") == is_in("x", range(500))


def test_positional_parameters_have_the_values_of_their_places():
    assert str(condition("SELECT 1 FROM t WHERE x > ? AND y < ?", "t", (1, 2.5))) == "x: (1, inf) and y: (-inf, 2.5)"


def test_times_without_a_zone_are_those_of_the_session():
    query, plan = plan_text("SELECT 1 FROM t WHERE x >= TIMESTAMP '2026-01-01' AND x < '2026-01-02' AND y = '2026-01-01'")
    fields = [Field(name="x", type=Primitive("timestamptz")), Field(name="y", type=Primitive("date"))]
    expected = "x: [2026-01-01 00:00:00+00:00, 2026-01-02 00:00:00+00:00) and y: {2026-01-01}"
    assert str(plan.formula_of(query.relations[0], ()).condition(fields)) == expected


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
    assert condition(f"SELECT 1 FROM {source} WHERE p.x = 1", "t") == (compare("x", "=", 1) if kept else ALWAYS)


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
        "SELECT 1 FROM t p JOIN t q ON p.k = q.k WHERE p.x = 1 AND q.x = 2 AND EXISTS (SELECT 1 FROM u WHERE u.x = 1)",
    ],
)
def test_conditions_go_down_to_the_relation(text):
    assert condition(text, "t") == compare("x", "=", 1)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM (SELECT x FROM t LIMIT 5) WHERE x = 1",
        "SELECT * FROM (SELECT x + 1 AS x FROM t) WHERE x = 1",
        "SELECT * FROM (SELECT x, row_number() OVER (ORDER BY y) AS n FROM t) WHERE x = 1",
        "SELECT * FROM (SELECT max(x) AS x FROM t) WHERE x = 1",
        "SELECT * FROM (SELECT x FROM t UNION ALL SELECT region FROM users) WHERE x = 1",
        "SELECT * FROM (SELECT x, sum(y) FROM t GROUP BY ROLLUP (x)) WHERE x IS NULL",
    ],
)
def test_other_conditions_stay_above(text):
    assert condition(text, "t").is_always
