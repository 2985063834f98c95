"""Components beside each other: each relation is one asset and each sensor is there once, before and after everything was made."""

from __future__ import annotations

import traceback
from itertools import combinations

import dagster as dg
import pytest
from dagster.components.core.component_tree import ComponentTreeException
from dagster.components.testing import create_defs_folder_sandbox

from platform_plugin import Platform
from platform_plugin.orchestration import ContinuousView, HistoryTable, Lake, Sample, SqlFolder, Stream, Upkeep

COMPONENTS = (Lake, SqlFolder, Stream, ContinuousView, HistoryTable, Sample, Upkeep)
SENSORS = {"split_refresh", "bounded_ingestion", "reservoir_merge", "stream_arrivals", "rebuilding"}
DECLARATIONS = """
CREATE STREAM orders (id BIGINT NOT NULL, product_id INT NOT NULL, quantity INT, amount DECIMAL(9, 2), ordered_at TIMESTAMP);
CREATE TABLE products (id INT PRIMARY KEY, name STRING, price DECIMAL(9, 2));
CREATE VIEW sales WITH (start = 'earliest') AS SELECT product_id, count(*) AS orders FROM orders GROUP BY product_id;
CREATE SAMPLE orders_sample ON orders SIZE 1000;
CREATE STREAM stream (visitor STRING, product_id INT) WITH (retention_rows = 1000000);
CREATE VIEW continuousview AS SELECT product_id, count(*) AS orders FROM orders GROUP BY product_id;
CREATE TABLE historytable (id INT PRIMARY KEY, name STRING);
CREATE SAMPLE sample ON orders SIZE 1000;
CREATE TABLE visits (id INT)
"""
FOLDER = {"orders", "products", "sales", "orders_sample"}
SINGLE = {"stream", "continuousview", "historytable", "sample"}
BASES = {"sales/sales_base", "continuousview/continuousview_base"}
PYTHON = """
import dagster as dg
from platform_plugin.orchestration import stream

visits = stream("visits", {"id": "INT"}, retention_rows=5)


@dg.asset
def Reports():
    pass
"""


@pytest.fixture(autouse=True)
def lake(monkeypatch, tmp_path):
    monkeypatch.setenv("PLATFORM_URL", str(tmp_path / "lake"))
    return tmp_path / "lake"


def scaffold(sandbox, *components):
    for component in components:
        sandbox.scaffold_component(component_cls=component, defs_path=component.__name__.lower())


def of_yaml(sandbox, component, place, **attributes):
    contents = {"type": f"platform_plugin.orchestration.{component.__name__}", "attributes": attributes}
    return sandbox.scaffold_component(component_cls=component, defs_path=place, defs_yaml_contents=contents)


def keys(definitions):
    resources = {} if definitions.resources else {"platform": dg.ResourceDefinition.none_resource()}
    whole = dg.Definitions.merge(definitions, dg.Definitions(resources=resources))
    dg.Definitions.validate_loadable(whole)
    return {spec.key.to_user_string() for spec in whole.resolve_all_asset_specs()}


def told(caught):
    error, lines = caught.value, []
    while error is not None:
        lines.append(str(error))
        error = error.__cause__
    return "\n".join(lines)


@pytest.mark.spark
def test_all_that_is_scaffolded_loads_again_after_everything_was_launched(lake):
    with create_defs_folder_sandbox() as sandbox:
        scaffold(sandbox, *COMPONENTS)
        found = []
        for _ in range(3):
            with sandbox.build_all_defs() as definitions:
                found.append(keys(definitions))
                assert {sensor.name for sensor in definitions.sensors} == SENSORS
                assert definitions.resolve_implicit_global_asset_job_def().execute_in_process().success
        assert found[0] == {*FOLDER, *SINGLE, *BASES, "platform/overview"}
        assert found[1:] == found[:1] * 2
    with Platform.open(lake) as platform:
        shown = platform.execute("SHOW TABLES").arrow().to_pylist()
    assert {row["name"] for row in shown} - {"orders__quarantine"} == FOLDER | SINGLE


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """A lake that holds everything that is scaffolded, and a table beside it."""
    made = tmp_path_factory.mktemp("held") / "lake"
    with Platform.create(made) as platform:
        for statement in DECLARATIONS.split(";"):
            platform.execute(statement)
    return made


@pytest.mark.parametrize("pair", [*combinations(COMPONENTS, 2)], ids=lambda pair: "-".join(each.__name__ for each in pair))
def test_each_component_loads_beside_each_other_on_a_lake_that_holds_all(monkeypatch, held, pair):
    monkeypatch.setenv("PLATFORM_URL", str(held))
    with create_defs_folder_sandbox() as sandbox:
        scaffold(sandbox, *pair)
        with sandbox.build_all_defs() as definitions:
            found = keys(definitions)
    if SqlFolder in pair:
        assert found == {*FOLDER, *SINGLE, *BASES, "visits", "platform/overview"}


