"""The kernel as tasks of a Spark job: the answers of the kernel in one process, and of DuckDB over the same files."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from platform_plugin.engine.limits import Limits
from platform_plugin.engine.spark.server.attach import stop
from platform_plugin.engine.spark.server.runtime import open_runtime
from platform_plugin.engine.spark.tasks import job
from platform_plugin.errors import ServerError
from platform_plugin.lake.files import files
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.views.follow import passes

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_server")]

PACKAGE = Path(files.__file__).parents[2]
VIEWS = {
    "sums": "SELECT k, count(*) AS n, sum(v) AS s, avg(v) AS a FROM calls GROUP BY k",
    "all_rows": "SELECT count(*) AS n, min(v) AS least, max(v) AS most FROM calls",
    "filtered": "SELECT k % 3 AS third, count(DISTINCT v) AS n FROM calls WHERE v > 40 GROUP BY k % 3",
    "joined": "SELECT u.name, sum(c.v) AS s FROM calls c JOIN users u ON c.k = u.id GROUP BY u.name",
    "numbered": "SELECT k, max(_row_id) AS last FROM calls GROUP BY k",
    "daily": "SELECT date_trunc('DAY', _arrived_at) IS NOT NULL AS is_known, count(*) AS n FROM calls GROUP BY 1",
}


@pytest.fixture
def platform(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ROW_GROUP_ROWS", 10)
    with Platform.create(f"platform+local://{tmp_path}/lake") as platform:
        platform.execute("CREATE STREAM calls (k BIGINT, v BIGINT) WITH (retention_rows = 1000000)")
        platform.execute("CREATE TABLE users (id BIGINT, name STRING)")
        platform.execute("INSERT INTO users VALUES " + ", ".join(f"({number}, 'user {number % 4}')" for number in range(8)))
        platform.work.engine = "executors"
        platform.work.limits = Limits(task_least_rows=1, task_part_rows=7)
        yield platform


def arrive(platform, count, seed=1):
    chance = random.Random(seed)
    table = platform.lake.table("calls")
    rows = [(chance.choice([None, *range(8)]), chance.choice([None, *range(100)])) for _ in range(count)]
    columns = {name: pa.array([row[place] for row in rows], pa.int64()) for place, name in enumerate(("k", "v"))}
    with platform.lake.commit("append") as commit:
        commit.append(table, [platform.lake.write(table, pa.table(columns))])
    return rows


def read(platform, name):
    return sorted((tuple(row.values()) for row in platform.execute(f"SELECT * FROM {name}").arrow().to_pylist()), key=repr)


def create(platform, names=tuple(VIEWS)):
    for name in names:
        platform.execute(f"CREATE VIEW {name} WITH (start = 'earliest') AS {VIEWS[name]}")


def test_one_job_computes_all_views_as_the_process_does(platform, tmp_path, duck):
    create(platform)
    with Platform.create(f"platform+local://{tmp_path}/other") as other:
        other.execute("CREATE STREAM calls (k BIGINT, v BIGINT) WITH (retention_rows = 1000000)")
        other.execute("CREATE TABLE users (id BIGINT, name STRING)")
        other.execute("INSERT INTO users VALUES " + ", ".join(f"({number}, 'user {number % 4}')" for number in range(8)))
        create(other)
        for seed in range(2):
            for _ in range(3):
                arrive(platform, 40, seed)
                arrive(other, 40, seed)
            done = run_maintenance(platform.work)
            assert done.jobs == 1
            assert done.tasks >= 2
            assert not done.on_spark
            assert not done.failed
            assert not run_maintenance(other.work).jobs
        for name in VIEWS:
            assert read(platform, name) == read(other, name), name
    found = duck(str(platform.lake.location)).rows("SELECT k, count(*), sum(v) FROM calls GROUP BY k")
    assert {row[:3] for row in read(platform, "sums")} == set(map(tuple, found))


def test_a_range_of_one_file_is_divided_at_its_row_groups(platform):
    create(platform, ["sums"])
    rows = arrive(platform, 500)
    (written,) = platform.lake.scan(platform.lake.table("calls"), platform.lake.snapshot()).files
    assert pq.ParquetFile(platform.lake.storage.absolute(written.path)).num_row_groups == 50
    done = run_maintenance(platform.work)
    assert done.jobs == 1
    expected = defaultdict(int)
    for k, _ in rows:
        expected[k] += 1
    assert {row[0]: row[1] for row in read(platform, "sums")} == expected


def test_what_the_kernel_refuses_in_one_task_is_spark_sqls_for_the_whole_range(platform):
    platform.execute("CREATE VIEW ratio WITH (start = 'earliest') AS SELECT k, sum(100 / v) AS s FROM calls WHERE v IS NOT NULL GROUP BY k")
    create(platform, ["sums"])
    table = platform.lake.table("calls")
    for values in ([1, 2, 4], [5, 0, 10]):
        with platform.lake.commit("append") as commit:
            commit.append(table, [platform.lake.write(table, pa.table({"k": [1, 1, 1], "v": values}))])
    done = run_maintenance(platform.work)
    assert list(done.failed) == ["main.ratio"]
    assert "division" in str(done.failed["main.ratio"]).lower()
    assert "main.sums" in done.views
    assert read(platform, "sums")[0][1] == 6


def test_executors_with_another_version_that_stays_are_told_of(platform, monkeypatch):
    create(platform, ["sums"])
    arrive(platform, 20)
    # Whatever is sent to the executors has another checksum.
    monkeypatch.setattr(job, "read_fingerprint", lambda: "0" * 8)
    with pytest.raises(ServerError, match="does not have this version"):
        run_maintenance(platform.work)


@pytest.mark.slow
def test_the_package_is_sent_to_executors_with_another_version(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(PACKAGE, elsewhere / "platform_plugin", ignore=shutil.ignore_patterns("__pycache__"))
    with (elsewhere / "platform_plugin" / "errors.py").open("a") as file:
        file.write("# another version\n")
    monkeypatch.setenv("PLATFORM_RUNTIME_DIR", str(tmp_path / "run"))
    room = "platform_plugin.engine.spark.server"
    begin = f"from {room} import attach, settings; attach.start(settings.ServerSettings(cores=2, driver_memory_mib=1024))"
    subprocess.run([sys.executable, "-c", begin], cwd=elsewhere, env={**os.environ, "PYTHONPATH": str(elsewhere)}, check=True)
    try:
        with Platform.create(tmp_path / "lake") as platform:
            platform.execute("CREATE STREAM calls (k BIGINT, v BIGINT)")
            platform.work.engine = "executors"
            create(platform, ["sums"])
            sent = []
            ship = job.ship_package
            monkeypatch.setattr(job, "ship_package", lambda session: sent.append(1) or ship(session))
            for _ in range(2):
                arrive(platform, 20)
                assert "main.sums" in run_maintenance(platform.work).views
            assert sent == [1], "once for a session"
    finally:
        stop(runtime=open_runtime(tmp_path / "run"))


def test_programs_travel_by_pickle(platform):
    create(platform)
    programs = []
    send = job.make_function

    def seen(sent, shares, fingerprint):
        programs.extend(map(pickle.loads, sent))
        return send(sent, shares, fingerprint)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(job, "make_function", seen)
        arrive(platform, 20)
        run_maintenance(platform.work)
    (program,) = programs
    assert len(program.tasks) == len(VIEWS)
    assert not hasattr(program.folder, "location"), "no catalogue, and no password of it, travels"


def test_views_at_different_positions_and_the_merges_of_states_are_one_job(platform):
    platform.work.limits = Limits(task_least_rows=1, task_part_rows=7, client_state_bytes=0)
    create(platform, ["sums"])
    rows, merges = [], 0
    for seed in range(9):
        rows += arrive(platform, 30, seed)
        done = run_maintenance(platform.work)
        assert done.jobs == 1
        merges += done.compacted
        # A task for each share, and one for the merge.
        assert done.tasks == 2 + done.compacted
    assert merges
    create(platform, ["all_rows"])
    rows += arrive(platform, 30, 9)
    done = run_maintenance(platform.work)
    assert done.jobs == 1
    assert done.tasks >= 4
    assert not done.on_spark
    assert read(platform, "all_rows")[0][0] == len(rows)
    counts = defaultdict(int)
    for k, _ in rows:
        counts[k] += 1
    assert {row[0]: row[1] for row in read(platform, "sums")} == counts


def test_what_spark_sql_computes_is_written_by_its_tasks_in_the_same_job(platform):
    create(platform, ["sums"])
    # The kernel has no such function.
    platform.execute("CREATE VIEW soundly WITH (start = 'earliest') AS SELECT soundex(string(v)) AS s, count(*) AS n FROM calls GROUP BY 1")
    platform.work.limits = Limits(task_least_rows=1, sent_range_rows=0)
    rows = arrive(platform, 60)
    done = run_maintenance(platform.work)
    assert list(done.on_spark) == ["main.soundly"]
    assert done.jobs == 1
    assert sum(row[1] for row in read(platform, "soundly")) == len(rows)
    assert sum(row[1] for row in read(platform, "sums")) == len(rows)


def test_spark_sql_groups_by_all_keys_first_where_their_groups_are_few(platform, monkeypatch):
    monkeypatch.setattr(files, "ROW_GROUP_ROWS", 400)
    platform.work.engine = "spark_sql"
    platform.work.limits = Limits(sent_range_rows=0)
    platform.execute("CREATE VIEW by_k WITH (start = 'earliest') AS SELECT k, count(*) AS n FROM calls GROUP BY k")
    platform.execute("CREATE VIEW by_v WITH (start = 'earliest') AS SELECT v, sum(k) AS s FROM calls GROUP BY v")
    seen = []
    find = passes.find_sharing
    monkeypatch.setattr(passes, "find_sharing", lambda *given: seen.append(find(*given)) or seen[-1])
    table = platform.lake.table("calls")
    for keys, is_lattice in ((3, True), (400, False)):
        rows = [(number % keys, number % (keys - 1)) for number in range(400)]
        with platform.lake.commit("append") as commit:
            columns = {name: pa.array([row[place] for row in rows], pa.int64()) for place, name in enumerate(("k", "v"))}
            commit.append(table, [platform.lake.write(table, pa.table(columns))])
        assert run_maintenance(platform.work).jobs == 1
        assert [query.lattice for query in seen[-1][1].queries] == [is_lattice]
    assert sum(row[1] for row in read(platform, "by_k")) == 800
