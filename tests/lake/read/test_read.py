"""Rows as Arrow: the columns and rows that were asked for, in the order of their ids."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from platform_plugin.algebra.predicates.conditions import compare, is_in, is_not_null, is_null
from platform_plugin.algebra.types.data_types import Field, Primitive, list_of
from platform_plugin.errors import InvalidValue, StorageError, UnknownObject
from platform_plugin.lake.catalogue import catalogue as c
from tests.lake.agreement import append, create, delete_positions, rows_of

ROWS = pa.table({"i": [1, 2, None, 4], "S": ["a", None, "c", "d"], "f": [1.5, float("nan"), None, -0.0]})


@pytest.fixture
def table(lake):
    return create(lake, "t", ROWS, ROWS)


def test_columns_in_the_order_asked_for(lake, table):
    assert lake.read("t", columns=["S", "i"]).column_names == ["S", "i"]
    assert lake.read("t", columns=["s"]).column_names == ["S"]
    found = lake.read("t", columns=[])
    assert (found.num_rows, found.num_columns) in ((8, 0), (0, 0))
    with pytest.raises(UnknownObject, match='"x"') as unknown:
        lake.read("t", columns=["x"])
    assert unknown.value.hint == "its columns are i, S, f"


def test_filters_that_use_columns_not_asked_for(lake, table):
    assert rows_of(lake.read("t", columns=["S"], where=compare("i", ">=", 2) & is_not_null("s"))) == [("d",), ("d",)]
    assert rows_of(lake.read("t", columns=["i"], where=is_null("S"))) == [(2,), (2,)]
    assert rows_of(lake.read("t", columns=["i"], where=is_in("S", ("a", "d", None)))) == [(1,), (4,), (1,), (4,)]
    assert rows_of(lake.read("t", columns=["i"], where=compare("f", "=", 0.0))) == [(4,), (4,)]
    assert lake.read("t", where=compare("f", "<>", 1.5)).num_rows == 4


def test_constants_of_another_type(lake, table):
    assert lake.read("t", where=compare("i", "<", 2.5)).num_rows == 4
    assert lake.read("t", where=compare("i", "<", 10**30)).num_rows == 6
    assert lake.read("t", where=compare("i", ">", -(10**30))).num_rows == 6
    assert lake.read("t", where=compare("i", "=", 10**30)).num_rows == 0
    assert lake.read("t", where=is_in("i", (1, 10**30))).num_rows == 2
    assert lake.read("t", where=compare("i", "=", Decimal(4))).num_rows == 2
    for value in ("one", dt.date(2020, 1, 1)):
        with pytest.raises(InvalidValue, match="compared"):
            lake.read("t", where=compare("i", "=", value))


def test_rows_come_in_the_order_of_their_ids(lake, table):
    append(lake, table, pa.table({"i": [9]}))
    delete_positions(lake, table, {lake.scan(table, lake.snapshot()).files[0].id: [1]})
    before = rows_of(lake.read("t", columns=["i"]))
    assert before == [(1,), (None,), (4,), (1,), (2,), (None,), (4,), (9,)]
    lake.merge("t")
    assert rows_of(lake.read("t", columns=["i"])) == before


def test_an_empty_table_of_nested_uuids(lake):
    with lake.commit("create") as commit:
        commit.create_table("u", [Field(name="ids", type=list_of(Primitive("uuid")))])
    assert lake.read("u").num_rows == 0
    assert lake.read("u").column_names == ["ids"]


def test_an_empty_table_has_its_columns(lake):
    create(lake, "e", fields=lake.columns_of(ROWS))
    assert lake.read("e").schema.names == ["i", "S", "f"]
    assert lake.read("e", where=compare("i", "=", 1)).num_rows == 0


def test_no_python_file_is_read_by_arrow_on_a_local_disk(lake, table, monkeypatch):
    delete_positions(lake, table, {lake.scan(table, lake.snapshot()).files[0].id: [3]})
    opened = []

    def spying(source, *rest, **options):
        opened.append(source)
        return parquet_file(source, *rest, **options)

    parquet_file = pq.ParquetFile
    monkeypatch.setattr(pq, "ParquetFile", spying)
    assert lake.read("t").num_rows == 7
    # Two data files and a delete file. An Arrow thread that lets go of a Python file while the interpreter ends aborts the process.
    assert [type(source) for source in opened] == [pa.OSFile] * 3


def test_files_that_come_in_several_blocks_of_the_catalogue(lake, monkeypatch):
    table = create(lake, "many", *[pa.table({"i": [at, -at]}) for at in range(5)])
    file = lake.scan(table, lake.snapshot()).files[3]
    delete_positions(lake, table, {file.id: [1]})
    whole = lake.scan(table, lake.snapshot())
    assert [len(whole.files), whole.files[3].is_whole, whole.files[4].is_whole] == [5, False, True]
    for size in (1, 2, 5):
        monkeypatch.setattr("platform_plugin.lake.read.scan.FILES_AT_ONCE", size)
        assert lake.scan(table, lake.snapshot()) == whole
        assert rows_of(lake.read("many")) == [(0,), (0,), (1,), (-1,), (2,), (-2,), (3,), (4,), (-4,)]
    with lake.writing() as connection:
        connection.execute(sa.update(c.DATA_FILE).where(c.DATA_FILE.c.data_file_id == whole.files[4].id).values(file_format="orc"))
    with pytest.raises(StorageError, match=r'of table "main\.many" has the format orc'):
        lake.scan(table, lake.snapshot())
