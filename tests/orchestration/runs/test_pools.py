"""Runs of one cluster wait for each other, whatever they do; those of this machine's own server as they always did."""

import dagster as dg
import pytest

from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.orchestration.assets.translator import Translator
from platform_plugin.orchestration.runs.jobs import MaintainedAsset
from platform_plugin.orchestration.runs.pools import find_slot, name_cluster
from platform_plugin.orchestration.runs.work import RunOutcome
from platform_plugin.orchestration.sensors.loops import SensorSetting, build_jobs


@pytest.mark.parametrize(
    ("pool", "endpoint", "upkeep", "slot"),
    [
        ("spark", None, "maintain", "spark"),
        ("spark", "sc://localhost:15002", "maintain", "spark"),
        ("spark", "sc://a.b:15002/;token=x", "maintain", "spark_a_b_15002"),
        ("slow", "sc://a.b:15002", "maintain", "slow"),
        ("samples", None, "sample", None),
        ("samples", "sc://a.b:15002", "sample", "spark_a_b_15002"),
        ("ingestion", "sc://a.b:15002", "ingest", "spark_a_b_15002"),
    ],
)
def test_the_slot_of_a_run(pool, endpoint, upkeep, slot):
    assert find_slot(pool, endpoint, upkeep=upkeep) == slot


def test_no_credential_is_in_a_pools_name():
    assert "secret" not in name_cluster("sc://a:1/;token=secret;user_id=secret")


@pytest.mark.parametrize(("spark", "pool"), [("", "spark"), ("?spark=sc://far:15002", "spark_far_15002")])
def test_the_jobs_of_sensors_take_the_place_of_their_cluster(tmp_path, spark, pool):
    target = MaintainedAsset(name=Name.of("v"), kind="view", key=dg.AssetKey("v"))
    setting = SensorSetting(url=f"platform+local://{tmp_path}/lake{spark}", translator=Translator(), targets=[target])
    jobs = build_jobs("maintain_views", "maintain", lambda *_: RunOutcome(summary=""), "view", setting, description="")
    (op,) = jobs.together["spark"].graph.node_defs
    assert op.pool == pool
