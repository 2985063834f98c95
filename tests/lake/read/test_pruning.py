"""Pruning never loses a row, and really leaves files out."""

import datetime as dt
import math
import struct
from collections import Counter
from decimal import Decimal as Number
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_plugin.algebra.predicates.conditions import ALWAYS, NEVER, compare, is_in, is_not_null, is_null
from platform_plugin.algebra.types.data_types import Decimal, Field, Primitive
from platform_plugin.lake.files.files import DataFile, with_partition
from platform_plugin.lake.values.types import to_arrow
from tests.lake.agreement import append, create, passes, plain, rows_of


def single(number):
    return struct.unpack("f", struct.pack("f", number))[0]


def close_numbers(low, high):
    """Whole numbers near the ends and near each other, so that bounds are met and just missed."""
    near = st.sampled_from(sorted({low, low + 1, -1 if low < 0 else 1, 0, 1, 2, high - 1, high}))
    return near | st.integers(low, high)


MOMENTS = st.datetimes(dt.datetime(999, 12, 30), dt.datetime(9999, 12, 31)) | st.builds(  # noqa: DTZ001
    lambda second, fraction: dt.datetime(2020, 1, 2, 3, 4, second, fraction),  # noqa: DTZ001
    st.integers(4, 6),
    st.sampled_from([0, 1, 100_000, 120_000, 123_456, 999_999]),
)
SINGLES = st.floats(width=32) | st.sampled_from([0.0, -0.0, math.nan, single(0.1), single(0.3), 1e10, 16777216.0])
DOUBLES = st.floats() | st.sampled_from([0.0, -0.0, math.nan, 0.1, 0.1 + 2**-56, 2.0**53, 1e300])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.sampled_from(
    ["", "a", "A", "aa", "é", "z", "ä", "\U0001f986", "\uffff", "\ufffd", "a\0b", "x" * 2000, "x" * 2000 + "y", "'", "%", "_"]
)
KINDS = {
    "boolean": (Primitive("boolean"), st.booleans()),
    "int8": (Primitive("int8"), close_numbers(-128, 127)),
    "int64": (Primitive("int64"), close_numbers(-(2**63), 2**63 - 1)),
    "uint64": (Primitive("uint64"), close_numbers(0, 2**64 - 1) | st.integers(2**63 - 2, 2**63 + 2)),
    "float32": (Primitive("float32"), SINGLES),
    "float64": (Primitive("float64"), DOUBLES),
    "decimal": (Decimal(precision=9, scale=2), st.decimals(-9999999, 9999999, places=2)),
    "wide decimal": (
        Decimal(precision=38, scale=10),
        st.decimals(Number("-1e27"), Number("1e27"), places=10).filter(lambda value: len(value.as_tuple().digits) <= 38)
        | st.sampled_from([Number("1E16"), Number("10000000000000000.0000000001"), Number("9999999999999999.9999999999")]),
    ),
    "varchar": (Primitive("varchar"), TEXTS),
    "date": (Primitive("date"), st.dates()),
    "timestamp": (Primitive("timestamp"), MOMENTS),
    "timestamptz": (Primitive("timestamptz"), MOMENTS.map(lambda moment: moment.replace(tzinfo=dt.UTC))),
    "timestamp_ms": (
        Primitive("timestamp_ms"),
        MOMENTS.map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)),
    ),
    "uuid": (Primitive("uuid"), st.uuids()),
    "blob": (Primitive("blob"), st.binary(max_size=3)),
}


def array(values, kind):
    if kind == Primitive("uuid"):
        return pa.array([None if value is None else UUID(str(value)).bytes for value in values], pa.binary(16)).cast(pa.uuid())
    return pa.array(values, to_arrow(kind))


OPERATORS = ["=", "<>", "<", "<=", ">", ">="]


