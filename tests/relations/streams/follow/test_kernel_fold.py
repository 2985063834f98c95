"""Sessions that the kernel folds: without Spark, on executors, and step by step beside Spark, with the answers of plain queries."""

from __future__ import annotations

import re
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from platform_plugin.engine.workspace import Workspace
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.follow import kernel_fold
from platform_plugin.relations.streams.follow.kernel_fold import KernelFold
from tests.relations.views.admitted import ADMITTED
from tests.relations.views.composed import COLUMNS, KINDS, ROWS, bag

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STREAMS = [name for name, kind in KINDS.items() if kind == "stream"]
QUERIES = {
    "no groups": "SELECT count(*) AS n, sum(score) AS s FROM posts",
    "groups in order": "SELECT uid, count(*) AS n, avg(amount) AS a FROM posts GROUP BY uid ORDER BY n DESC, uid",
    "a table looked up": "SELECT u.region, sum(p.score) AS s FROM posts p JOIN users u ON u.id = p.uid GROUP BY u.region",
    "a table above": "SELECT u.region, p.n FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) p JOIN users u ON u.id = p.uid",
    "two streams": "SELECT p.uid, p.n, l.w FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) p "
    "JOIN (SELECT uid, sum(weight) AS w FROM likes GROUP BY uid) l ON l.uid = p.uid",
    "a condition and different values": "SELECT count(DISTINCT content) AS d FROM posts WHERE score > 3",
}


def session_of(query: str) -> str:
    """The query over sessions from the oldest row on, which end with their streams: a busy machine makes pauses between the files."""
    sessions, streams = r"\1 SESSION(\2, '1 hour', 'earliest')", "|".join(STREAMS)
    named = re.sub(rf"\b(FROM|JOIN)\s+({streams})\b(?=\s+(?:AS\s+)?[a-z]\b)", sessions, query)
    return re.sub(rf"\b(FROM|JOIN)\s+({streams})\b", sessions + r" AS \2", named)


def fill(platform: Platform) -> None:
    """The rows of each relation, in files of three; streams end with the last."""
    for name, columns in COLUMNS.items():
        listed = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
        platform.execute(f"CREATE {KINDS[name].upper()} {name} ({listed})")
        table, schema = platform.lake.table(name), platform.lake.read(name).schema
        for start in range(0, len(ROWS[name]), 3):
            rows = [dict(zip(columns, row, strict=True)) for row in ROWS[name][start : start + 3]]
            made = pa.table([_column([row[column] for row in rows], schema.field(column)) for column in columns], schema=schema)
            if KINDS[name] == "stream":
                with platform.stream(name) as stream:
                    stream.append(made, wait=True, last=start + 3 >= len(ROWS[name]))
            else:
                with platform.lake.commit("rows") as commit:
                    commit.append(table, [platform.lake.write(table, made)])


def _column(values: list[object], field: pa.Field) -> pa.Array:
    if pa.types.is_list(field.type):
        return pa.array(values, field.type)
    return pa.array([None if value is None else str(value).lower() for value in values], pa.string()).cast(field.type)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    """A platform on a machine that has no Spark."""

    def refuse(work: Workspace) -> None:
        raise AssertionError("Spark was asked")

    with Platform.create(tmp_path / "lake") as made:
        fill(made)
        monkeypatch.setattr(Workspace, "session", property(refuse))
        yield made


EXPECTED = {"no groups": [(10, 35)], "a condition and different values": [(3,)]}


@pytest.mark.parametrize("name", QUERIES)
def test_a_session_of_small_rows_needs_no_spark(alone: Platform, name: str) -> None:
    found = list(alone.execute(session_of(QUERIES[name])))
    # A view over the same rows is computed in another way.
    alone.execute(f"CREATE VIEW v WITH (start = 'earliest') AS {QUERIES[name]}")
    assert bag(found) == bag(list(alone.execute("SELECT * FROM v")))
    assert found == EXPECTED.get(name, found)


def test_an_empty_session_has_the_rows_of_no_rows(alone: Platform) -> None:
    nothing = "FROM SESSION(posts, '200 ms')"
    assert list(alone.execute(f"SELECT count(*), sum(score) {nothing}")) == [(0, None)]
    assert list(alone.execute(f"SELECT uid, count(*) {nothing} GROUP BY uid")) == []


@pytest.mark.spark
def test_executors_fold_the_same_groups_and_leave_no_file(spark_server: object, tmp_path: Path) -> None:
    with Platform.create(tmp_path / "lake", engine="executors") as platform:
        fill(platform)
        for query in QUERIES.values():
            assert bag(list(platform.execute(session_of(query)))) == bag(list(platform.execute(query)))
        assert not list((tmp_path / "lake").rglob("_results/*.parquet"))


