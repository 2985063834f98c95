"""Reading streams through SQL: hidden columns, overruns, and snapshots that hold still."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.errors import CatalogueError, CatalogueReadOnly, PlatformError, SnapshotExpired, StorageError, StreamOverrun
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.read.read import read_rows
from platform_plugin.lake.upkeep import leases
from platform_plugin.platform import Platform
from platform_plugin.select import select

pytestmark = pytest.mark.spark


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        yield made


def append(platform, first, count, stream="posts"):
    return append_to(platform.lake, first, count, stream)


def append_to(lake, first, count, stream="posts"):
    table = lake.table(stream)
    with lake.commit("append") as commit:
        commit.append(table, [lake.write(table, pa.table({"n": pa.array(range(first, first + count), pa.int64())}))])
    return commit.made


def rows(platform, sql):
    return list(platform.execute(sql))


def test_row_ids_and_arrival_times_are_selected_by_name_only(platform):
    platform.execute("CREATE STREAM posts (n BIGINT) WITH (retention_rows = 4)")
    platform.execute("CREATE TABLE posts_all AS HISTORY OF posts")
    made = [append(platform, place * 3, 3) for place in range(4)]
    assert rows(platform, "SELECT _row_id, n, _arrived_at FROM posts ORDER BY 1") == [(n, n, made[n // 3].time) for n in range(6, 12)]
    assert rows(platform, "SELECT p._row_id, _arrived_at FROM posts_all p WHERE n = 4") == [(4, made[1].time)]
    assert platform.execute("SELECT * FROM posts").columns == ["n"]
    found = rows(platform, "SELECT count(DISTINCT _arrived_at), max(_row_id) FROM posts")
    assert found == [(2, 11)]
    platform.execute("CREATE TABLE plain (n BIGINT)")
    with pytest.raises(PlatformError, match="_row_id"):
        rows(platform, "SELECT _row_id FROM plain")


def test_a_columns_own_name_comes_before_the_hidden_one(platform):
    platform.execute("CREATE STREAM odd (n BIGINT, _row_id STRING) WITH (retention_rows = 4)")
    platform.execute("INSERT INTO odd VALUES (1, 'mine')")
    assert rows(platform, "SELECT _row_id FROM odd") == [("mine",)]


def test_arrival_times_follow_segments_into_merged_files_and_the_past(platform):
    platform.execute("CREATE STREAM posts (n BIGINT) WITH (retention_rows = 100)")
    made = [append(platform, place * 3, 3) for place in range(3)]
    platform.lake.merge("posts")
    assert rows(platform, "SELECT n, _row_id, _arrived_at FROM posts ORDER BY n") == [(n, n, made[n // 3].time) for n in range(9)]
    assert rows(platform, f"SELECT count(*), max(_arrived_at) FROM posts AT (VERSION => {made[1].id})") == [(6, made[1].time)]
    for place in range(3, 60):
        append(platform, place * 3, 3)
    assert rows(platform, "SELECT min(n), max(n), min(_row_id), count(*) FROM posts") == [(78, 179, 78, 102)]


def test_a_reader_whose_rows_left_is_told_how_far_behind_it_was(platform):
    platform.execute("CREATE STREAM posts (n BIGINT) WITH (retention_rows = 5, overrun_grace = '1 ms')")
    old = append(platform, 0, 5)
    with platform.execute("SELECT n FROM posts") as result:
        assert [row[0] for row in result] == [0, 1, 2, 3, 4]
    append(platform, 5, 5)
    append(platform, 10, 5)
    with pytest.raises(StreamOverrun, match=r"have left and are deleted") as error:
        rows(platform, f"SELECT * FROM posts AT (VERSION => {old.id})")
    assert "10 rows came since; it holds rows 10 to 14" in str(error.value.detail)


def test_a_query_that_spark_finds_its_files_gone_under_is_overrun(platform, monkeypatch):
    platform.execute("CREATE STREAM posts (n BIGINT) WITH (retention_rows = 5, overrun_grace = '1 ms')")
    append(platform, 0, 5)
    bind = select.bind_query

    def late(*args, **kwargs):
        bound = bind(*args, **kwargs)
        for place in range(1, 4):
            append(platform, place * 5, 5)
        return bound

    monkeypatch.setattr(select, "bind_query", late)
    with pytest.raises(StreamOverrun, match="have left"):
        rows(platform, "SELECT sum(n) FROM posts")


def merged_and_vacuumed(lake):
    """As if a lease had run out: its reader's files are merged away and deleted."""
    with lake.writing() as connection:
        connection.execute(sa.delete(c.PLATFORM_LEASE))
    lake.merge("posts")
    lake.vacuum(grace=timedelta(0))