def leaves(column, values):
    return st.one_of(
        st.tuples(st.just(column), st.sampled_from(OPERATORS), values),
        st.tuples(st.just(column), st.just("in"), st.lists(values, max_size=6)),
        st.tuples(st.just(column), st.sampled_from(["is null", "is not null"]), st.none()),
    )


def trees(values):
    """Conditions on `v`, and on `w`, which has the rows' places in their file."""
    return st.recursive(
        leaves("v", values) | leaves("v", values) | leaves("w", st.integers(-1, 4)),
        lambda inner: st.tuples(st.sampled_from(["and", "or"]), inner, inner) | st.tuples(st.just("not"), inner),
        max_leaves=4,
    )


def condition_of(tree):
    match tree:
        case ("and", one, other):
            return condition_of(one) & condition_of(other)
        case ("or", one, other):
            return condition_of(one) | condition_of(other)
        case ("not", one):
            return condition_of(one).complement()
        case (column, "in", values):
            return is_in(column, values)
        case (column, "is null" | "is not null" as op, _):
            return is_null(column) if op == "is null" else is_not_null(column)
        case (column, op, value):
            return compare(column, op, value)


def fulfils(row, tree):
    match tree:
        case ("and", one, other):
            return fulfils(row, one) and fulfils(row, other)
        case ("or", one, other):
            return fulfils(row, one) or fulfils(row, other)
        case ("not", one):
            return not fulfils(row, one)
        case (column, op, value):
            return passes(row[column], op, value)


def scenario(name):
    """Files of a column, and filters whose constants are often among the values."""
    _, values = KINDS[name]
    if name == "uuid":
        values = values.map(str)
    files = st.lists(st.lists(st.none() | values, max_size=4), min_size=1, max_size=4)

    def filters(rows):
        present = [value for file in rows for value in file if value is not None]
        constants = values | st.sampled_from(present) if present else values
        return st.tuples(st.just(rows), st.lists(trees(constants), min_size=1, max_size=5))

    return files.flatmap(filters)


@pytest.fixture
def fresh_names():
    return iter(f"t{number}" for number in range(10_000))


@pytest.mark.parametrize("name", KINDS)
def test_a_pruned_read_is_the_filtered_full_read(lake, name, fresh_names):
    kind, _ = KINDS[name]

    @settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(scenario(name))
    def check(case):
        files, filters = case
        parts = [pa.table({"v": array(rows, kind), "w": pa.array(range(len(rows)), pa.int32())}) for rows in files]
        fields = [Field(name="v", type=kind), Field(name="w", type=Primitive("int32"))]
        table = create(lake, next(fresh_names), *parts, fields=fields)
        everything = Counter(rows_of(lake.read(table.name)))
        assert everything == Counter((plain(value.as_py()), place) for rows in files for place, value in enumerate(array(rows, kind)))
        rows = [{"v": value, "w": place} for part in files for place, value in enumerate(part)]
        for tree in filters:
            where = condition_of(tree)
            plan = lake.scan(table, lake.snapshot(), where=where)
            read = set()
            for file in plan.files:
                read |= set(range(file.row_id_start, file.row_id_start + file.record_count))
            wanted = {position for position, row in enumerate(rows) if fulfils(row, tree)}
            assert wanted <= read, (tree, [rows[position] for position in wanted - read])
            if name != "uuid":  # Arrow compares no UUIDs
                found = Counter(rows_of(lake.read(table.name, where=where)))
                values = array([rows[position]["v"] for position in wanted], kind)
                assert found == Counter(
                    (plain(value.as_py()), rows[position]["w"]) for value, position in zip(values, wanted, strict=True)
                ), tree

    check()


def integers(lake, name, *ranges, **options):
    """A table of one column with one file per range."""
    return create(lake, name, *(pa.table({"v": pa.array(part, pa.int64())}) for part in ranges), **options)


def files_of(lake, table, where=ALWAYS):
    return [file.id for file in lake.scan(lake.table(table.name), lake.snapshot(), where=where).files]


