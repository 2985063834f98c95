"""The process of a run is killed at each point of its work: nothing is lost or taken up twice, and Dagster is told in the end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from platform_plugin import Platform
from platform_plugin.orchestration.preview import VERSION_TAG
from platform_plugin.orchestration.sensors import firing
from platform_plugin.orchestration.sensors.waiting import read_waiting
from tests.orchestration.round_killed import definitions

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(200)]
ROOT = Path(__file__).parents[2]
BASE = dg.AssetKey(["impact", "impact_base"])
POINTS = [
    "platform_plugin.orchestration.runs.upkeep:find_changed:before",
    "platform_plugin.orchestration.runs.upkeep:run_maintenance:before",
    "platform_plugin.orchestration.runs.upkeep:run_maintenance:after",
    "platform_plugin.orchestration.runs.rounds:report_materializations:before",
    "platform_plugin.orchestration.runs.rounds:report_materializations:after",
    "platform_plugin.orchestration.runs.rounds:evaluate:before",
]


def tick(project, instance):
    defs = definitions(project)
    repository = defs.get_repository_def()
    context = dg.build_sensor_context(instance=instance, repository_def=repository)
    return defs, repository.get_sensor_def("split_refresh").evaluate_tick(context)


@pytest.mark.parametrize("point", POINTS, ids=[":".join(point.split(":")[1:]) for point in POINTS])
def test_a_killed_run_is_repeated_and_everything_is_there_once(shop, tmp_path, spark_server, monkeypatch, point):
    shop.write(
        impact="CREATE VIEW impact WITH (target_lag = '1 second') AS SELECT uid, count(*) AS n, sum(score) AS s FROM posts GROUP BY uid",
        impact_yml="checks: [schema_stable]",
    )
    home = tmp_path / "home"
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        shop.materialize("posts", "impact/impact_base", instance=instance)
    with Platform.open(shop.lake) as platform:
        platform.execute("INSERT INTO posts VALUES (1, 4), (1, 6), (2, 10)")
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        _, told = tick(tmp_path, instance)
    (request,) = told.run_requests
    command = [sys.executable, "-m", "tests.orchestration.round_killed", str(tmp_path), str(home), point]
    done = subprocess.run(
        [*command, json.dumps(request.run_config), json.dumps(dict(request.tags))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        (run,) = instance.get_runs(filters=dg.RunsFilter(job_name="maintain_views_together"))
        # As the daemon does once it sees that the process is gone.
        instance.report_run_failed(run)
        lost = firing.read_runs(instance, "split_refresh")
        earlier = tuple(replace(each, ended=datetime.now(UTC) - timedelta(minutes=1)) for each in lost)
        monkeypatch.setattr(firing, "read_runs", lambda *_: earlier)
        defs, told = tick(tmp_path, instance)
        (request,) = told.run_requests
        again = defs.resolve_job_def(request.job_name).execute_in_process(instance=instance, run_config=request.run_config)
        assert again.success
        newest = instance.get_latest_materialization_event(BASE)
    with Platform.open(shop.lake) as platform:
        assert sorted(platform.execute("SELECT uid, n, s FROM impact")) == [(1, 2, 10), (2, 1, 10)]
        (waiting,) = read_waiting(platform.lake, platform.lake.snapshot())
    assert waiting.rows == 0
    assert newest.asset_materialization.tags[VERSION_TAG] == str(waiting.taken_up)
    assert newest.run_id == again.run_id
