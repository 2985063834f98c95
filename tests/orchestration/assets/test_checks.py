"""Checks as Dagster runs them: chosen singly, judged together, with what breaks them on show."""

from __future__ import annotations

import datetime as dt

import dagster as dg
import pytest

from platform_plugin import Platform
from platform_plugin.errors import InvalidValue
from platform_plugin.orchestration.assets.checks import MOST_SINGLE, TOGETHER, _rows, check_names
from platform_plugin.orchestration.components.model import read_models
from platform_plugin.quality.suite import Suite
from tests.lake.changing import end_rows

SUITE = """
rows: changes
expectations:
  - {type: expect_column_values_to_be_unique, kwargs: {column: id}}
  - {type: expect_column_values_to_not_be_null, kwargs: {column: region}, severity: warning}
"""


def check(project, instance, *names):
    """What the checks of these names found, by `asset:check`."""
    definitions = project.definitions()
    wanted = dg.AssetSelection.checks(*(dg.AssetCheckKey(dg.AssetKey(asset.split("/")), name) for asset, name in names))
    job = dg.define_asset_job("check", selection=wanted)
    merged = dg.Definitions.merge(definitions, dg.Definitions(jobs=[job]))
    done = merged.resolve_job_def("check").execute_in_process(instance=instance)
    return {f"{each.asset_key.to_user_string()}:{each.check_name}": each for each in done.get_asset_check_evaluations()}


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def test_what_is_checked_is_declared_or_goes_without_saying(shop):
    shop.write(impact="CREATE VIEW impact WITH (target_lag = '5 seconds') AS SELECT uid, avg(score) AS score FROM posts GROUP BY uid")
    shop.write(impact_yml="checks: [reconciles]", clicks="CREATE STREAM clicks (a INT) FROM FILES '/in/*.csv' (FORMAT csv)")
    (shop.folder / "users.expectations.yml").write_text(SUITE)
    names = {model.name.relation: check_names(model) for model in read_models(shop.folder)}
    assert names["impact"] == ["reconciles", "within_lag"]
    assert names["clicks"] == ["no_quarantine"]
    assert names["users"] == ["expect_column_values_to_be_unique__id", "expect_column_values_to_not_be_null__region"]
    assert names["posts"] == []
    specs = {spec.name: spec.description for checks in shop.definitions().asset_checks or () for spec in checks.check_specs}
    assert specs["expect_column_values_to_not_be_null__region"] == 'expect_column_values_to_not_be_null {"column": "region"} (warning)'
    assert all(specs.values())
    many = [{"type": "expect_column_max_to_be_between", "kwargs": {"column": "id", "max_value": most}} for most in range(MOST_SINGLE + 1)]
    (shop.folder / "users.expectations.yml").write_text(f"expectations: {many}")
    assert check_names(next(model for model in read_models(shop.folder) if model.name.relation == "users")) == [TOGETHER]


def test_a_suite_that_is_wrong_stops_loading_and_names_its_file(shop):
    (shop.folder / "users.expectations.yml").write_text("expectations: []")
    with pytest.raises(Exception, match=r"users\.expectations\.yml"):
        read_models(shop.folder)


def test_changes_are_judged_by_the_feed_and_no_more_of_them_than_a_suite_allows(shop):
    shop.write(users="CREATE TABLE users (id INT, region STRING)")
    (model,) = (each for each in read_models(shop.folder) if each.name.relation == "users")
    suite = Suite(expectations=(), rows="changes", most_rows=3)
    with Platform.create(shop.lake) as platform:
        platform.execute("CREATE TABLE users (id INT, region STRING)")
        platform.execute("INSERT INTO users VALUES (1, 'eu'), (2, 'us')")
        seen = platform.lake.snapshot().id
        platform.execute("INSERT INTO users VALUES (3, 'eu')")
        end_rows(platform.lake, platform.lake.table("users"), [1], images=True, new={"region": "de"})
        end_rows(platform.lake, platform.lake.table("users"), [2], images=True)
        assert sorted(row["id"] for row in _rows(platform, model, suite, seen).to_pylist()) == [1, 3]
        platform.execute("INSERT INTO users VALUES (4, 'eu'), (5, 'eu'), (6, 'eu')")
        assert _rows(platform, model, suite, seen).num_rows == 3
        # What came since an expired snapshot is not known: all rows are judged.
        platform.lake.expire(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1))
        assert _rows(platform, model, Suite(expectations=(), rows="changes", most_rows=9), seen).num_rows == 5


