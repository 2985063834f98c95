"""Views of a lake whose catalogue is PostgreSQL and whose files are in an object store: executors read and write these without a jar."""

from __future__ import annotations

import pyarrow as pa
import pytest

from platform_plugin.engine.limits import Limits
from platform_plugin.engine.spark.server.attach import stop
from platform_plugin.engine.spark.server.runtime import open_runtime
from platform_plugin.engine.spark.server.settings import ServerSettings
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform


@pytest.mark.spark
@pytest.mark.slow
def test_file_tasks_maintain_views_in_a_bucket(postgres_database, s3_bucket, tmp_path, monkeypatch):
    # A server of its own, whose workers learn of the store from the environment.
    monkeypatch.setenv("PLATFORM_RUNTIME_DIR", str(tmp_path / "run"))
    settings = ServerSettings(cores=2, driver_memory_mib=1024)
    try:
        with Platform.create(postgres_database.lake_url(f"{s3_bucket}/lake"), settings=settings) as platform:
            platform.execute("CREATE STREAM calls (k BIGINT, v BIGINT) WITH (retention_rows = 1000)")
            platform.execute("CREATE TABLE users (id BIGINT, name STRING)")
            platform.execute("INSERT INTO users VALUES (1, 'Ada'), (2, 'Grace')")
            platform.execute(
                "CREATE VIEW sums AS SELECT u.name, count(*) AS n, sum(c.v) AS s FROM calls c JOIN users u ON c.k = u.id GROUP BY u.name"
            )
            platform.work.engine = "executors"
            platform.work.limits = Limits(task_least_rows=1)
            stream = platform.lake.table("calls")
            for number in range(1, 4):
                rows = pa.table({"k": pa.array([1, 2, 1], pa.int64()), "v": pa.array([1, 10, 100], pa.int64())})
                with platform.lake.commit("append") as commit:
                    commit.append(stream, [platform.lake.write(stream, rows) for _ in range(2)])
                done = run_maintenance(platform.work)
                assert not done.failed, done.failed
                assert (done.jobs, done.tasks, dict(done.on_spark)) == (1, 2, {})
                found = platform.execute("SELECT name, n, s FROM sums")
                assert sorted(found) == [("Ada", 4 * number, 202 * number), ("Grace", 2 * number, 20 * number)]
    finally:
        stop(runtime=open_runtime(tmp_path / "run"))
