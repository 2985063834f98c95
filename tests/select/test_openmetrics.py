"""Metrics of a lake and a server: read by a parser of OpenMetrics that is not ours, and equal to what is counted otherwise."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.stalls import note_stall
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.feeds.ingest import run_ingest
from platform_plugin.relations.streams.feeds.positions import note_offset
from platform_plugin.select.openmetrics import FAMILIES, MetricSources, list_metrics, render_metrics
from platform_plugin.select.overview import read_overview

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "watch.md"
SERVER = {
    "running": True,
    "sessions": 2,
    "running_queries": 1,
    "task_slots": 8,
    "running_tasks": 3,
    "executors": 4,
    "heap_bytes": 1 << 30,
}
NAME, LABEL = r"[a-z_]+", r'[a-z]+="(?:[^"\\\n]|\\[\\n"])*"'
LINE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")


@pytest.fixture
def platform(lake_url):
    with Platform.create(lake_url) as platform:
        platform.execute("CREATE STREAM posts (uid INT, score INT) WITH (retention_rows = 1000)")
        platform.execute("CREATE VIEW impact AS SELECT uid, sum(score) AS score FROM posts GROUP BY uid")
        platform.execute("CREATE SAMPLE some_posts ON posts SIZE 10 WITH (seed = 7)")
        platform.execute('CREATE TABLE `a "b\\c` (id INT)')
        yield platform


def render(platform, server=SERVER, now=None):
    overview = read_overview(str(platform.lake.location))
    return MetricSources(overview, server, now or datetime.now(UTC), "1.2.3")


def values(sources):
    found = {}
    for each in list_metrics(sources):
        key = (each["name"], *sorted(each["labels"].items()))
        assert key not in found, "a value once"
        found[key] = each["value"]
    return found


def of(name, relation, kind, **more):
    return (name, *sorted({"schema": "main", "name": relation, "kind": kind, **more}.items()))


def test_the_figures_are_those_of_the_lake(platform):
    with platform.stream("posts") as posts:
        posts.append([{"uid": number % 7, "score": number} for number in range(100)])
    before = datetime.now(UTC)
    later = values(render(platform, now=before + timedelta(seconds=60)))
    assert later[of("platform_waiting_rows", "impact", "view")] == 100
    assert 60 <= later[of("platform_lag_seconds", "impact", "view")] < 120
    assert later[of("platform_relation_rows", "posts", "stream")] == 100
    assert before.timestamp() - 60 < later[of("platform_last_arrival_timestamp_seconds", "posts", "stream")] <= before.timestamp()
    done = run_maintenance(platform.work)
    assert not done.failed
    found = values(render(platform))
    assert found[of("platform_waiting_rows", "impact", "view")] == 0
    assert found[of("platform_lag_seconds", "impact", "view")] == 0
    assert found[of("platform_waiting_rows", "some_posts", "sample")] == 0
    run = ("engine", "local"), ("name", "impact"), ("schema", "main")
    assert found["platform_run_rows", *run] == 100
    assert found["platform_run_seconds", *run] > 0
    assert found["platform_snapshot",] == platform.lake.newest_id()
    lake = platform.lake
    stored = [file for table in lake.tables(lake.snapshot()) for file in lake.scan(table, lake.snapshot()).files]
    assert found["platform_files",] == len(stored)
    assert found["platform_bytes",] == sum((Path(lake.storage.root) / file.path).stat().st_size for file in stored)
    assert found["platform_server_task_slots",] == 8


def test_stalls_leases_and_consumers_are_told(platform):
    platform.execute("CREATE TABLE users (id INT)")
    note_stall(platform.lake, Name.of("impact"), cause="maintenance", error=InvalidValue("no", hint="mend it"), row_count=5)
    with platform.lake.lease():
        held = platform.lake.newest_id()
        platform.execute("INSERT INTO users VALUES (1)")
        found = values(render(platform))
    stall = ("cause", "maintenance"), ("name", "impact"), ("schema", "main")
    assert (found["platform_stall", *stall], found["platform_stall_rows", *stall]) == (1, 5)
    assert (found["platform_leases",], found["platform_oldest_leased_snapshot",]) == (1, held)


def test_without_a_lake_and_a_server_there_is_a_text(platform):
    assert render_metrics(MetricSources(None, {"running": False}, datetime.now(UTC), "1")).splitlines()[-1] == "# EOF"


def test_each_line_is_of_the_format(platform):
    """A reading of the format that needs no package; the next test has one."""
    lines = render_metrics(render(platform)).split("\n")
    assert lines[-2:] == ["# EOF", ""]
    known = {family.name: family for family in FAMILIES}
    begun: list[str] = []
    for line in lines[:-2]:
        if line.startswith("# TYPE "):
            begun.append(line.split()[2])
        elif not line.startswith("# "):
            match = LINE.fullmatch(line)
            assert match, line
            assert match[1].removesuffix("_info") == begun[-1], "the values of a metric stand together"
    assert len(set(begun)) == len(begun)
    assert set(begun) <= set(known)
    for family in FAMILIES:
        assert not family.unit or family.name.endswith(f"_{family.unit}")


def test_a_parser_of_openmetrics_reads_the_same(platform):
    with platform.stream("posts") as posts:
        posts.append([{"uid": 1, "score": 2}])
    run_maintenance(platform.work)
    sources = render(platform)
    families = list(text_string_to_metric_families(render_metrics(sources)))
    read = {
        (sample.name.removesuffix("_info"), *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }
    assert read == values(sources)
    assert {family.name: (family.type, family.unit, family.documentation) for family in families} == {
        family.name: (family.kind, family.unit, family.about) for family in FAMILIES if list(family.samples(sources))
    }


def test_the_page_has_a_row_for_each_metric():
    rows = re.findall(r"^\| `(platform\w*)` \|", PAGE.read_text(), re.MULTILINE)
    assert rows == [f"{family.name}_info" if family.kind == "info" else family.name for family in FAMILIES]


def test_feeds_say_how_far_they_are_behind(platform):
    platform.execute("CREATE TABLE orders (id INT)")
    platform.execute("INSERT INTO orders VALUES (1), (2), (3)")
    platform.execute("CREATE STREAM copies FROM TABLE orders")
    assert run_ingest(platform.work, "copies").rows == 3
    assert values(render(platform))[of("platform_waiting_rows", "copies", "stream")] == 0
    platform.execute("INSERT INTO orders VALUES (4), (5)")
    found = values(render(platform, now=datetime.now(UTC) + timedelta(seconds=60)))
    assert found[of("platform_waiting_rows", "copies", "stream")] == 2
    assert 60 <= found[of("platform_lag_seconds", "copies", "stream")] < 120
    stream = platform.lake.table("copies")
    with platform.lake.commit("as an ingestion of a topic does") as commit:
        note_offset(commit, stream, 3, 77, "topic", expected=None)
    offset = ("name", "copies"), ("partition", "3"), ("schema", "main")
    assert values(render(platform))["platform_feed_offset", *offset] == 77
    platform.execute("CREATE TABLE users (id INT)")
    platform.execute("CREATE STREAM user_changes FROM TABLE users (changes = true)")
    platform.execute("INSERT INTO users VALUES (1)")
    assert run_ingest(platform.work, "user_changes").rows == 1
    platform.execute("INSERT INTO users VALUES (2)")
    consumer = ("consumer", "stream main.user_changes"), ("name", "users"), ("schema", "main")
    assert values(render(platform))["platform_consumer_lag_snapshots", *consumer] >= 1
