"""Samples as assets: drawn when they are materialized, kept up by a sensor, and never drawn anew to match a file."""

from __future__ import annotations

import dagster as dg
import pytest

from platform_plugin import Platform
from platform_plugin.orchestration.sensors.refreshing import DueViews, plan_refresh
from platform_plugin.orchestration.sensors.sampling import read_sample_waiting

SAMPLE = "-- A look at posts.\nCREATE SAMPLE some_posts ON posts SIZE 5 WITH (seed = 7)"

SCHEMA = "dagster/column_schema"


def shown(specs):
    chosen = ("some_posts", "more", "old_posts", "by_hand")
    return {name: [column.description for column in specs[name].metadata[SCHEMA].columns] for name in chosen if name in specs}


def waiting(shop):
    with Platform.open(shop.lake) as platform:
        return read_sample_waiting(platform.lake, platform.lake.snapshot())


def test_a_file_declares_a_sample_with_the_columns_of_what_it_is_of(shop):
    shop.write(some=SAMPLE)
    spec = shop.specs()["some_posts"]
    assert (spec.group_name, spec.kinds, spec.tags["platform/upkeep"]) == ("samples", {"sample", "spark"}, "sample")
    assert [dep.asset_key.to_user_string() for dep in spec.deps] == ["posts"]
    assert [column.name for column in spec.metadata["dagster/column_schema"].columns] == ["uid", "score"]
    assert spec.description.startswith("A look at posts.")


def test_samples_and_histories_keep_what_is_said_of_the_columns(shop):
    shop.write(
        posts="CREATE STREAM posts (uid INT COMMENT 'who', score INT COMMENT 'how much', at TIMESTAMP) WITH (retention_rows = 1000);",
        posts_yml="columns: {score: How far it went.}",
        some=SAMPLE,
        some_yml="columns: {AT: When.}",
        last="CREATE SAMPLE last_posts ON posts SIZE 5 WITH (window = '1 hour')",
        more="CREATE SAMPLE more ON SAMPLES (some_posts, last_posts) SIZE 5",
        old="CREATE TABLE old_posts AS HISTORY OF posts",
    )
    said = ["who", "How far it went.", None]
    assert shown(shop.specs()) == {"some_posts": [*said[:2], "When."], "more": [*said[:2], "When."], "old_posts": said}
    assert [each.description for each in shop.materialize("posts", "old_posts")["old_posts"].metadata[SCHEMA].value.columns] == said
    with Platform.open(shop.lake) as platform:
        platform.execute("CREATE SAMPLE by_hand ON posts SIZE 5")
    assert shown(shop.specs())["by_hand"] == ["who", "how much", None], "what only the lake has says what the lake knows"


@pytest.mark.spark
def test_a_sample_is_drawn_kept_up_and_left_alone(shop, spark_server):
    shop.write(some=SAMPLE)
    shop.materialize("posts")
    with Platform.open(shop.lake) as platform:
        platform.execute("INSERT INTO posts VALUES " + ", ".join(f"({n}, {n})" for n in range(20)))
    first = shop.materialize("some_posts")["some_posts"].metadata
    assert (first["action"].value, first["cardinality"].value, first["dagster/row_count"].value) == ("created", 20, 5)
    assert first["picture"].value.startswith("![histograms of main.some_posts](data:image/svg+xml;base64,")
    assert [each.rows for each in waiting(shop)] == [0]
    with Platform.open(shop.lake) as platform:
        platform.execute("INSERT INTO posts SELECT CAST(id AS INT), CAST(id AS INT) FROM range(2)")
        (behind,) = read_sample_waiting(platform.lake, platform.lake.snapshot())
        assert behind.rows == 2
        due = plan_refresh([behind], behind.since.replace(year=behind.since.year + 1), pool="samples")
        assert isinstance(due, DueViews)
        platform.execute("INSERT INTO posts SELECT CAST(id AS INT), CAST(id AS INT) FROM range(600)")
        # Nothing has left the stream yet; it must be due before rows that wait keep any from leaving.
        (filling,) = read_sample_waiting(platform.lake, platform.lake.snapshot())
        assert filling.fullness == 0.602
        due = plan_refresh([filling], filling.since, pool="samples")
        assert isinstance(due, DueViews)
        assert due.reason == "60% of a stream are unconsumed rows"
    again = shop.materialize("some_posts")["some_posts"].metadata
    assert (again["action"].value, again["cardinality"].value) == ("unchanged", 622)
    shop.write(some=SAMPLE.replace("SIZE 5", "SIZE 6"))
    with pytest.raises(dg.Failure, match="is not what") as caught:
        shop.materialize("some_posts")
    assert "DROP SAMPLE" in caught.value.metadata["hint"].value


@pytest.mark.spark
def test_a_merged_sample_comes_after_its_parts_and_waits_for_no_sensor(shop, spark_server):
    shop.write(
        some=SAMPLE,
        more="CREATE STREAM more (uid INT, score INT)",
        some_more="CREATE SAMPLE some_more ON more SIZE 5",
        both="CREATE SAMPLE both ON SAMPLES (some_posts, some_more) SIZE 5",
    )
    spec = shop.specs()["both"]
    assert sorted(dep.asset_key.to_user_string() for dep in spec.deps) == ["some_more", "some_posts"]
    assert [column.name for column in spec.metadata["dagster/column_schema"].columns] == ["uid", "score"]
    shop.materialize("posts", "more", "some_posts", "some_more")
    with Platform.open(shop.lake) as platform:
        platform.execute("INSERT INTO posts VALUES " + ", ".join(f"({n}, {n})" for n in range(20)))
        platform.execute("INSERT INTO more VALUES (1, 1), (2, 2)")
    first = shop.materialize("both")["both"].metadata
    assert (first["action"].value, first["cardinality"].value, first["dagster/row_count"].value) == ("created", 22, 5)
    assert shop.materialize("both")["both"].metadata["action"].value == "unchanged"
    assert {each.view.relation for each in waiting(shop)} == {"some_posts", "some_more"}
