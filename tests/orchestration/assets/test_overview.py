"""The overview against a lake whose times are known."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta

import dagster as dg
import pyarrow as pa
import pytest

from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.orchestration import PlatformResource
from platform_plugin.orchestration.assets.overview import build_overview, overview_metadata
from platform_plugin.orchestration.shown.chart import as_markdown, draw_panels
from platform_plugin.orchestration.shown.history import POINTS, Arrival, plan_lags, plan_rates, read_timeline
from platform_plugin.platform import Platform

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def test_rates_count_what_came_in_each_step_and_nothing_from_before():
    came = [Arrival(next_row_id=n, at=NOON + at, rows=30) for n, at in ((30, -MINUTE), (60, timedelta(0)), (90, 59 * MINUTE))]
    rates = plan_rates(came, NOON, 60 * MINUTE)
    assert (len(rates), rates[0], rates[59], sum(rates)) == (POINTS, 0.5, 0.5, 1.0)


def test_lag_is_that_of_the_oldest_row_that_was_not_taken_up():
    came = [Arrival(next_row_id=10, at=NOON, rows=10), Arrival(next_row_id=20, at=NOON + 2 * MINUTE, rows=10)]
    known = [(NOON - MINUTE, 0), (NOON + 3 * MINUTE, 10)]
    moments = [NOON + number * MINUTE for number in (-1, 1, 2, 4)]
    assert plan_lags(came, known, moments) == [0.0, 60.0, 120.0, 120.0]


def test_a_chart_is_well_formed_whatever_things_are_called():
    svg = draw_panels(
        [("<lag>", "s", {f'"a&b<{number}': [0.0, float(number)] for number in range(9)}), ("none", "s", {})], since="a", until="b"
    )
    texts = [element.text for element in ET.fromstring(svg).iter() if element.tag.endswith("text")]
    assert {"<lag>", '"a&b<8', "and 3 more", "nothing yet"} <= set(texts)
    assert len(svg) < 10_000
    encoded = re.search(r"base64,(.*)\)", as_markdown(svg, said="x"))[1]
    assert base64.b64decode(encoded).decode() == svg


@pytest.fixture
def lake(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM posts (n BIGINT)")
        table = platform.lake.table("posts")
        with platform.lake.commit("append") as commit:
            commit.append(table, [platform.lake.write(table, pa.table({"n": pa.array(range(60), pa.int64())}))])
        yield platform.lake


@pytest.mark.spark
def test_the_overview_says_which_views_wait_for_their_first_run(lake, spark_server):
    with Platform.open(str(lake.location.folder)) as platform:
        for number in range(3):
            platform.execute(
                f"CREATE VIEW v{number} WITH (start = 'earliest') AS SELECT n % {number + 2} AS k, count(*) AS c FROM posts GROUP BY 1"
            )
        platform.execute("CREATE STREAM nothing (n INT)")
        platform.execute("CREATE VIEW empty AS SELECT n, count(*) AS c FROM nothing GROUP BY n")
        run_maintenance(platform.work, frozenset({Name.of("v0")}))
    figures = overview_metadata(lake, lake.snapshot(), datetime.now(UTC))
    status = {record.data["view"]: record.data["status"] for record in figures["view_list"].records}
    assert status == {"v0": "current", "v1": "waits for its first run", "v2": "waits for its first run", "empty": "current"}
    assert figures["views_without_run"] == 2
    late = overview_metadata(lake, lake.snapshot(), datetime.now(UTC) + timedelta(hours=1))
    assert {record.data["status"] for record in late["view_list"].records} == {"current", "waits for its first run"}


def test_the_overview_is_made_from_the_catalogue_alone(lake):
    now = datetime.now(UTC)
    timeline = read_timeline(lake, lake.snapshot(), now, window=POINTS * timedelta(seconds=10))
    assert timeline.until - timeline.since == timedelta(minutes=2), "what is younger than the window is drawn as large as can be"
    assert sum(timeline.rows_per_second["posts"]) * 2 == pytest.approx(60)
    with dg.DagsterInstance.ephemeral() as instance:
        resources = {"platform": PlatformResource(url=str(lake.location.folder))}
        (event,) = dg.materialize([build_overview()], resources=resources, instance=instance).get_asset_materialization_events()
    figures = event.materialization.metadata
    assert (figures["streams"].value, figures["views"].value, figures["late_views"].value) == (1, 0, 0)
    assert figures["timeline"].value.startswith("![")
