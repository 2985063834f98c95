"""Tables that are built day by day: any range in one run, other days untouched, twice the same."""

from __future__ import annotations

import dagster as dg
import pytest

from platform_plugin import Platform
from platform_plugin.errors import InvalidValue
from platform_plugin.orchestration.model import read_models

DAILY = "CREATE TABLE daily AS SELECT day, sum(score) AS score FROM visits GROUP BY day"
DAYS = "partitions: {column: day, start: 2026-01-01}"


def test_only_what_a_query_builds_has_days(project):
    project.write(visits="CREATE TABLE visits (day DATE, score INT)", visits_yml=DAYS)
    with pytest.raises(InvalidValue, match=r'"visits.sql" has partitions but no query'):
        read_models(project.folder)


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
