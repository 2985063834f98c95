"""Records of text files as tasks find them, against what wrote the files."""

from __future__ import annotations

import csv
import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.engine.spark.tasks import source_files
from platform_plugin.engine.spark.tasks.source_files import (
    ParquetProgram,
    TextProgram,
    join_quoted,
    split_documents,
    split_lines,
)
from platform_plugin.errors import InvalidValue, QueryFailed, StorageError

TEXTS = st.text(st.sampled_from('ab ",\n;é'), max_size=6)


def read(program, *files):
    return [record for batch in program.read([str(file) for file in files]) for record in batch.column(0).to_pylist()]


@given(st.binary(max_size=40).map(lambda raw: raw.translate(bytes(b"ab\r\n\n"[byte % 5] for byte in range(256)))), st.integers(1, 5))
def test_lines_end_where_python_ends_them(content, size):
    before = source_files._PART_BYTES
    source_files._PART_BYTES = size
    try:
        assert list(split_lines(io.BytesIO(content))) == content.splitlines()
    finally:
        source_files._PART_BYTES = before


@given(st.lists(st.lists(TEXTS, min_size=2, max_size=3), min_size=1, max_size=5))
def test_records_with_line_breaks_between_quotes_stay_whole(rows):
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    records = list(join_quoted(split_lines(io.BytesIO(out.getvalue().encode())), b'"', b'"'))
    assert [next(csv.reader(io.StringIO(record.decode(), newline=""))) for record in records] == rows


@given(
    st.lists(st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers(), st.lists(TEXTS, max_size=2)), max_size=3), max_size=5),
    st.booleans(),
    st.booleans(),
)
def test_documents_of_a_file_are_found_as_they_are_written(documents, is_array, is_wide):
    indent = 2 if is_wide else None
    text = json.dumps(documents, indent=indent) if is_array else "\n\n".join(json.dumps(each, indent=indent) for each in documents)
    found = list(split_documents(text.encode()))
    assert [json.loads(each) for each in found] == documents
    assert all(each in text.encode() for each in found)


def test_headers_blank_lines_codes_and_compression(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf\r\n ID;name\r\n1;x\r\n\r\n2;y")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"id;name\n3;z\n"))
    (tmp_path / "c.csv").write_bytes("id;name\n4;\xe4\n".encode("latin-1"))
    program = TextProgram(store={}, is_json=False, header=True, names=("id", "name"), delimiter=";")
    assert read(program, tmp_path / "a.csv", tmp_path / "b.csv.gz") == [b"1;x", b"2;y", b"3;z"]
    program = TextProgram(store={}, is_json=False, header=True, delimiter=";", encoding="ISO-8859-1")
    assert read(program, tmp_path / "c.csv") == ["4;\xe4".encode()]
    program = TextProgram(store={}, is_json=False, header=True, names=("name", "id"), delimiter=";")
    with pytest.raises(InvalidValue, match="does not name the columns"):
        read(program, tmp_path / "a.csv")


def test_what_is_cut_off_or_gone_is_told_apart(tmp_path):
    (tmp_path / "torn.csv.gz").write_bytes(gzip.compress(b"1,tea\n" * 10_000)[:-20])
    (tmp_path / "text.parquet").write_text("1,tea")
    with pytest.raises(QueryFailed) as caught:
        read(TextProgram(store={}, is_json=False), tmp_path / "torn.csv.gz")
    assert f"reading file {tmp_path}/torn.csv.gz. (FAILED_READ_FILE)" in caught.value.detail
    program = ParquetProgram(store={}, schema=pa.schema([("id", pa.int64()), ("\x1fsource", pa.string()), ("\x1findex", pa.int64())]))
    with pytest.raises(QueryFailed, match="can't be read"):
        read(program, tmp_path / "text.parquet")
    with pytest.raises(StorageError, match="is missing"):
        read(program, tmp_path / "nothing.parquet")


def test_columns_of_parquet_are_found_by_name(tmp_path):
    pq.write_table(pa.table({"B": pa.array([1, 2], pa.uint8()), "a": ["x", None]}), tmp_path / "a b.parquet")
    names = ["a", "b", "c", "\x1fsource", "\x1findex"]
    program = ParquetProgram(
        store={}, schema=pa.schema(list(zip(names, (pa.string(), pa.int16(), pa.date32(), pa.string(), pa.int64()), strict=True)))
    )
    rows = [row for batch in program.read([str(tmp_path / "a b.parquet")]) for row in batch.to_pylist()]
    source = f"file:{tmp_path}/a%20b.parquet"
    assert [tuple(row.values()) for row in rows] == [("x", 1, None, source, 0), (None, 2, None, source, 1)]
