"""Single pages of a file are the rows that they are in the whole."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.lake.files import pages
from platform_plugin.lake.files.files import write_data_file
from platform_plugin.lake.files.pages import _is_coded, read_locations, read_pages
from platform_plugin.lake.files.thrift import BINARY, I32, I64, LIST, STRUCT, TRUE, read_struct, write_struct
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.read.read import read_file

_values = st.recursive(
    st.one_of(
        st.tuples(st.just(I64), st.integers(-(1 << 63), (1 << 63) - 1)),
        st.tuples(st.just(I32), st.integers(-(1 << 31), (1 << 31) - 1)),
        st.tuples(st.just(BINARY), st.binary(max_size=200)),
        st.tuples(st.just(TRUE), st.none()),
        st.tuples(st.just(LIST), st.tuples(st.just(I64), st.lists(st.integers(0, 1 << 40), max_size=40))),
    ),
    lambda inner: st.tuples(st.just(STRUCT), st.dictionaries(st.integers(1, 300), inner, max_size=6)),
)


@given(st.dictionaries(st.integers(1, 300), _values, max_size=8))
def test_structs_come_back(struct):
    assert read_struct(write_struct(struct))[0] == struct


def table(count):
    numbers = np.arange(count)
    return pa.table(
        {
            "id": numbers,
            "few": pa.array([None if number % 7 == 0 else f"k{number % 5}" for number in numbers]),
            "many": pa.array([f"text {number * 7919 % 100_003}" for number in numbers]),
            "value": pa.array(numbers * 0.37),
            "pair": pa.array([{"a": int(number), "b": None} for number in numbers], pa.struct([("a", pa.int64()), ("b", pa.string())])),
        }
    )


def written(tmp_path, rows, **options):
    path = tmp_path / "file.parquet"
    given = {"max_rows_per_page": 100, "data_page_size": 1 << 26, "write_batch_size": 50, "write_page_index": True, "compression": "zstd"}
    pq.write_table(rows, path, **{**given, "write_page_checksum": True, **options})
    return path


def read(path, names, positions):
    with path.open("rb") as file:
        return read_pages(file, pq.ParquetFile(file, page_checksum_verification=True), (str(path), 1), names, np.array(positions))


@pytest.mark.parametrize("groups", [10_000, 1700])
@pytest.mark.parametrize("names", [["id"], ["many", "few", "pair", "value", "id"]])
def test_rows_at_positions(tmp_path, groups, names):
    rows = table(5000)
    path = written(tmp_path, rows, row_group_size=groups, dictionary_pagesize_limit=4000)
    for positions in ([0], [4999], [0, 1, 99, 100, 1699, 1700, 1701, 4999], list(range(2000, 2100)), [7, 333, 334, 3401]):
        assert read(path, names, positions).equals(rows.take(positions).select(names))
    assert read(path, names, list(range(0, 5000, 3))) is None, "nearly all pages"


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_dictionary_comes_along_only_where_a_page_uses_it(tmp_path, monkeypatch, version):
    rows = table(5000)
    path = written(tmp_path, rows, dictionary_pagesize_limit=4000, data_page_version=version)
    found = []

    def noted(*given):
        found.append(_is_coded(*given))
        return found[-1]

    monkeypatch.setattr(pages, "_is_coded", noted)
    for positions, wanted in (([0], True), ([4999], False), ([0, 4999], True), ([3000, 4000], False)):
        assert read(path, ["many"], positions).equals(rows.take(positions).select(["many"]))
        assert found.pop() == wanted, positions
        assert read(path, ["few"], positions).equals(rows.take(positions).select(["few"]))
        assert found.pop(), "a column that keeps its dictionary"


@settings(max_examples=25, deadline=None)
@given(positions=st.sets(st.integers(0, 2999), min_size=1, max_size=3))
def test_any_positions(tmp_path_factory, positions):
    path = tmp_path_factory.getbasetemp() / "any.parquet"
    if not path.exists():
        written(path.parent, table(3000), row_group_size=900).rename(path)
    chosen = sorted(positions)
    assert read(path, ["id", "few"], chosen).column("id").to_pylist() == chosen


def test_other_shapes_are_left_to_others_or_read_column_by_column(tmp_path):
    rows = table(3000)
    assert read(written(tmp_path, rows, write_page_index=False), ["id"], [1]) is None
    lists = pa.table({"id": range(3000), "parts": [[number] * (number % 3) for number in range(3000)]})
    path = tmp_path / "lists.parquet"
    pq.write_table(lists, path, max_rows_per_page=100, write_page_index=True)
    assert read(path, ["id", "parts"], [1]) is None
    assert read(path, ["id"], [1]).column("id").to_pylist() == [1]
    # Pages by size begin at other rows in each column.
    path = tmp_path / "uneven.parquet"
    pq.write_table(rows, path, data_page_size=512, write_batch_size=10, write_page_index=True, use_dictionary=False)
    for positions in ([1], [0, 700, 1500, 2999]):
        assert read(path, ["id", "many", "few"], positions).equals(rows.take(positions).select(["id", "many", "few"]))


def test_a_page_that_was_changed_is_found_out(tmp_path):
    path = written(tmp_path, table(3000), use_dictionary=False, compression="none")
    data = bytearray(path.read_bytes())
    place = data.index(b"text 7919")
    data[place : place + 4] = b"TEXT"
    path.write_bytes(data)
    with pytest.raises(OSError, match=r"[Cc][Rr][Cc]|checksum"):
        read(path, ["many"], [1])


def test_offset_indexes_of_many_pages(tmp_path):
    path = written(tmp_path, pa.table({"id": range(30_000)}), max_rows_per_page=10, write_batch_size=10)
    footer = pq.read_metadata(path)
    with path.open("rb") as file:
        file.seek(-footer.serialized_size - 8, 2)
        struct, _ = read_struct(file.read(footer.serialized_size))
        chunk = struct[4][1][1][0][1][1][1][0]
        file.seek(chunk[4][1])
        offsets, sizes, firsts = read_locations(file.read(chunk[5][1]))
    assert firsts.tolist() == list(range(0, 30_000, 10))
    assert (offsets[:-1] + sizes[:-1] == offsets[1:]).all()


def test_files_of_two_lakes_with_the_same_name_are_told_apart(tmp_path, monkeypatch):
    keys = []

    def noted(file, parquet, key, names, positions):
        keys.append(key)
        return read_pages(file, parquet, key, names, positions)

    monkeypatch.setattr("platform_plugin.lake.read.read.read_pages", noted)
    rows = pa.table({"id": pa.array(range(10_000), pa.int64())})
    for place in range(2):
        with Lake.create(tmp_path / f"lake{place}") as lake:
            with lake.commit("load") as commit:
                table = commit.create_table("t", lake.columns_of(rows))
                commit.append(table, [write_data_file(lake.storage, table, rows, path=f"{table.path}same.parquet")])
            snapshot = lake.snapshot()
            (file,) = lake.scan(lake.table("t"), snapshot).files
            found, _ = read_file(lake, lake.table("t"), file, snapshot, positions=np.array([5, 9_000]))
            assert found.column("id").to_pylist() == [5, 9_000]
    assert len(set(keys)) == 2
