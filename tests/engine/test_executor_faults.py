"""Tasks that fail, die, are run again and are given up: no row is lost and none counts twice."""

from __future__ import annotations

import os
import time
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from platform_plugin.engine.executors import ExecutorEngine
from platform_plugin.engine.limits import Limits
from platform_plugin.engine.spark.server.attach import status, stop
from platform_plugin.engine.spark.server.runtime import open_runtime
from platform_plugin.engine.spark.server.settings import ServerSettings
from platform_plugin.errors import PlatformError
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from tests.engine.faulty import FaultyProgram

pytestmark = pytest.mark.spark
RETRIES = "local[2,4]"
"""A master that runs a task up to four times, as clusters do."""


def open_platform(tmp_path, master):
    settings = ServerSettings(cores=2, driver_memory_mib=1024, master=master)
    platform = Platform.create(tmp_path / "lake", settings=settings)
    platform.execute("CREATE STREAM calls (k BIGINT, v BIGINT) WITH (retention_rows = 1000000)")
    platform.execute("CREATE VIEW sums AS SELECT k, count(*) AS n, sum(v) AS s FROM calls GROUP BY k")
    platform.execute("CREATE VIEW total AS SELECT count(*) AS n, sum(v) AS s FROM calls")
    platform.work.engine = "executors"
    platform.work.limits = Limits(task_least_rows=1)
    return platform


@pytest.fixture
def private(tmp_path, monkeypatch):
    """A server of this test's own."""
    monkeypatch.setenv("PLATFORM_RUNTIME_DIR", str(tmp_path / "run"))
    yield
    stop(runtime=open_runtime(tmp_path / "run"))


def arrive(platform, files=4):
    table = platform.lake.table("calls")
    with platform.lake.commit("append") as commit:
        rows = pa.table({"k": pa.array([1, 2, 1], pa.int64()), "v": pa.array([1, 10, 100], pa.int64())})
        commit.append(table, [platform.lake.write(table, rows) for _ in range(files)])


def break_tasks(monkeypatch, tmp_path, fault):
    """Let the first task of the next job go wrong."""
    plan = ExecutorEngine._plan
    mark = tmp_path / "mark"
    mark.unlink(missing_ok=True)

    def faulty(engine, batch):
        part = plan(engine, batch)
        return part._replace(program=FaultyProgram(part.program, fault, str(mark)))

    monkeypatch.setattr(ExecutorEngine, "_plan", faulty)


def check(platform, rounds):
    assert list(platform.execute("SELECT n, s FROM total")) == [(12 * rounds, 444 * rounds)]
    assert sorted(platform.execute("SELECT k, n, s FROM sums")) == [(1, 8 * rounds, 404 * rounds), (2, 4 * rounds, 40 * rounds)]


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize("fault", ["fail", *(pytest.param(name, marks=pytest.mark.slow) for name in ("die", "full disk"))])
def test_a_task_that_is_run_again_after_it_wrote_counts_once(tmp_path, monkeypatch, fault):
    with open_platform(tmp_path, RETRIES) as platform:
        arrive(platform)
        break_tasks(monkeypatch, tmp_path, fault)
        done = run_maintenance(platform.work)
        assert (tmp_path / "mark").exists()
        assert not done.failed
        assert done.jobs == 1
        check(platform, 1)
        # What the first attempt wrote is nobody's: a vacuum removes it. It removes itself what it could not finish.
        assert (platform.lake.vacuum(grace=timedelta(0)).orphans > 0) == (fault != "full disk")
        check(platform, 1)


@pytest.mark.usefixtures("spark_server")
def test_a_job_that_fails_leaves_everything_as_it_was(tmp_path, monkeypatch):
    with open_platform(tmp_path, None) as platform:
        arrive(platform)
        with monkeypatch.context() as patched:
            break_tasks(patched, tmp_path, "fail")
            done = run_maintenance(platform.work)
        assert set(done.failed) == {"main.sums", "main.total"} or not done.failed
        assert all("disk is full" in str(error) for error in done.failed.values())
        check(platform, 1)
        arrive(platform)
        assert not run_maintenance(platform.work, again=True).failed
        check(platform, 2)


@pytest.mark.usefixtures("spark_server")
def test_a_run_is_given_up_when_its_time_is_over(tmp_path, monkeypatch):
    with open_platform(tmp_path, None) as platform:
        arrive(platform)
        with monkeypatch.context() as patched:
            break_tasks(patched, tmp_path, "sleep")
            try:
                done = run_maintenance(platform.work, timeout=timedelta(seconds=3))
            except PlatformError as error:
                said = str(error)
            else:
                said = " ".join(map(str, done.failed.values()))
        assert "interrupted after 3 seconds" in said
        assert not run_maintenance(platform.work, again=True).failed
        check(platform, 1)


