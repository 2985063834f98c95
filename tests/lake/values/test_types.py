"""Every DuckLake type goes to DuckDB and comes back with every value intact, from files and from inside the catalogue."""

import pyarrow as pa
import pytest

from platform_plugin.algebra.types.data_types import Field, Primitive, list_of
from platform_plugin.errors import UnsupportedType
from platform_plugin.lake.values.types import MAPPINGS, from_arrow, to_arrow, to_spark, to_sqlalchemy
from tests.lake.agreement import append, rows_of
from tests.lake.samples import SAMPLES


@pytest.fixture
def columns(lake):
    """A table with one column per type, made by us."""
    with lake.commit("create") as commit:
        return commit.create_table(
            "t", [Field(name="k", type=Primitive("int32")), *(Field(name=name, type=sample.type) for name, sample in SAMPLES.items())]
        )


def width():
    return max(len(sample.values) for sample in SAMPLES.values())


def expected(name):
    """A column's values, filled up with NULLs to the length of the longest."""
    array = SAMPLES[name].array(to_arrow(SAMPLES[name].type))
    return pa.concat_arrays([array, pa.nulls(width() - len(array), array.type)])


def all_rows(table):
    return pa.table([pa.array(range(width()), pa.int32()), *(expected(name) for name in SAMPLES)], names=["k", *SAMPLES])


def literal(name, row):
    values = SAMPLES[name].values
    return f"({values[row][1]})::{SAMPLES[name].duckdb}" if row < len(values) else "NULL"


def assert_same(found, name):
    """Equal value for value, NaN and the sign of zero included; compared as Arrow, since Python's dates end at 9999."""
    want = expected(name)
    got = found.column(name).combine_chunks().cast(want.type) if found.num_rows else found.column(name)
    if pa.types.is_nested(want.type) or pa.types.is_floating(want.type):
        assert repr(rows_of(pa.table([got], names=["v"]))) == repr(rows_of(pa.table([want], names=["v"]))), name
    else:
        assert got.equals(want), (name, got, want)


def test_our_values_are_what_duckdb_reads(lake, reader, columns):
    append(lake, columns, all_rows(columns))
    wrong = []
    for name, sample in SAMPLES.items():
        if name == "time_ns":
            continue  # DuckDB 1.5.5 knows the type, but no form of it in Parquet
        (declared,) = reader.rows(f'SELECT typeof("{name}"), typeof(NULL::{sample.duckdb}) FROM t LIMIT 1')
        assert declared[0] == declared[1], name
        for row in range(len(sample.values)):
            same = reader.rows(f'SELECT count(*) FROM t WHERE k = {row} AND "{name}" IS NOT DISTINCT FROM {literal(name, row)}')
            if same != [(1,)]:
                wrong.append((name, sample.values[row], reader.rows(f'SELECT "{name}"::VARCHAR FROM t WHERE k = {row}')))
    assert not wrong


@pytest.mark.parametrize("limit", [0, 1000], ids=["in a file", "inlined"])
def test_duckdbs_values_are_what_we_read(lake, reader, columns, limit):
    reader.execute(f"CALL lake.set_option('data_inlining_row_limit', {limit})")
    names = list(SAMPLES)
    if not limit or not lake.location.is_local:
        # DuckDB 1.5.5 can't write this type to Parquet, nor inline it on PostgreSQL, where it makes a column of a type that is not there.
        names.remove("time_ns")
        with lake.commit("do without") as commit:
            commit.drop_column(columns, "time_ns")
    rows = [f"({row}, {', '.join(literal(name, row) for name in names)})" for row in range(width())]
    reader.execute(f"INSERT INTO t VALUES {', '.join(rows)}")
    assert bool(lake.scan(lake.table("t"), lake.snapshot()).inlined) == bool(limit)
    found = lake.read("t")
    for name in names:
        assert_same(found, name)
    lake.merge("t")
    merged = lake.read("t")
    assert not lake.scan(lake.table("t"), lake.snapshot()).inlined
    for name in names:
        assert_same(merged, name)


