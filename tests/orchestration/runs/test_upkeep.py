"""Upkeep as Dagster runs it: many views in one step, each with its own figures, and what the sensor sees before and after."""

from __future__ import annotations

import dagster as dg
import pytest

from platform_plugin import Platform
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.orchestration.assets.assets import build_assets
from platform_plugin.orchestration.assets.inventory import read_inventory
from platform_plugin.orchestration.assets.translator import Translator
from platform_plugin.orchestration.components.model import read_models
from platform_plugin.orchestration.runs.upkeep import run_upkeep
from platform_plugin.orchestration.sensors.firing import ESTIMATE, FAILED
from platform_plugin.orchestration.sensors.loops import build_loops
from platform_plugin.orchestration.sensors.refreshing import SENSOR_NAME
from platform_plugin.orchestration.sensors.waiting import read_waiting

pytestmark = pytest.mark.spark


def last_told(instance, key):
    return instance.get_latest_materialization_event(dg.AssetKey.from_user_string(key))


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def tick(shop, instance):
    url = str(shop.lake)
    built = build_assets(read_models(shop.folder), read_inventory(url), Translator())
    loops = build_loops(url, Translator(), targets=built.targets, checked=built.checked)
    definitions = dg.Definitions.merge(dg.Definitions(assets=list(built.assets), resources=shop.resources()), loops)
    sensor = definitions.get_repository_def().get_sensor_def(SENSOR_NAME)
    context = dg.build_sensor_context(instance=instance, repository_def=definitions.get_repository_def())
    return definitions, sensor.evaluate_tick(context)


def test_a_sensor_run_maintains_several_views_at_once_and_the_next_tick_has_nothing_to_do(shop, instance, spark_server, monkeypatch):
    monkeypatch.setenv("PLATFORM_LIMIT_CLIENT_RANGE_ROWS", "0")  # as if the ranges were large, so that Spark takes them up
    shop.write(
        impact="CREATE VIEW impact WITH (target_lag = '1 second') AS SELECT uid, avg(score) AS score FROM posts GROUP BY uid",
        total="CREATE VIEW total AS SELECT count(*) AS n FROM posts",
    )
    made = shop.materialize("posts", "impact/impact_base", "total/total_base", "impact")
    assert made["impact/impact_base"].metadata["action"].value == "created"
    assert made["impact"].metadata["status"].value == f"maintained at snapshot {made['impact'].metadata['snapshot'].value}"
    _, told = tick(shop, instance)
    assert told.skip_message == "no unconsumed rows for 2 views"
    with Platform.open(shop.lake) as platform:
        platform.execute("INSERT INTO posts VALUES (1, 4), (1, 6), (2, 10)")
        newest = platform.lake.snapshot().id
    definitions, told = tick(shop, instance)
    (request,) = told.run_requests
    assert request.run_key.endswith(f"-{newest}")
    assert (request.tags["for"], request.tags["why"].split(", ")[1]) == ("impact, total", "3 unconsumed rows")
    assert request.job_name == "maintain_views_together"
    assert request.run_config["ops"]["maintain_views_together_step"]["config"]["assets"] == ["impact/impact_base", "total/total_base"]
    job = definitions.resolve_job_def("maintain_views_together")
    done = job.execute_in_process(instance=instance, tags=request.tags, run_config=request.run_config)
    events = {key: last_told(instance, key) for key in ("impact/impact_base", "total/total_base")}
    assert {event.run_id for event in events.values()} == {done.run_id}
    events = {key: event.asset_materialization for key, event in events.items()}
    impact, total = (
        {name: value.value for name, value in events[key].metadata.items() if not name.endswith("_list")}
        for key in ("impact/impact_base", "total/total_base")
    )
    assert (impact["rows_in"], impact["groups_touched"], total["groups_touched"]) == (3, 2, 1)
    assert impact["lag_seconds_before"] > impact["lag_seconds_after"] == 0
    assert impact["state_rows"] == 2
    assert impact["jobs"] == total["jobs"] >= 1
    tasks = [record.data for record in events["impact/impact_base"].metadata["task_list"].records]
    assert tasks
    assert tasks[0]["seconds"] == max(task["seconds"] for task in tasks)
    assert {"tasks", "task_skew", "bytes_read", "bytes_written", "seconds"} <= set(impact)
    assert (impact["engine"], impact["engine_why"]) == ("executors", "not local: many rows, or rows that were changed")
    assert impact["rows_by_executors"] == 3
    assert impact["tasks_per_executor"] * impact["executors"] == sum(
        record.data["tasks"] for record in events["impact/impact_base"].metadata["executor_list"].records
    )
    assert impact["skew"] >= 1
    assert 0 < impact["client_bytes"] < 100_000
    assert {"core_rows_per_second", "engine_seconds", "engine_estimated_seconds"} <= set(impact)
    assert impact["estimated_seconds"] == float(request.tags[ESTIMATE]), "what was estimated before, beside seconds"
    assert impact["seconds"] > 0
    version = int(events["impact/impact_base"].tags["dagster/data_version"])
    assert version > newest
    with Platform.open(shop.lake) as platform:
        assert {waiting.taken_up for waiting in read_waiting(platform.lake, platform.lake.snapshot())} == {version}
    assert tick(shop, instance)[1].skip_message == "no unconsumed rows for 2 views"


