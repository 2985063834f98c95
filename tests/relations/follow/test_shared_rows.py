"""Views at different positions of a stream: each column of the rows is read once, and each view consumes exactly its own rows."""

from __future__ import annotations

import random

import pytest

from platform_plugin.engine.limits import Limits
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.follow import shared_rows
from platform_plugin.relations.follow.ranges import read_range
from platform_plugin.relations.follow.shared_rows import SharedRows, is_end_of

QUERIES = {
    "sums": "SELECT k, sum(v) AS s FROM posts GROUP BY k",
    "counts": "SELECT k, count(*) AS n, max(v) AS m FROM posts GROUP BY k",
    "last": "SELECT k, max(_row_id) AS r FROM posts GROUP BY k",
    "total": "SELECT count(*) AS n FROM posts",
}


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM posts (k INT, v BIGINT) WITH (retention_rows = 1000000)")
        yield made


def append(platform, chance, count=5):
    rows = [{"k": chance.randrange(3), "v": chance.randrange(100)} for _ in range(count)]
    platform.stream("posts").append(rows).result()
    return rows


def expected(rows, name):
    groups = {}
    for number, row in enumerate(rows):
        groups.setdefault(row["k"], []).append((number, row["v"]))
    if name == "total":
        return [(len(rows),)]
    made = {
        "sums": lambda of: (sum(v for _, v in of),),
        "counts": lambda of: (len(of), max(v for _, v in of)),
        "last": lambda of: (max(number for number, _ in of),),
    }[name]
    return sorted((key, *made(of)) for key, of in groups.items())


def rows_of(platform, name):
    return sorted(tuple(row.values()) for row in platform.execute(f"SELECT * FROM {name}").arrow().to_pylist())


def put_at_positions(platform, seed):
    """Views that have consumed more and more of the stream, the last of them nothing; the rows of the stream."""
    chance = random.Random(seed)
    rows = []
    for name, query in QUERIES.items():
        platform.execute(f"CREATE VIEW {name} WITH (start = 'earliest') AS {query}")
    order = chance.sample(list(QUERIES), len(QUERIES))
    for stop in range(len(order)):
        rows += append(platform, chance)
        if stop:
            run_maintenance(platform.work, order[stop - 1 : stop])
    return rows + append(platform, chance)


@pytest.mark.parametrize("seed", range(4))
def test_columns_are_read_once_and_every_view_has_its_own_rows(platform, monkeypatch, seed):
    rows = put_at_positions(platform, seed)
    read = []
    of_range = shared_rows.arrow_rows_of

    def counting(lake, found, columns, *, hidden=()):
        read.extend((found.first_row_id, name) for name in (*columns, *hidden))
        return of_range(lake, found, columns, hidden=hidden)

    monkeypatch.setattr(shared_rows, "arrow_rows_of", counting)
    done = run_maintenance(platform.work)
    assert len(done.views) == len(QUERIES)
    assert not done.jobs
    assert sorted(name for _, name in read) == ["_row_id", "k", "v"], "each column once, from the widest range that has it"
    for name in QUERIES:
        assert rows_of(platform, name) == expected(rows, name)


@pytest.mark.spark
@pytest.mark.usefixtures("spark_server")
def test_spark_decodes_ranges_that_end_alike_once(platform, monkeypatch):
    rows = put_at_positions(platform, 7)
    monkeypatch.setattr(platform.work, "limits", Limits(client_range_rows=0, sent_range_rows=0))
    monkeypatch.setattr(platform.work, "engine", "spark_sql")
    scanned = []
    of_range = shared_rows.rows_of
    monkeypatch.setattr(shared_rows, "rows_of", lambda *given, **more: scanned.append(given[2]) or of_range(*given, **more))
    done = run_maintenance(platform.work)
    assert len(done.on_spark) == len(QUERIES)
    assert [found.first_row_id for found in scanned] == [0]
    for name in QUERIES:
        assert rows_of(platform, name) == expected(rows, name)


def test_a_range_that_is_no_end_of_the_widest_is_read_by_itself(platform):
    chance = random.Random(1)
    append(platform, chance)
    before = platform.lake.snapshot()
    append(platform, chance)
    lake = platform.lake
    stream = lake.table("posts")
    older = read_range(lake, stream, before, 0, view="v")
    whole, end = (read_range(lake, stream, lake.snapshot(), first, view="v") for first in (0, 5))
    inside = read_range(lake, stream, lake.snapshot(), 7, view="v")
    assert is_end_of(end, whole)
    assert is_end_of(whole, whole)
    assert not is_end_of(older, whole), "it ends before"
    assert not is_end_of(inside, whole), "it begins within a file"
    rows = SharedRows(lake)
    assert rows.input(whole, "range").read(["v"]).num_rows == 10
    assert rows.input(end, "range").read(["v"]).num_rows == 5


@pytest.mark.spark
@pytest.mark.usefixtures("spark_server")
def test_a_view_that_is_nearly_current_does_not_read_what_another_has_before_it(platform, monkeypatch):
    platform.execute("CREATE VIEW behind WITH (start = 'earliest') AS SELECT k, sum(v) AS s FROM posts GROUP BY k")
    platform.execute("CREATE VIEW current WITH (start = 'earliest') AS SELECT k, count(*) AS n FROM posts GROUP BY k")
    chance = random.Random(1)
    append(platform, chance, 50)
    run_maintenance(platform.work, ["current"])
    append(platform, chance, 3)
    monkeypatch.setattr(platform.work, "limits", Limits(client_range_rows=10))
    read = []
    of_range = shared_rows.arrow_rows_of
    monkeypatch.setattr(shared_rows, "arrow_rows_of", lambda *given, **more: read.append(given[1].row_count) or of_range(*given, **more))
    done = run_maintenance(platform.work)
    assert done.jobs == 1, "the executors read the long range"
    assert read == [3]
