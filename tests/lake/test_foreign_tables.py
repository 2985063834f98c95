"""Tables that DuckDB makes, fills, alters, deletes from and looks after are read correctly by us, at every snapshot."""

import datetime as dt
from itertools import pairwise
from pathlib import Path

import pytest

from platform_plugin.errors import PathOutsideLake
from platform_plugin.lake.lake import Lake
from tests.lake.agreement import assert_agree, assert_changes_agree, delete_positions, kept

NO_GRACE = dt.timedelta(0)


def agree_everywhere(lake, reader, *names):
    snapshots = kept(lake)
    assert_agree(lake, reader)
    assert_agree(lake, reader, snapshots=snapshots)
    for name in names:
        begin = lake.table(name).begin_snapshot
        for before, after in pairwise(snapshots):
            if before.id >= begin:
                assert_changes_agree(lake, reader, name, after=before, until=after)
        if begin in {snapshot.id for snapshot in snapshots}:
            assert_changes_agree(lake, reader, name, after=lake.snapshot(begin), until=snapshots[-1])


def test_inlined_rows_updates_and_deletes(lake, reader):
    reader.execute("CREATE TABLE t (i INT, s VARCHAR)")
    reader.execute("INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, '')")
    reader.execute("UPDATE t SET s = 'changed' WHERE i = 2")
    reader.execute("DELETE FROM t WHERE i = 1")
    reader.execute("INSERT INTO t VALUES (4, 'four')")
    agree_everywhere(lake, reader, "t")


def test_inlined_deletes_from_files(lake, reader):
    reader.execute("CREATE TABLE t AS SELECT range AS i, range::VARCHAR AS s FROM range(1000)")
    reader.execute("DELETE FROM t WHERE i IN (3, 5)")
    reader.execute("DELETE FROM t WHERE i % 2 = 0")
    reader.execute("DELETE FROM t WHERE i = 7")
    reader.execute("UPDATE t SET s = 'new' WHERE i BETWEEN 9 AND 12")
    agree_everywhere(lake, reader, "t")


def test_alterations_between_inserts(lake, reader):
    reader.execute("CREATE TABLE t (i INT, s VARCHAR, st STRUCT(a INT, b VARCHAR))")
    reader.execute("INSERT INTO t VALUES (1, 'a', {'a': 1, 'b': 'x'})")
    reader.execute("INSERT INTO t SELECT range, 'file', {'a': range, 'b': 'y'} FROM range(100)")
    reader.execute("ALTER TABLE t ADD COLUMN n BIGINT DEFAULT 7")
    reader.execute("ALTER TABLE t RENAME COLUMN s TO text")
    reader.execute("INSERT INTO t VALUES (2, 'b', {'a': 2, 'b': NULL}, 8)")
    reader.execute("ALTER TABLE t ALTER COLUMN i SET DATA TYPE BIGINT")
    reader.execute("ALTER TABLE t ADD COLUMN st.c INT")
    reader.execute("INSERT INTO t VALUES (3000000000, 'c', {'a': 3, 'b': 'z', 'c': 5}, NULL)")
    reader.execute("ALTER TABLE t DROP COLUMN st.a")
    reader.execute("ALTER TABLE t DROP COLUMN text")
    reader.execute("ALTER TABLE t ADD COLUMN text VARCHAR DEFAULT 'it''s new'")
    reader.execute("UPDATE t SET n = 9 WHERE i < 5")
    reader.execute("ALTER TABLE t RENAME TO u")
    assert_agree(lake, reader)
    assert_agree(lake, reader, snapshots=kept(lake))


def test_adjacent_files_merged_into_partial_ones(lake, reader):
    reader.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    reader.execute("CREATE TABLE t (i INT, s VARCHAR)")
    for start in range(0, 50, 10):
        reader.execute(f"INSERT INTO t SELECT range, range::VARCHAR FROM range({start}, {start + 10})")
    reader.execute("DELETE FROM t WHERE i = 3")
    reader.execute("CALL ducklake_merge_adjacent_files('lake')")
    agree_everywhere(lake, reader, "t")
    reader.execute("INSERT INTO t VALUES (99, 'later')")
    reader.execute("DELETE FROM t WHERE i % 7 = 0")
    agree_everywhere(lake, reader)


