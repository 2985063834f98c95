"""Defaults are values of their columns, for us and for DuckDB; DuckDB's expressions mean here what they mean there, or are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal as Number
from uuid import UUID

import pyarrow as pa
import pytest

from platform_plugin.algebra.types.data_types import Decimal, Field, Primitive, Struct, list_of
from platform_plugin.errors import InvalidValue, UnsupportedType
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.values.defaults import constant_column
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.platform import Platform
from tests.lake.agreement import append, assert_agree, rows_of

MISFITS = [
    ("TINYINT", "400"),
    ("UINTEGER", "-1"),
    ("INT", "abc"),
    ("INT", "1.5"),
    ("FLOAT", "1e39"),
    ("DOUBLE", "1e400"),
    ("DECIMAL(3,1)", "100.5"),
    ("DECIMAL(3,1)", "99.96"),
    ("BOOLEAN", "perhaps"),
    ("UUID", "nope"),
    ("JSON", "{"),
    ("DATE", "2026-02-30"),
    ("DATE", "yesterday"),
    ("TIME", "25:00:00"),
    ("TIMESTAMP", "2026-01-01 00:00:00.1234567"),
    ("TIMESTAMP_NTZ", "2026-01-01 00:00:00+02:00"),
    ("TIMESTAMP_S", "2026-01-01 00:00:00.5"),
    ("TIMESTAMP_NS", "now"),
    ("INTERVAL", "1 day"),
    ("ARRAY<INT>", "[1]"),
]
FITS = [
    ("TINYINT", "-128", "-128"),
    ("UHUGEINT", "99999999999999999999999999", "99999999999999999999999999"),
    ("FLOAT", "1e10", "10000000000.0"),
    ("DOUBLE", "nan", "nan"),
    ("DECIMAL(3,1)", "1.25", "1.3"),
    ("DECIMAL(38,10)", "0.0000000001", "0.0000000001"),
    ("BOOLEAN", "true", "true"),
    ("STRING", "it's \\ 'so'", "it's \\ 'so'"),
    ("BINARY", "\\x00\\xFFa", "\\x00\\xFF\\x61"),
    ("UUID", "00000000-0000-0000-0000-00000000000A", "00000000-0000-0000-0000-00000000000a"),
    ("DATE", "2026-01-02", "2026-01-02"),
    ("TIME", "01:02:03.5", "01:02:03.500000"),
    ("TIMESTAMP", "2026-01-01 02:00:00+02:00", "2026-01-01 00:00:00+00:00"),
    ("TIMESTAMP", "2026-01-01", "2026-01-01 00:00:00+00:00"),
    ("TIMESTAMP_NTZ", "2026-01-01T02:00:00", "2026-01-01 02:00:00"),
    ("TIMESTAMP_NS", "2026-01-01 00:00:00.123456", "2026-01-01 00:00:00.123456"),
]


@pytest.mark.parametrize(("word", "default"), MISFITS)
def test_a_default_that_is_no_value_of_its_column_is_refused_when_it_is_declared(tmp_path, word, default):
    kind = parse_type(word)
    with Lake.create(tmp_path / "lake") as lake:
        with lake.commit("t") as commit:
            table = commit.create_table("t", [Field(name="k", type=Primitive("int32")), Field(name="c", type=kind)])
        before = lake.snapshot()
        column = Field(name="d", type=kind, default=default)
        with pytest.raises(InvalidValue, match='column "d"'), lake.commit("create") as commit:
            commit.create_table("u", [column])
        with pytest.raises(InvalidValue, match='column "d"'), lake.commit("add") as commit:
            commit.add_column(table, column)
        with pytest.raises(InvalidValue, match='column "c"'), lake.commit("set") as commit:
            commit.set_default(table, "c", default=default)
        assert lake.snapshot() == before


def test_defaults_read_alike_for_duckdb_and_for_us(lake, reader):
    fields = [Field(name=f"c{place}", type=parse_type(word), default=default) for place, (word, default, _) in enumerate(FITS)]
    key = Field(name="k", type=Primitive("int32"))
    with lake.commit("t") as commit:
        created = commit.create_table("t", [key, *fields])
        added = commit.create_table("added", [key])
        commit.append(added, [lake.write(added, pa.table({"k": pa.array([0], pa.int32())}))])
    with lake.commit("add") as commit:
        for field in fields:
            commit.add_column(lake.table("added"), field)
    assert [field.default for field in lake.table("t").fields[1:]] == [kept for _, _, kept in FITS]
    for name in ("t", "added"):
        append(lake, lake.table(name), pa.table({"k": pa.array([1], pa.int32())}))
        reader.execute(f"INSERT INTO {name} (k) VALUES (2)")
    assert created.fields[1:]
    assert_agree(lake, reader)
    for name, count in (("t", 2), ("added", 3)):
        assert len({row[1:] for row in rows_of(lake.read(name))}) == 1, "whoever fills it in"
        assert lake.read(name).num_rows == count


def test_a_lake_that_is_poisoned_already_names_the_column_and_heals(lake, duck, lake_url):
    reader = duck(lake_url)
    reader.execute("CREATE TABLE t (k INTEGER, c TINYINT)")
    with lake.writing() as connection:
        connection.exec_driver_sql("UPDATE ducklake_column SET default_value = '400' WHERE column_name = 'c'")
    table = lake.table("t")
    with pytest.raises(InvalidValue, match='400 is out of range for column "c"'):
        lake.write(table, pa.table({"k": pa.array([1], pa.int32())}))
    with lake.commit("heal") as commit:
        commit.set_default(table, "c", default=None)
    append(lake, lake.table("t"), pa.table({"k": pa.array([1], pa.int32())}))
    assert rows_of(lake.read("t")) == [(1, None)]
    with pytest.raises(InvalidValue, match="is no value for column"):
        constant_column("x", Field(name="c", type=Primitive("timestamp")), 1)


EXPRESSIONS = [
    ("VARCHAR", "upper('a')", "A"),
    ("VARCHAR", "'it''s' || lower('A')", "it'sa"),
    ("VARCHAR", "concat('a', 'b', trim(' c '))", "abc"),
    ("INTEGER", "1 + 2 * -3", -5),
    ("INTEGER", "length('abc')", 3),
    ("INTEGER", "CAST('5' AS INTEGER)", 5),
    ("DECIMAL(5,2)", "CAST('1.255' AS DECIMAL(6,3))", Number("1.26")),
    ("BOOLEAN", "true", True),
    ("DATE", "DATE '2026-01-01'", date(2026, 1, 1)),
    ("TIMESTAMP", "TIMESTAMP '2026-01-01 01:02:03'", datetime.fromisoformat("2026-01-01 01:02:03")),
    ("BLOB", r"'\x41b'::BLOB", b"Ab"),
    ("BIGINT", "1e2", 100),
    ("VARCHAR", "NULL", None),
]
MOMENTS = [
    ("TIMESTAMPTZ", "now()"),
    ("TIMESTAMP", "now()"),
    ("TIMESTAMP", "current_timestamp"),
    ("TIMESTAMPTZ", "get_current_timestamp()"),
    ("TIMESTAMP", "localtimestamp"),
    ("TIMESTAMP", "CAST(now() AS TIMESTAMP)"),
    ("DATE", "current_date"),
    ("DATE", "today()"),
]
REFUSED = ["random()", "year(current_date)", "now()", "current_user", "upper('ß')", "epoch_ms(now())", "'a' || now()", "uuid() || 'a'"]


def test_expressions_of_duckdb_mean_the_same_here_or_are_refused(lake, reader):
    kinds = [*[(kind, text) for kind, text, _ in EXPRESSIONS], *MOMENTS, ("UUID", "uuid()"), ("VARCHAR", "gen_random_uuid()")]
    columns = ", ".join(f"c{place} {kind} DEFAULT {text}" for place, (kind, text) in enumerate(kinds))
    reader.execute(f"CREATE TABLE t (k INTEGER, {columns})")
    reader.execute("INSERT INTO t (k) VALUES (1)")
    before = datetime.now(UTC)
    append(lake, lake.table("t"), pa.table({"k": pa.array([2, 3], pa.int32())}))
    assert_agree(lake, reader)
    theirs, first, second = sorted(rows_of(lake.read("t")))
    fixed, moments, uuids = len(EXPRESSIONS) + 1, len(EXPRESSIONS) + len(MOMENTS) + 1, slice(-2, None)
    assert theirs[1:fixed] == first[1:fixed] == second[1:fixed]
    assert list(first[1:fixed]) == [value for _, _, value in EXPRESSIONS]
    assert first[fixed:moments] == second[fixed:moments], "one moment for the whole statement"
    for value in first[fixed:moments]:
        moment = value if isinstance(value, datetime) else datetime.combine(value, time())
        assert timedelta(days=-1) < moment.replace(tzinfo=UTC) - before < timedelta(minutes=5)
    assert first[fixed].replace(tzinfo=UTC) >= before
    assert len({*theirs[uuids], *first[uuids], *second[uuids]}) == 6, "a value for each row"
    assert str(lake.table("t").fields[1].default) == "upper('a')"


def test_an_expression_that_is_refused_is_named_and_stands_in_nobody_s_way(lake, reader):
    for place, text in enumerate(REFUSED):
        reader.execute(f"CREATE TABLE t{place} (k INTEGER, c VARCHAR DEFAULT {text})")
        table = lake.table(f"t{place}")
        with pytest.raises(UnsupportedType, match='default of column "c"') as refused:
            lake.write(table, pa.table({"k": pa.array([1], pa.int32())}))
        assert table.fields[1].default in refused.value.message
        append(lake, table, pa.table({"k": pa.array([1], pa.int32()), "c": ["given"]}))
        assert rows_of(lake.read(f"t{place}")) == [(1, "given")]
    with lake.commit("set") as commit:
        commit.set_default(lake.table("t0"), "c", default="literal")
        commit.rename_column(lake.table("t1"), "c", to="d")
    append(lake, lake.table("t0"), pa.table({"k": pa.array([2], pa.int32())}))
    assert rows_of(lake.read("t0"))[-1] == (2, "literal")
    assert lake.table("t1").fields[1].computed_default
    reader.execute("INSERT INTO t0 (k) VALUES (3)")
    reader.execute("INSERT INTO t1 (k) VALUES (3)")
    assert_agree(lake, reader)


def test_defaults_of_parts_are_checked_too(tmp_path):
    part = Field(name="p", type=Decimal(precision=3, scale=1), default="100.5")
    with Lake.create(tmp_path / "lake") as lake, lake.commit("t") as commit:
        with pytest.raises(InvalidValue, match='column "p"'):
            commit.create_table("t", [Field(name="s", type=Struct(fields=(part,)))])
        with pytest.raises(InvalidValue, match='column "l"'):
            commit.create_table("t", [Field(name="l", type=list_of(Primitive("int8")), default="[]")])


@pytest.mark.spark
def test_whoever_fills_in_a_default(lake_url, duck, tmp_path, spark_server):
    """VALUES, a query, an append from Python and a file that is copied."""
    with Platform.create(lake_url) as platform:
        reader = duck(lake_url)
        reader.execute("""CREATE TABLE t (k INTEGER, u VARCHAR DEFAULT upper('a'), n TIMESTAMPTZ DEFAULT now(), i UUID DEFAULT uuid(),
                          b BLOB DEFAULT '\\x00'::BLOB, x BOOLEAN DEFAULT true)""")
        platform.execute("INSERT INTO t (k) VALUES (1), (2)")
        platform.execute("INSERT INTO t (k, u) VALUES (3, DEFAULT)")
        platform.execute("INSERT INTO t (k) SELECT id + 4 FROM range(0, 2000, 1, 4)")
        rows = rows_of(platform.lake.read("t"))
        assert {(row[1], row[4], row[5]) for row in rows} == {("A", b"\x00", True)}
        assert len({row[3] for row in rows}) == 2003
        assert [len({row[2] for row in rows if row[0] in keys}) for keys in ((1, 2), range(4, 2004))] == [1, 1]
        # Spark's own reader fills no bytes into rows of older files.
        platform.execute("ALTER TABLE t ADD COLUMN c BINARY DEFAULT X'00ff'")
        platform.execute("ALTER TABLE t ADD COLUMN d UUID NOT NULL DEFAULT '00000000-0000-0000-0000-00000000000a'")
        platform.execute("ALTER TABLE t ADD COLUMN e HUGEINT DEFAULT 5")
        platform.execute("INSERT INTO t (k, c) SELECT 5000, NULL")
        found = set(platform.execute("SELECT c, d, e, sum(1) AS n FROM t GROUP BY ALL"))
        assert found == {(b"\x00\xff", str(UUID(int=10)), 5, 2003), (None, str(UUID(int=10)), 5, 1)}
        with pytest.raises(InvalidValue, match="unless it is NOT NULL"):
            platform.execute("ALTER TABLE t ADD COLUMN f UUID DEFAULT '00000000-0000-0000-0000-00000000000a'")
        assert_agree(platform.lake, reader)