@pytest.mark.usefixtures("spark_server")
def test_a_run_that_its_user_cancels_changes_nothing(tmp_path, monkeypatch):
    with open_platform(tmp_path, None) as platform:
        arrive(platform)
        before = platform.lake.snapshot()

        def cancel(_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            break_tasks(patched, tmp_path, "sleep")
            with pytest.raises(KeyboardInterrupt):
                run_maintenance(platform.work, progress=cancel)
        assert platform.lake.snapshot() == before
        assert not run_maintenance(platform.work, again=True).failed
        check(platform, 1)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("private")
def test_an_executor_that_is_killed_is_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_platform(tmp_path, "local-cluster[2,1,1024]") as platform:
        arrive(platform)
        break_tasks(monkeypatch, tmp_path, "kill executor")
        done = run_maintenance(platform.work)
        assert (tmp_path / "mark").exists()
        assert not done.failed, done.failed
        check(platform, 1)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("private")
def test_a_server_that_is_killed_in_the_middle_is_started_again(tmp_path, monkeypatch):
    with open_platform(tmp_path, None) as platform:
        arrive(platform)
        _ = platform.work.session
        jvm = status().details["jvm_pid"]
        program = ExecutorEngine._plan
        killed = []

        def plan(engine, batch):
            if not killed:
                killed.append(os.kill(jvm, 9))
            return program(engine, batch)

        monkeypatch.setattr(ExecutorEngine, "_plan", plan)
        try:
            failed = run_maintenance(platform.work).failed
        except PlatformError:
            failed = {"lost": True}
        assert failed
        deadline = time.monotonic() + 60
        while status().running:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert not run_maintenance(platform.work, again=True).failed
        check(platform, 1)


@pytest.mark.slow
@pytest.mark.usefixtures("spark_server")
def test_a_range_of_ten_thousand_files(tmp_path):
    with open_platform(tmp_path, None) as platform:
        table = platform.lake.table("calls")
        rows = pa.table({"k": pa.array([1, 2, 1], pa.int64()), "v": pa.array([1, 10, 100], pa.int64())})
        files = [platform.lake.write(table, rows) for _ in range(10_000)]
        with platform.lake.commit("append") as commit:
            commit.append(table, files)
        done = run_maintenance(platform.work)
        assert (done.jobs, done.tasks) == (1, 2)
        assert list(platform.execute("SELECT n FROM total")) == [(30_000,)]


@pytest.mark.usefixtures("spark_server")
def test_one_key_with_half_of_all_rows(tmp_path):
    with open_platform(tmp_path, None) as platform:
        table = platform.lake.table("calls")
        for first in range(0, 100_000, 25_000):
            keys = [0 if number % 2 else number for number in range(first, first + 25_000)]
            with platform.lake.commit("append") as commit:
                rows = pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([1] * len(keys), pa.int64())})
                commit.append(table, [platform.lake.write(table, rows)])
        assert not run_maintenance(platform.work).failed
        assert list(platform.execute("SELECT max(n), count(*), sum(s) FROM sums")) == [(50_001, 50_000, 100_000)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("spark_server")
def test_ten_million_groups_are_made_added_to_and_merged_by_tasks(tmp_path, duck):
    """What tasks store of many groups is what DuckDB makes of the rows; none of the groups comes to the client."""
    million = 1_000_000
    with open_platform(tmp_path, None) as platform:
        table = platform.lake.table("calls")
        platform.execute("ALTER STREAM calls SET (retention_rows = 100000000)")
        for turn in range(2):
            for number in range(10):
                keys = np.arange(number * million, (number + 1) * million, dtype=np.int64) + turn * million // 2
                rows = pa.table({"k": keys, "v": keys % 7})
                with platform.lake.commit("append") as commit:
                    commit.append(table, [platform.lake.write(table, rows)])
            done = run_maintenance(platform.work)
            assert not done.failed
            assert {run.engine for run in done.engine_runs} == {"executors"}
            assert sum(run.client_bytes for run in done.engine_runs) < million
        grouped = "SELECT k, count(*) AS n, sum(v) AS s FROM calls GROUP BY k"
        (expected,) = duck(f"platform+local://{tmp_path / 'lake'}").rows(f"SELECT count(*), sum(n), sum(s) FROM ({grouped})")
        assert list(platform.execute("SELECT count(*), sum(n), sum(s) FROM sums")) == [tuple(expected)]
        assert expected[:2] == (10 * million + million // 2, 20 * million)
