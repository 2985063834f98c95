"""What is read of a condition loses no row for which DuckDB says TRUE, and is exact where it says so.

DuckDB compares as Spark does here: NaN is the largest number and equals itself, -0.0 is 0.0, a decimal beside a double is a double, a text
beside a date is a date, and its session has the time zone UTC. Its doubles of decimals of more than 53 bits may be those next to Spark's.
"""

import datetime as dt
import math
import struct
from dataclasses import dataclass
from decimal import Decimal as Number

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from platform_plugin.algebra.plan.filters import split_operands
from platform_plugin.algebra.predicates.conditions import MAX_BOXES, MAYBE
from platform_plugin.algebra.predicates.formulas import UNBOUND, AllOf, Opaque, describe
from platform_plugin.algebra.predicates.read import read_condition, read_formula
from platform_plugin.algebra.types.data_types import Decimal, Primitive


def single(number):
    return struct.unpack("f", struct.pack("f", number))[0]


DAYS = [dt.date(2025, 12, 31), dt.date(2026, 1, 1), dt.date(2026, 1, 2)]
NAIVE = [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, 0, 0, 0, 1), dt.datetime(2025, 12, 31, 23), dt.datetime(2026, 1, 2)]  # noqa: DTZ001
ZONED = [moment.replace(tzinfo=dt.UTC) for moment in NAIVE] + [dt.datetime(2026, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))]
TEXT_DAYS = ["2026-01-01", "2025-12-31"]
TEXT_MOMENTS = ["2026-01-01", "2026-01-01 00:00:00.000001", "2025-12-31T23:00", "2026-01-01 00:00:00"]
NUMBERS = [0, 1, 2, -1, Number("0.1"), Number("1.5"), Number("1.00"), 0.0, -0.0, 0.1, 1.5, 2.0, math.nan, math.inf, -math.inf]
BIG = [2**53 + 1, 2**53, -(2**53) - 1, float(2**53), float(2**53 + 2), Number(2**53 + 1) + Number("0.5")]
DIGITS = [Number("0.1000000000000000055"), 0.1 + 2**-56, Number("0.3"), 0.3, single(0.1), 0.2]
# To DuckDB a decimal beside a float is a float of single precision.
SINGLES = [value for value in NUMBERS + DIGITS if isinstance(value, float) or value == single(value)]
TEXTS = ["", "a", "A", "ab", "abc", "b", "é", "\U0001f986", "\uffff", "a%", "a_", "\ue000"]
PATTERNS = ["%", "a%", "ab%", "a_", "a%c", "", "a", "_", r"a\%", r"a\_%", "%b", "\ud7ff%", "\U0001f986%"]

# For each column its type, in Arrow as well, the values in it and the constants that it is compared with.
COLUMNS = {
    "i": (Primitive("int64"), pa.int64(), [0, 1, 2, -1, 2**53, 2**53 + 1, -(2**53) - 1], NUMBERS + BIG),
    "f": (Primitive("float64"), pa.float64(), [0.0, -0.0, 0.1, 1.5, math.nan, math.inf, -math.inf, 2.0**53, 0.3], NUMBERS + BIG + DIGITS),
    "g": (Primitive("float32"), pa.float32(), [0.0, -0.0, 0.1, 1.5, math.nan, math.inf, 16777216.0], SINGLES),
    "n": (
        Decimal(precision=18, scale=17),
        pa.decimal128(18, 17),
        [Number(0), Number("0.1"), Number("1.5"), Number("0.10000000000000001"), Number("0.3")],
        NUMBERS + DIGITS,
    ),
    "s": (Primitive("varchar"), pa.string(), TEXTS, TEXTS),
    "d": (Primitive("date"), pa.date32(), DAYS, DAYS + ZONED + TEXT_DAYS),
    "t": (Primitive("timestamp"), pa.timestamp("us"), NAIVE, NAIVE + ZONED + DAYS + TEXT_MOMENTS),
    "z": (Primitive("timestamptz"), pa.timestamp("us", tz="UTC"), ZONED[:4], ZONED + DAYS + TEXT_MOMENTS),
    "b": (Primitive("boolean"), pa.bool_(), [True, False], [True, False]),
}
SCHEMA = pa.schema([(name, kind) for name, (_, kind, _, _) in COLUMNS.items()])


