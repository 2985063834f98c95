"""kill -9 in the middle of maintenance: no row is lost and none is counted twice, whatever the run had done by then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from platform_plugin.platform import Platform
from platform_plugin.views.maintain import run_maintenance

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM posts (uid INT, score INT) WITH (retention_rows = 4)")
        made.execute("CREATE VIEW impact AS SELECT uid, count(*) AS n, sum(score) AS s FROM posts GROUP BY uid")
        made.execute("CREATE VIEW total AS SELECT count(*) AS n FROM posts")
        yield made


def attack(platform, tmp_path, step, most):
    """Kill at every `step`-th point until a run gets through; how often it was killed."""
    lake = platform.lake
    table = lake.table("posts")
    appended, kills, point = 0, 0, 1
    while kills < most:
        columns = {"uid": pa.array([appended % 3, 1], pa.int32()), "score": pa.array([1, 2], pa.int32())}
        with lake.commit("append") as commit:
            commit.append(table, [lake.write(table, pa.table(columns))])
        appended += 2
        told = subprocess.run(  # noqa: PLW1510  it is killed
            [sys.executable, "-m", "tests.views.victim", str(tmp_path / "lake"), str(point)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=110,
        )
        (n, s) = next(iter(platform.execute("SELECT sum(n), sum(s) FROM impact")))
        assert (n, s) == (appended, appended // 2 * 3)
        assert list(platform.execute("SELECT n FROM total")) == [(appended,)]
        if kills % 3 == 0:
            assert not run_maintenance(platform.work).failed
            assert list(platform.execute("SELECT n FROM total")) == [(appended,)]
        if told.returncode == 0:
            return kills
        assert told.returncode == -9, told.stderr
        kills += 1
        point += step
    return kills


@pytest.mark.timeout(400)
def test_killed_here_and_there(platform, tmp_path):
    assert attack(platform, tmp_path, 37, 4) == 4


@pytest.mark.slow
@pytest.mark.timeout(1700)
def test_killed_all_along(platform, tmp_path):
    kills = attack(platform, tmp_path, 5, 120)
    print(f"survived {kills} kills")
    assert kills > 20
