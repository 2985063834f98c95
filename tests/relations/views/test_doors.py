"""Eager views have their result, and batched ones theirs when a batch is full, by whatever door of ours the rows come in."""

from __future__ import annotations

import pyarrow as pa
import pytest

from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.feeds.ingest import run_ingest
from platform_plugin.relations.views.read.stored import find_stored

pytestmark = pytest.mark.spark

COUNTS = "SELECT uid, count(*) AS n FROM {stream} GROUP BY uid"


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        made.execute(f"CREATE STREAM posts (uid INT) FROM FILES '{tmp_path}/drop/*.csv' (HEADER)")
        made.execute("CREATE TABLE source (uid INT)")
        made.execute("CREATE STREAM copied FROM TABLE source")
        for stream in ("posts", "copied"):
            made.execute(f"CREATE VIEW eager_{stream} WITH (maintenance = 'eager') AS {COUNTS.format(stream=stream)}")
            made.execute(f"CREATE VIEW batch_{stream} WITH (maintenance = 'batch', batch_rows = 3) AS {COUNTS.format(stream=stream)}")
        yield made


def insert(platform, tmp_path, values):
    platform.execute(f"INSERT INTO posts VALUES {', '.join(f'({value})' for value in values)}")
    return "posts"


def select(platform, tmp_path, values):
    platform.execute(f"INSERT INTO posts SELECT * FROM VALUES {', '.join(f'({value})' for value in values)}")
    return "posts"


def copy(platform, tmp_path, values):
    file = tmp_path / f"{len(values)}.csv"
    file.write_text("\n".join(["uid", *map(str, values)]))
    platform.execute(f"COPY posts FROM '{file}' (FORMAT csv, HEADER true)")
    return "posts"


def python(platform, tmp_path, values):
    with platform.stream("posts") as stream:
        stream.append(pa.table({"uid": pa.array(values, pa.int32())})).result()
    return "posts"


def files(platform, tmp_path, values):
    folder = tmp_path / "drop"
    folder.mkdir(exist_ok=True)
    (folder / f"{len(values)}.csv").write_text("\n".join(["uid", *map(str, values)]))
    assert run_ingest(platform.work, "posts").rows == len(values)
    return "posts"


def table(platform, tmp_path, values):
    platform.execute(f"INSERT INTO source VALUES {', '.join(f'({value})' for value in values)}")
    assert run_ingest(platform.work, "copied").rows == len(values)
    return "copied"


def is_looked_up(platform, view):
    (found,) = [found for found in platform.lake.views() if found.name.relation == view]
    return find_stored(platform.work, found, platform.lake.snapshot()) is not None


@pytest.mark.parametrize("door", [insert, select, copy, python, files, table])
def test_rows_are_taken_up_before_whoever_brought_them_goes_on(platform, tmp_path, door):
    stream = door(platform, tmp_path, [1, 2])
    assert (is_looked_up(platform, f"eager_{stream}"), is_looked_up(platform, f"batch_{stream}")) == (True, False)
    assert sorted(platform.execute(f"SELECT * FROM eager_{stream}")) == [(1, 1), (2, 1)]
    door(platform, tmp_path, [1])
    assert (is_looked_up(platform, f"eager_{stream}"), is_looked_up(platform, f"batch_{stream}")) == (True, True)
    for view in (f"eager_{stream}", f"batch_{stream}"):
        assert sorted(platform.execute(f"SELECT * FROM {view}")) == [(1, 2), (2, 1)]
    assert run_maintenance(platform.work).rows == 0, "nothing is left for the next run"


def test_rows_of_another_client_wait_for_the_next_run_and_are_in_every_answer(platform):
    lake = platform.lake
    with lake.commit("as another client would") as commit:
        posts = lake.table("posts")
        commit.append(posts, [lake.write(posts, pa.table({"uid": pa.array([1], pa.int32())}))])
    assert not is_looked_up(platform, "eager_posts")
    assert sorted(platform.execute("SELECT * FROM eager_posts")) == [(1, 1)]
    assert run_maintenance(platform.work).views == ("main.eager_posts",)


def test_an_append_whose_rows_an_eager_view_can_not_digest_is_made_nevertheless(platform):
    platform.execute("CREATE VIEW shares WITH (maintenance = 'eager') AS SELECT sum(100 DIV uid) AS s FROM posts")
    with platform.stream("posts") as stream:
        done = stream.append(pa.table({"uid": pa.array([0, 1], pa.int32())})).result()
    assert done.row_count == 2
    assert sorted(platform.execute("SELECT * FROM posts")) == [(0,), (1,)]
    assert list(run_maintenance(platform.work).failed) == ["main.shares"]
    assert sorted(platform.execute("SELECT * FROM eager_posts")) == [(0, 1), (1, 1)]
