"""The reference platform loads, with a lake and without."""

from pathlib import Path

import dagster as dg
import pytest
import yaml

from platform_plugin.orchestration.components.model import read_models

ROOT = Path(__file__).parents[2]


@pytest.fixture
def definitions(tmp_path, monkeypatch):
    monkeypatch.setenv("PLATFORM_URL", f"platform+local://{tmp_path}/lake")
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT))
    from deploy.code_location import defs

    return defs(None) if not callable(getattr(defs, "load_fn", None)) else defs.load_fn()


def test_every_noun_is_there_as_a_file_a_component_and_in_python(definitions):
    keys = {spec.key.to_user_string() for spec in definitions.resolve_all_asset_specs()}
    files = {model.name.relation for model in read_models(ROOT / "dbt_like_sql")}
    components = {"returns", "returns_by_reason", "returns_by_reason/returns_by_reason_base", "returns_sample", "return_reasons"}
    python = {"searches", "searches_sample", "search_terms", "search_terms/search_terms_base", "missing_products", "campaign"}
    bases = {"sales_by_product/sales_by_product_base", "customer_value/customer_value_base", "interest/interest_base"}
    assert keys == files | components | python | bases | {"platform/overview"}
    assert {"customers", "orders", "orders_history", "orders_sample", "sales_by_category", "daily_sales"} <= files
    assert [schedule.name for schedule in definitions.schedules] == ["nightly_schedule"]
    dg.Definitions.validate_loadable(definitions)


def test_the_url_from_the_environment_is_not_shown(definitions):
    shown = str(definitions.resources["platform"]._resolved_config_dict)
    assert "lake" not in shown


def test_the_instance_has_neither_telemetry_nor_a_queue():
    settings = yaml.safe_load((ROOT / "deploy" / "dagster.yaml").read_text())
    assert settings["telemetry"] == {"enabled": False}
    assert settings["run_coordinator"]["class"] == "DefaultRunCoordinator"
