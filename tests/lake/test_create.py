"""Schemas, tables and views come, change their names and go; DuckDB sees the same."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from platform_plugin import Lake, Platform
from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.errors import InvalidValue, ObjectExists, PlatformError, UnknownObject
from platform_plugin.lake.catalogue.tables import Name
from tests.lake.agreement import append, assert_agree, create, kept, quoted, rows_of

ROWS = pa.table({"i": [1, 2], "s": ["a", None]})
NAMES = [
    "plain",
    "Mixed Case",
    "select",
    'qu"ote',
    "sem;icolon",
    "do.t",
    "sla/sh",
    "..",
    "emoji 🦆",
    "it's",
    "%percent",
    "back\\slash",
    " ",
    "ü" * 60,
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_names_a_table_a_column_and_a_schema(lake, reader, name):
    with lake.commit("schema") as commit:
        commit.create_schema(name)
    rows = ROWS.rename_columns([name, "other"])
    create(lake, (name, name), rows, comment=name)
    assert_agree(lake, reader)
    assert reader.rows(f"SELECT {quoted(name)} FROM {quoted(name)}.{quoted(name)} ORDER BY ALL") == [(1,), (2,)]
    reader.execute(f"INSERT INTO {quoted(name)}.{quoted(name)} VALUES (3, 'x')")
    assert lake.read((name, name)).num_rows == 3
    assert all(path.startswith("_") or ".." not in path.split("/") for path, _ in lake.storage.listing())


def test_comments_of_tables_and_columns(lake, reader):
    table = create(
        lake,
        "t",
        fields=[Field(name="i", type=Primitive("int64"), comment="first"), Field(name="s", type=Primitive("varchar"))],
        comment="it's",
    )
    comments = "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 't' ORDER BY 1"
    assert_agree(lake, reader)
    assert reader.rows(comments) == [("i", "first"), ("s", None)]
    with lake.commit("comment") as commit:
        commit.comment(table, "other", column=("i",))
        commit.comment(table, "new", column=("s",))
        commit.comment(table, None)
    assert_agree(lake, reader)
    assert reader.rows(comments) == [("i", "other"), ("s", "new")]
    with lake.commit("uncomment") as commit:
        commit.comment(table, None, column=("i",))
    assert [field.comment for field in lake.table("t").fields] == [None, "new"]
    assert reader.rows(comments) == [("i", None), ("s", "new")]


def test_not_null_and_defaults_reach_duckdb(lake, reader):
    fields = [Field(name="i", type=Primitive("int64"), nullable=False), Field(name="s", type=Primitive("varchar"), default="it's")]
    table = create(lake, "t", fields=fields)
    reader.execute("INSERT INTO t(i) VALUES (1)")
    with pytest.raises(Exception, match="NOT NULL"):
        reader.execute("INSERT INTO t VALUES (NULL, 'x')")
    append(lake, table, pa.table({"i": [2]}))
    with pytest.raises(InvalidValue, match="NULL"):
        lake.write(table, pa.table({"i": pa.array([None], pa.int64())}))
    with pytest.raises(InvalidValue, match="NULL"):
        lake.write(table, pa.table({"s": ["x"]}))
    assert sorted(rows_of(lake.read("t"))) == [(1, "it's"), (2, "it's")]
    assert_agree(lake, reader)


def test_rename_and_drop_a_table(lake, reader):
    table = create(lake, "t", ROWS)
    with lake.commit("rename") as commit:
        commit.rename_table(table, "u")
    assert lake.table("u").uuid == table.uuid
    with pytest.raises(UnknownObject, match=r"main\.t"):
        lake.table("t")
    append(lake, lake.table("u"), ROWS)
    with lake.commit("drop") as commit:
        commit.drop_table(lake.table("u"))
    assert lake.tables() == []
    assert_agree(lake, reader)
    assert_agree(lake, reader, snapshots=kept(lake))
    again = create(lake, "t", ROWS)
    assert again.uuid != table.uuid
    assert_agree(lake, reader)
    assert_agree(lake, reader, snapshots=kept(lake))


def test_one_commit_may_create_fill_alter_and_rename(lake, reader):
    with lake.commit("all at once") as commit:
        table = commit.create_table("t", lake.columns_of(ROWS))
        commit.append(table, [lake.write(table, ROWS)])
        other = commit.create_table("u", lake.columns_of(ROWS))
        commit.rename_table(other, "v")
    assert commit.snapshot.id == 1
    assert [str(table.name) for table in lake.tables()] == ["main.t", "main.v"]
    assert_agree(lake, reader)


def test_schemas(lake, reader):
    with lake.commit("schemas") as commit:
        commit.create_schema("a")
        commit.create_schema("b")
        commit.create_schema("a", if_not_exists=True)
    create(lake, ("a", "t"), ROWS)
    create(lake, ("b", "t"), ROWS.slice(0, 1))
    assert lake.schemas() == ["main", "a", "b"]
    assert reader.rows("SELECT count(*) FROM a.t") == [(2,)]
    assert reader.rows("SELECT count(*) FROM b.t") == [(1,)]
    with pytest.raises(InvalidValue, match="not empty"), lake.commit("drop") as commit:
        commit.drop_schema("a")
    with lake.commit("drop") as commit:
        commit.drop_table(lake.table(("a", "t")))
        commit.drop_schema("a")
    assert lake.schemas() == ["main", "b"]
    assert_agree(lake, reader)


def test_what_is_there_or_is_not_is_refused_and_nothing_changes(lake):
    table = create(lake, "t", ROWS)
    with lake.commit("view") as commit:
        commit.create_view("v", "SELECT 1 AS one")
    before = lake.snapshot()

    def refused(kind, match, do):
        with pytest.raises(kind, match=match), lake.commit("refused") as commit:
            do(commit)
        assert lake.snapshot() == before

    fields = lake.columns_of(ROWS)
    refused(ObjectExists, r"main\.t", lambda commit: commit.create_table("t", fields))
    refused(ObjectExists, r"main\.T", lambda commit: commit.create_table("T", fields))
    refused(ObjectExists, r"main\.v", lambda commit: commit.create_table("v", fields))
    refused(ObjectExists, r"main\.v", lambda commit: commit.create_view("v", "SELECT 2"))
    refused(ObjectExists, r"main\.v", lambda commit: commit.rename_table(table, "v"))
    refused(ObjectExists, '"main"', lambda commit: commit.create_schema("main"))
    refused(UnknownObject, '"x"', lambda commit: commit.create_table(("x", "t"), fields))
    refused(UnknownObject, '"x"', lambda commit: commit.drop_schema("x"))
    refused(InvalidValue, "no columns", lambda commit: commit.create_table("w", []))
    refused(InvalidValue, "twice", lambda commit: commit.create_table("w", [*fields, Field(name="I", type=Primitive("int8"))]))
    refused(InvalidValue, "name of a table", lambda commit: commit.create_table("", fields))
    refused(InvalidValue, "name of a table", lambda commit: commit.create_table("x" * 256, fields))
    refused(InvalidValue, "name of a column", lambda commit: commit.create_table("w", [Field(name="a\0b", type=Primitive("int8"))]))
    refused(InvalidValue, "partition transform", lambda commit: commit.create_table("w", fields, partition_by=[("i", "bucket")]))


def test_an_unknown_table_suggests_the_nearest_name(lake):
    create(lake, "customers", ROWS)
    with pytest.raises(UnknownObject) as refused:
        lake.table("costumers")
    assert refused.value.hint == "did you mean main.customers?"


def test_views_of_ours_in_duckdb_s_dialect_run_there(lake, reader):
    create(lake, "t", ROWS)
    with lake.commit("view") as commit:
        commit.create_view("v", "SELECT sum(i) FROM t", dialect="duckdb", columns=["the sum"], comment="adds")
    assert reader.rows('SELECT "the sum" FROM v') == [(3,)]
    with lake.commit("replace") as commit:
        commit.create_view("v", "SELECT max(i) FROM t", dialect="duckdb", columns=["the max"], or_replace=True)
    assert reader.rows('SELECT "the max" FROM v') == [(2,)]
    (view,) = lake.views()
    assert (view.name, view.columns, view.comment) == (Name(schema="main", relation="v"), ("the max",), None)
    assert [old.columns for old in lake.views(lake.snapshot(2))] == [("the sum",)]


def test_a_lake_that_is_there_is_opened_where_that_is_allowed(tmp_path):
    with Lake.create(tmp_path / "lake", exist_ok=True) as made, made.commit("create") as commit:
        commit.create_table("t", made.columns_of(ROWS))
    with pytest.raises(ObjectExists, match="exists already") as caught:
        Lake.create(tmp_path / "lake")
    assert "exist_ok=True" in str(caught.value.hint)
    with Lake.create(tmp_path / "lake", exist_ok=True) as again:
        assert (again.uuid, again.snapshot().id, again.table("t").name.relation) == (made.uuid, 1, "t")
    with pytest.raises(ObjectExists):
        Platform.create(tmp_path / "lake")
    with Platform.create(tmp_path / "lake", exist_ok=True) as platform:
        assert platform.lake.uuid == made.uuid


def test_many_may_create_the_same_lake_and_one_does(tmp_path):
    def create(_):
        with Lake.create(tmp_path / "lake", exist_ok=True) as lake:
            return lake.uuid

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(create, range(8)))) == 1


def test_what_is_no_lake_is_refused_all_the_same(tmp_path):
    (tmp_path / "lake" / "data").mkdir(parents=True)
    (tmp_path / "lake" / "data" / "x.parquet").write_bytes(b"of somebody else")
    with pytest.raises(PlatformError, match="data"):
        Lake.create(tmp_path / "lake", exist_ok=True)
