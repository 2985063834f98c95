"""Files of an object store: listed, looked at and read as those of a disk, by a server that speaks S3."""

import gzip

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.errors import InvalidValue, StorageError
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.feeds.declaration import FilesFeed
from platform_plugin.relations.streams.feeds.file_listing import open_system, plan_batch, read_changed, read_listing
from platform_plugin.relations.streams.feeds.file_reading import source_key, spark_path
from platform_plugin.relations.streams.feeds.file_shapes import read_columns, read_shapes
from platform_plugin.relations.streams.feeds.ingest import run_ingest

FIELDS = (Field(name="id", type=Primitive("int32")), Field(name="name", type=Primitive("varchar")))


def put(url, content):
    with fsspec.open(url, "wb") as file:
        file.write(content)


def shapes(url, *, format_="csv", **reader):
    feed = FilesFeed(glob=url, format=format_, reader=reader)
    return read_shapes(feed, read_listing(url), FIELDS)


@pytest.mark.parametrize("store", ["s3", "memory"])
def test_headers_are_read_on_any_store(store, request):
    bucket = request.getfixturevalue("s3_bucket") if store == "s3" else "memory://headers"
    put(f"{bucket}/in/a.csv", b"\n  \nname,id\nx,1\n")
    put(f"{bucket}/in/b.csv", b"id,name")
    put(f"{bucket}/in/c.csv.gz", gzip.compress(b"id,name\r\n1,x\r\n"))
    put(f"{bucket}/in/d.csv", b"id,nobody\n1,x\n")
    put(f"{bucket}/in/e.csv", b"\n\n")
    put(f"{bucket}/in/_hidden.csv", b"id\n1\n")
    found = shapes(f"{bucket}/in/*.csv*", header=True)
    assert [(tuple(column.name for column in shape.columns), len(files)) for shape, files in found.groups] == [
        (("name", "id"), 1),
        (("id", "name"), 2),
    ]
    assert [file.uri.rsplit("/", 1)[1] for file in found.empty] == ["e.csv"]
    assert [one.reason for one in found.refused] == ['its header names a column "nobody" that the stream does not have']


def test_a_header_without_an_end_is_bounded(s3_bucket):
    put(f"{s3_bucket}/long.csv", b"x" * (3 << 20))
    (refused,) = shapes(f"{s3_bucket}/*.csv", header=True).refused
    assert "its header can't be read" in refused.reason


def test_footers_changes_and_names(s3_bucket):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "name": ["x"]}), sink)
    put(f"{s3_bucket}/p/a b[1].parquet", sink.getvalue().to_pybytes())
    glob = f"{s3_bucket}/p/*.parquet"
    (listed,) = read_listing(glob)
    assert listed.uri == f"{s3_bucket}/p/a b[1].parquet"
    assert source_key(spark_path(listed.uri).replace("\\", "").replace(" ", "%20")) == listed.uri
    assert [field.name for field in read_columns(FilesFeed(glob=glob, format="parquet"))] == ["id", "name"]
    ((shape, _),) = shapes(glob, format_="parquet").groups
    assert [column.name for column in shape.columns] == ["id", "name"]
    assert plan_batch([listed], {}, max_files=1, max_bytes=1).files == (listed,)
    assert read_changed([listed]) == []
    put(listed.uri, b"other")
    assert read_changed([listed]) == [listed]


def test_a_bucket_that_is_not_there_is_told(s3_endpoint):
    assert read_listing("s3://nobody-has-this/*.csv") == []
    system, path = open_system("s3://nobody-has-this/x.csv")
    with pytest.raises(FileNotFoundError):
        system.info(path)


@pytest.mark.spark
@pytest.mark.parametrize(("place", "extra"), [("gs://box/x.csv", "gcs"), ("abfss://box@x.dfs.core.windows.net/x.csv", "azure")])
def test_copy_names_the_extra_that_is_missing(place, extra, spark_server, tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE t (id INT, name STRING)")
        with pytest.raises(StorageError, match="no file system for") as caught:
            platform.execute(f"COPY t FROM '{place}' (HEADER)")
        assert f"platform-plugin[{extra}]" in caught.value.hint


@pytest.mark.spark
def test_files_of_a_store_are_copied_and_ingested_without_a_jar(s3_bucket, spark_server, tmp_path):
    put(f"{s3_bucket}/in/a b.csv", b"name,id\nx,1\ny,2\n")
    put(f"{s3_bucket}/in/c%20.csv", b"id,name\nbad,z\n3,w\n")
    put(f"{s3_bucket}/in/torn.csv.gz", gzip.compress(b"id,name\n" + b"1,tea\n" * 10_000)[:-20])
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE t (id INT, name STRING)")
        platform.execute(f"COPY t (name, id) FROM '{s3_bucket}/in/a*.csv' (HEADER)")
        assert sorted(platform.execute("SELECT id, name FROM t")) == [(1, "x"), (2, "y")]
        with pytest.raises(InvalidValue, match="does not name the columns"):
            platform.execute(f"COPY t (name, id) FROM '{s3_bucket}/in/c*.csv' (HEADER)")
        with pytest.raises(InvalidValue, match="do not fit the table") as caught:
            platform.execute(f"COPY t FROM '{s3_bucket}/in/c*.csv' (HEADER)")
        assert "bad,z" in caught.value.detail
        with pytest.raises(StorageError, match="no file matches"):
            platform.execute(f"COPY t FROM '{s3_bucket}/out/*.csv'")
        platform.execute(f"CREATE STREAM s (id INT, name STRING) FROM FILES '{s3_bucket}/in/*' (FORMAT csv, HEADER)")
        report = run_ingest(platform.work, "s")
        assert (report.rows, report.quarantined, report.refused) == (3, 1, (f"{s3_bucket}/in/torn.csv.gz",))
        assert sorted(platform.execute("SELECT id, name FROM s")) == [(1, "x"), (2, "y"), (3, "w")]
        found = {row["source"]: row["raw"] for row in platform.lake.read("s__quarantine").to_pylist()}
        assert found[f"{s3_bucket}/in/c%20.csv"] == b"bad,z"
