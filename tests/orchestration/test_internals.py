"""What is used of Dagster's private modules does what its public doors do, and stands in one module."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import dagster as dg
import pytest

from platform_plugin.orchestration import internals
from platform_plugin.orchestration.internals import (
    AssetJob,
    has_event_tables,
    read_failed_checks,
    runless_entry,
    step_entry,
    store_entries,
)
from platform_plugin.orchestration.preview import VERSION_TAG

PACKAGE = Path(internals.__file__).parents[1]
KEY = dg.AssetKey("impact")
EVENT = dg.AssetMaterialization(KEY, metadata={"rows_in": 3}, tags={VERSION_TAG: "7"})
CHECK = dg.AssetCheckKey(KEY, "within_lag")


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def last(instance):
    return instance.get_latest_materialization_event(KEY)


def seen(entry):
    """What of an entry does not depend on when and by whom it was written."""
    told = entry.dagster_event
    return (
        *(entry.level, entry.step_key, entry.job_name, entry.asset_materialization),
        *(told.event_type, told.message, told.step_handle, told.node_handle, told.step_kind_value, told.logging_tags, told.pid),
    )


def test_private_modules_and_attributes_of_dagster_are_used_here_alone():
    modules, attributes = set(), set()
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules |= {place for name in names if name.startswith("dagster") and "._" in name}
            owner = node.value.id if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else ""
            if owner in ("storage", "instance", "context", "run", "record", "dg") and re.fullmatch(r"_[a-z]\w+", node.attr):
                attributes.add(place)
    assert (modules, attributes) == ({"orchestration/internals.py"}, {"orchestration/internals.py"})


def test_what_defines_an_asset_job_returns_one():
    assert isinstance(dg.define_asset_job("j"), AssetJob)


def test_an_instance_of_ours_keeps_its_events_in_tables(instance):
    assert has_event_tables(instance)


def test_an_entry_without_a_run_is_the_one_that_dagster_writes(instance):
    instance.report_runless_asset_event(EVENT)
    written, ours = last(instance), runless_entry(EVENT)
    assert (written.run_id, written.job_name, written.asset_materialization) == (ours.run_id, ours.job_name, ours.asset_materialization)
    assert seen(written)[6:] == seen(ours)[6:], "no step made it"


def test_an_entry_of_a_step_is_the_one_that_dagster_writes(instance):
    made = []

    @dg.op
    def tell(context):
        made.append(step_entry(context, EVENT))
        context.log_event(EVENT)

    job = dg.GraphDefinition(name="work", node_defs=[tell]).to_job(executor_def=dg.in_process_executor)
    done = job.execute_in_process(instance=instance)
    assert seen(last(instance)) == seen(made[0])
    assert last(instance).run_id == made[0].run_id == done.run_id


def test_stored_entries_are_found_by_asset_and_by_tag(instance):
    others = [dg.AssetMaterialization(dg.AssetKey(name)) for name in ("a", "b")]
    store_entries(instance, [runless_entry(event) for event in (EVENT, *others)])
    assert last(instance).asset_materialization == EVENT
    assert set(instance.all_asset_keys()) == {KEY, dg.AssetKey("a"), dg.AssetKey("b")}
    assert instance.event_log_storage.get_event_tags_for_asset(KEY) == [{VERSION_TAG: "7"}]


def test_a_check_that_failed_in_a_run_is_read_and_one_that_was_told_without_a_run_is_not(instance):
    @dg.asset(name="impact", check_specs=[dg.AssetCheckSpec("within_lag", asset="impact")])
    def impact():
        yield dg.MaterializeResult(check_results=[dg.AssetCheckResult(passed=False, metadata={"lag": 9})])

    assert read_failed_checks(instance, [CHECK]) == []
    dg.materialize([impact], instance=instance)
    (found,) = read_failed_checks(instance, [CHECK])
    assert (found.asset_check_key, found.passed, found.metadata["lag"].value) == (CHECK, False, 9)
    instance.report_runless_asset_event(found)
    assert read_failed_checks(instance, [CHECK]) == []
    assert read_failed_checks(instance, []) == []