def test_files_outside_the_bounds_are_left_out(lake):
    table = integers(lake, "t", range(10), range(10, 20), range(20, 30), [None, None], [35, None])
    first, second, third, empty, mixed = files_of(lake, table)
    for where, kept in {
        compare("v", "=", 15): [second],
        compare("v", "=", 99): [],
        compare("v", "<", 10): [first],
        compare("v", "<=", 10): [first, second],
        compare("v", ">", 29): [mixed],
        compare("v", ">=", 29): [third, mixed],
        is_in("v", (3, 25)): [first, third],
        is_in("v", ()): [],
        is_null("v"): [empty, mixed],
        is_not_null("v"): [first, second, third, mixed],
        compare("v", "<>", 3): [first, second, third, mixed],
    }.items():
        assert files_of(lake, table, where) == kept, where
        assert files_of(lake, table, where.inexact()) == kept, where
    assert files_of(lake, table, compare("v", ">", 5) & compare("v", "<", 8)) == [first]
    assert files_of(lake, table, compare("v", "<", 5) | compare("v", ">", 32)) == [first, mixed]
    assert files_of(lake, table, compare("v", "<", 5) | is_null("v")) == [first, empty, mixed]
    assert files_of(lake, table, (compare("v", ">=", 10) & compare("v", "<", 32)).complement()) == [first, empty, mixed]
    assert files_of(lake, table, is_in("v", [*range(100, 300, 2), 15, 12])) == [second]


def test_disjunctions_over_columns_leave_files_out(lake):
    parts = [pa.table({"v": [number, number + 1], "w": [number * 10, number * 10]}) for number in range(0, 40, 10)]
    table = create(lake, "t", *parts)
    first, second, third, fourth = files_of(lake, table)
    either = compare("v", "=", 0) | compare("w", "=", 200)
    assert files_of(lake, table, either) == [first, third]
    assert files_of(lake, table, either & compare("v", ">", 5)) == [third]
    assert files_of(lake, table, compare("v", "=", 0) & compare("w", "=", 100) | compare("v", "=", 31)) == [fourth]
    assert files_of(lake, table, compare("v", "=", 0) | compare("unknown", "=", 1)) == [first, second, third, fourth]
    many = NEVER
    for number in range(20):
        many = many | compare("v", "=", 20 + number) & compare("w", "=", 200 + number)
    assert files_of(lake, table, many) == [third]


def test_files_without_statistics_are_kept(lake):
    table = integers(lake, "t", [1])
    bare = [
        DataFile(path=file.path, record_count=1, size_bytes=file.size_bytes, footer_bytes=file.footer_bytes, statistics=())
        for file in [lake.write(table, pa.table({"v": [5]}))]
    ]
    with lake.commit("append") as commit:
        commit.append(table, bare)
    for where in (compare("v", "=", 7), is_null("v"), compare("v", "=", 7) | compare("v", "=", 9), is_in("v", [7, 8, 9, 10])):
        assert len(files_of(lake, table, where)) == 1, where
    assert files_of(lake, table, NEVER) == []