@dataclass(frozen=True)
class Text:
    """A condition as sqlglot reads it, with a name for each constant, and as DuckDB does."""

    spark: str
    duckdb: str


class Constants:
    """Constants by the names that stand for them."""

    def __init__(self):
        self.values = {}

    def add(self, value):
        name = f"p{len(self.values)}"
        self.values[name] = value
        return f":{name}"


def literal(value):
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case int() | Number():
            return str(value)
        case dt.datetime():
            return f"{'TIMESTAMP' if value.tzinfo is None else 'TIMESTAMPTZ'} '{value.isoformat(' ')}'"
        case dt.date():
            return f"DATE '{value}'"
        case str():
            return "'" + value.replace("'", "''") + "'"


def constants_of(column):
    return st.sampled_from([*COLUMNS[column][3], None])


OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]
SAME = {"<=>": "IS NOT DISTINCT FROM"}


@st.composite
def atoms(draw):
    column = draw(st.sampled_from(list(COLUMNS)))
    kind = draw(st.sampled_from(["compare", "compare", "flip", "between", "in", "null", "special", "pair"]))
    negated = draw(st.sampled_from(["", "NOT "]))
    values = draw(st.lists(constants_of(column), min_size=2, max_size=3))
    operator = draw(st.sampled_from(OPERATORS))
    match kind:
        case "compare":
            return (column, f"{{}} {operator} {{}}", f"{{}} {SAME.get(operator, operator)} {{}}", values[:1])
        case "flip":
            return (column, f"{{1}} {operator} {{0}}", f"{{1}} {SAME.get(operator, operator)} {{0}}", values[:1])
        case "between":
            return (column, *[f"{{}} {negated}BETWEEN {{}} AND {{}}"] * 2, values[:2])
        case "in":
            listed = ", ".join(["{}"] * len(values))
            return (column, *[f"{{}} {negated}IN ({listed})"] * 2, values)
        case "null":
            return (column, *[f"{{}} IS {negated}NULL"] * 2, [])
        case "special" if column == "s":
            escaped = f"{{}} {negated}LIKE {{}} ESCAPE '\\'"
            return (column, f"{{}} {negated}LIKE {{}}", escaped, [draw(st.sampled_from([*PATTERNS, None]))])
        case "special" if column == "b":
            tested = draw(st.sampled_from(["{}", "{} IS TRUE", "{} IS NOT TRUE", "{} IS FALSE", "{} IS NOT FALSE"]))
            return (column, tested, tested, [])
        case _:
            tested = draw(
                st.sampled_from(["i = f", "i < n", "TRUE", "FALSE", "NULL", "i + 1 = 2", "s = upper(s)", "(b = (i > 0)) IS TRUE"])
            )
            return (column, tested, tested, [])


@st.composite
def conditions(draw):
    constants = Constants()

    def render(tree):
        match tree:
            case ("and" | "or" as joined, one, other):
                left, right = render(one), render(other)
                return Text(f"({left.spark} {joined} {right.spark})", f"({left.duckdb} {joined} {right.duckdb})")
            case ("not", one):
                inner = render(one)
                return Text(f"NOT ({inner.spark})", f"NOT ({inner.duckdb})")
            case (column, spark, duck, values):
                names = [constants.add(value) for value in values]
                return Text(spark.format(column, *names), duck.format(column, *map(literal, values)))

    trees = st.recursive(
        atoms(),
        lambda inner: st.tuples(st.sampled_from(["and", "or"]), inner, inner) | st.tuples(st.just("not"), inner),
        max_leaves=6,
    )
    return render(draw(trees)), constants.values