def test_a_suite_is_not_judged_by_a_weighted_sample(shop):
    shop.write(posts="CREATE STREAM posts (uid INT, score INT)")
    (model,) = (each for each in read_models(shop.folder) if each.name.relation == "posts")
    suite = Suite(expectations=(), rows="sample", sample="some")
    with Platform.create(shop.lake) as platform:
        platform.execute("CREATE STREAM posts (uid INT, score INT)")
        platform.execute("CREATE SAMPLE some ON posts SIZE 5 WEIGHTED BY (score)")
        with pytest.raises(InvalidValue, match=r'sample "main\.some" is weighted'):
            _rows(platform, model, suite, None)
        platform.execute("DROP SAMPLE some")
        platform.execute("CREATE SAMPLE some ON posts SIZE 5")
        assert _rows(platform, model, suite, None).num_rows == 0


@pytest.mark.spark
def test_expectations_are_judged_on_what_changed_since_the_last_time(shop, instance, spark_server):
    pytest.importorskip("great_expectations")
    (shop.folder / "users.expectations.yml").write_text(SUITE)
    shop.materialize("users")
    both = [("users", "expect_column_values_to_be_unique__id"), ("users", "expect_column_values_to_not_be_null__region")]
    with Platform.open(shop.lake) as platform:
        platform.execute("INSERT INTO users VALUES (1, 'EU', 1), (1, NULL, 2)")
    first = check(shop, instance, *both)
    unique, null = (first[f"users:{name}"] for _, name in both)
    assert (unique.passed, unique.severity, null.passed, null.severity) == (
        False,
        dg.AssetCheckSeverity.ERROR,
        False,
        dg.AssetCheckSeverity.WARN,
    )
    assert unique.metadata["unexpected_count"].value == 2
    assert [record.data["id"] for record in unique.metadata["unexpected_rows"].records] == ["1", "1"]
    with Platform.open(shop.lake) as platform:
        platform.execute("INSERT INTO users VALUES (3, 'US', 1)")
    second = check(shop, instance, *both)
    assert all(each.passed for each in second.values())
    assert second[f"users:{both[0][1]}"].metadata["rows"].value == 1


@pytest.mark.spark
def test_the_platforms_own_checks(project, instance, spark_server):
    folder = project.lake.parent / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("1,5\n2,oops\n")
    project.write(
        clicks=f"CREATE STREAM clicks (uid INT, score INT) FROM FILES '{folder}/*.csv' (FORMAT csv)",
        totals="CREATE VIEW totals WITH (target_lag = '1 hour', start = 'earliest') AS"
        " SELECT uid, sum(score) AS n FROM clicks GROUP BY uid",
        totals_yml="checks: [reconciles, schema_stable]",
    )
    project.materialize("clicks", "totals/totals_base")
    checks = [("clicks", "no_quarantine"), ("totals", "within_lag"), ("totals", "reconciles"), ("totals", "schema_stable")]
    found = check(project, instance, *checks)
    assert {name: each.passed for name, each in found.items()} == {
        "clicks:no_quarantine": False,
        "totals:within_lag": True,
        "totals:reconciles": True,
        "totals:schema_stable": True,
    }
    assert found["clicks:no_quarantine"].metadata["quarantined"].value == 1
    assert "2,oops" in str(found["clicks:no_quarantine"].metadata["newest"]), "the record as it was written"
    assert found["totals:reconciles"].metadata["rows_compared"].value == 1
    project.write(totals="CREATE VIEW totals WITH (start = 'earliest') AS SELECT uid, avg(score) AS n FROM clicks GROUP BY uid")
    project.materialize("totals/totals_base")
    changed = check(project, instance, ("totals", "schema_stable"))["totals:schema_stable"]
    assert (changed.passed, changed.description) == (False, "n was BIGINT, is DOUBLE")