@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("boolean", "blob")])
def test_every_ordered_type_prunes(lake, name):
    kind, _ = KINDS[name]
    low, high = {
        "int8": (-5, 5),
        "int64": (-5, 2**40),
        "uint64": (1, 2**63 + 5),
        "float32": (-1.5, 7.25),
        "float64": (-1.5, 7.25),
        "decimal": (Number("-1.50"), Number("7.25")),
        "wide decimal": (Number("-1.5"), Number("123456789012345678901234567.5")),
        "varchar": ("a", "é"),
        "date": (dt.date(1999, 1, 1), dt.date(2020, 2, 2)),
        "timestamp": (dt.datetime(1999, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 0, 5)),  # noqa: DTZ001
        "timestamptz": (dt.datetime(1999, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 1, 1, 0, 0, 0, 5, tzinfo=dt.UTC)),
        "timestamp_ms": (dt.datetime(1999, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 0, 5000)),  # noqa: DTZ001
        "uuid": (str(UUID(int=5)), str(UUID(int=2**128 - 1))),
    }[name]
    table = create(
        lake, "t", pa.table({"v": array([low], kind)}), pa.table({"v": array([high], kind)}), fields=[Field(name="v", type=kind)]
    )
    first, second = files_of(lake, table)
    assert files_of(lake, table, compare("v", "=", low)) == [first]
    assert files_of(lake, table, compare("v", "<=", low)) == [first]
    # Bounds that a database rounds tell strictly smaller from larger, no more.
    assert files_of(lake, table, compare("v", ">", low)) == ([first, second] if name == "float32" else [second])
    assert files_of(lake, table, compare("v", "=", low) | is_null("v")) == [first]
    assert files_of(lake, table, compare("v", "=", low).complement()) == ([first, second] if name == "float32" else [second])


def test_partition_values_prune(lake):
    rows = pa.table({"region": ["eu"], "day": pa.array([dt.date(2026, 3, 4)]), "v": [1]})
    with lake.commit("create") as commit:
        table = commit.create_table("t", lake.columns_of(rows), partition_by=[("region", "identity"), ("day", "month")])
        plain_files = [lake.write(table, rows.set_column(0, "region", pa.array([region], pa.string()))) for region in ("eu", "us", None)]
        # Without statistics only the partition values can tell the files apart.
        bare = [
            with_partition(
                type(file)(path=file.path, record_count=1, size_bytes=file.size_bytes, footer_bytes=file.footer_bytes, statistics=()),
                [region, "3"],
            )
            for file, region in zip(plain_files, ("eu", "us", None), strict=True)
        ]
        commit.append(table, bare)
    assert len(files_of(lake, table, compare("region", "=", "eu"))) == 1
    assert len(files_of(lake, table, is_in("region", ("eu", "us", "xx")))) == 2
    assert len(files_of(lake, table, compare("region", "=", "xx"))) == 0
    assert len(files_of(lake, table, compare("day", "=", dt.date(2025, 3, 9)))) == 3
    assert len(files_of(lake, table, compare("day", "=", dt.date(2026, 4, 4)))) == 0
    assert lake.read("t", where=compare("region", "=", "us")).num_rows == 1
    assert len(files_of(lake, table, is_null("region"))) == 1
    assert len(files_of(lake, table, is_not_null("region"))) == 3
    assert len(files_of(lake, table, is_null("region") | compare("region", "=", "eu"))) == 2
    assert len(files_of(lake, table, compare("region", "=", "eu") | compare("day", "=", dt.date(2026, 4, 4)))) == 1
    april = compare("day", ">=", dt.date(2026, 4, 1)) & compare("day", "<", dt.date(2026, 5, 1))
    assert len(files_of(lake, table, april)) == 0
    assert len(files_of(lake, table, april | compare("day", "=", dt.date(2025, 3, 31)))) == 3
    assert len(files_of(lake, table, compare("day", ">=", dt.date(2026, 4, 1)))) == 3


def test_partitions_written_by_duckdb_prune(lake, reader):
    reader.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    reader.execute("CREATE TABLE t (region VARCHAR, moment TIMESTAMP, v INT)")
    reader.execute("ALTER TABLE t SET PARTITIONED BY (region, year(moment), month(moment), day(moment), hour(moment))")
    reader.execute(
        "INSERT INTO t SELECT ['eu', 'us', NULL, ''][1 + range % 4], TIMESTAMP '2025-12-30 22:00:00' + INTERVAL (range) HOUR, range"
        " FROM range(8)"
    )
    table = lake.table("t")
    assert len(files_of(lake, table)) == 8
    moment = dt.datetime(2025, 12, 31, 0, 0)  # noqa: DTZ001
    for where, count in (
        (compare("region", "=", "eu"), 2),
        (compare("region", "=", ""), 2),
        (is_null("region"), 2),
        (compare("moment", "=", moment), 1),
        (compare("moment", "=", moment.replace(minute=30)), 0),
        (compare("moment", ">=", moment) & compare("moment", "<", moment.replace(hour=2)), 2),
        (compare("moment", "=", moment) | is_null("region"), 2),
    ):
        assert len(files_of(lake, table, where)) == count, where
        assert lake.read("t", where=where).num_rows == count, where


