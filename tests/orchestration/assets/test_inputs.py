"""Assets that receive relations: as what they ask for, all at one snapshot, which is stated."""

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from platform_plugin import Platform
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.orchestration import ContinuousViewInput, PlatformResource, ViewReader

pytestmark = pytest.mark.spark
NAMES = [dg.AssetSpec(name) for name in ("impact", "again", "total", "empty", "impcat")]


@pytest.fixture
def lake(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM posts (uid INT, score INT)")
        platform.execute("CREATE VIEW impact AS SELECT uid, sum(score) AS score FROM posts GROUP BY uid")
        platform.execute("CREATE VIEW again AS SELECT * FROM impact")
        for name in ("total", "empty"):
            platform.execute(f"CREATE VIEW {name} AS SELECT count(*) AS n FROM posts")
        platform.execute("INSERT INTO posts VALUES (1, 4), (1, 6), (2, 10)")
        yield platform


def run(lake, *assets):
    platform = PlatformResource(url=str(lake.lake.location.folder))
    resources = {"platform": platform, "platform_views": ViewReader(platform=platform)}
    with dg.DagsterInstance.ephemeral() as instance:
        return dg.materialize([*assets, *NAMES], resources=resources, instance=instance)


def test_a_view_comes_as_what_the_argument_says_and_all_at_one_snapshot(lake, spark_server):
    seen = {}
    first = lake.lake.snapshot().id

    @dg.asset(
        ins={
            "impact": ContinuousViewInput("impact", columns=["uid", "score"], where="score >= 10"),
            "again": ContinuousViewInput("again"),
            "total": ContinuousViewInput("total"),
            "empty": ContinuousViewInput("empty", snapshot=first - 1),
        }
    )
    def campaign(impact: pa.Table, again: pd.DataFrame, total: DataFrame, empty: pa.Table) -> None:
        # What arrives after the first argument was read is in none of them.
        seen.update(impact=impact.to_pylist(), again=again, total=total.collect()[0][0], empty=empty.to_pylist())

    class Meddling(ViewReader):
        def load_input(self, context):
            found = super().load_input(context)
            lake.execute("INSERT INTO posts VALUES (3, 10)")
            return found

    platform = PlatformResource(url=str(lake.lake.location.folder))
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(
            [campaign, *NAMES], resources={"platform": platform, "platform_views": Meddling(platform=platform)}, instance=instance
        )
    assert sorted(row["uid"] for row in seen["impact"]) == [1, 2]
    assert isinstance(seen["again"], pd.DataFrame)
    assert (len(seen["again"]), seen["total"], seen["empty"]) == (2, 3, [{"n": 0}])
    inputs = [event for event in done.all_events if event.event_type_value == "LOADED_INPUT"]
    assert {event.event_specific_data.metadata["snapshot"].value for event in inputs} == {first, first - 1}


def test_an_argument_is_what_passed_a_gate_last(lake, spark_server):
    seen = []
    with lake.lake.gates.guarding(Name.of("total"), lambda *_: None):
        lake.execute("REFRESH VIEW total")
    lake.execute("INSERT INTO posts VALUES (-1, 10)")
    lake.execute("REFRESH VIEW total")

    @dg.asset(ins={"total": ContinuousViewInput("total", passed=True)})
    def campaign(total: pa.Table) -> None:
        seen.extend(total.to_pylist())

    done = run(lake, campaign)
    assert seen == [{"n": 3}]
    (event,) = (event for event in done.all_events if event.event_type_value == "LOADED_INPUT")
    assert "snapshot" not in event.event_specific_data.metadata, "it has a snapshot of its own"
    with pytest.raises(InvalidValue, match="both `snapshot` and `passed`"):
        ContinuousViewInput("total", passed=True, snapshot=3)


def test_a_relation_that_is_missing_is_a_failure_with_a_hint(lake, spark_server):
    @dg.asset(ins={"impcat": ContinuousViewInput("impcat")})
    def campaign(impcat: pa.Table) -> None:
        pass

    with pytest.raises(dg.Failure, match="impcat"):
        run(lake, campaign)
