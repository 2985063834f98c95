"""From rows that are pushed to what somebody reads, through the processes that a team deploys; and runs that are cancelled or killed."""

from __future__ import annotations

import os
import signal
import time

import pyarrow as pa
import pytest

from platform_plugin import Platform
from platform_plugin.engine.spark.server.control import ask
from tests.deploy.services import Services

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(900)]
pytest.importorskip("dagster_postgres")

SQL = {
    "posts.sql": "CREATE STREAM posts (uid INT, score INT) WITH (retention_rows = 1000000)",
    "impact.sql": "CREATE VIEW impact WITH (target_lag = '2 seconds', start = 'earliest') AS"
    " SELECT uid, count(*) AS posts, avg(score) AS score FROM posts GROUP BY uid",
    "impact.yml": "checks: [reconciles]",
    "slow.sql": "CREATE TABLE slow AS SELECT sum(pmod(hash(id), 7)) AS s FROM range(0, 1000000000000)",
}


@pytest.fixture(scope="module")
def services(spark_server, postgres_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("team")
    database = postgres_server.database("dagster_services")
    postgres_server.execute(f'CREATE DATABASE "{database.name}"')
    made = Services(folder=folder, database=database, lake=f"platform+local://{folder}/lake")
    try:
        yield made.start(SQL)
    finally:
        made.stop()
        postgres_server.execute(f'DROP DATABASE IF EXISTS "{database.name}" WITH (FORCE)')


def rows(count):
    return pa.table({"uid": pa.array([n % 7 for n in range(count)], pa.int32()), "score": pa.array(range(count), pa.int32())})


def version(materialization):
    return next((int(tag["value"]) for tag in materialization["tags"] if tag["key"] == "dagster/data_version"), None)


def test_pushed_rows_become_a_new_version_a_check_and_a_downstream_table(services, capsys):
    assert services.ended(services.launch("posts", "impact/impact_base", "impact"))["status"] == "SUCCESS"
    before = services.materializations("impact/impact_base")[0]
    ran_before = len(services.materializations("campaign"))
    with Platform.open(services.lake) as platform:
        platform.stream("posts").append(rows(5_000))
    pushed = time.time()
    after = services.wait(
        "a new version of the base",
        lambda: (found := services.materializations("impact/impact_base")[0])["timestamp"] != before["timestamp"] and found,
    )
    assert version(after) > version(before)
    figures = {entry["label"]: entry.get("intValue", entry.get("floatValue")) for entry in after["metadataEntries"]}
    assert (figures["rows_in"], figures["rows_waiting"]) == (5_000, 0)
    run = services.ended(after["runId"])
    assert run["status"] == "SUCCESS"

    def checked():
        found = {each["name"]: each["executionForLatestMaterialization"] for each in services.checks("impact")}
        return all(each and each["evaluation"] for each in found.values()) and found

    checks = services.wait("the checks", checked)
    assert checks["reconciles"]["evaluation"]["success"]
    assert "within_lag" in checks
    downstream = services.wait(
        "the downstream asset", lambda: (found := services.materializations("campaign", 50))[ran_before:] and found[0]
    )
    hops = {
        "rows pushed → run asked for": run["creationTime"] - pushed,
        "→ run started": run["startTime"] - run["creationTime"],
        "→ new data version": float(after["timestamp"]) / 1000 - run["startTime"],
        "→ checks done, run ended": run["endTime"] - float(after["timestamp"]) / 1000,
        "rows pushed → downstream asset": float(downstream["timestamp"]) / 1000 - pushed,
    }
    with capsys.disabled():
        print("".join(f"\n  {hop}: {seconds:.2f} s" for hop, seconds in hops.items()), f"\n  load {os.getloadavg()[0]:.1f}")
    assert sum(hops.values()) < 300


def jobs(runtime):
    return ask(runtime.control, "status")["running_jobs"]


def test_a_cancelled_run_leaves_no_spark_job_and_nothing_behind(services, spark_server, capsys):
    run_id = services.launch("slow")
    services.wait("a Spark job of the run", lambda: jobs(spark_server))
    asked = time.monotonic()
    services.terminate(run_id)
    services.wait("the end of the Spark job", lambda: not jobs(spark_server), seconds=60)
    gone = time.monotonic() - asked
    assert services.ended(run_id)["status"] == "CANCELED"
    with capsys.disabled():
        print(f"\n  cancelled → no Spark job: {gone:.2f} s")
    assert gone < 20, "it is two seconds on a machine that is not busy"
    with Platform.open(services.lake) as platform:
        assert not any(table.name.relation == "slow" for table in platform.lake.tables())


def test_a_killed_run_ends_its_spark_job_and_can_be_repeated(services, spark_server, capsys):
    run_id = services.launch("slow")
    services.wait("a Spark job of the run", lambda: jobs(spark_server))
    asked = time.monotonic()
    os.kill(services.process_of(run_id), signal.SIGKILL)
    services.wait("the end of the Spark job", lambda: not jobs(spark_server), seconds=60)
    with capsys.disabled():
        print(f"\n  killed → no Spark job: {time.monotonic() - asked:.2f} s")
    with Platform.open(services.lake) as platform:
        platform.stream("posts").append(rows(7))
        platform.close()
    assert services.ended(services.launch("impact/impact_base"))["status"] == "SUCCESS"
    with Platform.open(services.lake) as platform:
        together = sum(count for (count,) in platform.execute("SELECT posts FROM impact"))
        held = platform.lake.read("posts").num_rows
    assert together == held
