"""Whatever comes by whatever door, and is maintained, merged, expired and dropped in whatever order: a view is its query over all rows."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_plugin.engine.limits import Limits
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.feeds.ingest import run_ingest

pytestmark = pytest.mark.spark

VIEWS = {
    "by_user": "SELECT uid, count(*) AS n, avg(score) AS score, min(score) AS low, max(score) AS high FROM {posts} GROUP BY uid",
    "total": "SELECT count(*) AS n, sum(score) AS s, count(DISTINCT uid) AS users FROM {posts}",
    "high": "SELECT uid, count(*) FILTER (WHERE score > 2) AS n FROM {posts} WHERE score IS NOT NULL GROUP BY uid HAVING count(*) > 1",
    "cubed": "SELECT uid, word, sum(score) AS s FROM {posts} GROUP BY CUBE (uid, word)",
    "named": "SELECT u.name, count(*) AS n FROM {posts} p LEFT JOIN users u ON u.id = p.uid GROUP BY u.name",
    "nested": "SELECT n, count(*) AS users FROM (SELECT uid, count(*) AS n FROM {posts} GROUP BY uid) GROUP BY n",
    "spread": "SELECT word, round(stddev(score), 9) AS d, sort_array(collect_set(uid)) AS who FROM {posts} GROUP BY word",
}
ROW = st.tuples(st.none() | st.integers(0, 3), st.none() | st.integers(-5, 5), st.sampled_from([None, "a", "b"]))
WAYS = ["", "WITH (maintenance = 'deferred')", "WITH (maintenance = 'eager')", "WITH (maintenance = 'batch', batch_rows = 4)"]
ALL_WAYS = st.lists(st.sampled_from(WAYS), min_size=len(VIEWS), max_size=len(VIEWS))
DOORS = st.sampled_from(["commit", "commit", "insert", "python", "files"])
STEP = st.tuples(DOORS, st.lists(ROW, min_size=1, max_size=6)) | st.sampled_from(["maintain", "one", "merge", "expire", "read"])
NUMBERS = itertools.count()


def rows(platform, sql):
    return sorted((tuple(row) for row in platform.execute(sql)), key=repr)


@pytest.fixture(scope="module")
def platform(tmp_path_factory, spark_server):
    with Platform.create(tmp_path_factory.mktemp("interleaving") / "lake") as made:
        made.execute("CREATE TABLE users (id INT, name STRING)")
        made.execute("INSERT INTO users VALUES (0, 'zero'), (1, 'one')")
        yield made


ENGINES = st.sampled_from([("spark_sql", 0), ("executors", 0), ("auto", 3), ("auto", Limits().client_range_rows)])
"""Engines by the name that a user may ask for, and the rows that the process takes up."""


@pytest.mark.timeout(400)
@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=4, max_size=9), ways=ALL_WAYS, engine=ENGINES)
def test_views_are_what_their_queries_give_over_all_rows(platform, steps, ways, engine):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(platform.work, "engine", engine[0])
        patched.setattr(platform.work, "limits", Limits(client_range_rows=engine[1]))
        try_steps(platform, steps, ways)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=4, max_size=20), ways=ALL_WAYS, engine=ENGINES)
def test_the_same_for_longer(platform, steps, ways, engine):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(platform.work, "engine", engine[0])
        patched.setattr(platform.work, "limits", Limits(client_range_rows=engine[1]))
        try_steps(platform, steps, ways)


def arrive(platform, folder, stream, door, new):
    """Let rows come by one of the doors; `commit` is that of other clients, of which views learn later."""
    columns = {
        "uid": pa.array([row[0] for row in new], pa.int32()),
        "score": pa.array([row[1] for row in new], pa.int32()),
        "word": pa.array([row[2] for row in new], pa.string()),
    }
    match door:
        case "commit":
            with platform.lake.commit("append") as commit:
                commit.append(stream, [platform.lake.write(stream, pa.table(columns))])
        case "insert":
            values = ", ".join("({}, {}, {})".format(*("NULL" if value is None else repr(value) for value in row)) for row in new)
            platform.execute(f"INSERT INTO {stream.name} VALUES {values}")
        case "python":
            with platform.stream((stream.name.schema, stream.name.relation)) as opened:
                opened.append(pa.table(columns)).result()
        case "files":
            lines = [",".join("" if value is None else str(value) for value in row) for row in new]
            (folder / f"{next(NUMBERS)}.csv").write_text("\n".join(["uid,score,word", *lines]))
            assert run_ingest(platform.work, stream.name).rows == len(new)
    return columns


def try_steps(platform, steps, ways):
    number = next(NUMBERS)
    posts, lake = f"posts_{number}", platform.lake
    folder = Path(tempfile.mkdtemp())
    feed = f"FROM FILES '{folder}/*.csv' (HEADER)"
    platform.execute(f"CREATE STREAM {posts} (uid INT, score INT, word STRING) {feed} WITH (retention_rows = 5)")
    platform.execute(f"CREATE TABLE every_{number} (uid INT, score INT, word STRING)")
    for (name, query), way in zip(VIEWS.items(), ways, strict=True):
        platform.execute(f"CREATE CONTINUOUS VIEW {name}_{number} {way} AS {query.format(posts=posts)}")
    stream, every = lake.table(posts), lake.table(f"every_{number}")
    for step in [*steps, "read"]:
        match step:
            case "maintain":
                assert not run_maintenance(platform.work).failed
            case "one":
                assert not run_maintenance(
                    platform.work, [view.name for view in lake.views() if view.name.relation == f"total_{number}"]
                ).failed
            case "merge":
                lake.merge(posts)
            case "read":
                for name, query in VIEWS.items():
                    assert rows(platform, f"SELECT * FROM {name}_{number}") == rows(platform, query.format(posts=f"every_{number}")), name
            case "expire":
                lake.expire(datetime.now(UTC))
                lake.vacuum(grace=timedelta(0))
            case (door, new):
                columns = arrive(platform, folder, stream, door, new)
                with lake.commit("append") as commit:
                    commit.append(every, [lake.write(every, pa.table(columns))])
    for name in VIEWS:
        platform.execute(f"DROP VIEW {name}_{number}")
    platform.execute(f"DROP STREAM {posts}")
    shutil.rmtree(folder)
