"""Options of files: whoever writes files of a table heeds what it was declared with here or by DuckLake's own `set_option`."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from platform_plugin.errors import InvalidStatement
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.files.file_division import rows_for
from platform_plugin.lake.files.file_options import FileOptions
from platform_plugin.lake.files.files import PAGE_ROWS
from platform_plugin.lake.lake import Lake
from platform_plugin.language.script import parse_statement

CODECS = {"snappy": "SNAPPY", "zstd": "ZSTD", "gzip": "GZIP", "lz4": "LZ4", "uncompressed": "UNCOMPRESSED"}


@pytest.fixture
def lake(tmp_path):
    with Lake.create(tmp_path / "lake") as made:
        yield made


def many(rows):
    return pa.table({"id": np.random.default_rng(1).integers(0, 2**62, rows)})


def footers(lake, name="t"):
    """The footers of a table's files, as the files are now."""
    files = sorted(lake.scan(lake.table(name), lake.snapshot()).files, key=lambda file: file.row_id_start)
    return [pq.read_metadata(lake.storage.absolute(file.path)) for file in files]


def codecs(lake, name="t"):
    return {group.column(0).compression for each in footers(lake, name) for group in map(each.row_group, range(each.num_row_groups))}


def groups(lake, name="t"):
    return [[each.row_group(group).num_rows for group in range(each.num_row_groups)] for each in footers(lake, name)]


def append(lake, rows, name="t"):
    table = lake.table(name)
    with lake.commit("append") as commit:
        commit.append(table, lake.write_files(table, rows))


def create(lake, name="t", **options):
    with lake.commit("create") as commit:
        return commit.create_table(name, lake.columns_of(many(1)), file_options=options)


@pytest.mark.parametrize("word", CODECS)
def test_files_are_compressed_and_cut_into_row_groups_as_declared(lake, word):
    create(lake, parquet_compression=word, parquet_row_group_size=3000)
    append(lake, many(7000))
    append(lake, pa.RecordBatchReader.from_batches(many(1).schema, many(7000).to_batches(max_chunksize=1000)))
    assert (codecs(lake), groups(lake)) == ({CODECS[word]}, [[3000, 3000, 1000]] * 2)
    lake.merge("t")
    assert (codecs(lake), groups(lake)) == ({CODECS[word]}, [[3000] * 4 + [2000]])
    assert sorted(lake.read("t").column("id").to_pylist()) == sorted(many(7000).column("id").to_pylist() * 2)


@pytest.mark.parametrize("streamed", [False, True])
def test_files_are_closed_at_the_target_size_and_merged_up_to_it(lake, streamed):
    target = 256 << 10
    create(lake, target_file_size=target)
    rows = many(150_000)
    append(lake, pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=5000)) if streamed else rows)
    sizes = [file.size_bytes for file in lake.scan(lake.table("t"), lake.snapshot()).files]
    assert len(sizes) >= 4
    assert max(sizes) <= 1.3 * target
    assert min(sorted(sizes)[1:]) >= 0.7 * target
    assert lake.read("t").equals(rows)
    for _ in range(4):
        append(lake, many(5000))
    assert lake.merge("t").files_before >= 4
    assert all(file.size_bytes <= 1.3 * target for file in lake.scan(lake.table("t"), lake.snapshot()).files)
    assert lake.merge("t", target_bytes=64 << 20).files_after == 1


def test_rows_that_are_written_anew_keep_their_ids_over_several_files(lake):
    table = create(lake, target_file_size=40_000)
    files = lake.write_files(lake.table("t"), many(20_000), row_ids=pa.array(range(20_000, 40_000), pa.int64()))
    found = [pq.read_table(lake.storage.absolute(file.path)).column("_ducklake_internal_row_id").to_pylist() for file in files]
    assert len(files) > 3
    assert [number for part in found for number in part] == list(range(20_000, 40_000))
    assert lake.write_files(table, many(0))[0].record_count == 0
    assert rows_for(1, size_bytes=8, rows=1) == PAGE_ROWS, "however small the target, files are worth their footers"


def test_a_write_that_fails_leaves_none_of_its_files(lake, tmp_path):
    create(lake, target_file_size=20_000)
    schema = many(1).schema

    def batches():
        yield from many(20_000).to_batches(max_chunksize=5000)
        message = "no more"
        raise OSError(message)

    with pytest.raises(OSError, match="no more"):
        lake.write_files(lake.table("t"), pa.RecordBatchReader.from_batches(schema, batches()))
    assert list((tmp_path / "lake" / "data").rglob("*.parquet")) == []


