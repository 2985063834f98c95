"""The handle: what may be appended, what is refused at once, and when it is closed."""

import threading
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from platform_plugin.errors import InvalidValue, PlatformError, StorageError, UnknownObject
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.append import Grouping


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM posts (uid INT NOT NULL, username STRING, score DECIMAL(9,2), at TIMESTAMP)")
        yield made


@pytest.fixture
def posts(platform):
    with platform.stream("posts") as stream:
        yield stream


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ROW = {"uid": 1, "username": "Ada", "score": Decimal("1.50"), "at": NOON}


@pytest.mark.parametrize(
    "rows",
    [
        [ROW],
        pa.Table.from_pylist([ROW]),
        pa.RecordBatch.from_pylist([ROW]),
        pd.DataFrame([ROW]),
        pa.Table.from_pylist([ROW]).select(["at", "score", "username", "uid"]),
        pa.Table.from_pylist([ROW]).rename_columns(["UID", "Username", "SCORE", "At"]),
        [{"UID": 1, "username": "Ada", "score": 1.5 and Decimal("1.5"), "at": "2026-01-31T12:00:00+00:00"}],
    ],
)
def test_rows_in_any_form(platform, posts, rows):
    assert posts.append(rows, wait=True).result().row_count == 1
    assert platform.lake.read("posts").to_pylist() == [ROW]


def test_missing_columns_take_their_default(platform, posts):
    platform.execute("ALTER STREAM posts ADD COLUMN kind STRING DEFAULT 'post'")
    posts.append([{"uid": 1}, {"uid": 2, "kind": None}, {"uid": 3, "kind": "x"}], wait=True)
    posts.append(pa.table({"uid": pa.array([4], pa.int32())}), wait=True)
    assert platform.lake.read("posts", columns=["uid", "kind"]).to_pylist() == [
        {"uid": 1, "kind": "post"},
        {"uid": 2, "kind": None},
        {"uid": 3, "kind": "x"},
        {"uid": 4, "kind": "post"},
    ]


