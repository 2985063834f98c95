"""`platform new` writes a project that loads, and refuses folders and names that can't be one."""

from __future__ import annotations

import importlib
import json
import sys

import dagster as dg
import pytest
import yaml

from platform_plugin.cli import main
from platform_plugin.orchestration.components.model import read_models
from platform_plugin.quality.cases import find_cases
from platform_plugin.templates import TOP_FOLDERS, read_templates


@pytest.fixture
def project(tmp_path, monkeypatch, capsys):
    """A project as the command writes it."""
    monkeypatch.delenv("PLATFORM_URL", raising=False)
    assert main(["new", str(tmp_path / "brand_new_shop")]) == 0
    assert "next: cd " in capsys.readouterr().out
    yield tmp_path / "brand_new_shop"
    for name in [name for name in sys.modules if name.partition(".")[0] == "brand_new_shop"]:
        del sys.modules[name]


def test_the_definitions_of_a_new_project_load(project, monkeypatch):
    monkeypatch.syspath_prepend(str(project))
    definitions = importlib.import_module("brand_new_shop.definitions").defs()
    keys = {spec.key.to_user_string() for spec in definitions.resolve_all_asset_specs()}
    assert keys == {"orders", "products", "sales", "sales/sales_base", "orders_sample", "platform/overview"}
    repository = definitions.get_repository_def()
    assert {"split_refresh", "reservoir_merge", "bounded_ingestion"} <= {sensor.name for sensor in repository.sensor_defs}
    assert not (project / ".platform" / "lake").exists(), "loading creates nothing"


def test_every_relation_is_described_and_the_view_has_a_case(project):
    models = {model.name.relation: model for model in read_models(project / "sql")}
    assert {name: model.kind for name, model in models.items()} == {
        "orders": "stream",
        "products": "table",
        "sales": "view",
        "orders_sample": "sample",
    }
    assert all(model.description for model in models.values())
    assert [case.name for case in find_cases(project / "sql")] == ["orders_add_up"]


def test_runs_of_a_new_project_wait_in_a_queue_and_in_pools(project):
    # A beginner's tenth run must not start beside nine others that have not started yet.
    with dg.DagsterInstance.from_config(str(project / "dagster_home")) as instance:
        assert type(instance.run_coordinator).__name__ == "QueuedRunCoordinator"
        limits = instance.get_concurrency_config()
        assert limits.run_queue_config is not None
        assert limits.run_queue_config.max_concurrent_runs == 4
        assert limits.run_queue_config.should_block_op_concurrency_limited_runs
        assert limits.pool_config.default_pool_limit == 1
        assert instance.run_monitoring_start_timeout_seconds >= 600


def test_nothing_of_the_templates_is_left_to_be_filled_in():
    written = dict(read_templates(name="shop"))
    assert [path for path, text in written.items() if "{{" in text or path.endswith(".template")] == []
    assert {path.partition("/")[0] for path in written if "/" in path} == TOP_FOLDERS | {"shop"}
    assert all(yaml.safe_load(text) for path, text in written.items() if path.endswith((".yml", ".yaml")))


def test_a_program_is_told_what_was_written(tmp_path, capsys):
    assert main(["new", str(tmp_path / "shop"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["project"] == "shop"
    assert sorted(told["files"]) == sorted(path for path, _ in read_templates(name="shop"))


def test_an_empty_folder_is_taken_and_any_other_is_left_as_it_is(tmp_path, capsys, monkeypatch):
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    assert main(["new", "."]) == 0
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / ".hidden").touch()
    (tmp_path / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    for name, said in (("full", '/full" is not empty'), ("file", '/file" is a file'), ("shop", '/shop" is not empty')):
        assert main(["new", str(tmp_path / name)]) == 1
        error = capsys.readouterr().err
        assert said in error
        assert ("hint: name a folder" in error) != (f"hint: it has a project already: cd {tmp_path}/shop; for another one, name" in error)
        assert ("it has a project already" in error) == (name == "shop")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "reason", "hint"),
    [
        ("my-shop", "is a Python package", "call it my_shop"),
        ("Shop", "is a Python package", "call it shop"),
        ("3 shops", "is a Python package", "call it shop_3_shops"),
        ("läden", "is a Python package", "call it l_den"),
        ("class", "is a Python package", "call it my_class"),
        ("sql", "a folder in it has that name", "call it my_sql"),
        ("json", "an installed Python module has that name", "call it my_json"),
        ("dagster", "an installed Python module has that name", "call it my_dagster"),
    ],
)
def test_a_name_that_no_package_can_have_is_refused_with_one_that_can(tmp_path, capsys, name, reason, hint):
    assert main(["new", str(tmp_path / name)]) == 1
    error = capsys.readouterr().err
    assert f'error: "{name}" can\'t be the name of a project' in error
    assert reason in error
    assert f"hint: {hint}" in error
    assert list(tmp_path.iterdir()) == []
    assert main(["new", str(tmp_path / hint.removeprefix("call it "))]) == 0
