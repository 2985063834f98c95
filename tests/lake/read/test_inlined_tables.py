"""The tables in the catalogue for DuckDB's small inserts: those of our tables are those that DuckDB would have made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from platform_plugin.algebra.types.data_types import Field, Primitive, struct_of
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue import catalogue as c
from tests.lake.agreement import assert_agree, kept
from tests.lake.samples import SAMPLES

if TYPE_CHECKING:
    from platform_plugin.lake.lake import Lake

INT = Primitive("int32")
LIMIT = "data_inlining_row_limit"


def make(lake: Lake, name: str, *fields: Field) -> None:
    with lake.commit("create") as commit:
        commit.create_table(name, fields or (Field(name="i", type=INT), Field(name="s", type=Primitive("varchar"))))


def inlined(lake: Lake, name: str) -> dict[str, list[tuple[str, str]]]:
    """The inlined tables of a table, and the names and types of their columns."""
    table_id = lake.table(name).id
    with lake.reading() as connection:
        names = connection.execute(
            sa.select(c.INLINED_DATA_TABLES.c.table_name).where(c.INLINED_DATA_TABLES.c.table_id == table_id)
        ).scalars()
        inspector = sa.inspect(connection)
        return {found: [(column["name"], repr(column["type"])) for column in inspector.get_columns(found)] for found in names}


def assert_known_versions(lake: Lake) -> None:
    """Every inlined table is of a shape that its table is known to have had."""
    with lake.reading() as connection:
        made = connection.execute(sa.select(c.INLINED_DATA_TABLES.c.table_id, c.INLINED_DATA_TABLES.c.schema_version)).all()
        known = connection.execute(sa.select(c.SCHEMA_VERSIONS.c.table_id, c.SCHEMA_VERSIONS.c.schema_version)).all()
    assert {tuple(row) for row in made} <= {tuple(row) for row in known}


def test_each_type_is_kept_as_duckdb_itself_keeps_it(lake, reader):
    # DuckDB 1.5.5 can't make a table with TIME_NS on PostgreSQL.
    samples = [sample for name, sample in SAMPLES.items() if name != "time_ns" or lake.location.is_local]
    make(lake, "ours", *(Field(name=f"c{number}", type=sample.type) for number, sample in enumerate(samples)))
    reader.execute(f"CREATE TABLE theirs ({', '.join(f'c{number} {sample.duckdb}' for number, sample in enumerate(samples))})")
    (mine,), (other,) = inlined(lake, "ours").values(), inlined(lake, "theirs").values()
    assert mine == other


def test_duckdb_finds_the_table_for_its_first_insert_and_makes_none(lake, reader):
    """One that it makes gets the number of the newest schema version, which may be another table's."""
    make(lake, "t")
    make(lake, "later")
    before = inlined(lake, "t")
    reader.execute("INSERT INTO t VALUES (1, 'a')")
    assert list(inlined(lake, "t")) == list(before) == ["ducklake_inlined_data_1_1"]
    assert_known_versions(lake)
    assert_agree(lake, reader, snapshots=kept(lake))


@pytest.mark.parametrize("change", ["add", "drop", "rename", "widen", "default", "rename table", "partition", "comment"])
def test_duckdb_finds_one_of_the_new_shape_after_each_change_of_ours(lake, reader, change):
    make(lake, "t")
    name = "u" if change == "rename table" else "t"
    reader.execute("INSERT INTO t VALUES (1, 'a')")
    table = lake.table("t")
    with lake.commit("alter") as commit:
        match change:
            case "add":
                commit.add_column(table, Field(name="n", type=INT, default="5"))
            case "drop":
                commit.drop_column(table, "s")
            case "rename":
                commit.rename_column(table, "i", to="order")
            case "widen":
                commit.widen_column(table, "i", to=Primitive("int64"))
            case "default":
                commit.set_default(table, "i", default="3")
            case "rename table":
                commit.rename_table(table, "u")
            case "partition":
                commit.partition(table, [("i", "identity")])
            case "comment":
                commit.comment(table, "what it is")
    before = inlined(lake, name)
    values = {"add": "2, 'b', 6", "drop": "2"}.get(change, "2, 'b'")
    reader.execute(f"INSERT INTO {name} VALUES ({values})")
    assert inlined(lake, name) == before
    assert len(before) == (1 if change == "comment" else 2)
    assert_known_versions(lake)
    assert_agree(lake, reader)