def test_duckdb_prunes_our_statistics_without_losing_rows(lake, reader):
    """What DuckDB finds with a filter is what the filter lets through of all that it finds without."""
    cases = {
        "i": (pa.int64(), [[1, 2, None], [2**62, -(2**63)], [None], [5]], ["= 5", "> 2", "<= -9223372036854775808", "IS NULL"]),
        "u": (pa.uint64(), [[2**64 - 1, 0], [2**63], [None], [7]], ["= 18446744073709551615", "> 9223372036854775807", "< 1"]),
        "f": (
            pa.float64(),
            [[math.nan, 1.0], [math.inf, None], [-0.0], [-math.inf]],
            ["= 0.0", "< 0", "<= '-inf'"],
        ),
        "g": (pa.float32(), [[single(0.1)], [math.nan], [16777216.0], [None]], ["= 0.1::FLOAT", "< 0.2"]),
        "s": (pa.string(), [["", "a"], ["é", "🦆"], ["x" * 3000], [None]], ["= ''", "> 'z'", "= '🦆'", "LIKE 'xxx%'", "< 'b'"]),
        "d": (
            pa.date32(),
            [[dt.date(1, 1, 1)], [dt.date(9999, 12, 31)], [None], [dt.date(2020, 1, 1)]],
            ["= '0001-01-01'", "> '2020-01-01'", "< '0002-01-01'"],
        ),
        "t": (
            pa.timestamp("us"),
            [[0], [1_600_000_000_120_000], [-62_135_596_800_000_000], [5_000_000 * 86_400_000_000]],
            ["= '2020-09-13 12:26:40.12'", "> '2020-09-13 12:26:40'", "< '0002-01-01'", "> '9999-01-01'"],
        ),
        "z": (
            pa.timestamp("us", tz="UTC"),
            [[0], [1_600_000_000_120_000], [None], [253_402_300_799_999_999]],
            ["= '2020-09-13 12:26:40.12+00'", "> '2020-09-13 12:26:40+00'", "< '1970-01-01 00:00:01+00'"],
        ),
        "n": (
            pa.decimal128(38, 10),
            [[Number("1E16")], [Number("-1.5"), None], [Number("9999999999999999.9999999999")], [Number(0)]],
            ["= 9999999999999999.9999999999", "> 9999999999999999.9999999999", "< 0"],
        ),
        "b": (pa.bool_(), [[True], [False], [None], [True, False]], ["= true", "= false", "IS NULL"]),
        "y": (pa.binary(), [[b"\x00"], [b"\xff"], [b""], [None]], ["= '\\xFF'::BLOB", "> '\\x00'::BLOB", "= ''::BLOB"]),
        "w": (pa.uuid(), [[UUID(int=0)], [UUID(int=2**128 - 1)], [UUID(int=2**127)], [None]], ["= '00000000-0000-0000-0000-000000000000'"]),
    }
    columns = {name: lake.columns_of(pa.schema([("v", kind)]))[0].type for name, (kind, _, _) in cases.items()}
    batches = [
        pa.table(
            [array(files[index] + [None] * (3 - len(files[index])), columns[name]) for name, (_, files, _) in cases.items()],
            names=list(cases),
        )
        for index in range(4)
    ]
    table = create(lake, "t", *batches)
    reader.execute("CREATE OR REPLACE TABLE memory.main.everything AS FROM t")
    for name, (_, _, filters) in cases.items():
        for condition in filters:
            found, all_of_them = (
                reader.rows(f"SELECT {name}::VARCHAR FROM {source} WHERE {name} {condition} ORDER BY ALL")
                for source in ("t", "memory.main.everything")
            )
            assert found == all_of_them, (name, condition)
    lake.merge(table.name)
    for name, (_, _, filters) in cases.items():
        for condition in filters:
            found, all_of_them = (
                reader.rows(f"SELECT count(*) FROM {source} WHERE {name} {condition}") for source in ("t", "memory.main.everything")
            )
            assert found == all_of_them, (name, condition)


