"""Each statement that writes files of a table writes them as the table says: read from their footers."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from platform_plugin.platform import Platform

pytestmark = pytest.mark.spark

WITH = "WITH (parquet_compression = lz4, parquet_row_group_size = 3000)"


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(f"platform+local://{tmp_path}/lake") as opened:
        yield opened


def written(platform, name, known=()):
    """Compression and row groups of the files of a table that were not known before, and the paths of all."""
    files = platform.lake.scan(platform.lake.table(name), platform.lake.snapshot()).files
    found = [pq.read_metadata(platform.lake.storage.absolute(file.path)) for file in files if file.path not in known]
    groups = [each.row_group(place) for each in found for place in range(each.num_row_groups)]
    return {group.column(0).compression for group in groups}, [group.num_rows for group in groups], [file.path for file in files]


@pytest.mark.parametrize("columns", ["id BIGINT, v INT", "id BIGINT, v INT, own UUID"])
def test_every_statement_writes_files_as_the_table_says(platform, tmp_path, columns):
    """Those with UUIDs are written by the client: Spark does not write that type."""
    own = ", NULL" if "own" in columns else ""
    platform.execute(f"CREATE TABLE t ({columns}) {WITH}")
    pq.write_table(pa.table({"id": pa.array(range(4000), pa.int64()), "v": pa.array([1] * 4000, pa.int32())}), tmp_path / "a.parquet")
    rows = ", ".join(f"({number}, 0{own})" for number in range(3100))
    statements = {
        f"INSERT INTO t VALUES {rows}": [3000, 100],
        f"INSERT INTO t SELECT id, 0{own} FROM range(0, 5000, 1, 1)": [3000, 2000],
        f"COPY t (id, v) FROM 'file://{tmp_path}/a.parquet'": [3000, 1000],
        "UPDATE t SET v = 2 WHERE v = 1": [3000, 1000],
    }
    known = []
    for statement, groups in statements.items():
        platform.execute(statement)
        codecs, found, paths = written(platform, "t", known)
        assert (codecs, found) == ({"LZ4"}, groups), statement[:40]
        known = paths
    platform.execute("ALTER TABLE t SET (parquet_compression = 'gzip')")
    platform.execute(f"INSERT INTO t SELECT 1, 2{own}")
    assert written(platform, "t", known)[0] == {"GZIP"}
    assert next(iter(platform.execute("SELECT count(*), sum(v) FROM t"))) == (3100 + 5000 + 4000 + 1, 8002), "Spark reads them all"
    (shown,) = next(iter(platform.execute("SHOW CREATE TABLE t")))
    assert shown.endswith("WITH (parquet_compression = 'gzip', parquet_row_group_size = 3000)")
    facts = {row[0]: row[1] for row in platform.execute("DESCRIBE EXTENDED t")}
    assert (facts["# parquet_compression"], facts["# parquet_row_group_size"]) == ("gzip", "3000")


def test_what_spark_writes_is_of_the_target_size(platform, duck, tmp_path):
    target = 200_000
    platform.execute(
        f"CREATE TABLE t WITH (target_file_size = {target}, parquet_compression = gzip)"
        " AS SELECT id, uuid() AS name, struct(id AS a) AS s FROM range(0, 40000, 1, 1)"
    )
    files = platform.lake.scan(platform.lake.table("t"), platform.lake.snapshot()).files
    assert len(files) > 3
    assert all(file.size_bytes <= 1.3 * target for file in files)
    assert written(platform, "t")[0] == {"GZIP"}
    on_disk = list((tmp_path / "lake" / "data" / "main").rglob("*.parquet"))
    assert len(on_disk) == len(files), "the large file that they were made of is gone"
    query = "SELECT count(*), count(DISTINCT name), sum(id), sum(s.a) FROM t"
    assert list(platform.execute(query)) == [tuple(map(int, row)) for row in duck(f"platform+local://{tmp_path}/lake").rows(query)]


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_rows_from_python_are_written_as_the_lake_says(platform, duck, tmp_path, kind):
    duck(f"platform+local://{tmp_path}/lake").execute("CALL lake.set_option('parquet_compression', 'snappy')")
    platform.execute(f"CREATE {kind} t (id BIGINT, own UUID)")
    platform.execute("INSERT INTO t VALUES (?, ?)", [1, uuid.UUID(int=7)])
    assert written(platform, "t")[0] == {"SNAPPY"}
