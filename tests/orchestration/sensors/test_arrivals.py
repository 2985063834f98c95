"""The sensor of arrivals: each new row is reported once, with rates, by a tick that starts nothing."""

from __future__ import annotations

import asyncio
import sys

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.loader import LoadingContextForTest

from platform_plugin.orchestration.assets.translator import Translator
from platform_plugin.orchestration.sensors.arrivals import build_arrivals_sensor
from platform_plugin.orchestration.sensors.firing import read_memory
from platform_plugin.platform import Platform


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM posts (n BIGINT) WITH (retention_rows = 10)")
        made.execute("CREATE TABLE users (n BIGINT)")
        yield made


@pytest.fixture
def tick(tmp_path):
    sensor = build_arrivals_sensor(str(tmp_path / "lake"), Translator())

    def evaluate(cursor=None):
        """What the sensor says, and what it told Dagster of, by asset."""
        with dg.DagsterInstance.ephemeral() as instance:
            told = sensor.evaluate_tick(dg.build_sensor_context(instance=instance, cursor=cursor))
            latest = instance.get_latest_materialization_events(instance.get_asset_keys())
            return told, {key.to_user_string(): event.asset_materialization for key, event in latest.items()}

    return evaluate


def append(platform, first, count):
    lake = platform.lake
    table = lake.table("posts")
    with lake.commit("append") as commit:
        commit.append(table, [lake.write(table, pa.table({"n": pa.array(range(first, first + count), pa.int64())}))])


def test_new_rows_are_reported_once_with_their_rates(platform, tick):
    told, events = tick()
    assert events == {}
    assert told.skip_message.startswith("no new rows in 1 stream ")
    append(platform, 0, 6)
    told, events = tick(told.cursor)
    assert (set(events), told.skip_message) == ({"posts", "platform/overview"}, "notified Dagster of 2 assets")
    event = events["posts"]
    assert event.tags["dagster/data_version"] == str(platform.lake.snapshot().id)
    figures = {name: value.value for name, value in event.metadata.items()}
    assert (figures["rows_in"], figures["dagster/row_count"], figures["segments"]) == (6, 6, 1)
    assert figures["rows_per_second"] == pytest.approx(0.1)
    again, events = tick(told.cursor)
    assert events == {}
    append(platform, 6, 20)
    _, events = tick(again.cursor)
    assert {key: event.metadata["rows_in"].value for key, event in events.items()} == {"posts": 20}


def test_rows_that_a_run_has_told_of_are_observed_so_that_its_checks_stay(platform, tmp_path):
    append(platform, 0, 6)
    posts, version = dg.AssetKey("posts"), {"dagster/data_version": str(platform.lake.snapshot().id)}
    with dg.DagsterInstance.ephemeral() as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization(posts, metadata={"by": "a run"}, tags=version))
        sensor = build_arrivals_sensor(str(tmp_path / "lake"), Translator())
        told = sensor.evaluate_tick(dg.build_sensor_context(instance=instance))
        assert instance.get_latest_materialization_event(posts).asset_materialization.metadata["by"].value == "a run"
        (seen,) = instance.fetch_observations(posts, limit=5).records
        assert seen.event_log_entry.asset_observation.metadata["rows_in"].value == 6
        append(platform, 6, 1)
        sensor.evaluate_tick(dg.build_sensor_context(instance=instance, cursor=told.cursor))
        assert "by" not in instance.get_latest_materialization_event(posts).asset_materialization.metadata


def test_a_table_that_somebody_wrote_to_is_told_of_with_the_snapshot_that_changed_it(platform, tmp_path):
    platform.execute("CREATE TABLE results (n BIGINT)")
    sensor = build_arrivals_sensor(str(tmp_path / "lake"), Translator(), built={dg.AssetKey("results")})
    with dg.DagsterInstance.ephemeral() as instance:

        def evaluate(cursor=None):
            return sensor.evaluate_tick(dg.build_sensor_context(instance=instance, cursor=cursor))

        told = evaluate()
        platform.execute("INSERT INTO users VALUES (1), (2)")
        changed = platform.lake.snapshot().id
        platform.execute("INSERT INTO results VALUES (1)")
        told = evaluate(told.cursor)
        assert told.skip_message == "notified Dagster of 1 asset"
        event = instance.get_latest_materialization_event(dg.AssetKey("users"))
        assert event.asset_materialization.tags["dagster/data_version"] == str(changed)
        assert "no new rows" in evaluate(told.cursor).skip_message


def test_what_a_run_has_told_of_is_observed_so_that_its_checks_stand(platform, tmp_path):
    sensor = build_arrivals_sensor(str(tmp_path / "lake"), Translator(), overview=False)
    posts = dg.AssetKey("posts")
    with dg.DagsterInstance.ephemeral() as instance:
        first = sensor.evaluate_tick(dg.build_sensor_context(instance=instance))
        append(platform, 0, 6)
        version = str(platform.lake.snapshot().id)
        instance.report_runless_asset_event(dg.AssetMaterialization(posts, tags={"dagster/data_version": version}, description="a run"))
        sensor.evaluate_tick(dg.build_sensor_context(instance=instance, cursor=first.cursor))
        assert instance.get_latest_materialization_event(posts).asset_materialization.description == "a run"
        (seen,) = instance.fetch_observations(posts, limit=5).records
        assert seen.asset_observation.metadata["rows_in"].value == 6


@pytest.mark.parametrize("passed", [True, False])
def test_a_check_that_failed_still_stands_after_new_rows(platform, tmp_path, passed):
    posts = dg.AssetKey("posts")

    @dg.asset(key=posts)
    def fed():
        pass

    @dg.asset_check(asset=posts, name="no_quarantine")
    def check():
        return dg.AssetCheckResult(passed=passed, severity=dg.AssetCheckSeverity.WARN, description="as a run found it")

    sensor = build_arrivals_sensor(str(tmp_path / "lake"), Translator(), overview=False)
    definitions = dg.Definitions(assets=[fed], asset_checks=[check], sensors=[sensor])
    with dg.DagsterInstance.ephemeral() as instance:
        definitions.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)

        def evaluate(cursor=None):
            repository = definitions.get_repository_def()
            return sensor.evaluate_tick(dg.build_sensor_context(instance=instance, cursor=cursor, repository_def=repository))

        def stands():
            key = dg.AssetCheckKey(posts, "no_quarantine")
            record = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
            return asyncio.run(record.targets_latest_materialization(LoadingContextForTest(instance)))

        told = evaluate()
        assert stands()
        for first in (0, 6):
            append(platform, first, 6)
            told = evaluate(told.cursor)
            # Nobody has looked whether the new rows pass.
            assert stands() is not passed


def test_a_lake_that_is_away_is_a_reason_to_skip(tmp_path, tick):
    assert "yet; the first run creates it" in tick()[0].skip_message


def test_a_strange_cursor_counts_as_none():
    assert read_memory("nonsense") == read_memory('{"v": 99, "rows": {"a": 1}}') == read_memory(None) == {}


def test_a_tick_needs_no_spark(platform, tick):
    append(platform, 0, 1)
    before = set(sys.modules)
    assert tick()[1]
    assert not any(name.startswith("pyspark") for name in set(sys.modules) - before)