def test_bounds_of_widened_columns_still_hold(lake, reader):
    table = integers(lake, "t", [1, 2], fields=[Field(name="v", type=Primitive("int8"))])
    with lake.commit("widen") as commit:
        commit.widen_column(table, "v", to=Primitive("int32"))
    wide = lake.table("t")
    append(lake, wide, pa.table({"v": [1000]}))
    assert rows_of(lake.read("t", where=compare("v", ">", 1))) == [(2,), (1000,)]
    assert reader.rows("SELECT v FROM t WHERE v > 1 ORDER BY v") == [(2,), (1000,)]
    assert len(files_of(lake, wide, compare("v", "=", 1000))) == 1


def test_columns_added_later_do_not_exclude_older_files(lake, reader):
    table = integers(lake, "t", [1, 2])
    with lake.commit("add") as commit:
        commit.add_column(table, Field(name="w", type=Primitive("int32"), default="7"))
        commit.add_column(table, Field(name="x", type=Primitive("varchar")))
    append(lake, lake.table("t"), pa.table({"v": [3], "w": pa.array([8], pa.int32()), "x": ["x"]}))
    assert rows_of(lake.read("t", columns=["v"], where=compare("w", "=", 7))) == [(1,), (2,)]
    assert reader.rows("SELECT v FROM t WHERE w = 7 ORDER BY v") == [(1,), (2,)]
    assert rows_of(lake.read("t", columns=["v"], where=is_null("x"))) == [(1,), (2,)]
    assert reader.rows("SELECT v FROM t WHERE x IS NULL ORDER BY v") == [(1,), (2,)]
    assert reader.rows("SELECT v FROM t WHERE w = 8 AND x = 'x'") == [(3,)]


def test_duckdb_finds_nan_in_our_files(lake, reader):
    values = [[math.nan, 1.0], [math.inf, None], [-0.0], [-math.inf]]
    columns = {"f": Primitive("float64"), "g": Primitive("float32")}
    create(lake, "t", *(pa.table({name: array(part, kind) for name, kind in columns.items()}) for part in values))
    for name in columns:
        assert reader.rows(f"SELECT count(*) FROM t WHERE {name} > 5") == [(2,)]
        assert reader.rows(f"SELECT count(*) FROM t WHERE {name} = 'nan'") == [(1,)]
        assert reader.rows(f"SELECT count(*) FROM t WHERE {name} >= 'inf'") == [(2,)]
    lake.merge("t")
    assert reader.rows("SELECT count(*) FROM t WHERE f > 5 AND g > 5") == [(2,)]


def test_duckdb_finds_nan_inside_structs_and_in_streams(lake, reader):
    rows = pa.table({"st": [{"f": math.nan}, {"f": 1.0}], "f": [math.nan, 1.0]})
    table = create(lake, "t", rows)
    append(lake, table, pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches()))
    assert reader.rows("SELECT count(*) FROM t WHERE st.f > 5") == [(2,)]
    assert reader.rows("SELECT count(*) FROM t WHERE f > 5") == [(2,)]


def test_columns_without_nan_keep_their_bounds(lake):
    pairs = pa.array([[("k", 1.5)], None], pa.map_(pa.string(), pa.float64()))
    rows = pa.table({"f": [1.0, 2.0], "do.t": [1, 2], "l": [[1.5], None], "m": pairs})
    file = lake.write(create(lake, "t", rows), rows)
    assert [(stats.min_value, stats.max_value) for stats in file.statistics] == [
        ("1.0", "2.0"),
        ("1", "2"),
        ("1.5", "1.5"),
        ("k", "k"),
        ("1.5", "1.5"),
    ]


