"""The one door on a machine that fails: full disks, a home that can't be written, servers killed around a commit."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from platform_plugin.engine.spark.server.attach import start, status, stop
from platform_plugin.engine.spark.server.runtime import RUNTIME_VARIABLE, open_runtime
from platform_plugin.engine.spark.server.settings import ServerSettings
from platform_plugin.errors import PlatformError, QueryFailed
from platform_plugin.lake.commit.commit import Commit
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.feeds.ingest import run_ingest

# Not marked `spark`: but for one they start servers of their own and want no other beside them.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).parent.parent
NOISE = "SELECT id, sha2(CAST(id AS STRING), 512) AS s FROM range(0, {rows}, 1, 8)"


@contextlib.contextmanager
def disk(folder, options):
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no disk can be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        gc.collect()
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def server(folder, monkeypatch, **settings):
    """A server of this test's own, whatever happens to it."""
    monkeypatch.setenv(RUNTIME_VARIABLE, str(folder))
    runtime = open_runtime(folder)
    start(ServerSettings(cores=2, driver_memory_mib=1024, idle_seconds=300, **settings), runtime=runtime)
    try:
        yield runtime
    finally:
        stop(runtime=runtime)


def data_files(platform):
    return sorted(path for path, _ in platform.lake.storage.listing() if path.endswith(".parquet"))


def test_a_full_scratch_disk_fails_the_query_and_nothing_else(tmp_path, monkeypatch):
    with (
        disk(tmp_path / "disk", "size=96m") as small,
        server(tmp_path / "run", monkeypatch, scratch=str(small / "scratch")) as runtime,
        Platform.create(tmp_path / "lake") as platform,
    ):
        pid = status(runtime=runtime).details["pid"]
        for sql in (
            NOISE.format(rows=3_000_000).replace(", 8)", ", 1)"),  # 400 MB of result, spooled into one file
            f"SELECT count(*) FROM (SELECT DISTINCT s FROM ({NOISE.format(rows=3_000_000)}))",  # as much shuffled
            f"CREATE TABLE t AS {NOISE.format(rows=3_000_000)} ORDER BY s",
        ):
            with pytest.raises(QueryFailed, match="disk is full") as caught:
                platform.execute(sql).arrow()
            assert "scratch" in caught.value.hint
            assert list(platform.execute("SELECT 1")) == [(1,)]
        assert status(runtime=runtime).details["pid"] == pid
        assert data_files(platform) == []
        assert not list((small / "scratch" / "platform-results").glob("*/*"))
        # What failed queries had shuffled is let go of.
        gc.collect()
        assert platform.execute("SELECT count(*) FROM (SELECT DISTINCT id FROM range(100000))").arrow().num_rows == 1


@pytest.mark.spark
def test_a_full_disk_under_the_lake_fails_the_write_and_changes_nothing(tmp_path, spark_server):
    with disk(tmp_path / "disk", "size=64m") as small, Platform.create(small / "lake") as platform:
        platform.execute(f"CREATE TABLE t AS {NOISE.format(rows=1000)}")
        before, newest = data_files(platform), platform.lake.snapshot().id
        for sql in (f"INSERT INTO t {NOISE.format(rows=2_000_000)}", f"CREATE TABLE u AS {NOISE.format(rows=2_000_000)}"):
            with pytest.raises(PlatformError, match="disk is full") as caught:
                platform.execute(sql)
            assert caught.value.hint
            assert data_files(platform) == before
        assert platform.lake.snapshot().id == newest
        assert list(platform.execute("SELECT count(*) FROM t")) == [(1000,)]
        platform.execute(f"INSERT INTO t {NOISE.format(rows=1000)}")
        assert list(platform.execute("SELECT count(*) FROM t")) == [(2000,)]


@pytest.mark.spark
def test_a_full_disk_under_the_lake_stops_ingestion_and_loses_nothing(tmp_path, spark_server):
    (tmp_path / "in").mkdir()
    for place in range(4):
        ids = pa.array(range(place * 100_000, (place + 1) * 100_000), pa.int64())
        pq.write_table(pa.table({"id": ids, "noise": [os.urandom(64) for _ in range(100_000)]}), tmp_path / "in" / f"{place}.parquet")
    with disk(tmp_path / "disk", "size=24m") as small, Platform.create(small / "lake") as platform:
        platform.execute(f"CREATE STREAM s (id BIGINT, noise BINARY) FROM FILES '{tmp_path}/in/*.parquet' (FORMAT parquet, max_files 1)")
        with pytest.raises(PlatformError, match="disk is full") as caught:
            ingest_all(platform)
        assert caught.value.hint
        done = rows_in(platform, "SELECT count(*), count(DISTINCT id) FROM s")
        assert done in [[(rows, rows)] for rows in (100_000, 200_000, 300_000)]
        assert len(data_files(platform)) == done[0][0] // 100_000, "what the failed batch wrote is gone"
        subprocess.run(["mount", "-o", "remount,size=96m", str(small)], check=True)
        ingest_all(platform)
        assert rows_in(platform, "SELECT count(*), count(DISTINCT id) FROM s") == [(400_000, 400_000)]


