"""A platform server on a standalone cluster: its options, what it refuses, and a lake that its executors write to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pytest

from platform_plugin.cli.arguments import build_parser
from platform_plugin.cli.server import plan_settings, server_text
from platform_plugin.engine.limits import Limits
from platform_plugin.engine.spark.server import launch
from platform_plugin.engine.spark.server.attach import start, status, stop
from platform_plugin.engine.spark.server.cluster import (
    ExecutorVersions,
    check_versions,
    explain_start,
    is_own_address,
    plan_cluster_options,
)
from platform_plugin.engine.spark.server.runtime import open_runtime
from platform_plugin.engine.spark.server.settings import ServerSettings, plan_options
from platform_plugin.errors import InvalidValue, ServerError
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from tests.cli.conftest import COMMAND, ROOT
from tests.standalone import SHORT_LIVED, StandaloneCluster, find_free_port

OLDER = """
import collections, sys
sys.version_info = collections.namedtuple("Version", "major minor micro releaselevel serial")(3, 9, 1, "final", 0)
"""
OWN = ExecutorVersions("here", "3.11.7", "4.3.0", "26.0.1", "abc")
SMALL = ["--cores", "2", "--memory", "512m", "--executor-memory", "512m", "--executor-cores", "1"]


def test_the_options_of_up_become_sparks():
    words = "up --master spark://one:7077 --cores 8 --executor-memory 2g --executor-cores 4 --executor-python /opt/py/bin/python"
    words += " --driver-host gate --driver-bind 0.0.0.0 --address 0.0.0.0 --port 15002 --option spark.executor.instances=3"
    given = build_parser().parse_args(words.split())
    settings = plan_settings(given)
    assert settings.executor_python == "/opt/py/bin/python"
    options = plan_options(settings, ROOT)
    assert {
        name: options[f"spark.{name}"] for name in ("master", "cores.max", "executor.memory", "executor.cores", "executor.instances")
    } == {
        "master": "spark://one:7077",
        "cores.max": "8",
        "executor.memory": "2048m",
        "executor.cores": "4",
        "executor.instances": "3",
    }
    assert (options["spark.driver.host"], options["spark.driver.bindAddress"]) == ("gate", "0.0.0.0")
    assert (options["spark.connect.grpc.binding.address"], options["spark.connect.grpc.binding.port"]) == ("0.0.0.0", "15002")
    assert "spark.authenticate" not in options, "the cluster's own choice"


def test_a_server_of_a_master_on_loopback_listens_there_and_others_are_left_to_spark():
    assert plan_cluster_options(ServerSettings(master="spark://localhost:7077"))["spark.driver.host"] == "127.0.0.1"
    assert plan_cluster_options(ServerSettings(master="spark://10.0.0.1:7077")) == {}
    assert "spark.sql.shuffle.partitions" not in plan_options(ServerSettings(master="yarn"), ROOT)


@pytest.mark.parametrize("wrong", ["one:7077", "spark://one", "spark://one:x", "sc://one:15002", ""])
def test_what_is_no_master_is_refused(wrong):
    with pytest.raises(InvalidValue, match="is not one of Spark's"):
        ServerSettings(master=wrong)


def test_a_master_that_does_not_listen_is_told_at_once(tmp_path):
    runtime = open_runtime(tmp_path / "run")
    began = time.monotonic()
    with pytest.raises(ServerError, match="can't be reached"):
        start(ServerSettings(master=f"spark://127.0.0.1:{find_free_port()}"), runtime=runtime)
    assert time.monotonic() - began < 20, "Spark itself tries for a minute"
    assert not status(runtime=runtime).running


def test_a_shared_token_is_long(tmp_path, monkeypatch):
    monkeypatch.setenv(launch.SHARED_TOKEN_VARIABLE, "guess")
    with pytest.raises(InvalidValue, match="is short") as caught:
        start(ServerSettings(), runtime=open_runtime(tmp_path / "run"))
    assert "guess" not in str(caught.value).replace("guesses", "")


def test_executors_with_another_spark_or_without_arrow_are_refused():
    check_versions([OWN, OWN._replace(machine="there", package=None), OWN._replace(package="other")], OWN)
    with pytest.raises(ServerError, match=r'executors on "b" have Spark 4.2.0, and the server has 4.3.0'):
        check_versions([OWN, OWN._replace(machine="b", spark="4.2.0")], OWN)
    with pytest.raises(ServerError, match=r'Python 3.11.9 of executors on "c" has no pyarrow'):
        check_versions([OWN._replace(machine="c", python="3.11.9", pyarrow=None)], OWN)


def test_addresses_of_this_machine_are_told_from_others():
    assert all(map(is_own_address, ("localhost", "127.0.0.2", "::1", os.uname().nodename)))
    assert not is_own_address("192.0.2.7")
    assert not is_own_address("no-such-host.invalid")


def test_only_what_a_cluster_says_is_explained():
    assert explain_start(RuntimeError("All masters are unresponsive! Giving up.")) is not None
    assert explain_start(RuntimeError("Java heap space")) is None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    # Its executors have another package in the place of this one, so that this one is sent to them.
    folder = tmp_path_factory.mktemp("cluster")
    other = folder / "other" / "platform_plugin"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise ImportError('this machine does not have it')\n")
    with StandaloneCluster(folder / "cluster", environment={"PYTHONPATH": str(other.parent)}) as cluster:
        yield cluster


def run_command(*words, runtime, **more):
    environment = os.environ | SHORT_LIVED | {"PLATFORM_RUNTIME_DIR": str(runtime)}
    done = subprocess.run([*COMMAND, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_executors_of_a_cluster_maintain_views_and_copy(cluster, postgres_database, tmp_path, monkeypatch, duck):
    monkeypatch.setenv("PLATFORM_RUNTIME_DIR", str(tmp_path / "run"))
    try:
        told = run_command("up", "--master", cluster.master_url, *SMALL, "--json", runtime=tmp_path / "run")
        server = json.loads(told)
        assert (server["master"], server["executors_here"]) == (cluster.master_url, True)
        assert server["executor_python"] == [sys.version.split()[0]]
        url = postgres_database.lake_url(tmp_path / "data")
        with Platform.create(url) as platform:
            platform.execute("CREATE STREAM calls (k BIGINT, v BIGINT) WITH (retention_rows = 1000)")
            platform.execute("CREATE VIEW sums AS SELECT k, count(*) AS n, sum(v) AS s FROM calls GROUP BY k")
            platform.work.engine = "executors"
            platform.work.limits = Limits(task_least_rows=1)
            stream = platform.lake.table("calls")
            rows = pa.table({"k": pa.array([1, 2, 1], pa.int64()), "v": pa.array([1, 10, 100], pa.int64())})
            with platform.lake.commit("append") as commit:
                commit.append(stream, [platform.lake.write(stream, rows) for _ in range(2)])
            done = run_maintenance(platform.work)
            assert (dict(done.failed), done.jobs, done.tasks, dict(done.on_spark)) == ({}, 1, 2, {})
            platform.execute("CREATE TABLE copied AS SELECT k, pmod(hash(v), 7) AS h FROM calls")
            assert sorted(platform.execute("SELECT k, n, s FROM sums")) == [(1, 4, 202), (2, 2, 20)]
        assert duck(url).rows("SELECT count(*), sum(k) FROM copied") == [(6, 8)]
        said = server_text(status(runtime=open_runtime(tmp_path / "run")))
        assert f"2 executors with 2 task slots of {cluster.master_url}" in said
    finally:
        stop(runtime=open_runtime(tmp_path / "run"))


def wait_until(true, seconds=90.0):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, f"not true after {seconds} seconds"
        time.sleep(0.1)


def fake_python(folder, name, lines):
    """A Python that says of itself what these lines say."""
    site = folder / name
    site.mkdir()
    (site / "sitecustomize.py").write_text(lines)
    script = folder / f"{name}.sh"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{site}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return script


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (OLDER, r"the executors run Python 3.9, and the server runs 3\.\d+"),
        ("import pyspark\npyspark.__version__ = '4.2.0'\n", "have Spark 4.2.0, and the server has"),
        ("import sys\nsys.modules['pyarrow'] = None\n", "has no pyarrow"),
        (None, "the executors can't run Python"),
    ],
    ids=["python", "spark", "pyarrow", "missing"],
)
def test_executors_of_other_versions_are_told_when_the_server_starts(cluster, tmp_path, lines, message):
    python = tmp_path / "nowhere" if lines is None else fake_python(tmp_path, "other", lines)
    settings = ServerSettings(
        master=cluster.master_url, cores=2, driver_memory_mib=512, executor_memory_mib=512, executor_cores=1, executor_python=str(python)
    )
    runtime = open_runtime(tmp_path / "run")
    try:
        with pytest.raises(ServerError, match=message) as caught:
            start(settings, runtime=runtime)
        assert "--executor-python" in caught.value.hint or "pyspark==" in caught.value.hint
        wait_until(lambda: not status(runtime=runtime).running)
    finally:
        stop(runtime=runtime)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_server_in_the_foreground_serves_others_by_a_shared_token_and_ends_with_its_process(cluster, tmp_path):
    port, token = find_free_port(), "0123456789abcdef0123"
    environment = os.environ | {"PLATFORM_RUNTIME_DIR": str(tmp_path / "run"), launch.SHARED_TOKEN_VARIABLE: token}
    command = [*COMMAND, "up", "--master", cluster.master_url, *SMALL, "--port", str(port), "--idle", "0", "--foreground"]
    runtime = open_runtime(tmp_path / "run")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(lambda: "platform server started" in (tmp_path / "log").read_text())
        from platform_plugin.engine.spark.server.attach import connect

        with connect(f"sc://127.0.0.1:{port}/;use_ssl=false;token={token}") as session:
            assert session.arrow("SELECT sum(id) AS s FROM range(10)").read_all().to_pylist() == [{"s": 45}]
            assert session.read_task_slots() == 2
        with pytest.raises(ServerError, match="refuses"):
            connect(f"sc://127.0.0.1:{port}/;use_ssl=false;token=another")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        assert not status(runtime=runtime).running
        wait_until(lambda: "Removing app" in cluster.read_log("master"))
        assert token not in (tmp_path / "log").read_text()
        assert token not in runtime.log.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        stop(runtime=runtime)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_server_of_a_cluster_ends_when_it_is_idle_and_its_executors_with_it(cluster, tmp_path):
    runtime = open_runtime(tmp_path / "run")
    settings = ServerSettings(
        master=cluster.master_url, cores=2, driver_memory_mib=512, executor_memory_mib=512, executor_cores=1, idle_seconds=2
    )
    try:
        begun = cluster.read_log("master").count("Removing app")
        assert start(settings, runtime=runtime).details["executors"] >= 1
        wait_until(lambda: not status(runtime=runtime).running)
        assert "idle for 2 seconds" in runtime.read_log()
        wait_until(lambda: cluster.read_log("master").count("Removing app") > begun)
    finally:
        stop(runtime=runtime)
