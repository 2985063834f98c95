"""Shapes: what a header or footer says, and what follows for whether records have to be looked at."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.relations.streams.feeds.declaration import FilesFeed
from platform_plugin.relations.streams.feeds.file_listing import read_listing
from platform_plugin.relations.streams.feeds.file_reading import may_be_malformed
from platform_plugin.relations.streams.feeds.file_shapes import read_shapes

INT = Primitive("int32")
ID, NAME = Field(name="id", type=INT, nullable=False), Field(name="name", type=Primitive("varchar"))


def shapes(folder, *, format_="parquet", fields=(ID, NAME), **reader):
    feed = FilesFeed(glob=f"{folder}/*", format=format_, reader=reader)
    return feed, read_shapes(feed, read_listing(feed.glob), fields)


@pytest.mark.parametrize(
    ("columns", "doubtful"),
    [
        ({"id": pa.array([1, 2], pa.int32()), "name": ["a", None]}, False),
        ({"id": pa.array([1, None], pa.int32())}, True),
        ({"id": pa.array([1, 2], pa.int64())}, True),
        ({"ID": pa.array([1, 2], pa.int32())}, False),
    ],
)
def test_typed_values_without_null_need_no_look(tmp_path, columns, doubtful):
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=1)
    feed, found = shapes(tmp_path)
    assert may_be_malformed(feed, found.groups, (ID, NAME)) == doubtful


def test_null_where_it_may_be_does_not_set_files_apart(tmp_path):
    for number, name in enumerate(["a", None]):
        pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "name": pa.array([name], pa.string())}), tmp_path / f"{number}.parquet")
    assert len(shapes(tmp_path)[1].groups) == 1


def test_columns_whose_nulls_are_not_counted_are_doubtful(tmp_path):
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), tmp_path / "a.parquet", write_statistics=False)
    feed, found = shapes(tmp_path)
    assert may_be_malformed(feed, found.groups, (ID,))


def test_times_that_spark_can_not_read_are_refused(tmp_path):
    at = Field(name="at", type=Primitive("timestamptz"))
    pq.write_table(pa.table({"at": pa.array([1], pa.timestamp("ns"))}), tmp_path / "ns.parquet", version="2.6")
    pq.write_table(pa.table({"at": pa.array([1], pa.timestamp("ns"))}), tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)
    _, found = shapes(tmp_path, fields=(at,))
    assert [one.reason for one in found.refused] == ['its column "at" holds nanoseconds, which Spark can\'t read']
    ((shape, files),) = found.groups
    assert (files[0].uri, shape.columns[0].type) == (f"{tmp_path}/old.parquet", Primitive("timestamptz"))


@pytest.mark.parametrize(
    ("content", "reader", "expected"),
    [
        (b"id,name\n1,a\n", {}, ["id", "name"]),
        (b"\xef\xbb\xbfname,id\n", {}, ["name", "id"]),
        (b"\n\nid\n1\n", {}, ["id"]),
        (b'"id";"na""me"\n', {"delimiter": ";"}, 'its header names a column "na"me" that the stream does not have'),
        (b"i\xffd\n", {}, "its header can't be read"),
        (b"\n \n", {}, None),
    ],
)
def test_headers(tmp_path, content, reader, expected):
    (tmp_path / "a.csv").write_bytes(content)
    _, found = shapes(tmp_path, format_="csv", header=True, **reader)
    if expected is None:
        assert len(found.empty) == 1
    elif isinstance(expected, str):
        assert found.refused[0].reason.startswith(expected)
    else:
        ((shape, _),) = found.groups
        assert [column.name for column in shape.columns] == expected
