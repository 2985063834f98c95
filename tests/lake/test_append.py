"""Files join tables: any number of them, in any number of tables, all at once."""

import pyarrow as pa
import pytest

from platform_plugin.errors import InvalidValue
from tests.lake.agreement import append, assert_agree, assert_changes_agree, create, rows_of

ROWS = pa.table({"i": [1, 2, 3], "s": ["a", None, ""]})


def test_one_commit_appends_to_many_tables(lake, reader):
    tables = [create(lake, f"t{number}", ROWS) for number in range(5)]
    before = lake.snapshot()
    with lake.commit("to all of them") as commit:
        for table in tables:
            commit.append(table, [lake.write(table, ROWS)])
            commit.append(table, [lake.write(table, ROWS)])
    assert commit.snapshot.id == before.id + 1
    assert all(lake.read(table.name).num_rows == 9 for table in tables)
    assert_agree(lake, reader, snapshots=[before, commit.snapshot])
    assert_changes_agree(lake, reader, "t3", after=before, until=commit.snapshot)


def test_row_ids_go_on_where_they_ended(lake, reader):
    table = create(lake, "t", ROWS, ROWS)
    append(lake, table, ROWS)
    reader.execute("INSERT INTO t VALUES (9, 'inlined')")
    append(lake, table, ROWS)
    assert reader.rows("SELECT rowid FROM t ORDER BY rowid") == [(number,) for number in range(13)]
    assert [(file.row_id_start, file.record_count) for file in lake.scan(table, lake.snapshot()).files] == [(0, 3), (3, 3), (6, 3), (10, 3)]


def test_rows_fit_by_name_and_lose_nothing(lake):
    table = create(lake, "t", ROWS)
    append(lake, table, pa.table({"s": ["only"]}), pa.table({"s": ["both"], "i": pa.array([7], pa.int8())}))
    assert sorted(rows_of(lake.read("t")), key=str)[-2:] == [(7, "both"), (None, "only")]
    for bad, match in (
        ({"x": [1]}, "not in the table"),
        ({"i": ["one"]}, "is no value for column"),
        ({"i": [1.5]}, "can't take"),
        ({"i": pa.array([2**64 - 1], pa.uint64())}, "can't take"),
    ):
        with pytest.raises(InvalidValue, match=match):
            lake.write(table, pa.table(bad))
    assert len([path for path, _ in lake.storage.listing() if path.endswith(".parquet")]) == 3


def test_empty_batches_and_readers(lake, reader):
    table = create(lake, "t", ROWS)
    batches = [batch for _ in range(3) for batch in ROWS.to_batches()]
    append(lake, table, ROWS.slice(0, 0), pa.RecordBatchReader.from_batches(ROWS.schema, batches))
    assert lake.read("t").num_rows == 12
    assert_agree(lake, reader)


def test_an_exception_inside_the_block_drops_everything(lake):
    table = create(lake, "t", ROWS)
    before = lake.snapshot()
    with pytest.raises(ZeroDivisionError), lake.commit("dropped") as commit:
        commit.append(table, [lake.write(table, ROWS), 1 // 0])
    assert lake.snapshot() == before
    assert lake.read("t").num_rows == 3


def test_files_of_other_writers_are_described_from_their_footers(lake, reader):
    import pyarrow.parquet as pq

    from platform_plugin.lake.values.types import arrow_schema

    table = create(lake, "t", ROWS)
    paths = [f"{table.path}part-{number}.parquet" for number in range(3)]
    for number, path in enumerate(paths):
        rows = pa.table({"i": [10 * number, 10 * number + 1], "s": ["x", None]}, schema=arrow_schema(table.fields))
        pq.write_table(rows, lake.storage.absolute(path), row_group_size=1)
    with lake.commit("foreign") as commit:
        commit.append(table, lake.describe_files(table, paths))
    assert_agree(lake, reader)
    assert reader.rows("SELECT s FROM t WHERE i = 20") == [("x",)]
