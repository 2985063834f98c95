"""A history takes up what leaves its stream: together they hold every row exactly once, at every snapshot."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from platform_plugin.errors import InvalidValue, ObjectExists, StorageError
from platform_plugin.lake.read.read import read_rows
from platform_plugin.platform import Platform


@pytest.fixture
def platform(lake_url):
    with Platform.create(lake_url) as made:
        yield made


def define(platform, **options):
    limits = ", ".join(f"{name} = {value}" for name, value in {"retention_rows": 10, **options}.items())
    platform.execute(f"CREATE STREAM posts (n BIGINT, word STRING) WITH ({limits})")
    platform.execute("CREATE TABLE posts_all AS HISTORY OF posts")


def append(platform, first, count):
    lake = platform.lake
    table = lake.table("posts")
    rows = pa.table({"n": pa.array(range(first, first + count), pa.int64()), "word": [f"w{n}" for n in range(first, first + count)]})
    with lake.commit("append") as commit:
        commit.append(table, [lake.write(table, rows)])


def both(platform, snapshot=None):
    lake = platform.lake
    snapshot = snapshot or lake.snapshot()
    with lake.lease(snapshot):
        return [row for name in ("posts_all", "posts") for row in lake.read(name, snapshot=snapshot).column("n").to_pylist()]


def test_every_row_is_there_once_at_every_snapshot_and_no_file_is_copied(platform, duck, lake_url):
    define(platform)
    first = platform.lake.snapshot().id
    for place in range(12):
        append(platform, place * 4, 4)
    folder = Path(platform.lake.storage.absolute(""))
    assert len(list(folder.rglob("*.parquet"))) == 12
    newest = platform.lake.snapshot().id
    for version in range(first, newest + 1):
        assert both(platform, platform.lake.snapshot(version)) == list(range(4 * (version - first)))
    assert platform.lake.read("posts").num_rows == 12
    reader = duck(lake_url)
    assert reader.rows("SELECT count(*), count(DISTINCT n), max(n) FROM (FROM lake.posts UNION ALL FROM lake.posts_all)") == [(48, 48, 47)]
    assert reader.rows("SELECT word FROM lake.posts_all WHERE n = 7") == [("w7",)]


def test_a_reader_beside_the_writers_never_misses_or_repeats_a_row(platform):
    define(platform)
    stop = threading.Event()
    wrong = []

    def read():
        while not stop.is_set():
            rows = both(platform)
            if rows != list(range(len(rows))):
                wrong.append(rows)

    reader = threading.Thread(target=read)
    reader.start()
    for place in range(40):
        append(platform, place * 3, 3)
    stop.set()
    reader.join()
    assert not wrong
    assert both(platform) == list(range(120))


def test_columns_change_with_the_stream_by_the_same_ids(platform, duck, lake_url):
    define(platform)
    platform.execute("ALTER STREAM posts ADD COLUMN gone INT")
    platform.execute("ALTER STREAM posts DROP COLUMN gone")
    platform.execute("DROP TABLE posts_all")
    platform.execute("CREATE TABLE posts_all AS HISTORY OF posts")
    append(platform, 0, 10)
    platform.execute("ALTER STREAM posts ADD COLUMN score INT DEFAULT 7")
    platform.execute("ALTER STREAM posts RENAME COLUMN word TO text")
    for n in range(10, 20):
        platform.execute("INSERT INTO posts VALUES (?, ?, 1)", [n, f"w{n}"])
    platform.execute("INSERT INTO posts VALUES (20, 'w20', 1)")
    rows = platform.lake.read("posts_all").to_pylist()
    assert rows[0] == {"n": 0, "text": "w0", "score": 7}
    assert {row["score"] for row in rows[10:]} == {1}
    assert [field.id for field in platform.lake.table("posts").fields] == [field.id for field in platform.lake.table("posts_all").fields]
    assert duck(lake_url).rows("SELECT text, score FROM lake.posts_all WHERE n IN (3, 10) ORDER BY n") == [("w3", 7), ("w10", 1)]


def test_rows_that_another_client_deleted_from_the_stream_stay_deleted(platform, duck, lake_url):
    define(platform)
    append(platform, 0, 10)
    reader = duck(lake_url)
    reader.execute("DELETE FROM lake.posts WHERE n IN (2, 5)")
    append(platform, 10, 10)
    reader.execute("DELETE FROM lake.posts WHERE n = 11")
    start = platform.lake.snapshot()
    append(platform, 20, 10)
    expected = [n for n in range(20) if n not in (2, 5, 11)]
    assert platform.lake.read("posts_all").column("n").to_pylist() == expected
    assert [n for (n,) in reader.rows("SELECT n FROM lake.posts_all ORDER BY n")] == expected
    fed = platform.lake.changes("posts_all", after=start).read(platform.lake)
    assert [(row["n"], row["change_type"]) for row in fed.to_pylist()] == [(n, "insert") for n in expected if n >= 10]
    reader.execute("DELETE FROM lake.posts_all WHERE n = 7")
    assert 7 not in platform.lake.read("posts_all").column("n").to_pylist()


def test_a_history_outlives_its_stream_and_a_dropped_history_is_forgotten(platform):
    define(platform)
    for place in range(5):
        append(platform, place * 5, 5)
    kept = platform.lake.read("posts_all").column("n").to_pylist()
    platform.execute("DROP STREAM posts")
    assert platform.lake.read("posts_all").column("n").to_pylist() == kept == list(range(15))
    platform.execute("DROP TABLE posts_all")
    define(platform)
    platform.execute("DROP TABLE posts_all")
    for place in range(5):
        append(platform, place * 5, 5)
    assert platform.lake.read("posts").column("n").to_pylist() == list(range(15, 25))


def test_rows_that_another_client_keeps_in_the_catalogue_wait_for_a_merge(platform, duck, lake_url):
    define(platform)
    duck(lake_url).execute("INSERT INTO lake.posts SELECT n, 'd' FROM range(3) t(n)")
    append(platform, 3, 20)
    assert sorted(both(platform)) == list(range(23))


def test_vacuum_keeps_the_files_of_a_history(platform):
    from datetime import UTC, datetime, timedelta

    define(platform)
    for place in range(6):
        append(platform, place * 5, 5)
    platform.lake.expire(datetime.now(UTC) + timedelta(seconds=1))
    platform.lake.vacuum(grace=timedelta(0))
    assert both(platform) == list(range(30))


def test_a_file_that_two_relations_had_stays_for_readers_of_the_one_that_let_it_go_last(platform):
    from datetime import UTC, datetime, timedelta

    define(platform)
    for place in range(6):
        append(platform, place * 5, 5)
    lake = platform.lake
    # The stream lets go of the files that its history has now; they are scheduled, and needed.
    lake.expire(datetime.now(UTC) + timedelta(seconds=1))
    with lake.lease() as lease:
        scan = lake.scan(lake.table("posts_all", lease.snapshot), lease.snapshot)
        # The history lets go of them too, after the reader has looked.
        assert lake.merge("posts_all").files_before == len(scan.files) > 1
        lake.vacuum(grace=timedelta(0))
        assert sorted(read_rows(lake, scan).column("n").to_pylist()) == list(range(20))
    done = lake.vacuum(grace=timedelta(0))
    assert done.bytes > 0
    with pytest.raises(StorageError):
        lake.storage.size(scan.files[0].path)
    assert both(platform) == list(range(30))


@pytest.mark.parametrize(
    ("sql", "error", "says"),
    [
        ("CREATE TABLE h AS HISTORY OF users", InvalidValue, "not a stream"),
        ("CREATE TABLE h AS HISTORY OF post", Exception, "does not exist"),
        ("CREATE TABLE h AS HISTORY OF posts", ObjectExists, "has a history already"),
        ("CREATE TABLE posts_all AS HISTORY OF posts", ObjectExists, "has a history already"),
        ("CREATE TABLE other.h AS HISTORY OF posts", InvalidValue, "schema"),
        ("INSERT INTO posts_all VALUES (1, 'x')", InvalidValue, "takes its rows from its stream"),
        ("ALTER TABLE posts_all ADD COLUMN x INT", InvalidValue, "changes with it"),
    ],
)
def test_what_can_not_be_is_said_and_changes_nothing(platform, sql, error, says):
    define(platform)
    platform.execute("CREATE TABLE users (id INT)")
    platform.execute("CREATE SCHEMA other")
    before = platform.lake.snapshot().id
    with pytest.raises(error, match=says):
        platform.execute(sql)
    assert platform.lake.snapshot().id == before
