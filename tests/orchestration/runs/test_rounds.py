"""Rounds: one plain job for many relations, which tells Dagster of them what an asset job would, and asks for checks as well."""

from __future__ import annotations

from unittest import mock

import dagster as dg
import pytest

from platform_plugin import Platform
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.orchestration.assets.assets import build_assets
from platform_plugin.orchestration.assets.inventory import read_inventory
from platform_plugin.orchestration.assets.translator import Translator
from platform_plugin.orchestration.components.model import read_models
from platform_plugin.orchestration.runs.jobs import MaintainedAsset, op_name
from platform_plugin.orchestration.runs.work import RunOutcome, RunReport, run_each
from platform_plugin.orchestration.sensors import loops
from platform_plugin.orchestration.sensors.firing import FAILED
from platform_plugin.orchestration.sensors.loops import build_loops


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def two(shop):
    shop.write(impact_yml="checks: [schema_stable]", total="CREATE VIEW total AS SELECT count(*) AS n FROM posts")
    with Platform.create(shop.lake) as platform:
        platform.execute("CREATE STREAM posts (uid INT, score INT) WITH (retention_rows = 1000)")
    return shop


def definitions(project, translator=None, work=None):
    url, translator = str(project.lake), translator or Translator()
    built = build_assets(read_models(project.folder), read_inventory(url), translator)
    with mock.patch.object(loops, "run_views", work or loops.run_views):
        made = build_loops(url, translator, targets=built.targets, checked=built.checked)
    return dg.Definitions.merge(
        dg.Definitions(assets=list(built.assets), asset_checks=list(built.checks), resources=project.resources()), made
    )


def run(defs, instance, job, *, checks=None, **config):
    said = {"ops": {op_name(job): {"config": {**config, "checks": checks or {}}}}}
    return defs.resolve_job_def(job).execute_in_process(instance=instance, run_config=said, raise_on_error=False)


def nothing_done(_resource, targets, _log):
    failed = {str(target.name): InvalidValue("it broke", hint="mend it") for target in targets if target.name.relation == "total"}
    told = tuple(RunReport(name=target.name, metadata={"rows_in": 3}, version=9) for target in targets if str(target.name) not in failed)
    return RunOutcome(summary="done", told=told, failed=failed, shared={"jobs": 1})


def test_a_round_tells_of_each_view_with_the_versions_of_its_code_and_inputs(two, instance):
    instance.report_runless_asset_event(dg.AssetMaterialization("posts", tags={"dagster/data_version": "4"}))
    defs = definitions(two, work=nothing_done)
    done = run(defs, instance, "maintain_views_together", assets=["impact/impact_base"])
    assert done.success
    event = instance.get_latest_materialization_event(dg.AssetKey(["impact", "impact_base"]))
    assert (event.run_id, event.step_key, event.asset_materialization.metadata["rows_in"].value) == (
        done.run_id,
        "maintain_views_together_step",
        3,
    )
    tags = event.asset_materialization.tags
    spec = next(spec for spec in defs.resolve_all_asset_specs() if spec.key == dg.AssetKey(["impact", "impact_base"]))
    assert (tags["dagster/data_version"], tags["dagster/code_version"]) == ("9", spec.code_version)
    assert tags["dagster/input_data_version/posts"] == "4"
    assert instance.get_latest_materialization_event(dg.AssetKey(["total", "total_base"])) is None


def test_a_round_without_names_is_for_all_and_what_failed_is_told_on_its_own_page(two, instance):
    done = run(definitions(two, work=nothing_done), instance, "maintain_views_together")
    assert not done.success
    assert instance.get_run_by_id(done.run_id).tags[FAILED] == '["main.total"]'
    assert instance.get_latest_materialization_event(dg.AssetKey(["impact", "impact_base"])).run_id == done.run_id
    (record,) = instance.fetch_observations(dg.AssetKey(["total", "total_base"]), limit=5).records
    assert "it broke" in record.asset_observation.description
    assert record.asset_observation.metadata["hint"].value == "mend it"
    assert done.failure_data_for_node("maintain_views_together_step").user_failure_data.description.startswith("main.total: it broke")