@pytest.mark.spark
def test_what_the_kernel_refuses_is_left_to_spark_step_by_step(
    spark_server: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["groups in order", "a table looked up"]
    with Platform.create(tmp_path / "lake") as platform:
        fill(platform)
        expected = {name: bag(list(platform.execute(QUERIES[name]))) for name in names}

        def refuse(*_: object, **__: object) -> None:
            refused.append(1)
            raise kernel_fold.RefusedByEngine("a test", for_good=False)

        for step in ("fold", "merge", "answer"):
            refused: list[int] = []
            with monkeypatch.context() as patched:
                patched.setattr(KernelFold, "_rehearse", lambda *_: None)
                patched.setattr(KernelFold, step, refuse)
                for name in names:
                    assert bag(list(platform.execute(session_of(QUERIES[name])))) == expected[name], (step, name)
            assert refused


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_sessions_of_all_admitted_queries_are_what_the_queries_give(spark_server: object, tmp_path: Path) -> None:
    without_spark = 0
    with Platform.create(tmp_path / "lake") as platform:
        fill(platform)
        different = {}
        # The first of rows is that with the lowest id in a session, and any in a plain query over several files.
        ordered = {name: query for name, query in ADMITTED.items() if not re.search(r"\b(first|last|any_value|first_value)\(", query)}
        for name, query in ordered.items():
            expected = bag(list(platform.execute(query)))
            result = platform.execute(session_of(query))
            without_spark += result.metrics is None
            found = bag(list(result))
            if found != expected:
                different[name] = (found, expected)
    print(f"{without_spark} of {len(ordered)} sessions needed no Spark")
    assert sorted(different) == [], different
    assert without_spark >= len(ordered) // 2


@pytest.mark.parametrize("by", ["statement", "producer"])
def test_the_end_of_a_stream_ends_sessions_that_have_begun(alone: Platform, by: str) -> None:
    began = threading.Event()
    with alone.stream("likes") as stream:

        def produce() -> None:
            began.wait(60)
            stream.append([{"uid": 1, "weight": 2}], wait=True)
            stream.append([{"uid": 1, "weight": 3}], wait=True, last=by == "producer")
            if by == "statement":
                alone.execute("END STREAM likes")
            stream.append([{"uid": 9, "weight": 9}], wait=True)

        thread = threading.Thread(target=produce)
        thread.start()
        query = "SELECT uid, sum(weight) AS s FROM SESSION(likes, '10 minutes') GROUP BY uid"
        assert list(alone.execute(query, progress=lambda _: began.set(), timeout=timedelta(minutes=5))) == [(1, 5)]
        thread.join()
    # One that begins later comes to the first mark behind its first row.
    earliest = "SELECT count(*) FROM SESSION(likes, '10 minutes', 'earliest')"
    assert list(alone.execute(earliest, timeout=timedelta(minutes=5))) == [(len(ROWS["likes"]),)]
    assert list(alone.execute("SELECT count(*) FROM SESSION(likes, '100 ms')")) == [(0,)]


def test_a_stream_that_blocks_ends_its_sessions_and_lets_go_of_them(tmp_path: Path) -> None:
    """Limits, a second stream and the mark together: every row counts once, and no session stands in the producer's way afterwards."""
    with Platform.create(tmp_path / "lake") as platform:
        for name in ("few", "many"):
            platform.execute(f"CREATE STREAM {name} (k INT) WITH (retention_rows = 20, on_overrun = 'block')")
        began = threading.Event()

        def produce() -> None:
            began.wait(60)
            with platform.stream("few") as few, platform.stream("many") as many:
                few.append([{"k": 1}], wait=True, last=True)
                for number in range(30):
                    many.append([{"k": number % 2}] * 5, wait=True, last=number == 29)

        thread = threading.Thread(target=produce)
        thread.start()
        query = """SELECT m.k, m.n, f.n AS few FROM (SELECT k, count(*) AS n FROM SESSION(many, '10 minutes') GROUP BY k) m
            LEFT JOIN (SELECT k, count(*) AS n FROM SESSION(few, '10 minutes') GROUP BY k) f ON f.k = m.k"""
        found = sorted(platform.execute(query, progress=lambda _: began.set(), timeout=timedelta(minutes=5)))
        thread.join()
        assert found == [(0, 75, None), (1, 75, 1)]
        with platform.stream("many") as many:
            for _ in range(10):
                many.append([{"k": 7}] * 5, wait=True)
        assert platform.lake.read("many").num_rows <= 25