@pytest.mark.parametrize("first", [[None, None], ["x" * 3000], ["\0"]], ids=["only null", "too long", "zero byte"])
def test_duckdb_does_not_narrow_bounds_that_we_do_not_know(lake, reader, first):
    table = create(lake, "t", pa.table({"v": pa.array(first, pa.string()), "w": [0] * len(first)}))
    append(lake, table, pa.table({"v": ["a", "c"], "w": [1, 2]}))
    reader.execute("INSERT INTO t VALUES ('b', 3)")
    reader.execute("INSERT INTO t SELECT 'b', range FROM range(100)")
    assert reader.rows("SELECT w FROM t WHERE v = 'a'") == [(1,)]
    assert reader.rows("SELECT w FROM t WHERE v = 'c'") == [(2,)]
    assert reader.rows("SELECT count(*) FROM t WHERE v IS NULL OR length(v) > 2000 OR v < 'a'") == [(len(first),)]


def test_duckdb_keeps_its_bounds_when_we_widen_under_it(lake, reader):
    """Two clients of DuckDB's own lose rows here: one keeps the bounds in memory, in the type that the other has changed."""
    table = integers(lake, "t", range(10), fields=[Field(name="v", type=Primitive("int32"))])
    assert reader.rows("SELECT count(*) FROM t WHERE v > 3") == [(6,)]
    with lake.commit("widen") as commit:
        commit.widen_column(table, "v", to=Primitive("int64"))
    reader.execute("INSERT INTO t VALUES (4)")
    reader.execute("INSERT INTO t VALUES (4)")
    assert reader.rows("SELECT count(*) FROM t WHERE v > 5") == [(4,)]


def test_partition_values_that_cannot_be_true_of_a_file_lose_no_rows(lake, reader):
    """DuckDB 1.5.5 notes year, month and day of a file that it adds by its Hive path all under the key of the day."""
    reader.execute("CREATE TABLE t (moment TIMESTAMP, i INT)")
    reader.execute("ALTER TABLE t SET PARTITIONED BY (year(moment), month(moment), day(moment))")
    folder = lake.storage.absolute("hive")
    moment = "TIMESTAMP '2025-11-03' + INTERVAL (range) DAY"
    reader.execute(
        f"COPY (SELECT {moment} AS moment, range::INT AS i, year({moment}) AS year, month({moment}) AS month, day({moment}) AS day"
        f" FROM range(3)) TO '{folder}' (FORMAT parquet, PARTITION_BY (year, month, day))"
    )
    reader.execute(f"CALL ducklake_add_data_files('lake', 't', '{folder}/**/*.parquet', hive_partitioning => true)")
    for day in range(3):
        where = compare("moment", "=", dt.datetime(2025, 11, 3 + day))  # noqa: DTZ001
        assert lake.read("t", where=where).column("i").to_pylist() == [day]


@pytest.mark.parametrize("values", [["us", "3"], ["eu", "4"], [None, None]])
def test_partition_values_that_statistics_contradict_lose_no_rows(lake, values):
    rows = pa.table({"region": ["eu"], "day": pa.array([dt.date(2026, 3, 4)])})
    with lake.commit("create") as commit:
        table = commit.create_table("t", lake.columns_of(rows), partition_by=[("region", "identity"), ("day", "month")])
        commit.append(table, [with_partition(lake.write(table, rows), values)])
    for where in (compare("region", "=", "eu"), compare("day", "=", dt.date(2026, 3, 4))):
        assert lake.read("t", where=where).num_rows == 1, where
    (found,) = lake.check()
    assert (found.table, found.files) == (lake.table("t").name, 1)
    assert "partition" in found.problem