def test_a_view_that_a_run_makes_is_told_of_even_if_nobody_chose_it(shop, instance, spark_server):
    assets = [asset for asset in shop.definitions().assets or () if isinstance(asset, dg.AssetsDefinition)]
    dg.materialize(assets, selection=["posts", "impact/impact_base"], resources=shop.resources(), instance=instance)
    told = last_told(instance, "impact")
    assert told.asset_materialization.metadata["status"].value.startswith("maintained at snapshot")
    assert [column.name for column in told.asset_materialization.metadata["dagster/column_schema"].value.columns] == ["uid", "score"]
    dg.materialize(assets, selection=["impact/impact_base"], resources=shop.resources(), instance=instance)
    assert last_told(instance, "impact").timestamp == told.timestamp, "only what is new"


def test_a_view_that_fails_is_named_and_holds_up_no_other(shop, instance, spark_server):
    shop.write(bad="CREATE VIEW bad AS SELECT 1 / sum(score) AS x, sum(CAST(concat('', score - 1) AS TINYINT)) AS y FROM posts")
    shop.materialize("posts", "impact/impact_base", "bad/bad_base")
    with Platform.open(shop.lake) as platform:
        platform.execute("INSERT INTO posts VALUES (1, 400)")
    definitions = shop.definitions()
    assets = [asset for asset in definitions.assets or () if isinstance(asset, dg.AssetsDefinition)]
    done = dg.materialize(
        assets, selection=["impact/impact_base", "bad/bad_base"], resources=shop.resources(), instance=instance, raise_on_error=False
    )
    assert not done.success
    assert {event.asset_key.to_user_string() for event in done.get_asset_materialization_events()} == {"impact/impact_base"}
    assert instance.get_run_by_id(done.run_id).tags[FAILED] == '["main.bad"]'


def test_a_target_lag_is_changed_in_place(shop, spark_server):
    shop.materialize("posts", "impact")
    with Platform.open(shop.lake) as platform:
        platform.execute("INSERT INTO posts VALUES (1, 4)")
    shop.write(impact="CREATE VIEW impact WITH (target_lag = '3 seconds') AS SELECT uid, avg(score) AS score FROM posts GROUP BY uid")
    assert shop.materialize("impact")["impact"].metadata["action"].value == "altered"
    assert shop.materialize("impact")["impact"].metadata["action"].value == "unchanged"
    with Platform.open(shop.lake) as platform:
        (waiting,) = read_waiting(platform.lake, platform.lake.snapshot())
        assert waiting.target_lag_seconds == 3.0
        assert list(platform.execute("SELECT uid, score FROM impact")) == [(1, 4.0)], "what it had taken up is still there"


def test_views_that_share_a_state_are_both_told_of_what_it_holds(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM posts (uid INT, score INT)")
        for name, least in (("most", 0), ("few", 1)):
            counted = "SELECT uid, count(*) AS n FROM posts GROUP BY uid"
            platform.execute(f"CREATE VIEW {name} AS SELECT uid, n FROM ({counted}) WHERE n > {least}")
        platform.execute("INSERT INTO posts VALUES (1, 4), (1, 6), (2, 10)")
        done = run_upkeep(platform, [Name.of("few"), Name.of("most")], [])
        told = {str(kept.name): (kept.rows_in, kept.groups_touched, kept.state_rows) for kept in done.kept}
        assert told == {"main.few": (3, 2, 2), "main.most": (3, 2, 2)}