def test_duckdb_heeds_what_is_declared_here_and_we_heed_what_is_set_there(lake, tmp_path, duck):
    create(lake, parquet_compression="lz4", target_file_size=1 << 20)
    create(lake, "u")
    reader = duck(f"platform+local://{tmp_path}/lake")
    for name in ("t", "u"):
        reader.execute(f"INSERT INTO {name} SELECT range FROM range(3000)")
    assert (codecs(lake), codecs(lake, "u")) == ({"LZ4"}, {"SNAPPY"})
    reader.execute("CALL lake.set_option('parquet_compression', 'gzip')")
    reader.execute("CALL lake.set_option('parquet_row_group_size', 2000, table_name => 'u')")
    with Lake.open(tmp_path / "lake") as again:
        assert again.table("t").file_options == FileOptions.of({"parquet_compression": "lz4", "target_file_size": 1 << 20})
        assert again.table("u").file_options == FileOptions.of({"parquet_row_group_size": 2000}, {"parquet_compression": "gzip"})
        append(again, many(3000), "u")
        with again.commit("set") as commit:
            commit.set_file_options(again.table("u"), {"parquet_compression": "snappy"})
        append(again, many(3000), "u")
        with again.commit("both") as commit:
            table = commit.create_table("v", again.columns_of(many(1)))
            commit.append(table, [again.write(table, many(10))])
        assert ([each.row_group(0).column(0).compression for each in footers(again, "u")], groups(again, "u")[1:]) == (
            ["SNAPPY", "GZIP", "SNAPPY"],
            [[2000, 1000]] * 2,
        )
        assert codecs(again, "v") == {"GZIP"}, "files that a table is created with heed the lake's options, too"
        assert reader.rows("SELECT count(*), count(DISTINCT id) FROM u") == [(9000, 6000)]


def test_rows_leave_the_catalogue_for_a_file_as_declared_and_options_leave_with_their_table(lake, tmp_path, duck):
    create(lake, parquet_compression="gzip")
    duck(f"platform+local://{tmp_path}/lake").execute("INSERT INTO t VALUES (1), (2)")
    assert lake.merge("t").inlined_rows == 2
    assert codecs(lake) == {"GZIP"}
    with lake.commit("drop") as commit:
        commit.drop_table(lake.table("t"))
    lake.expire(dt.datetime.now(dt.UTC))
    with lake.reading() as connection:
        assert connection.execute(sa.select(c.METADATA.c.key).where(c.METADATA.c.scope == "table")).all() == []


def test_what_an_earlier_version_only_noted_is_heeded(lake):
    table = create(lake)
    create(lake, "u")
    with lake.commit("as it was noted") as commit:
        declare_relation(commit, table, Declaration(options={"parquet_compression": "gzip", "primary_key": ["id"]}))
        commit.comment(table, "of a new shape")
    assert lake.table("t").file_options.declared == (("parquet_compression", "gzip"),)
    assert lake.table("u").file_options == FileOptions()
    assert {str(each.name): each.file_options.compression for each in lake.tables()} == {"main.t": "gzip", "main.u": "zstd"}
    with lake.commit("set") as commit:
        commit.set_file_options(lake.table("t"), {"parquet_compression": "snappy"})
    assert lake.table("t").file_options.compression == "snappy"


def test_values_that_nobody_can_heed_are_passed_over():
    found = FileOptions.of({"parquet_compression": "brotli", "target_file_size": "soon", "parquet_row_group_size": "0"})
    assert found == FileOptions()
    assert FileOptions.of({"parquet_compression": "LZ4_RAW"}).declared == (("parquet_compression", "lz4"),)


@pytest.mark.parametrize("option", ["target_file_size = 0", "parquet_row_group_size = '0'", "parquet_row_group_size = 1.5"])
def test_sizes_of_nothing_are_refused_where_they_stand(option):
    for text in (f"CREATE TABLE t (a INT) WITH ({option})", f"ALTER TABLE t SET ({option})"):
        with pytest.raises(InvalidStatement, match="can't be"):
            parse_statement(text)


def test_names_of_a_table_say_nothing_of_its_options(lake):
    create(lake, parquet_compression="gzip")
    with lake.commit("rename") as commit:
        commit.rename_table(lake.table("t"), "w")
    assert lake.table(Name.of("w")).file_options.compression == "gzip"
