"""kill -9 in the middle of taking up and merging: the sample is the same as before, or as it was going to be."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from platform_plugin.platform import Platform
from tests.relations.samples.streams import COLUMNS, append, counted_keys, ids

ROOT = Path(__file__).parents[3]


def attack(tmp_path, step, most):
    """Kill at every `step`-th point until a run gets through; how often it was killed."""
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute(f"CREATE STREAM posts ({COLUMNS}) WITH (retention_rows = 100)")
        platform.execute("CREATE SAMPLE s ON posts SIZE 12 WITH (seed = 1)")
        platform.execute("CREATE SAMPLE w ON posts SIZE 6 WITH (window = '60 rows', seed = 1)")
        last, kills, point = 0, 0, 1
        while kills < most:
            append(platform, "posts", last, last + 10)
            last += 10
            before = ids(platform, "s")
            told = subprocess.run(  # noqa: PLW1510  it is killed
                [sys.executable, "-m", "tests.relations.samples.victim", str(tmp_path / "lake"), str(point)],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=110,
            )
            assert ids(platform, "s") == before
            assert platform.sample("s").cardinality == last
            window = ids(platform, "w")
            assert len(set(window)) == 6
            assert min(window) >= last - 60
            assert platform.sample("w").cardinality == min(60, last)
            if told.returncode == 0:
                return kills
            assert told.returncode == -9, told.stderr
            kills += 1
            point += step
        return kills


def attack_writer(tmp_path, step, most):
    """Kill a writer at every `step`-th point until it gets through; how often it was killed."""
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute(f"CREATE STREAM posts ({COLUMNS})")
        platform.execute("CREATE SAMPLE s ON posts SIZE 12 WITH (seed = 1)")
        platform.execute("CREATE SAMPLE w ON posts SIZE 6 WITH (window = '60 rows', seed = 1)")
        kills, point = 0, 1
        while kills < most:
            last = platform.lake.read("posts").num_rows
            told = subprocess.run(  # noqa: PLW1510  it is killed
                [sys.executable, "-m", "tests.relations.samples.victim", str(tmp_path / "lake"), str(point), str(last)],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=110,
            )
            end = platform.lake.read("posts").num_rows
            assert end in (last, last + 10)
            keys = counted_keys(1, 0, end)
            assert ids(platform, "s") == sorted(np.argsort(keys)[:12].tolist())
            assert platform.sample("s").cardinality == end
            first = max(0, end - 60)
            assert ids(platform, "w") == sorted((np.argsort(keys[first:])[:6] + first).tolist())
            if told.returncode == 0:
                return kills
            assert told.returncode == -9, told.stderr
            kills += 1
            point += step
        return kills


@pytest.mark.timeout(300)
def test_killed_here_and_there(tmp_path):
    assert attack(tmp_path, 31, 5) == 5


@pytest.mark.timeout(300)
def test_a_writer_killed_here_and_there(tmp_path):
    assert attack_writer(tmp_path, 23, 4) >= 3


@pytest.mark.slow
@pytest.mark.timeout(1700)
def test_a_writer_killed_all_along(tmp_path):
    kills = attack_writer(tmp_path, 3, 150)
    print(f"survived {kills} kills of a writer")
    assert kills > 15


@pytest.mark.slow
@pytest.mark.timeout(1700)
def test_killed_all_along(tmp_path):
    kills = attack(tmp_path, 4, 150)
    print(f"survived {kills} kills")
    assert kills > 25