def removed_by_hand(lake):
    for path, _ in list(lake.storage.listing("main/posts")):
        lake.storage.delete([path])


def expired(lake):
    append_to(lake, 10, 1)
    merged_and_vacuumed(lake)
    lake.expire(datetime.now(UTC) + timedelta(seconds=1))


@pytest.mark.parametrize(
    ("happens", "error"),
    [
        (merged_and_vacuumed, (SnapshotExpired, r"snapshot \d+ had its files merged while it was read", "no lease holds")),
        (expired, (SnapshotExpired, r"snapshot \d+ expired while it was read", "no lease holds")),
        (removed_by_hand, (StorageError, r'file "main/posts/.+\.parquet" of table "main\.posts" is missing', "is under lease until")),
    ],
)
def test_a_file_that_is_gone_is_told_as_what_it_is_by_spark_and_arrow_alike(platform, monkeypatch, happens, error):
    kind, says, lease = error
    platform.execute("CREATE STREAM posts (n BIGINT) WITH (retention_rows = 1000000)")
    lake = platform.lake
    for place in range(2):
        append(platform, place * 5, 5)
    with lake.lease() as held:
        scan = lake.scan(lake.table("posts"), held.snapshot)
    bind = select.bind_query

    def late(*args, **kwargs):
        bound = bind(*args, **kwargs)
        happens(lake)
        return bound

    monkeypatch.setattr(select, "bind_query", late)
    with pytest.raises(kind, match=says) as by_spark:
        rows(platform, "SELECT sum(n) FROM posts")
    files = "|".join(re.escape(file.path) for file in scan.files)
    assert re.search(rf'file "({files})" of table "main\.posts"', f"{by_spark.value}")
    assert lease in by_spark.value.detail
    with pytest.raises(kind, match=says) as by_arrow:
        read_rows(lake, scan)
    assert type(by_arrow.value) is type(by_spark.value)


def test_whatever_runs_under_a_lease_says_which_file_is_gone(platform):
    platform.execute("CREATE TABLE posts (n BIGINT)")
    append(platform, 0, 5)
    removed_by_hand(platform.lake)
    for sql in ("CREATE TABLE other AS SELECT n + 1 AS m FROM posts", "UPDATE posts SET n = n + 1 WHERE n IN (SELECT n FROM posts)"):
        with pytest.raises(StorageError, match=r'file "main/posts/.+\.parquet" of table "main\.posts" is missing') as error:
            platform.execute(sql)
        assert "is under lease until" in error.value.detail


def test_a_read_that_gets_no_lease_is_told(platform, monkeypatch):
    platform.execute("CREATE STREAM posts (n BIGINT)")
    append(platform, 0, 5)
    said = [
        CatalogueError("the catalogue is locked by another process"),
        CatalogueReadOnly("the catalogue can't be written"),
    ]

    def refused(*_args, **_kwargs):
        raise said.pop(0)

    monkeypatch.setattr(leases, "acquire_lease", refused)
    with pytest.raises(CatalogueError, match="locked"):
        rows(platform, "SELECT sum(n) FROM posts")
    assert rows(platform, "SELECT sum(n) FROM posts") == [(10,)]


def test_stream_and_tables_are_read_at_one_snapshot(platform):
    platform.execute("CREATE STREAM posts (n BIGINT) WITH (retention_rows = 1000)")
    platform.execute("CREATE TABLE seen (n BIGINT)")
    lake = platform.lake
    posts, seen = lake.table("posts"), lake.table("seen")
    for n in range(5):
        part = pa.table({"n": pa.array([n], pa.int64())})
        with lake.commit("both") as commit:
            commit.append(posts, [lake.write(posts, part)])
            commit.append(seen, [lake.write(seen, part)])
        assert rows(platform, "SELECT count(*), count(s.n) FROM posts p FULL JOIN seen s ON p.n = s.n") == [(n + 1, n + 1)]


def test_now_is_after_every_arrival(platform):
    platform.execute("CREATE STREAM posts (n BIGINT)")
    platform.execute("INSERT INTO posts VALUES (1)")
    ((arrived,),) = rows(platform, "SELECT _arrived_at FROM posts")
    assert arrived <= datetime.now(UTC)