def test_rewritten_files(lake, reader):
    reader.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    reader.execute("CREATE TABLE t AS SELECT range AS i FROM range(1000)")
    reader.execute("DELETE FROM t WHERE i < 990")
    reader.execute("CALL ducklake_rewrite_data_files('lake', 't')")
    agree_everywhere(lake, reader)


def test_flushed_inlined_rows_and_deletes(lake, reader):
    reader.execute("CREATE TABLE t (i INT, l VARCHAR[])")
    reader.execute("INSERT INTO t VALUES (1, ['a']), (2, []), (3, NULL)")
    reader.execute("DELETE FROM t WHERE i = 2")
    reader.execute("INSERT INTO t SELECT range, [range::VARCHAR] FROM range(10, 200)")
    reader.execute("DELETE FROM t WHERE i = 11")
    reader.execute("UPDATE t SET l = ['new'] WHERE i = 1")
    reader.execute("CALL ducklake_flush_inlined_data('lake')")
    assert_agree(lake, reader)
    assert_agree(lake, reader, snapshots=kept(lake))
    reader.execute("DELETE FROM t WHERE i = 12")
    reader.execute("INSERT INTO t VALUES (300, NULL)")
    assert_agree(lake, reader, snapshots=kept(lake))


def test_expired_and_cleaned_up(lake, reader):
    reader.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    reader.execute("CREATE TABLE t AS SELECT range AS i FROM range(100)")
    for start in (100, 200, 300):
        reader.execute(f"INSERT INTO t SELECT * FROM range({start}, {start + 100})")
    reader.execute("DELETE FROM t WHERE i < 100")
    reader.execute("CALL ducklake_merge_adjacent_files('lake')")
    reader.execute("CALL ducklake_expire_snapshots('lake', older_than => now())")
    reader.execute("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
    assert len(lake.commits()) == 1
    agree_everywhere(lake, reader)


def test_what_one_schedules_the_other_deletes(lake, reader, lake_url):
    reader.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    for name in ("t", "Odd Name"):
        reader.execute(f'CREATE TABLE "{name}" AS SELECT range AS i FROM range(100)')
        reader.execute(f'DELETE FROM "{name}"')
    reader.execute("CALL ducklake_expire_snapshots('lake', older_than => now())")
    assert lake.vacuum(grace=NO_GRACE).scheduled == 2
    assert [path for path, _ in lake.storage.listing() if path.endswith(".parquet")] == []
    reader.execute("INSERT INTO t SELECT * FROM range(100)")
    reader.execute("DELETE FROM t")
    lake.expire(dt.datetime.now(dt.UTC))
    reader.execute("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
    assert [path for path, _ in lake.storage.listing() if path.endswith(".parquet")] == []
    assert reader.rows("SELECT count(*) FROM t") == [(0,)]


def test_partitions_of_both_kinds(lake, reader):
    reader.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    reader.execute("CREATE TABLE t (region VARCHAR, moment TIMESTAMP, v INT)")
    reader.execute("INSERT INTO t VALUES ('none', NULL, 0)")
    reader.execute("ALTER TABLE t SET PARTITIONED BY (region, year(moment), month(moment))")
    reader.execute(
        "INSERT INTO t SELECT ['eu', 'us', NULL, 'a/b=c'][1 + range % 4],"
        " TIMESTAMP '2025-11-01' + INTERVAL (range) DAY, range FROM range(90)"
    )
    reader.execute("DELETE FROM t WHERE v % 10 = 0")
    reader.execute("CALL ducklake_merge_adjacent_files('lake')")
    agree_everywhere(lake, reader)


def added_by_name(lake, reader):
    reader.execute(
        "CREATE TABLE t (i INT, s VARCHAR, st STRUCT(a INT, b VARCHAR), l INT[], m MAP(VARCHAR, INT), ls STRUCT(x INT, y VARCHAR)[])"
    )
    folder = Path(lake.storage.absolute("added"))
    folder.mkdir()
    reader.execute(
        "COPY (SELECT range::INT AS i, 'row ' || range AS s, {'b': 'x', 'a': range::INT} AS st, [range::INT, NULL] AS l,"
        f" MAP {{'k': range::INT}} AS m, [{{'y': 'why', 'x': 1}}, NULL] AS ls FROM range(10)) TO '{folder}/one.parquet'"
    )
    reader.execute(f"COPY (SELECT range::INT AS i, {{'a': range::INT}} AS st FROM range(10, 20)) TO '{folder}/two.parquet'")
    reader.execute(f"CALL ducklake_add_data_files('lake', 't', '{folder}/one.parquet')")
    reader.execute(f"CALL ducklake_add_data_files('lake', 't', '{folder}/two.parquet', allow_missing => true)")


def test_files_added_by_name(lake, reader):
    added_by_name(lake, reader)
    agree_everywhere(lake, reader, "t")
    reader.execute("ALTER TABLE t RENAME COLUMN s TO text")
    reader.execute("ALTER TABLE t RENAME COLUMN st.a TO z")
    reader.execute("DELETE FROM t WHERE i = 4")
    assert_agree(lake, reader)
    assert_agree(lake, reader, snapshots=kept(lake))


def test_files_added_by_name_outlive_vacuum_and_merge(lake, reader):
    added_by_name(lake, reader)
    reader.execute("INSERT INTO t(i) SELECT * FROM range(100, 200)")
    reader.execute("INSERT INTO t(i) VALUES (200)")
    lake.vacuum(grace=NO_GRACE)
    agree_everywhere(lake, reader, "t")
    lake.merge("t")
    lake.vacuum(grace=NO_GRACE)
    assert_agree(lake, reader)
    reader.execute("DROP TABLE t")
    lake.expire(dt.datetime.now(dt.UTC))
    lake.vacuum(grace=NO_GRACE)
    assert [path for path, _ in lake.storage.listing() if path.endswith(".parquet")] == []
    assert_agree(lake, reader)


def with_outside_file(lake, reader, folder):
    folder.mkdir(exist_ok=True)
    outside = folder / "outside.parquet"
    reader.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    reader.execute("CREATE TABLE t (i INT)")
    reader.execute(f"COPY (SELECT range::INT AS i FROM range(10)) TO '{outside}'")
    reader.execute(f"CALL ducklake_add_data_files('lake', 't', '{outside}')")
    return outside


def test_a_file_outside_the_lake_is_refused_and_never_deleted(lake, reader, tmp_path):
    outside = with_outside_file(lake, reader, tmp_path)
    with pytest.raises(PathOutsideLake, match="outside") as refused:
        lake.read("t")
    assert "outside=" in refused.value.hint
    lake.vacuum(grace=NO_GRACE)
    reader.execute("CREATE OR REPLACE TABLE t (i INT)")
    lake.expire(dt.datetime.now(dt.UTC))
    lake.vacuum(grace=NO_GRACE)
    reader.execute("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
    assert outside.exists()
    assert_agree(lake, reader)


def test_a_folder_that_the_url_names_is_read_and_nothing_else(lake, lake_url, reader, tmp_path):
    outside = with_outside_file(lake, reader, tmp_path / "shared")
    (tmp_path / "shared" / "link.parquet").symlink_to(tmp_path / "secret.parquet")
    sign = "&" if "?" in lake_url else "?"
    with Lake.open(f"{lake_url}{sign}outside={tmp_path}/shared") as wider:
        agree_everywhere(wider, reader, "t")
        table = wider.table("t")
        delete_positions(wider, table, {wider.scan(table, wider.snapshot()).files[0].id: [3]})
        wider.merge("t")
        agree_everywhere(wider, reader, "t")
        for path in (
            f"{tmp_path}/secret.parquet",
            f"{tmp_path}/shared/../secret",
            f"{tmp_path}/shared/link.parquet",
            f"{tmp_path}/shared2/x",
        ):
            with pytest.raises(PathOutsideLake):
                wider.storage.readable(path)
        with pytest.raises(PathOutsideLake), wider.storage.open(str(outside), "wb"):
            pass
        assert wider.storage.delete([str(outside)]) == 0
        reader.execute("DROP TABLE t")
        wider.expire(dt.datetime.now(dt.UTC))
        wider.vacuum(grace=NO_GRACE)
    assert outside.exists()


def test_hive_partitioned_files_added_by_name(lake, reader):
    reader.execute("CREATE TABLE t (i INT, region VARCHAR, y INT, d DATE)")
    folder = lake.storage.absolute("hive")
    reader.execute(
        "COPY (SELECT range::INT AS i, ['eu', 'a/b =%', NULL][1 + range % 3] AS region, 2000 + range % 2 AS y, DATE '2020-01-02' AS d"
        f" FROM range(12)) TO '{folder}' (FORMAT parquet, PARTITION_BY (region, y, d))"
    )
    reader.execute(f"CALL ducklake_add_data_files('lake', 't', '{folder}/**/*.parquet', hive_partitioning => true)")
    agree_everywhere(lake, reader)
    reader.execute("DELETE FROM t WHERE i < 3")
    agree_everywhere(lake, reader)
    assert sorted(lake.read("t", columns=["y"]).column("y").to_pylist()) == [2000] * 4 + [2001] * 5


def test_views(lake, reader):
    reader.execute("CREATE TABLE t (i INT)")
    reader.execute('CREATE VIEW v("the, ""sum""", plain) AS SELECT sum(i), 1 FROM t')
    reader.execute("COMMENT ON VIEW v IS 'adds up'")
    (view,) = lake.views()
    assert (view.name.relation, view.dialect, view.columns, view.comment) == ("v", "duckdb", ('the, "sum"', "plain"), "adds up")
    assert "sum(i)" in view.sql
    with lake.commit("drop it") as commit:
        commit.drop_view(view)
    assert lake.views() == []
    assert reader.rows("SELECT view_name FROM duckdb_views() WHERE database_name = 'lake'") == []


def test_comments(lake, reader):
    reader.execute("CREATE TABLE t (i INT, st STRUCT(a INT))")
    reader.execute("COMMENT ON TABLE t IS 'a table'")
    reader.execute("COMMENT ON COLUMN t.i IS 'a column'")
    table = lake.table("t")
    assert (table.comment, table.fields[0].comment) == ("a table", "a column")
    reader.execute("COMMENT ON TABLE t IS NULL")
    assert lake.table("t").comment is None


def test_a_transaction_of_many_statements_is_one_snapshot(lake, reader):
    before = lake.snapshot().id
    reader.execute("BEGIN")
    reader.execute("CREATE TABLE t (i INT)")
    reader.execute("INSERT INTO t VALUES (1), (2)")
    reader.execute("ALTER TABLE t ADD COLUMN j INT DEFAULT 5")
    reader.execute("DELETE FROM t WHERE i = 1")
    reader.execute("CREATE SCHEMA s")
    reader.execute("CREATE TABLE s.u AS SELECT range AS r FROM range(20)")
    reader.execute("COMMIT")
    assert lake.snapshot().id == before + 1
    agree_everywhere(lake, reader)


@pytest.mark.parametrize("limit", [0, 10])
def test_replacing_and_truncating(lake, reader, limit):
    reader.execute(f"CALL lake.set_option('data_inlining_row_limit', {limit})")
    reader.execute("CREATE TABLE t AS SELECT range AS i FROM range(5)")
    reader.execute("CREATE OR REPLACE TABLE t AS SELECT 'x' AS s, range AS i FROM range(7)")
    reader.execute("DELETE FROM t")
    reader.execute("INSERT INTO t VALUES ('y', 1)")
    assert_agree(lake, reader)
    assert_agree(lake, reader, snapshots=kept(lake))


def test_merge_into_and_upsert(lake, reader):
    reader.execute("CREATE TABLE t AS SELECT range AS i, 'old' AS s FROM range(100)")
    reader.execute(
        "MERGE INTO t USING (SELECT range AS i FROM range(95, 105)) u ON t.i = u.i"
        " WHEN MATCHED THEN UPDATE SET s = 'merged' WHEN NOT MATCHED THEN INSERT VALUES (u.i, 'fresh')"
    )
    agree_everywhere(lake, reader, "t")