@pytest.mark.parametrize("duckdb", ["HUGEINT", "UHUGEINT", "TIMETZ"])
@pytest.mark.parametrize("limit", [0, 1000], ids=["in a file", "inlined"])
def test_types_without_an_arrow_twin_still_read(lake, reader, duckdb, limit):
    values = {"HUGEINT": ["-5", "12345678901234"], "UHUGEINT": ["5", "12345678901234"], "TIMETZ": ["'01:02:03.5+00'", "'23:59:59+02'"]}[
        duckdb
    ]
    reader.execute(f"CALL lake.set_option('data_inlining_row_limit', {limit})")
    reader.execute(f"CREATE TABLE t (v {duckdb})")
    reader.execute(f"INSERT INTO t VALUES {', '.join(f'({value})' for value in values)}, (NULL)")
    found = [str(value) for (value,) in rows_of(lake.read("t"))]
    assert found == {"TIMETZ": ["01:02:03.500000", "21:59:59", "None"]}.get(duckdb, [*values, "None"])


@pytest.mark.parametrize("duckdb", ["INTERVAL", "VARIANT", "STRUCT(a INTERVAL)"])
def test_types_beyond_arrow_are_refused_by_name(lake, reader, duckdb):
    reader.execute(f"CREATE TABLE t (i INT, odd {duckdb})")
    reader.execute("INSERT INTO t(i) VALUES (1)")
    assert lake.table("t").field("i") is not None
    with pytest.raises(UnsupportedType, match=r"(odd|a)"):
        lake.read("t")
    assert rows_of(lake.read("t", columns=["i"])) == [(1,)]


def test_arrow_types_beyond_the_lake_are_refused_by_name():
    for arrow in (pa.duration("s"), pa.month_day_nano_interval(), pa.decimal256(50, 3), pa.union([pa.field("a", pa.int32())], "dense")):
        with pytest.raises(UnsupportedType, match='"odd"'):
            from_arrow(pa.schema([("odd", arrow)]))


def test_every_duckdb_type_word_is_in_the_table(lake, reader):
    """DuckDB's words for its types in the catalogue are ours."""
    reader.execute("CALL lake.set_option('data_inlining_row_limit', 0)")  # it can't make an inlined TIME_NS on PostgreSQL
    for name, sample in SAMPLES.items():
        reader.execute(f'CREATE TABLE "{name}" (v {sample.duckdb})')
    tables = {table.name.relation: table for table in lake.tables()}
    for name, sample in SAMPLES.items():
        assert str(tables[name].fields[0].type) == str(sample.type)


@pytest.mark.parametrize("convert", [to_arrow, to_spark, to_sqlalchemy])
def test_unmapped_types_are_refused_at_any_depth(convert):
    sides = {to_arrow: "arrow", to_spark: "spark", to_sqlalchemy: "sqlalchemy"}
    for word, mapping in MAPPINGS.items():
        for kind in (Primitive(word), list_of(Primitive(word))):
            if getattr(mapping, sides[convert]) is None:
                with pytest.raises(UnsupportedType, match=r"can't hold") as refused:
                    convert(kind, column="v")
                assert refused.value.hint
            else:
                assert convert(kind, column="v") is not None


def test_arrow_only_forms_become_lake_types(lake):
    rows = pa.table(
        {
            "large": pa.array(["a"], pa.large_string()),
            "view": pa.array(["a"], pa.string_view()),
            "dictionary": pa.array(["a"]).dictionary_encode(),
            "half": pa.array([1.5], pa.float16()),
            "fixed": pa.array([[1, 2]], pa.list_(pa.int32(), 2)),
            "large list": pa.array([[1]], pa.large_list(pa.int64())),
            "date64": pa.array([0], pa.int64()).cast(pa.date64()),
            "zoned": pa.array([0], pa.timestamp("ms", tz="Europe/Berlin")),
            "second": pa.array([1], pa.time32("s")),
            "small decimal": pa.array([1], pa.decimal32(5, 2)),
            "nothing": pa.nulls(1),
        }
    )
    with lake.commit("create") as commit:
        table = commit.create_table("t", lake.columns_of(rows))
        commit.append(table, [lake.write(table, rows)])
    found = lake.read("t").to_pylist()[0]
    assert found["fixed"] == [1, 2]
    assert found["dictionary"] == found["large"] == found["view"] == "a"
    assert found["nothing"] is None
