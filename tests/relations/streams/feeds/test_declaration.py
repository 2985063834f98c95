"""Feeds: what is refused when a stream is created, where the error points, and that a feed reads back as it was written."""

from __future__ import annotations

import json
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from platform_plugin.errors import PlatformError
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.feeds.declaration import FilesFeed, KafkaFeed, read_declared_feed


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        yield platform


def declared(platform, name="s"):
    with platform.lake.reading() as connection:
        return read_declaration(connection, platform.lake.table(name).uuid)


@pytest.mark.parametrize(
    ("statement", "message", "pointed"),
    [
        ("CREATE STREAM s (a INT) FROM FILES '/d/*' ", "format of", "'/d/*'"),
        ("CREATE STREAM s (a INT) FROM FILES '/d/*.avro' (FORMAT avro)", "Avro can't be read", "FORMAT avro"),
        ("CREATE STREAM s (a INT) FROM FILES '/d/' (FORMAT csv)", "is a folder", "'/d/'"),
        ("CREATE STREAM s (a INT) FROM FILES '/d/_x.csv'", "hidden to Spark", "'/d/_x.csv'"),
        ("CREATE STREAM s (a INT) FROM FILES 's3://key:secret@b/*.csv'", "credentials", "'s3://key:secret@b/*.csv'"),
        ("CREATE STREAM s (a ARRAY<INT>) FROM FILES '/d/*.csv'", "which CSV can't hold", "'/d/*.csv'"),
        ("CREATE STREAM s FROM FILES '/nowhere/*.parquet'", "no file matches", "'/nowhere/*.parquet'"),
        ("CREATE STREAM s (a INT) FROM FILES '/d/*.csv' (max_files 0)", "no batch could hold anything", "max_files 0"),
        ("CREATE STREAM s (a INT) FROM FILES '/d/*.csv' (extra_fields 'quarantine')", "only seen in JSON files", "'/d/*.csv'"),
        ("CREATE STREAM s (a INT) FROM KAFKA 'h:1/t' (FORMAT csv, extra_fields 'quarantine')", "only seen in JSON", "'h:1/t'"),
        ("CREATE STREAM s (a INT) FROM KAFKA 'host:9092'", "does not name a topic", "'host:9092'"),
        ("CREATE STREAM s (a INT) FROM KAFKA 'u:p@host:9092/t'", "credentials", "'u:p@host:9092/t'"),
        ("CREATE STREAM s FROM TABLE nobody", 'table "main.nobody" does not exist', "nobody"),
    ],
)
def test_what_can_not_be_pulled_is_refused_at_its_place(platform, statement, message, pointed):
    with pytest.raises(PlatformError) as caught:
        platform.execute(statement)
    assert message in caught.value.message
    assert caught.value.hint
    assert caught.value.column == statement.index(pointed) + 1
    assert [table.name for table in platform.lake.tables()] == []


def test_a_feed_over_the_lakes_own_files_is_refused(platform):
    with pytest.raises(PlatformError, match="own data folder"):
        platform.execute(f"CREATE STREAM s (a INT) FROM FILES '{platform.lake.storage.root}main/*/*.parquet'")


@pytest.mark.parametrize(
    "feed",
    [
        "FILES '/d/*.csv' (format = 'csv', header = true, settle = '5 seconds', max_bytes = 1000)",
        "FILES '/d/*.json' (format = 'json', on_malformed = 'fail')",
        "KAFKA 'one:1,two:2/posts' (start = 'latest', on_gap = 'skip', max_rows = 5)",
    ],
)
def test_a_feed_is_written_back_as_it_was_declared(platform, feed):
    platform.execute(f"CREATE STREAM s (a INT) FROM {feed}")
    first = read_declared_feed(declared(platform))
    said = platform.execute("SHOW CREATE TABLE s").arrow().column("statement")[0].as_py()
    platform.execute(said.replace("main.s", "again"))
    assert read_declared_feed(declared(platform, "again")) == first
    json.dumps(declared(platform).options)


def test_options_reach_the_feed(platform):
    platform.execute("CREATE STREAM s (a INT) FROM FILES '/d/x-*.tsv.gz' (settle '2 seconds', on_change 'fail')")
    feed = read_declared_feed(declared(platform))
    assert feed == FilesFeed(glob="/d/x-*.tsv.gz", format="csv", reader={"delimiter": "\t"}, settle=timedelta(seconds=2), on_change="fail")
    platform.execute("CREATE STREAM k (a INT) FROM KAFKA 'one:1/posts' (start 'latest')")
    assert read_declared_feed(declared(platform, "k")) == KafkaFeed(brokers="one:1", topic="posts", start="latest")


def test_parquet_brings_its_own_columns(platform, tmp_path):
    (tmp_path / "in").mkdir()
    rows = pa.table({"id": pa.array([1], pa.int64()), "tags": pa.array([["a"]]), "at": pa.array([0], pa.timestamp("us", "UTC"))})
    pq.write_table(rows, tmp_path / "in" / "a.parquet")
    platform.execute(f"CREATE STREAM s FROM FILES '{tmp_path}/in/*.parquet'")
    found = [(field.name, str(field.type)) for field in platform.lake.table("s").fields]
    assert found == [("id", "BIGINT"), ("tags", "ARRAY<STRING>"), ("at", "TIMESTAMP")]


def test_a_relative_glob_means_the_same_from_everywhere(platform, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    platform.execute("CREATE STREAM s (a INT) FROM FILES 'in/*.csv'")
    assert read_declared_feed(declared(platform)).glob == f"{tmp_path}/in/*.csv"


def test_a_feed_is_altered_option_by_option(platform):
    platform.execute("CREATE STREAM s (a INT) FROM FILES '/d/*.csv' (HEADER, max_files 5) WITH (retention_rows = 10)")
    platform.execute("ALTER STREAM s SET (on_malformed = 'fail', settle = '3 seconds', retention_rows = 20)")
    feed = read_declared_feed(declared(platform))
    assert feed == FilesFeed(
        glob="/d/*.csv", format="csv", reader={"header": True}, max_files=5, on_malformed="fail", settle=timedelta(seconds=3)
    )
    assert declared(platform).options["retention_rows"] == 20
    platform.execute("ALTER STREAM s SET (retention_rows = 30)")
    assert read_declared_feed(declared(platform)) == feed


@pytest.mark.parametrize(
    ("create", "option", "message"),
    [
        ("CREATE STREAM s (a INT) FROM FILES '/d/*.csv'", "on_gap = 'skip'", 'a feed from files has no option "on_gap"'),
        ("CREATE STREAM s (a INT) FROM KAFKA 'h:1/t'", "settle = '1 second'", 'a feed from kafka has no option "settle"'),
        ("CREATE STREAM s (a INT)", "max_rows = 5", "the stream has none"),
        ("CREATE STREAM s (a ARRAY<INT>) FROM FILES '/d/*.json'", "format = 'csv'", "which CSV can't hold"),
    ],
)
def test_options_that_a_feed_does_not_have(platform, create, option, message):
    platform.execute(create)
    before = declared(platform)
    with pytest.raises(PlatformError) as caught:
        platform.execute(f"ALTER STREAM s SET ({option})")
    assert message in caught.value.message
    assert caught.value.line == 1
    assert declared(platform) == before