rows = st.lists(
    st.fixed_dictionaries({name: st.none() | st.sampled_from(values) for name, (_, _, values, _) in COLUMNS.items()}),
    min_size=1,
    max_size=8,
)


def parse(condition):
    return sqlglot.parse_one(f"SELECT 1 FROM t WHERE {condition}", dialect="spark").args["where"].this


def column_of(node):
    return node.name if isinstance(node, exp.Column) else None


def constant_of(node):
    return node.name if isinstance(node, exp.Placeholder) else None


def type_of(column):
    return COLUMNS[column][0]


@pytest.fixture(scope="module")
def duck():
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        # DuckDB 1.5's optimiser loses NULLs of `x = 0 OR x IS DISTINCT FROM 0`.
        connection.execute("PRAGMA disable_optimizer")
        yield connection


def passing(duck, table, condition):
    # Filters over an Arrow table are Arrow's own, to which NaN is larger than nothing.
    duck.register("given_rows", table.append_column("_row", pa.array(range(table.num_rows))))
    duck.execute("CREATE OR REPLACE TEMP TABLE t AS FROM given_rows")
    return {row for (row,) in duck.execute(f"SELECT _row FROM t WHERE {condition}").fetchall()}


@settings(max_examples=300)
@given(conditions(), rows)
def test_a_description_loses_no_row_and_an_exact_one_has_no_other(duck, condition, given_rows):
    text, values = condition
    table = pa.Table.from_pylist(given_rows, SCHEMA)
    held = table.to_pylist()
    true = passing(duck, table, text.duckdb)
    split = read_condition(parse(text.spark), column_of, constant_of, type_of, values.get)
    described = {place for place, row in enumerate(held) if split.condition.contains(row)}
    assert true <= described, (text.spark, str(split.condition), [held[place] for place in true - described])
    assert split.condition.is_exact == (not split.residual)
    if split.condition.is_exact:
        assert true == described, (text.spark, str(split.condition), [held[place] for place in described - true])


@settings(max_examples=100)
@given(conditions(), rows, st.data())
def test_parameters_without_values_lose_no_row(duck, condition, given_rows, data):
    text, values = condition
    unbound = data.draw(st.sets(st.sampled_from(sorted(values))) if values else st.just(set()))
    table = pa.Table.from_pylist(given_rows, SCHEMA)
    formula = read_formula(parse(text.spark), column_of, constant_of)
    unknown = data.draw(st.sampled_from([None, *COLUMNS]))
    found = describe(
        formula,
        lambda column: None if column == unknown else type_of(column),
        lambda name: UNBOUND if name in unbound else values[name],
    )
    described = {place for place, row in enumerate(table.to_pylist()) if found.contains(row)}
    true = passing(duck, table, text.duckdb)
    assert true <= described, (text.spark, unbound, str(found))
    if found.is_exact:
        assert true == described