BAD = {
    "a text for a number": ([{"uid": "one"}], "uid"),
    "a fraction for a whole number": ([{"uid": 1.5}], "uid"),
    "a number out of range": ([{"uid": 2**40}], "out of range"),
    "a decimal too large": ([{"uid": 1, "score": Decimal("1e20")}], "score"),
    "an unknown column": ([{"uid": 1, "colour": "red"}], '"colour" is not in'),
    "a column twice": ([{"uid": 1, "UID": 2}], "twice"),
    "no value where one must be": ([{"username": "Ada"}], "NULL"),
    "NULL where none may be": ([{"uid": None}], "NULL"),
    "a row that is no dict": ([(1, "Ada")], "tuple"),
    "a text": ("uid=1", "str"),
    "nothing": (None, "NoneType"),
    "arrow of another type": (pa.table({"uid": ["one"]}), "uid"),
    "arrow that would lose something": (pa.table({"uid": [1.5]}), "uid"),
    "arrow with NULL": (pa.table({"uid": pa.array([1, None], pa.int32())}), "NULL"),
    "arrow with an unknown column": (pa.table({"uid": [1], "colour": ["red"]}), '"colour" is not in'),
    "arrow with a column twice": (pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["uid", "uid"]), "twice"),
    "a frame of another type": (pd.DataFrame({"uid": ["one"]}), "uid"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_rows_are_refused_at_once_and_disturb_nobody(platform, posts, name):
    rows, said = BAD[name]
    before = posts.append([{"uid": 1}])
    with pytest.raises(InvalidValue, match=said) as raised:
        posts.append(rows)
    assert raised.value.hint or raised.value.detail
    after = posts.append([{"uid": 2}])
    posts.flush()
    assert [before.result().row_count, after.result().row_count] == [1, 1]
    assert platform.lake.read("posts").column("uid").to_pylist() == [1, 2]


def test_a_frame_may_be_changed_after_it_was_appended(platform):
    with platform.stream("posts", grouping=Grouping(linger=timedelta(seconds=5))) as stream:
        values = np.arange(1000, dtype=np.int32)
        frame = pd.DataFrame({"uid": values}, copy=False)
        stream.append(frame)
        values[:] = -1
        frame.loc[:, "uid"] = -1
    assert platform.lake.read("posts").column("uid").to_pylist() == list(range(1000))


def test_nested_and_odd_types(platform):
    platform.execute("CREATE STREAM odd (u UUID, tags ARRAY<STRING>, m MAP<STRING, INT>, p STRUCT<x: INT, y: DATE>, b BINARY, f FLOAT)")
    u = UUID("12345678-1234-5678-1234-567812345678")
    row = {"u": u, "tags": ["a", "ü", "", "x" * 13], "m": {"k": 1}, "p": {"x": 1, "y": date(2026, 1, 1)}, "b": b"\0\1", "f": 1.5}
    with platform.stream("odd") as stream:
        stream.append([row, dict.fromkeys(row)], wait=True)
    first, second = platform.lake.read("odd").to_pylist()
    assert first | {"m": dict(first["m"])} == row
    assert set(second.values()) == {None}


def test_long_values_and_laps(platform, posts):
    """RS-10: strings of length 0, 12, 13 and a megabyte, not only ASCII, read back equal."""
    texts = ["", "x" * 12, "y" * 13, "z" * 1_000_000, "é" * 7, "日本" * 500, "😀" * 3]
    for lap in range(5):
        posts.append([{"uid": lap, "username": text} for text in texts])
    posts.flush()
    assert platform.lake.read("posts").column("username").to_pylist() == texts * 5


def test_empty_appends(platform, posts):
    before = platform.lake.snapshot().id
    for rows in ([], pa.table({"uid": pa.array([], pa.int32())}), pd.DataFrame({"uid": np.array([], dtype=np.int32)})):
        assert posts.append(rows).result().row_count == 0
    assert platform.lake.snapshot().id == before


def test_a_closed_stream_takes_nothing(platform):
    with platform.stream("posts") as stream:
        stream.append([{"uid": 1}])
    assert platform.lake.read("posts").num_rows == 1
    with pytest.raises(InvalidValue, match="is closed"):
        stream.append([{"uid": 2}])
    stream.close()


def test_closing_one_handle_leaves_the_others(platform):
    one, other = platform.stream("posts"), platform.stream("posts")
    one.close()
    other.append([{"uid": 1}], wait=True)
    assert platform.lake.read("posts").column("uid").to_pylist() == [1]


def test_any_handle_waits_for_all_appends_of_its_platform(platform):
    """Without that the rows come after a linger of half a minute."""
    for grouping in (None, Grouping(linger=timedelta(seconds=30))):
        receipt = platform.stream("posts", grouping=grouping).append([{"uid": 1}])
        platform.stream("posts").flush()
        assert receipt.done()
    assert platform.lake.read("posts").num_rows == 2


def test_a_statement_reads_what_its_platform_has_appended(platform):
    slow = Grouping(linger=timedelta(seconds=30))
    for read in (lambda: len(list(platform.execute("SELECT uid FROM posts WHERE uid >= 0"))), lambda: platform.execute("DESCRIBE posts")):
        receipt = platform.stream("posts", grouping=slow).append([{"uid": 1}, {"uid": 2}])
        platform.execute("COMMENT ON STREAM posts IS 'reads nothing'")
        platform.execute("SHOW STREAMS", wait_for_appends=False)
        assert not receipt.done()
        assert read() == 2 or receipt.done()
        assert receipt.done()


def test_a_failed_append_is_told_once_by_any_handle_and_by_its_own(platform, monkeypatch):
    def full(*_):
        raise StorageError("the disk is full", hint="make room")

    mine = platform.stream("posts")
    with monkeypatch.context() as patch:
        patch.setattr(platform.lake, "write", full)
        mine.append([{"uid": 1}])
        assert len(list(platform.execute("SHOW STREAMS"))) == 1, "the statement itself is all right"
        with pytest.raises(StorageError):
            platform.stream("posts").flush()
        platform.stream("posts").flush()
        with pytest.raises(StorageError):
            mine.close()
    mine.flush()


def test_a_statement_waits_for_appends_no_longer_than_it_may(platform, monkeypatch):
    gate, plain = threading.Event(), platform.lake.commit
    monkeypatch.setattr(platform.lake, "commit", lambda *a, **k: gate.wait(30) and plain(*a, **k))
    platform.stream("posts").append([{"uid": 3}])
    with pytest.raises(PlatformError, match="1 appends to stream"):
        platform.execute("SHOW STREAMS", timeout=timedelta(seconds=0.05))
    gate.set()


def test_closing_the_platform_commits(tmp_path):
    with Platform.create(tmp_path / "closing") as platform:
        platform.execute("CREATE STREAM s (id INT)")
        platform.stream("s").append([{"id": 1}])
    with Platform.open(tmp_path / "closing") as platform:
        assert platform.lake.read("s").num_rows == 1


def test_an_error_in_the_block_is_not_hidden_and_rows_are_kept(platform):
    def broken():
        with platform.stream("posts") as stream:
            stream.append([{"uid": 1}])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert platform.lake.read("posts").num_rows == 1


def test_only_streams_are_opened(platform):
    platform.execute("CREATE TABLE users (id INT)")
    with pytest.raises(InvalidValue, match="is a table, not a stream"):
        platform.stream("users")
    with pytest.raises(UnknownObject, match="does not exist"):
        platform.stream("post")
    with pytest.raises(InvalidValue, match="when_full"):
        platform.stream("posts", when_full="drop")


def test_other_schemas(platform):
    platform.execute("CREATE SCHEMA web")
    platform.execute("CREATE STREAM web.clicks (id INT)")
    with platform.stream(("web", "clicks")) as stream:
        stream.append([{"id": 1}])
    assert platform.lake.read(("web", "clicks")).num_rows == 1


def test_row_ids_have_no_gaps(platform, posts):
    for number in range(40):
        posts.append([{"uid": number}] * (1 + number % 3), wait=number % 7 == 0)
    posts.flush()
    files = platform.lake.scan(platform.lake.table("posts"), platform.lake.snapshot()).files
    expected = 0
    for file in sorted(files, key=lambda file: file.row_id_start):
        assert file.row_id_start == expected
        expected += file.record_count
    assert expected == platform.lake.read("posts").num_rows
