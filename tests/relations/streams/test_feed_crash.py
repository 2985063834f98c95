"""kill -9 in the middle of a run that feeds streams from a table and maintains a view on one: each change is fed exactly once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from tests.lake.changing import end_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_server")]
ROOT = Path(__file__).parents[3]


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE TABLE t (id BIGINT, n BIGINT)")
        made.execute("CREATE STREAM came FROM TABLE t")
        made.execute("CREATE STREAM changed FROM TABLE t (changes = true)")
        made.execute("CREATE VIEW total AS SELECT sum(n * _weight) AS n, sum(_weight) AS k FROM changed")
        yield made


def attack(platform, tmp_path, *, step, most):
    """Kill runs at every `step`-th point until one gets through; how often one was killed."""
    kills = 0
    for number in range(1, most + 1):
        platform.execute(f"INSERT INTO t VALUES ({number}, {number}), ({-number}, 0)")
        end_rows(platform.lake, platform.lake.table("t"), [-number], images=True)
        if number % 3 == 0:
            end_rows(platform.lake, platform.lake.table("t"), [number - 1], images=True, new={"n": 0})
        victim = [sys.executable, "-m", "tests.relations.views.victim", str(tmp_path / "lake"), str(1 + kills * step)]
        told = subprocess.run(victim, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=110, check=False)
        assert told.returncode in (0, -9), told.stderr
        check(platform)
        if number % 2 == 0 or told.returncode == 0:
            assert not run_maintenance(platform.work).failed
            held = check(platform)
            rows = {(row["id"], row["n"]) for row in platform.lake.read("t").to_pylist()}
            assert held == rows
            assert list(platform.execute("SELECT * FROM total")) == [(sum(n for _, n in rows), len(rows))]
        if told.returncode == 0:
            return kills
        kills += 1
    return kills


def check(platform):
    """No row twice; the rows that the changes sum up to."""
    came = Counter(row["id"] for row in platform.lake.read("came").to_pylist() if row["n"])
    assert set(came.values()) <= {1}
    found: Counter[tuple[int, int]] = Counter()
    for row in platform.lake.read("changed").to_pylist():
        found[row["id"], row["n"]] += row["_weight"]
    assert set(found.values()) <= {0, 1}
    return set(+found)


@pytest.mark.timeout(400)
def test_killed_here_and_there(platform, tmp_path):
    assert attack(platform, tmp_path, step=53, most=3) == 3


@pytest.mark.slow
@pytest.mark.timeout(1700)
def test_killed_all_along(platform, tmp_path):
    kills = attack(platform, tmp_path, step=7, most=60)
    print(f"survived {kills} kills")
    assert kills > 15