WIDE = tuple(Field(name=f"c{number}", type=INT) for number in range(1501))


@pytest.mark.parametrize(
    ("fields", "values"),
    [((Field(name="row_id", type=INT), Field(name="End_Snapshot", type=INT)), "1, 2"), (WIDE, ", ".join("1" for _ in WIDE))],
    ids=["DuckDB's own columns", "wide"],
)
def test_where_there_can_be_no_such_table_duckdb_is_told_to_write_files(lake, lake_url, duck, fields, values):
    make(lake, "t", *fields)
    reader = duck(lake_url)  # it reads its options when it attaches
    reader.execute(f"INSERT INTO t VALUES ({values})")
    assert inlined(lake, "t") == {}
    assert len(lake.scan(lake.table("t"), lake.snapshot()).files) == 1
    assert_agree(lake, reader)
    with lake.reading() as connection:
        options = connection.execute(sa.select(c.METADATA.c.value, c.METADATA.c.scope).where(c.METADATA.c.key == LIMIT)).all()
    assert [tuple(row) for row in options] == [("0", "table")]


@pytest.mark.parametrize("name", ["xmin", "ctid", "n" * 64, "é" * 32, "rowid", "a%b", "a%%(b)s", ":c", 'q"', "é" * 31 + "x"])
def test_names_that_databases_reserve_or_cut_short(lake, lake_url, duck, name):
    make(lake, "t", Field(name="i", type=INT))
    reader = duck(lake_url)
    reader.execute("INSERT INTO t VALUES (1)")
    with lake.commit("alter") as commit:
        commit.rename_column(lake.table("t"), "i", to=name)
    reader.execute("INSERT INTO t VALUES (2)")
    make(lake, "new", Field(name=name, type=INT))
    duck(lake_url).execute("INSERT INTO new VALUES (3)")
    assert_known_versions(lake)
    assert_agree(lake, reader)


def test_names_that_ducklake_hides_are_refused(lake):
    with pytest.raises(InvalidValue, match="keeps for itself"):
        make(lake, "t", Field(name="_ducklake_internal_row_id", type=INT))


def test_types_that_duckdb_does_not_inline_get_none(lake, reader):
    reader.execute("CREATE TABLE t (i INT, v VARIANT)")
    reader.execute("INSERT INTO t VALUES (1, 2::VARIANT)")
    with lake.commit("alter") as commit:
        commit.add_column(lake.table("t"), Field(name="n", type=INT))
    make(lake, "u", Field(name="s", type=struct_of(v=Primitive("variant"))))
    assert inlined(lake, "t") == inlined(lake, "u") == {}
    reader.execute("INSERT INTO t VALUES (3, 4::VARIANT, 5)")
    assert inlined(lake, "t") == {}
    assert reader.rows("SELECT i, n FROM t ORDER BY i") == [(1, None), (3, 5)]


@pytest.mark.parametrize("scope", ["", ", schema => 'main'", ", table_name => 't'"])
def test_duckdb_switched_off_for_a_table_its_schema_or_the_lake_stays_off(lake, reader, scope):
    reader.execute("CREATE TABLE t (i INT)")
    reader.execute(f"CALL lake.set_option('{LIMIT}', 0{scope})")
    with lake.commit("alter") as commit:
        commit.add_column(lake.table("t"), Field(name="n", type=INT))
    assert len(inlined(lake, "t")) == 1
    reader.execute("INSERT INTO t VALUES (1, 2)")
    assert len(inlined(lake, "t")) == 1
    assert_agree(lake, reader)


def test_a_fresh_duckdb_reads_its_inlined_rows_by_the_shape_they_have(lake, lake_url, duck):
    """Without a table of its own for the shape, it took the values of the last column for its default once the lake had moved on."""
    make(lake, "t", Field(name="i", type=INT))
    with lake.commit("alter") as commit:
        commit.add_column(lake.table("t"), Field(name="n", type=INT, default="5"))
    duck(lake_url).execute("INSERT INTO t VALUES (7, 1)")
    make(lake, "u")
    assert duck(lake_url).rows("SELECT * FROM t") == [(7, 1)]
    with lake.commit("alter") as commit:
        commit.rename_column(lake.table("t"), "i", to="id")
        commit.drop_column(lake.table("t"), "n")
    assert duck(lake_url).rows("SELECT * FROM t") == [(7,)]
    assert_agree(lake, duck(lake_url), snapshots=kept(lake))
