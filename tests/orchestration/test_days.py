"""Tables that are built part by part, by day or by rows: any range in one run, other rows untouched, twice the same."""

from __future__ import annotations

from types import SimpleNamespace

import dagster as dg
import pytest

from platform_plugin import Platform
from platform_plugin.errors import InvalidValue
from platform_plugin.orchestration import SqlFolder
from platform_plugin.orchestration.components.model import read_models

DAILY = "CREATE TABLE daily AS SELECT day, sum(score) AS score FROM visits GROUP BY day"
DAYS = "partitions: {column: day, start: 2026-01-01}"


def test_only_what_a_query_builds_has_days(project):
    project.write(visits="CREATE TABLE visits (day DATE, score INT)", visits_yml=DAYS)
    with pytest.raises(InvalidValue, match=r'"visits.sql" has partitions but no query'):
        read_models(project.folder)


def test_an_odd_partition_is_told_as_what_it_is(project):
    for said, fault in (
        ("{column: id, rows: 0}", "line 1: partitions.rows.rows: it should be greater than 0"),
        ("{column: day}", "line 1: partitions.days.start is missing"),
    ):
        project.write(daily=DAILY, daily_yml=f"partitions: {said}")
        with pytest.raises(InvalidValue) as caught:
            read_models(project.folder)
        assert caught.value.detail == fault


@pytest.mark.spark
def test_ranges_of_rows_are_added_as_a_stream_grows_and_built_together(project, spark_server):
    project.write(posts="CREATE STREAM posts (score INT) WITH (retention_rows = 1000)")
    project.write(log="CREATE TABLE log AS SELECT _row_id AS id, score FROM posts", log_yml="partitions: {column: id, rows: 3}")
    project.materialize("posts")
    with Platform.open(project.lake) as platform:
        platform.execute("INSERT INTO posts VALUES " + ", ".join(f"({n})" for n in range(8)))
    context = SimpleNamespace(path=project.folder, project_root=project.folder)
    folder = SqlFolder(path=".", url=str(project.lake)).build_defs(context)
    definitions = dg.Definitions.merge(folder, dg.Definitions(resources=project.resources()))
    repository = definitions.get_repository_def()

    def build(instance, first, last):
        tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        assets = [asset for asset in definitions.assets if isinstance(asset, dg.AssetsDefinition) and dg.AssetKey("log") in asset.keys]
        done = dg.materialize(assets, resources=project.resources(), instance=instance, tags=tags)
        return sorted(event.materialization.partition for event in done.get_asset_materialization_events())

    def rows():
        with Platform.open(project.lake) as platform:
            return sorted(number for (number,) in platform.execute("SELECT id FROM log"))

    with dg.DagsterInstance.ephemeral() as instance:
        cursor = None
        for expected in (["0-2", "3-5", "6-8"], []):
            sensor_context = dg.build_sensor_context(instance=instance, repository_def=repository, cursor=cursor)
            told = repository.get_sensor_def("stream_arrivals").evaluate_tick(sensor_context)
            cursor = told.cursor
            asked = [key for request in told.dynamic_partitions_requests or () for key in request.partition_keys]
            assert asked == expected
            if asked:
                instance.add_dynamic_partitions("main.log", asked)
        assert build(instance, "0-2", "3-5") == ["0-2", "3-5"]
        assert rows() == [0, 1, 2, 3, 4, 5]
        for _ in range(2):
            assert build(instance, "3-5", "6-8") == ["3-5", "6-8"]
            assert rows() == list(range(8))


@pytest.mark.spark
def test_a_range_of_days_is_built_by_one_run_and_can_be_repeated(project, spark_server):
    project.write(visits="CREATE TABLE visits (day DATE, score INT)", daily=DAILY, daily_yml=DAYS)
    project.materialize("visits")
    with Platform.open(project.lake) as platform:
        platform.execute(
            "INSERT INTO visits VALUES (DATE '2026-01-01', 1), (DATE '2026-01-02', 2), (DATE '2026-01-02', 3), (DATE '2026-01-03', 4)"
        )

    def build(first, last):
        definitions = project.definitions()
        chosen = [asset for asset in definitions.assets or () if isinstance(asset, dg.AssetsDefinition)]
        tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        with dg.DagsterInstance.ephemeral() as instance:
            done = dg.materialize(chosen, selection=["daily"], resources=project.resources(), instance=instance, tags=tags)
        return {name: value.value for name, value in done.get_asset_materialization_events()[0].materialization.metadata.items()}

    def rows():
        with Platform.open(project.lake) as platform:
            return sorted((str(day), score) for day, score in platform.execute("SELECT day, score FROM daily"))

    first = build("2026-01-01", "2026-01-02")
    assert (first["action"], first["rows_in"], first["days"]) == ("created", 2, 2)
    assert rows() == [("2026-01-01", 1), ("2026-01-02", 5)]
    with Platform.open(project.lake) as platform:
        platform.execute("UPDATE visits SET score = score + 10")
    for _ in range(2):
        assert build("2026-01-02", "2026-01-03")["rows_in"] == 2
        assert rows() == [("2026-01-01", 1), ("2026-01-02", 25), ("2026-01-03", 14)]
