"""UPDATE and DELETE as another client sees them: rows keep their ids, long lists of deleted rows are read where they lie."""

from __future__ import annotations

import pytest

from platform_plugin.errors import InvalidValue
from platform_plugin.platform import Platform

pytestmark = pytest.mark.spark


@pytest.fixture
def url(tmp_path, spark_server):
    return f"platform+local://{tmp_path}/lake"


def test_an_update_keeps_row_ids_so_that_changes_come_in_pairs(url, duck):
    with Platform.create(url) as platform:
        platform.execute("CREATE TABLE t AS SELECT id AS k, 0 AS v FROM range(0, 100, 1, 3)")
        duck(url).execute("INSERT INTO t VALUES (100, 0)")
        before = dict(duck(url).rows("SELECT k, rowid FROM t"))
        made = platform.execute("UPDATE t SET v = 1 WHERE k % 10 = 0").snapshot.id
        changes = duck(url).rows(f"SELECT change_type, k, rowid, v FROM ducklake_table_changes('lake', 'main', 't', {made}, {made})")
        tens = range(0, 101, 10)
        wanted = [("update_preimage", k, before[k], 0) for k in tens] + [("update_postimage", k, before[k], 1) for k in tens]
        assert sorted(changes) == sorted(wanted)
        assert dict(duck(url).rows("SELECT k, rowid FROM t")) == before


def test_many_deleted_rows_are_read_by_spark_at_every_snapshot(url, duck, monkeypatch):
    monkeypatch.setenv("PLATFORM_LIMIT_PLAN_POSITIONS", "5")
    with Platform.create(url) as platform:
        platform.execute("CREATE TABLE t AS SELECT id AS k FROM range(0, 1000, 1, 3)")
        versions = {platform.lake.snapshot().id: 1000}
        for residue in (0, 1, 2):
            platform.execute("DELETE FROM t WHERE k % 7 = ?", [residue])
            versions[platform.lake.snapshot().id] = sum(k % 7 > residue for k in range(1000))
        duck(url).execute("DELETE FROM t WHERE k % 7 = 3")
        platform.execute("UPDATE t SET k = -k WHERE k % 7 = 4")
        versions[platform.lake.snapshot().id] = sum(k % 7 > 3 for k in range(1000))
        for version, rows in versions.items():
            query = f"SELECT count(*), sum(k) FROM t AT (VERSION => {version})"
            assert list(platform.execute(query)) == [tuple(map(int, row)) for row in duck(url).rows(query)]
            assert next(iter(platform.execute(query)))[0] == rows


def test_a_table_that_duckdb_partitions_is_read_and_deleted_from_alike(url, duck):
    with Platform.create(url) as platform:
        platform.execute("CREATE TABLE t (k INT, p STRING)")
        other = duck(url)
        other.execute("ALTER TABLE t SET PARTITIONED BY (p)")
        other.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
        other.execute("INSERT INTO t SELECT i, 'p' || i % 3 FROM range(30) r(i)")
        for sql in ("INSERT INTO t VALUES (100, 'p0')", "INSERT INTO t SELECT * FROM t", "UPDATE t SET p = 'p9' WHERE k = 3"):
            with pytest.raises(InvalidValue, match="is partitioned"):
                platform.execute(sql)
        platform.execute("DELETE FROM t WHERE p = 'p2'")
        for where in ("true", "p = 'p0'", "p = 'p1'", "p IS NULL", "p = 'p2'"):
            query = f"SELECT k, p FROM t WHERE {where} ORDER BY k"
            assert list(platform.execute(query)) == duck(url).rows(query)


def test_deletion_vectors_and_files_outside_are_read_by_spark_at_every_snapshot(url, duck, tmp_path):
    Platform.create(url).close()
    other = duck(url)
    other.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    other.execute("CALL lake.set_option('write_deletion_vectors', true)")
    (tmp_path / "shared").mkdir()
    other.execute("CREATE TABLE t AS SELECT range AS k FROM range(3000)")
    other.execute(f"COPY (SELECT range AS k FROM range(10000, 10005)) TO '{tmp_path}/shared/out.parquet' (FIELD_IDS {{k: 1}})")
    other.execute(f"CALL ducklake_add_data_files('lake', 't', '{tmp_path}/shared/out.parquet')")
    other.execute("DELETE FROM t WHERE k % 3 = 0")
    with Platform.open(f"{url}?outside={tmp_path}/shared") as platform:
        platform.execute("DELETE FROM t WHERE k % 3 = 1 AND k < 1000")
        platform.execute("UPDATE t SET k = -k WHERE k IN (2, 10001)")
        other.execute("DELETE FROM t WHERE k = 5")
        for version in range(1, platform.lake.snapshot().id + 1):
            query = f"SELECT count(*), sum(k) FROM t AT (VERSION => {version})"
            assert list(platform.execute(query)) == [tuple(map(int, row)) for row in duck(url).rows(query)]
