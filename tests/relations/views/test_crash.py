"""kill -9 in the middle of maintenance: no row is lost and none is counted twice, whatever the run had done by then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[3]


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM posts (uid INT, score INT) WITH (retention_rows = 4)")
        made.execute("CREATE VIEW impact AS SELECT uid, count(*) AS n, sum(score) AS s FROM posts GROUP BY uid")
        made.execute("CREATE VIEW total AS SELECT count(*) AS n FROM posts")
        made.execute("CREATE VIEW twin AS SELECT sum(n) AS n FROM (SELECT uid, count(*) AS n, sum(score) AS s FROM posts GROUP BY uid)")
        assert "# shares its states with" in [row[0] for row in made.execute("DESCRIBE EXTENDED twin")]
        yield made


def kill_at(tmp_path, point, *statement, engine=None):
    return subprocess.run(  # noqa: PLW1510  it is killed
        [sys.executable, "-m", "tests.relations.views.victim", str(tmp_path / "lake"), str(point), *statement],
        cwd=ROOT,
        env=os.environ | ({"ENGINE": engine} if engine else {}),
        capture_output=True,
        text=True,
        timeout=110,
    )


def attack(platform, tmp_path, step, most, *, engine=None):
    """Kill at every `step`-th point until a run gets through; how often it was killed."""
    lake = platform.lake
    table = lake.table("posts")
    appended, kills, point = 0, 0, 1
    while kills < most:
        columns = {"uid": pa.array([appended % 3, 1], pa.int32()), "score": pa.array([1, 2], pa.int32())}
        with lake.commit("append") as commit:
            commit.append(table, [lake.write(table, pa.table(columns))])
        appended += 2
        told = kill_at(tmp_path, point, engine=engine)
        (n, s) = next(iter(platform.execute("SELECT sum(n), sum(s) FROM impact")))
        assert (n, s) == (appended, appended // 2 * 3)
        assert list(platform.execute("SELECT t.n, w.n FROM total t, twin w")) == [(appended, appended)]
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
@pytest.mark.parametrize("engine", ["local", "executors", "spark_sql"])
def test_killed_all_along(platform, tmp_path, engine):
    kills = attack(platform, tmp_path, 5, 120, engine=engine)
    print(f"survived {kills} kills")
    assert kills > 20


REPLACED = "CREATE OR REPLACE VIEW total WITH (start = 'earliest') AS SELECT count(*) AS n FROM posts WHERE score > 1"


def attack_statements(platform, tmp_path, step, most):
    """Kill what makes a view anew, and what stores its result: it is the old one or the new one, and right; how often it was killed."""
    platform.execute("CREATE TABLE users (id INT, region STRING)")
    platform.execute("INSERT INTO users VALUES (0, 'DE'), (1, 'US'), (2, 'DE')")
    platform.execute("CREATE TABLE past AS HISTORY OF posts")
    platform.execute("CREATE VIEW regions AS SELECT u.region, count(*) AS n FROM posts p JOIN users u ON u.id = p.uid GROUP BY u.region")
    for place in range(3):
        platform.execute(f"INSERT INTO posts VALUES ({place % 3}, {place}), (1, 2), (2, {place})")
        run_maintenance(platform.work)
    platform.execute("UPDATE users SET region = 'FR' WHERE id = 2")
    old, new = [("DE", 5), ("US", 4)], [("DE", 1), ("FR", 4), ("US", 4)]
    assert sorted(platform.execute("SELECT * FROM regions")) == old
    kills = 0
    for sql, asked, allowed in (
        ("REBUILD VIEW regions", "SELECT * FROM regions", (old, new)),
        ("REFRESH VIEW regions", "SELECT * FROM regions", (new,)),
        (REPLACED, "SELECT n FROM total", ([(9,)], list(platform.execute("SELECT count(*) FROM posts WHERE score > 1")))),
    ):
        for point in range(step, step * most + 1, step):
            told = kill_at(tmp_path, point, sql)
            assert sorted(platform.execute(asked)) in allowed, (sql, point)
            if told.returncode == 0:
                break
            assert told.returncode == -9, told.stderr
            kills += 1
        platform.execute(sql)
        assert sorted(platform.execute(asked)) == allowed[-1]
    platform.execute("INSERT INTO posts VALUES (2, 5)")
    assert sorted(platform.execute("SELECT r.region, r.n, t.n FROM regions r, total t WHERE region = 'FR'")) == [
        ("FR", 5, allowed[-1][0][0] + 1)
    ]
    return kills


@pytest.mark.timeout(400)
def test_killed_while_a_view_is_made_anew(platform, tmp_path):
    assert attack_statements(platform, tmp_path, 61, 1) == 3


@pytest.mark.slow
@pytest.mark.timeout(1700)
def test_killed_all_along_while_views_are_made_anew(platform, tmp_path):
    kills = attack_statements(platform, tmp_path, 7, 60)
    print(f"survived {kills} kills")
    assert kills > 30
