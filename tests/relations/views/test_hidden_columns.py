"""Continuous views by row id and arrival time: the Arrow kernel, Spark and a recomputation give what plain Python gives."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.engine.limits import Limits
from platform_plugin.errors import PlatformError, RefusedView
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.ring.segments import SEGMENT
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.quality.reconcile import run_reconcile

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EVERY = timedelta(seconds=40)
MINUTE = timedelta(minutes=1)
VIEWS = {
    "arrivals": "SELECT _arrived_at AS at, count(*) AS n, sum(score) AS total, min(_row_id) AS first, max(_row_id) AS last FROM posts "
    "GROUP BY _arrived_at",
    "late": "SELECT uid, count(*) AS n, max(_arrived_at) AS newest FROM posts WHERE _row_id >= 13 GROUP BY uid",
    "minutes": "SELECT window.start AS since, count(*) AS n FROM posts GROUP BY window(_arrived_at, '1 minute')",
    "sliding": "SELECT window(_arrived_at, '2 minutes', '1 minute').start AS since, sum(score) AS total FROM posts "
    "GROUP BY window(_arrived_at, '2 minutes', '1 minute')",
    "newest": "SELECT uid, last(score) AS score, max(_row_id) AS at FROM (SELECT uid, score, _row_id FROM posts) GROUP BY uid",
}


def expected(name, rows):
    """The answer of a view in plain Python, of tuples of row id, arrival time, uid and score."""
    found = defaultdict(list)
    for row_id, at, uid, score in rows:
        minute = NOON + (at - NOON) // MINUTE * MINUTE
        keys = {
            "arrivals": [at],
            "late": [uid] * (row_id >= 13),
            "minutes": [minute],
            "sliding": [minute, minute - MINUTE],
            "newest": [uid],
        }
        for key in keys[name]:
            found[key].append((row_id, at, score))
    answers = {
        "arrivals": lambda own: (len(own), sum(row[2] for row in own), own[0][0], own[-1][0]),
        "late": lambda own: (len(own), max(row[1] for row in own)),
        "minutes": lambda own: (len(own),),
        "sliding": lambda own: (sum(row[2] for row in own),),
        "newest": lambda own: (own[-1][2], own[-1][0]),
    }
    return Counter((key, *answers[name](own)) for key, own in found.items())


def append(platform, rows, number):
    """Ten rows more, which arrive 40 seconds after those before them."""
    first = len(rows)
    at = NOON + number * EVERY
    added = [(first + place, at, place % 3, place + number) for place in range(10)]
    with platform.stream("posts") as stream:
        stream.append(pa.table({"uid": [row[2] for row in added], "score": [row[3] for row in added]}), wait=True)
    with platform.lake.writing() as connection:
        connection.execute(sa.update(SEGMENT).where(SEGMENT.c.first_row_id == first).values(arrived_at=at))
    rows += added


def answer(platform, name):
    return Counter(tuple(row) for row in platform.execute(f"SELECT * FROM {name}"))


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["arrow", pytest.param("spark", marks=pytest.mark.slow)])
def test_views_by_arrival_are_what_their_queries_give(spark_server, tmp_path, monkeypatch, engine):
    with Platform.create(tmp_path / "lake") as platform:
        if engine == "spark":
            monkeypatch.setattr(platform.work, "limits", Limits(client_range_rows=0, client_state_bytes=0))
            monkeypatch.setattr(platform.work, "engine", "spark_sql")
        platform.execute("CREATE STREAM posts (uid INT, score INT) WITH (retention_rows = 30)")
        platform.execute("CREATE TABLE old AS HISTORY OF posts")
        for name, query in VIEWS.items():
            platform.execute(f"CREATE VIEW {name} AS {query}")
        rows = []
        for number in range(5):
            append(platform, rows, number)
            if number % 2:
                platform.lake.merge("posts")
                done = run_maintenance(platform.work)
                assert not done.failed
                left = {view.partition(".")[2] for view in done.on_spark}
                assert left == (set(VIEWS) if engine == "spark" else set()), done.on_spark
        for name in VIEWS:
            assert answer(platform, name) == expected(name, rows), (name, "with rows that no run has consumed")
        run_maintenance(platform.work)
        for name in VIEWS:
            outcome = run_reconcile(platform.work, Name.of(("main", name)))
            assert outcome.agrees, outcome
            assert (outcome.why_not, outcome.rows) == (None, len(expected(name, rows)))
            platform.execute(f"REBUILD VIEW {name}")
            assert answer(platform, name) == expected(name, rows), (name, "made again")


OWN = {
    "sums": "SELECT uid, sum(_row_id) AS s, max(_arrived_at) AS a FROM own GROUP BY uid",
    "whole": "SELECT uid, count(*) AS n, max(_row_id) AS r FROM (SELECT * FROM own) GROUP BY uid",
}


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["arrow", pytest.param("spark", marks=pytest.mark.slow)])
def test_columns_of_a_streams_own_come_before_hidden_ones(spark_server, tmp_path, monkeypatch, engine):
    """Of a stream with such a column, `_row_id` and `_arrived_at` are its own; what needs the order of arrival is refused."""
    with Platform.create(tmp_path / "lake") as platform:
        if engine == "spark":
            monkeypatch.setattr(platform.work, "limits", Limits(client_range_rows=0, client_state_bytes=0))
            monkeypatch.setattr(platform.work, "engine", "spark_sql")
        platform.execute("CREATE STREAM own (uid INT, _row_id INT, _arrived_at INT, score INT)")
        with pytest.raises(RefusedView, match=r'order of arrival .* has a column "_row_id" of its own') as refused:
            platform.execute("CREATE VIEW latest AS SELECT uid, last(score) AS s FROM own GROUP BY uid")
        assert "max_by(x, _row_id)" in refused.value.hint
        for name, query in OWN.items():
            platform.execute(f"CREATE VIEW {name} AS {query}")
        rows = []
        for number in range(3):
            added = [(place % 2, 100 - place - 10 * number, number, place) for place in range(4)]
            platform.execute(f"INSERT INTO own VALUES {', '.join(map(str, added))}")
            rows += added
            assert not run_maintenance(platform.work).failed
        by_user = [[row for row in rows if row[0] == uid] for uid in (0, 1)]
        assert answer(platform, "sums") == Counter((own[0][0], sum(row[1] for row in own), max(row[2] for row in own)) for own in by_user)
        assert answer(platform, "whole") == Counter((own[0][0], len(own), max(row[1] for row in own)) for own in by_user)
        assert Counter(tuple(row) for row in platform.execute("SELECT *, _row_id AS own_id FROM own")) == Counter(
            (*row, row[1]) for row in rows
        )


@pytest.mark.spark
def test_a_star_beside_a_hidden_column(spark_server, tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM posts (uid INT, score INT)")
        platform.execute("CREATE VIEW numbered AS SELECT *, _row_id FROM posts")
        platform.execute(
            "CREATE VIEW newest AS SELECT uid, max(_row_id) AS r, count(*) AS n FROM (SELECT *, _row_id FROM posts) GROUP BY uid"
        )
        rows = []
        append(platform, rows, 0)
        run_maintenance(platform.work)
        append(platform, rows, 1)
        assert answer(platform, "numbered") == Counter((row[2], row[3], row[0]) for row in rows)
        own = [[row for row in rows if row[2] == uid] for uid in range(3)]
        assert answer(platform, "newest") == Counter((found[0][2], found[-1][0], len(found)) for found in own)
        assert Counter(tuple(row) for row in platform.execute("SELECT *, _row_id FROM posts")) == answer(platform, "numbered")
        # A view has no hidden columns of its own.
        with pytest.raises(PlatformError, match="_row_id"):
            platform.execute("SELECT *, _row_id FROM newest").close()
