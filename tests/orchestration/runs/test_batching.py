"""Many materializations written together are, for whoever reads them, what Dagster would have written one by one."""

from __future__ import annotations

import dagster as dg
import pytest

from platform_plugin.orchestration.preview import VERSION_TAG, version_tags
from platform_plugin.orchestration.runs.batching import report_materializations, report_without_run

COUNT = 230
KEYS = [dg.AssetKey([f"view_{number}", "base"]) for number in range(COUNT)]


def told(number, version="7"):
    return dg.AssetMaterialization(
        KEYS[number],
        metadata={"rows_in": number, "lag": 0.5, "tasks": dg.MetadataValue.table([dg.TableRecord({"seconds": 1.0})])},
        tags={VERSION_TAG: version, "dagster/code_version": "c"},
    )


@dg.op
def together(context):
    report_materializations(context, [told(number) for number in range(COUNT)])


@dg.op
def one_by_one(context):
    for number in range(COUNT):
        context.log_event(told(number))


@pytest.fixture(params=["in memory", "in files", "postgres"])
def instance(request, tmp_path):
    if request.param == "in memory":
        with dg.DagsterInstance.ephemeral() as made:
            yield made
    elif request.param == "in files":
        with dg.DagsterInstance.local_temp(str(tmp_path)) as made:
            yield made
    else:
        pytest.importorskip("dagster_postgres")
        server = request.getfixturevalue("postgres_server")
        database = server.database("dagster_batching")
        server.execute(f'CREATE DATABASE "{database.name}"')
        storage = {"hostname": database.host, "port": database.port, "username": database.user, "password": "none"}
        storage |= {"db_name": database.name, "scheme": "postgresql+psycopg2"}
        try:
            with dg.DagsterInstance.local_temp(str(tmp_path), overrides={"storage": {"postgres": {"postgres_db": storage}}}) as made:
                yield made
        finally:
            server.execute(f'DROP DATABASE IF EXISTS "{database.name}" WITH (FORCE)')


def run(instance, op):
    job = dg.GraphDefinition(name="work", node_defs=[op]).to_job(executor_def=dg.in_process_executor)
    done = job.execute_in_process(instance=instance)
    assert done.success
    return done.run_id


def what_is_seen(instance, run_id):
    """Everything that the interface and automation ask for, without times, numbers and processes."""
    records = instance.get_asset_records(KEYS)
    latest = {}
    for record in records:
        entry = record.asset_entry
        event = entry.last_materialization_record.event_log_entry
        assert entry.last_run_id == event.run_id == run_id
        latest[entry.asset_key] = (event.asset_materialization, event.job_name, event.step_key is None)
        fetched = instance.fetch_materializations(entry.asset_key, limit=1).records[0]
        assert fetched.storage_id == entry.last_materialization_record.storage_id
        assert fetched.event_log_entry == event
    in_run = [
        (event.dagster_event.asset_key, event.dagster_event.message, event.level)
        for event in instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    ]
    tagged = {key: instance.get_event_tags_for_asset(key, filter_tags={VERSION_TAG: "7"}) for key in KEYS[:3]}
    return latest, sorted(in_run), tagged


def without_steps(seen):
    latest, in_run, tagged = seen
    return (
        {key: materialization for key, (materialization, _, _) in latest.items()},
        in_run,
        {key: tags[-1:] for key, tags in tagged.items()},
    )


@pytest.mark.parametrize(
    "instance", ["in memory", "in files", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.slow])], indirect=True
)
def test_what_is_written_together_reads_like_what_is_written_one_by_one(instance):
    first = what_is_seen(instance, run(instance, one_by_one))
    again = what_is_seen(instance, run(instance, together))
    assert without_steps(first) == without_steps(again)
    assert len(again[0]) == len(again[1]) == COUNT
    report_without_run(instance, [told(3, "8")])
    newest = instance.get_latest_materialization_event(KEYS[3])
    assert (newest.run_id, newest.asset_materialization.tags[VERSION_TAG]) == ("", "8")


def test_versions_are_tagged_as_an_asset_job_tags_them():
    @dg.asset(code_version="2")
    def stream():
        return dg.MaterializeResult(data_version=dg.DataVersion("5"))

    @dg.asset(deps=[stream, "never"], code_version="c")
    def base():
        return dg.MaterializeResult(data_version=dg.DataVersion("7"))

    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize([stream, base, dg.AssetSpec("never")], instance=instance)
        events = {event.asset_key.to_user_string(): event for event in done.get_asset_materialization_events()}
        number = instance.get_asset_records([dg.AssetKey("stream")])[0].asset_entry.last_materialization_record.storage_id
    ours = version_tags("7", "c", {dg.AssetKey("stream"): ("5", number), dg.AssetKey("never"): None})
    assert events["base"].materialization.tags == ours