@settings(max_examples=60)
@given(st.lists(conditions(), min_size=2, max_size=4), rows)
def test_the_residual_is_what_the_description_does_not_decide(duck, several, given_rows):
    """Each part is decided by the description, or is in the residual and then decided by DuckDB."""
    table = pa.Table.from_pylist(given_rows, SCHEMA)
    values, parts, named = {}, [], []
    for number, (text, own) in enumerate(several):
        values |= {f"{name}_{number}": value for name, value in own.items()}
        spark = text.spark
        for name in sorted(own, key=len, reverse=True):
            spark = spark.replace(f":{name}", f":{name}_{number}")
        parts.append(text.duckdb)
        # Brackets and OR keep sqlglot from seeing more parts than there are here.
        named.append(f"(({spark}) OR FALSE)")
    node = parse(" AND ".join(named))
    split = read_condition(node, column_of, constant_of, type_of, values.get)
    places = {id(part): place for place, part in enumerate(split_operands(node, exp.And))}
    left = [parts[places[id(part)]] for part in split.residual]
    true = passing(duck, table, " AND ".join(f"({part})" for part in parts))
    rest = passing(duck, table, " AND ".join(f"({part})" for part in left) or "TRUE")
    assert true == {place for place in rest if split.condition.contains(table.slice(place, 1).to_pylist()[0])}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("i = :one OR i > :two", "i: {1}, (2, inf)"),
        ("NOT (i = :one OR s IS NULL)", "i: (-inf, 1), (1, inf) and s: (-inf, inf)"),
        ("i = :one OR s = :text", "i: {1} or s: {ab}"),
        ("i NOT IN (:one, :two)", "i: (-inf, 1), (1, 2), (2, inf)"),
        ("i NOT IN (:one, :none)", "no row"),
        ("NOT (i NOT BETWEEN :one AND :two)", "i: [1, 2]"),
        ("i <=> :none OR i <=> :one", "i: {1}, NULL"),
        ("NOT i <=> :one", "i: (-inf, 1), (1, inf), NULL"),
        ("i = :none", "no row"),
        ("i <=> :later", "every row, of which some may fail"),
        ("i < :later", "i: (-inf, inf), of which some may fail"),
        ("b AND NOT b", "no row"),
        ("b OR NOT b", "b: {False}, {True}"),
        ("b IS NOT TRUE", "b: {False}, NULL"),
        ("s LIKE :prefix", "s: [ab, ac)"),
        ("s NOT LIKE :prefix", "s: (-inf, ab), [ac, inf)"),
        ("s LIKE 'ab%'", "s: (-inf, inf), of which some may fail"),
        ("i + 1 = :two", "every row, of which some may fail"),
        ("i < n", "i: (-inf, inf) and n: (-inf, inf), of which some may fail"),
        ("f(i) = :one OR i = :one", "every row, of which some may fail"),
        ("f(i) = :one AND i = :one", "i: {1}, of which some may fail"),
        ("f(i) = :one AND i = :one AND i = :two", "no row"),
        ("n = :float", "n: [0.09999999999999999, 0.10000000000000002], of which some may fail"),
        ("i = :text", "i: (-inf, inf), of which some may fail"),
        ("i IN (SELECT 1)", "every row, of which some may fail"),
        ("TRUE OR i = :one", "every row"),
        ("NULL OR FALSE", "no row"),
    ],
)
def test_readings(condition, expected):
    values = {"one": 1, "two": 2, "text": "ab", "none": None, "prefix": "ab%", "float": 0.1, "later": UNBOUND}
    assert str(read_condition(parse(condition), column_of, constant_of, type_of, values.get).condition) == expected


def test_long_chains_are_read_and_large_disjunctions_are_widened():
    values = {f"p{number}": number for number in range(1000)}
    chain = " OR ".join(f"i = :p{number}" for number in range(1000))
    (box,) = read_condition(parse(chain), column_of, constant_of, type_of, values.get).condition.boxes
    assert len(box.domain("i").values) == 1000
    pairs = " OR ".join(f"(i = :p{number} AND f = :p{number})" for number in range(MAX_BOXES + 1))
    wide = read_condition(parse(f"{pairs}"), column_of, constant_of, type_of, values.get)
    assert len(wide.condition.boxes) == 1
    assert len(wide.residual) == 1
    products = " AND ".join(f"(i <> :p{number} OR f <> :p{number} OR n <> :p{number})" for number in range(6))
    crossed = read_condition(parse(products), column_of, constant_of, type_of, values.get)
    assert len(crossed.condition.boxes) <= MAX_BOXES
    assert len(crossed.residual) == 6


def test_a_formula_keeps_nothing_of_the_tree():
    formula = read_formula(parse("i = :p AND f(i)"), column_of, constant_of)
    assert isinstance(formula, AllOf)
    assert Opaque() in formula.formulas
    assert hash(formula) == hash(read_formula(parse("i = :p AND f(i)"), column_of, constant_of))
    assert describe(Opaque(), type_of) == MAYBE