def test_what_a_python_file_declares_is_not_declared_again(monkeypatch, lake):
    with Platform.create(lake) as platform:
        for statement in ("CREATE TABLE reports (id INT)", "CREATE TABLE others (id INT)"):
            platform.execute(statement)
        platform.execute("CREATE STREAM visits (id INT) WITH (retention_rows = 5)")
    with create_defs_folder_sandbox() as sandbox:
        scaffold(sandbox, SqlFolder)
        (sandbox.defs_folder_path / "own.py").write_text(PYTHON)
        with sandbox.build_all_defs() as definitions:
            assert keys(definitions) == {*FOLDER, "sales/sales_base", "visits", "Reports", "others", "platform/overview"}


def test_two_folders_share_a_lake_and_its_sensors(lake, tmp_path):
    for name, text in (
        ("a", "CREATE STREAM a (uid INT, score INT); CREATE VIEW first AS SELECT count(*) AS n FROM a"),
        ("b", "CREATE STREAM b (uid INT, score INT); CREATE VIEW second AS SELECT count(*) AS n FROM b"),
    ):
        (tmp_path / name).mkdir()
        for number, statement in enumerate(text.split(";")):
            (tmp_path / name / f"{number}.sql").write_text(statement)
    (tmp_path / "b" / "log.sql").write_text("CREATE TABLE log AS SELECT _row_id AS id, uid FROM b")
    (tmp_path / "b" / "log.yml").write_text("partitions: {column: id, rows: 10}")
    with Platform.create(lake) as platform:
        platform.execute("CREATE STREAM b (uid INT, score INT)")
        platform.execute("CREATE TABLE visits (id INT)")
    for both in (True, False):
        with create_defs_folder_sandbox() as sandbox:
            of_yaml(sandbox, SqlFolder, "a", path=str(tmp_path / "a"))
            of_yaml(sandbox, SqlFolder, "b", path=str(tmp_path / "b"), include_lake=both)
            scaffold(sandbox, Lake)
            with sandbox.build_all_defs() as definitions:
                assert keys(definitions) == {
                    "a",
                    "first",
                    "first/first_base",
                    "b",
                    "second",
                    "second/second_base",
                    "log",
                    "visits",
                    "platform/overview",
                }
                assert {sensor.name for sensor in definitions.sensors} == SENSORS


def test_a_relation_that_two_components_declare_is_told_with_both_places(tmp_path):
    with create_defs_folder_sandbox() as sandbox:
        scaffold(sandbox, SqlFolder)
        of_yaml(sandbox, Stream, "beside", name="ORDERS", columns={"id": "BIGINT"})
        with pytest.raises(ComponentTreeException) as caught, sandbox.build_all_defs():
            pass
    assert 'relation "main.orders" is declared twice' in told(caught)
    assert "in streams/orders.sql and by beside" in told(caught)


@pytest.mark.parametrize("places", [("a", "b"), ("b", "a")])
def test_wrong_files_of_all_components_are_told_at_once_whichever_is_loaded_first(tmp_path, places):
    (tmp_path / "posts.sql").write_text("CREATE STREAM posts (uid INTT)")
    with create_defs_folder_sandbox() as sandbox:
        of_yaml(sandbox, SqlFolder, places[0], path=str(tmp_path))
        of_yaml(sandbox, ContinuousView, places[1], name="impact", query="SELECT uid, count(*) AS n FORM posts GROUP BY uid")
        with pytest.raises(ComponentTreeException) as caught, sandbox.build_all_defs():
            pass
    text = "".join(traceback.format_exception(caught.value))
    assert text.count("2 errors in files") == 1
    assert [text.count(each) for each in ('file "posts.sql"', f'{places[1]}/defs.yaml": ContinuousView "impact"', "FORM posts")] == [
        1,
        1,
        1,
    ]


def test_a_wrong_file_beside_a_right_folder_is_told_once(tmp_path):
    (tmp_path / "posts.sql").write_text("CREATE STREAM posts (uid INT)")
    with create_defs_folder_sandbox() as sandbox:
        of_yaml(sandbox, SqlFolder, "a", path=str(tmp_path))
        of_yaml(sandbox, ContinuousView, "b", name="impact", query="SELECT uid, count(*) AS n FORM posts GROUP BY uid")
        with pytest.raises(ComponentTreeException) as caught, sandbox.build_all_defs():
            pass
    text = "".join(traceback.format_exception(caught.value))
    assert (text.count("unexpected FORM"), "errors in files" in text) == (1, False)


def test_upkeep_brings_what_a_folder_leaves_out(tmp_path):
    with create_defs_folder_sandbox() as sandbox:
        of_yaml(sandbox, SqlFolder, "sql", path=str(tmp_path), ingest=False, report_arrivals=False)
        scaffold(sandbox, Upkeep)
        with sandbox.build_all_defs() as definitions:
            assert keys(definitions) == {"platform/overview"}
            assert {sensor.name for sensor in definitions.sensors} == SENSORS
