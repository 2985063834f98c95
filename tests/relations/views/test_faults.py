"""Two processes that maintain the same views at once, and a server that dies in the middle of a run: nothing is lost or counted twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.maintenance.service import Maintainer
from platform_plugin.platform import Platform
from platform_plugin.relations.views.follow import step
from tests.spark_fixture import server_of_its_own

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[3]


def define(platform):
    platform.execute("CREATE STREAM posts (uid INT, score BIGINT) WITH (retention_rows = 50)")
    platform.execute("CREATE VIEW impact AS SELECT uid, count(*) AS n, sum(score) AS s FROM posts GROUP BY uid")
    platform.execute("CREATE VIEW users AS SELECT count(DISTINCT uid) AS n FROM posts")


def arrive(platform, first, count):
    posts = platform.lake.table("posts")
    with platform.lake.commit("append") as commit:
        numbers = range(first, first + count)
        columns = {"uid": pa.array([number % 7 for number in numbers], pa.int32()), "score": pa.array(numbers, pa.int64())}
        commit.append(posts, [platform.lake.write(posts, pa.table(columns))])


def check(platform, count):
    assert list(platform.execute("SELECT sum(n), sum(s) FROM impact")) == [(count, sum(range(count)))]
    assert list(platform.execute("SELECT n FROM users")) == [(min(count, 7),)]


def race(tmp_path, *, rounds, by_spark):
    with Platform.create(tmp_path / "lake") as platform:
        define(platform)
        stop = tmp_path / "stop"
        runners = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.relations.views.runner", str(tmp_path / "lake"), str(stop)],
                cwd=ROOT,
                env=os.environ | ({"BY_SPARK": "1"} if by_spark else {}),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        try:
            for place in range(rounds):
                arrive(platform, place * 10, 10)
                if place % 10 == 9:
                    check(platform, (place + 1) * 10)
            deadline = time.monotonic() + 90
            while platform.lake.scan(platform.lake.table("posts"), platform.lake.snapshot()).files and time.monotonic() < deadline:
                if not run_maintenance(platform.work).rows:
                    break
        finally:
            stop.touch()
            told = [runner.communicate(timeout=60) for runner in runners]
        assert [runner.returncode for runner in runners] == [0, 0], told
        check(platform, rounds * 10)
        return [int(out.split()[0]) for out, _ in told]


@pytest.mark.timeout(240)
def test_two_processes_maintain_the_same_views_at_once(tmp_path, spark_server):
    race(tmp_path, rounds=20, by_spark=False)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("by_spark", [False, True])
def test_two_processes_maintain_the_same_views_for_long(tmp_path, spark_server, by_spark):
    assert min(race(tmp_path, rounds=300, by_spark=by_spark)) > 0, "both had something to do"


class Told:
    """What the service told: failures, and when it had done what was to do."""

    def __init__(self):
        self.failures, self.done = [], threading.Event()

    def maintained(self, done):
        assert not done.failed
        self.done.set()

    def failed(self, error, pause_seconds):
        self.failures.append(error)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("moment", ["before", "during"])
def test_the_server_dies_in_the_middle_of_a_run_and_the_service_goes_on_with_another(tmp_path, monkeypatch, moment):
    monkeypatch.setenv("PLATFORM_LIMIT_CLIENT_RANGE_ROWS", "0")
    monkeypatch.setenv("PLATFORM_LIMIT_CLIENT_STATE_BYTES", "0")
    with server_of_its_own(tmp_path / "run") as runtime, Platform.create(tmp_path / "lake") as platform:
        define(platform)
        arrive(platform, 0, 10)
        check(platform, 10)
        run = step.run_answers
        killed = []

        def kill():
            pid = int(runtime.read_state()["jvm_pid"])
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

        def dying(work, answers, **more):
            if not killed:
                if moment == "before":
                    kill()
                else:
                    threading.Timer(0.05, kill).start()
            return run(work, answers, **more)

        monkeypatch.setattr(step, "run_answers", dying)
        told = Told()
        service = Maintainer(platform.work, interval_seconds=0.1)
        thread = threading.Thread(target=service.run, args=(told,))
        thread.start()
        assert told.done.wait(120)
        service.stop()
        thread.join()
        assert killed
        monkeypatch.undo()
        check(platform, 10)
        arrive(platform, 10, 5)
        assert not run_maintenance(platform.work).failed
        check(platform, 15)