def test_a_full_disk_under_the_lake_fails_appends_and_loses_none_that_was_confirmed(tmp_path):
    with disk(tmp_path / "disk", "size=24m") as small, Platform.create(small / "lake") as platform:
        platform.execute("CREATE STREAM s (id BIGINT, noise BINARY)")

        def batch(place):
            return pa.table({"id": pa.array([place] * 20_000, pa.int64()), "noise": [os.urandom(64) for _ in range(20_000)]})

        confirmed = []

        def append_all(count):
            with platform.stream("s") as stream:
                for place in range(count):
                    stream.append(batch(place), batch_id=str(place), wait=True)
                    confirmed.append(place)

        with pytest.raises(PlatformError, match="disk is full") as caught:
            append_all(60)
        assert caught.value.hint
        assert 3 < len(confirmed) < 30
        assert sorted(set(platform.lake.read("s", columns=["id"]).column("id").to_pylist())) == confirmed
        subprocess.run(["mount", "-o", "remount,size=96m", str(small)], check=True)
        append_all(30)
        found = platform.lake.read("s", columns=["id"]).column("id").to_pylist()
        assert sorted(found) == [place for place in range(30) for _ in range(20_000)]


def ingest_all(platform):
    while not run_ingest(platform.work, "s").caught_up:
        pass


def rows_in(platform, sql):
    return [tuple(row) for row in platform.execute(sql)]


def test_a_home_that_can_not_be_written_is_no_hindrance(tmp_path):
    """A cold start of the server, a query and the shell, by a user whose home is read-only."""
    with disk(tmp_path / "home", "ro,size=1m") as home:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "PLATFORM_"))}
        environment = kept | {"HOME": str(home), "PLATFORM_RUNTIME_DIR": str(tmp_path / "run"), "PLATFORM_URL": str(tmp_path / "lake")}

        def platform(*arguments, stdin=""):
            return subprocess.run(
                [sys.executable, "-m", "platform_plugin.cli", *arguments],
                input=stdin, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=200, check=True,
            )  # fmt: skip

        try:
            platform("init", str(tmp_path / "lake"))
            said = platform("sql", "-c", "CREATE TABLE t AS SELECT id FROM range(10); SELECT sum(id) AS total FROM t;").stdout
            assert "45" in said
            assert "45" in platform("sql", stdin="SELECT sum(id) AS total FROM t").stdout
            assert list(home.iterdir()) == []
        finally:
            platform("down")


@pytest.mark.parametrize(
    "sql", ["INSERT INTO t SELECT id FROM range(1000, 2000)", "UPDATE t SET id = id + 1", "CREATE TABLE u AS SELECT 1 AS a"]
)
def test_a_server_killed_while_its_client_commits_takes_nothing_with_it(tmp_path, monkeypatch, sql):
    """The commit is the client's own: with the files written, it needs no server."""
    committed = Commit.__exit__
    killed = []

    def kill_then_commit(self, *arguments):
        if not killed and arguments[0] is None:
            details = status(runtime=runtime).details
            os.kill(details["jvm_pid"], signal.SIGKILL)
            os.kill(details["pid"], signal.SIGKILL)
            killed.append(details["pid"])
            while status(runtime=runtime).running:
                time.sleep(0.05)
        return committed(self, *arguments)

    with server(tmp_path / "run", monkeypatch) as runtime, Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE t AS SELECT id FROM range(1000)")
        before = platform.lake.snapshot().id
        monkeypatch.setattr(Commit, "__exit__", kill_then_commit)
        platform.execute(sql)
        monkeypatch.undo()
        monkeypatch.setenv(RUNTIME_VARIABLE, str(runtime.path))
        assert killed
        assert platform.lake.snapshot().id == before + 1
        counted = list(platform.execute("SELECT count(*), sum(id) FROM t"))
        assert counted == {"I": [(2000, 1_999_000)], "U": [(1000, 500_500)], "C": [(1000, 499_500)]}[sql[0]]
        assert status(runtime=runtime).details["pid"] not in killed


def test_a_query_that_needs_more_memory_than_there_is(tmp_path, monkeypatch):
    """It fails, or the server ends and says why; the next statement is answered either way."""
    with server(tmp_path / "run", monkeypatch), Platform.create(tmp_path / "lake") as platform:
        hungry = "SELECT length(concat_ws('', collect_list(repeat('x', 1000)))) AS n FROM range(0, 1500000, 1, 2)"
        with pytest.raises(PlatformError) as caught:
            platform.execute(hungry).arrow()
        assert caught.value.hint
        assert "emory" in str(caught.value) or "too large" in str(caught.value)
        assert list(platform.execute("SELECT 1")) == [(1,)]
