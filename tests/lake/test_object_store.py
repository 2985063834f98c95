"""A lake whose data is in an object store: written, read, merged and cleared by Arrow, through a server that speaks S3."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from platform_plugin.algebra.predicates.conditions import compare
from platform_plugin.errors import PathOutsideLake, PlatformError, StorageError
from platform_plugin.lake.files.storage import Storage
from platform_plugin.lake.lake import Lake
from platform_plugin.platform import Platform


@pytest.fixture
def url(postgres_database, s3_bucket):
    return postgres_database.lake_url(f"{s3_bucket}/lake")


def numbers(first, last):
    return pa.table({"id": list(range(first, last))})


def test_files_of_a_bucket_are_written_listed_and_deleted(s3_bucket):
    storage = Storage(f"{s3_bucket}/lake/")
    with storage.open("a b/x[1].parquet", "wb") as file:
        file.write(b"content")
    assert [(path, info["size"]) for path, info in storage.listing()] == [("a b/x[1].parquet", 7)]
    with storage.open("a b/x[1].parquet") as file:
        assert file.read() == b"content"
    assert storage.uri("x.parquet") == f"s3a{s3_bucket[2:]}/lake/x.parquet"
    assert (storage.delete(["a b/x[1].parquet"]), list(storage.listing())) == (1, [])
    with pytest.raises(StorageError, match="is missing"), storage.open("nothing"):
        pass
    with pytest.raises(PathOutsideLake):
        storage.absolute(f"{s3_bucket}/other/x")
    with pytest.raises(PlatformError), Storage("s3://no-such-bucket-anywhere/").open("x", "wb") as file:
        file.write(b"content")


@pytest.mark.postgres
def test_a_lake_in_a_bucket_is_written_and_read(url, s3_bucket):
    with Lake.create(url) as lake:
        with lake.commit("create") as commit:
            table = commit.create_table("t", lake.columns_of(numbers(0, 1)))
            commit.append(table, [lake.write(table, numbers(0, 10)), lake.write(table, numbers(10, 20))])
        assert sorted(lake.read("t").column("id").to_pylist()) == list(range(20))
        assert lake.read("t", where=compare("id", ">", 17)).num_rows == 2
        assert lake.storage.root == f"{s3_bucket}/lake/"


@pytest.mark.postgres
@pytest.mark.slow
def test_statements_and_streams_on_a_lake_in_a_bucket(url):
    with Platform.create(url) as platform:
        platform.execute("CREATE TABLE users (id INT, name STRING)")
        platform.execute("INSERT INTO users VALUES (1, 'Ada'), (2, 'Grace')")
        platform.execute("CREATE STREAM s (id INT) WITH (retention_rows = 10)")
        stream = platform.stream("s")
        for first in range(0, 40, 10):
            stream.append(numbers(first, first + 10).cast(pa.schema([("id", pa.int32())])))
            stream.flush()
    with Lake.open(url) as lake:
        assert lake.read("users").to_pylist() == [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Grace"}]
        assert lake.read("users", columns=["name"]).num_rows == 2
        assert sorted(lake.read("s").column("id").to_pylist()) == list(range(30, 40))


@pytest.mark.postgres
@pytest.mark.slow
def test_maintenance_of_a_lake_in_a_bucket(url):
    with Lake.create(url) as lake:
        with lake.commit("create") as commit:
            table = commit.create_table("t", lake.columns_of(numbers(0, 1)))
        for first in range(0, 100, 10):
            with lake.commit("more") as commit:
                commit.append(table, [lake.write(table, numbers(first, first + 10))])
        before = {path for path, _ in lake.storage.listing()}
        lake.merge("t")
        lake.expire(datetime.now(UTC) + timedelta(seconds=1))
        lake.vacuum(grace=timedelta(0))
        after = {path for path, _ in lake.storage.listing()}
        assert sorted(lake.read("t").column("id").to_pylist()) == list(range(100))
        assert len(after) < len(before)
