"""How a stream must announce rows so that what is downstream runs when something changed, and only then: our contract with Dagster."""

from __future__ import annotations

import dagster as dg
import pytest

from platform_plugin.orchestration.assets.automation import upstream_changed
from platform_plugin.orchestration.preview import as_virtual
from platform_plugin.orchestration.runs.batching import report_without_run

VERSIONS = (None, "7", "7", "8", "8", "8")


def downstream(condition, dep="stream"):
    @dg.asset(deps=[dep], automation_condition=condition)
    def table():
        pass

    return table


def requests(defs, announce):
    """How many runs each announcement asks for, after everything was there once."""
    with dg.DagsterInstance.ephemeral() as instance:
        told = dg.evaluate_automation_conditions(defs=defs, instance=instance)
        counts = []
        for version in VERSIONS:
            if version is not None:
                announce(instance, version)
            told = dg.evaluate_automation_conditions(defs=defs, instance=instance, cursor=told.cursor)
            counts.append(told.total_requested)
            if told.total_requested:
                # What was asked for is done, as the daemon would.
                assert (
                    defs.resolve_implicit_global_asset_job_def()
                    .execute_in_process(instance=instance, asset_selection=[dg.AssetKey("table")])
                    .success
                )
    return counts


def materialization(instance, version):
    instance.report_runless_asset_event(dg.AssetMaterialization("stream", tags={"dagster/data_version": version}))


def together(instance, version):
    tags = {"dagster/data_version": version}
    report_without_run(instance, [dg.AssetMaterialization("other", tags=tags), dg.AssetMaterialization("stream", tags=tags)])


def observation(instance, version):
    instance.report_runless_asset_event(dg.AssetObservation("stream", tags={"dagster/data_version": version}))


@dg.observable_source_asset(name="stream")
def observed():
    return dg.DataVersion("0")


@pytest.mark.parametrize(
    ("stream", "announce", "condition", "expected"),
    [
        (dg.AssetSpec("stream"), observation, dg.AutomationCondition.eager(), [0, 0, 0, 0, 0, 0]),
        (dg.AssetSpec("stream"), materialization, dg.AutomationCondition.eager(), [0, 1, 0, 1, 0, 1]),
        (dg.AssetSpec("stream"), materialization, upstream_changed(), [0, 1, 0, 1, 0, 0]),
        (dg.AssetSpec("stream"), together, dg.AutomationCondition.eager(), [0, 1, 0, 1, 0, 1]),
        (dg.AssetSpec("stream"), together, upstream_changed(), [0, 1, 0, 1, 0, 0]),
        (observed, observation, dg.AutomationCondition.eager(), [0, 1, 0, 1, 0, 0]),
    ],
    ids=[
        "an observation wakes nobody",
        "eager runs for nothing",
        "ours runs for changes",
        "eager sees what is told together",
        "ours sees what is told together",
        "an observable source runs for changes",
    ],
)
def test_what_each_way_of_announcing_rows_causes(stream, announce, condition, expected):
    assert requests(dg.Definitions(assets=[stream, downstream(condition)]), announce) == expected


def test_a_change_is_seen_through_a_view():
    view = as_virtual(dg.AssetSpec("view", deps=["stream"]))
    defs = dg.Definitions(assets=[dg.AssetSpec("stream"), view, downstream(upstream_changed(), "view")])
    assert requests(defs, materialization) == [0, 1, 0, 1, 0, 0]