def test_a_round_needs_no_configuration(two, instance):
    job = definitions(two, work=nothing_done).resolve_job_def("maintain_views_together")
    job.execute_in_process(instance=instance, raise_on_error=False)
    assert instance.get_latest_materialization_event(dg.AssetKey(["impact", "impact_base"])) is not None


def test_a_round_evaluates_the_checks_that_it_is_asked_for(two, instance):
    defs = definitions(two, work=nothing_done)
    key = dg.AssetCheckKey(dg.AssetKey("impact"), "schema_stable")
    assert run(
        defs,
        instance,
        "maintain_views_together",
        assets=["impact/impact_base"],
        checks={"impact": ["schema_stable", "nobody_declares_this"]},
    ).success
    record = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    assert record.status.value == "SUCCEEDED"


def test_an_asset_that_the_job_is_not_for_is_refused_with_a_proposal(two, instance):
    done = run(definitions(two, work=nothing_done), instance, "maintain_views_together", assets=["impct/impct_base"])
    failure = done.failure_data_for_node("maintain_views_together_step").user_failure_data
    assert 'asset "impct/impct_base" is not among those' in failure.description
    assert "impact/impact_base" in failure.metadata["hint"].value


def test_views_of_another_pool_have_a_job_of_their_own(two):
    class Apart(Translator):
        def pool(self, relation):
            return "slow" if relation.name.relation == "total" else super().pool(relation)

    defs = definitions(two, Apart())
    jobs = {job.name: job for job in defs.get_repository_def().get_all_jobs()}
    assert {"maintain_views_together", "maintain_views_together_slow", "maintain_views"} <= set(jobs)
    assert [jobs[name].graph.node_defs[0].pool for name in ("maintain_views_together", "maintain_views_together_slow")] == ["spark", "slow"]


@pytest.mark.spark
def test_a_stream_that_only_the_lake_knows_reads_its_source(project, instance, spark_server):
    with Platform.create(project.lake) as platform:
        platform.execute("CREATE TABLE raw (n INT)")
        platform.execute("CREATE STREAM copied FROM TABLE raw WITH (retention_rows = 100)")
        platform.execute("INSERT INTO raw VALUES (1), (2)")
    defs = definitions(project)
    repository = defs.get_repository_def()
    context = dg.build_sensor_context(instance=instance, repository_def=repository)
    (request,) = repository.get_sensor_def("bounded_ingestion").evaluate_tick(context).run_requests
    assert request.job_name == "ingest_streams_together"
    done = defs.resolve_job_def(request.job_name).execute_in_process(instance=instance, run_config=request.run_config)
    assert done.success
    event = instance.get_latest_materialization_event(dg.AssetKey("copied"))
    assert (event.run_id, event.asset_materialization.metadata["rows_in"].value) == (done.run_id, 2)
    assert not repository.get_sensor_def("bounded_ingestion").evaluate_tick(context).run_requests


def test_one_stream_that_fails_holds_up_no_other():
    with mock.patch("platform_plugin.orchestration.runs.work.run_stored", side_effect=InvalidValue("gone", hint="look")):
        target = MaintainedAsset(name=Name.of("x"), kind="stream", key=dg.AssetKey("x"))
        resource = mock.Mock(read_metrics=lambda: None, read_links=lambda: {"spark_tag": "r", "spark_ui": "http://127.0.0.1:4040/jobs/"})
        with mock.patch("platform_plugin.orchestration.runs.work.read_applied", return_value=[]):
            done = run_each(resource, [target], mock.Mock())
    assert (list(done.failed), done.told) == (["main.x"], ())
    assert done.shared == {"spark_tag": "r", "spark_ui": dg.MetadataValue.url("http://127.0.0.1:4040/jobs/")}
