"""Single relations by YAML: what is scaffolded loads, what is written becomes the statement that it says, and mistakes are told."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster.components.core.component_tree import ComponentTreeException
from dagster.components.testing import create_defs_folder_sandbox

from platform_plugin.errors import InvalidValue
from platform_plugin.language.script import parse_statement
from platform_plugin.orchestration import ContinuousView, HistoryTable, Lake, PlatformResource, Sample, SqlFolder, Stream, Upkeep


def loaded(component, attributes=None, name="relation"):
    """The definitions of one component, as scaffolded or with attributes of its own."""
    with create_defs_folder_sandbox() as sandbox:
        kind = f"platform_plugin.orchestration.{component.__name__}"
        contents = {"defs_yaml_contents": {"type": kind, "attributes": attributes}} if attributes is not None else {}
        path = sandbox.scaffold_component(component_cls=component, defs_path=name, **contents)
        with sandbox.load_component_and_build_defs(defs_path=path) as (_, definitions):
            merged = dg.Definitions.merge(definitions, dg.Definitions(resources={"platform": PlatformResource(url="nowhere")}))
            dg.Definitions.validate_loadable(merged)
            return merged


def keys(definitions):
    return {spec.key.to_user_string() for spec in definitions.resolve_all_asset_specs()}


@pytest.fixture(autouse=True)
def _no_lake(monkeypatch, tmp_path):
    monkeypatch.setenv("PLATFORM_URL", str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("component", "expected"),
    [
        (Stream, {"relation"}),
        (HistoryTable, {"relation"}),
        (ContinuousView, {"relation/base", "relation", "orders"}),
        (Sample, {"relation", "orders"}),
        (SqlFolder, {"orders", "products", "sales", "sales/base", "orders_sample", "platform/overview"}),
        (Upkeep, {"platform/overview"}),
    ],
)
def test_what_is_scaffolded_loads(component, expected):
    assert keys(loaded(component)) == expected


def test_a_lake_brings_what_assets_ask_for(monkeypatch, tmp_path):
    with create_defs_folder_sandbox() as sandbox:
        for component, name in ((Lake, "lake"), (SqlFolder, "folder")):
            sandbox.scaffold_component(component_cls=component, defs_path=name)
        with sandbox.build_all_defs() as definitions:
            dg.Definitions.validate_loadable(definitions)
            assert set(definitions.resources) >= {"platform", "platform_views"}
            # A password in it stays where it is.
            assert definitions.resources["platform"].url == dg.EnvVar("PLATFORM_URL")
            monkeypatch.setenv("PLATFORM_URL", str(tmp_path / "made"))
            job = definitions.resolve_implicit_global_asset_job_def()
            assert job.execute_in_process(asset_selection=[dg.AssetKey("orders"), dg.AssetKey("products")]).success
    assert (tmp_path / "made").is_dir()


def test_the_statement_is_what_the_attributes_say():
    stream = Stream(name="raw.posts", columns={"uid": "INT", "odd name": "STRING"}, retention_rows=5, retention="1 hour", source=None)
    made = parse_statement(stream.statement)
    assert (made.name.parts, made.retention_rows, made.retention.total_seconds()) == (("raw", "posts"), 5, 3600)
    assert [column.name for column in made.columns] == ["uid", "odd name"]
    view = parse_statement(ContinuousView(name="v", query="SELECT count(*) AS n FROM posts;", target_lag="5 seconds").statement)
    assert view.continuous
    assert view.query.text.strip() == "SELECT count(*) AS n FROM posts"
    table = parse_statement(HistoryTable(name="u", columns={"id": "INT"}, primary_key=["id"]).statement)
    assert table.primary_key == ("id",)
    sample = parse_statement(Sample(name="s", relation="posts", size=5, where="a > 1", strata=["r"], window="1 hour").statement)
    assert (sample.size, sample.strata, sample.where.text.strip()) == (5, ("r",), "a > 1")
    decayed = Sample(name="s", relation="posts", size=5, weighted_by="fee", half_life="1 hour", time_column="at")
    weighted = parse_statement(decayed.statement)
    assert (weighted.weight, {option.name: str(option.value) for option in weighted.options}) == (
        "fee",
        {"half_life": "1:00:00", "time_column": "at"},
    )
    merged = parse_statement(Sample(name="both", samples=["eu.s", "t"], size=5).statement)
    assert [str(part) for part in merged.reads] == ["eu.s", "t"]
    for wrong in ({}, {"relation": "posts", "samples": ["s", "t"]}):
        with pytest.raises(InvalidValue, match='sample "s" needs a relation or samples'):
            _ = Sample(name="s", size=5, **wrong).statement
    built = parse_statement(HistoryTable(name="u", query="SELECT 1 AS one").statement)
    assert built.query.text.strip() == "SELECT 1 AS one"


def test_a_literal_can_not_leave_its_quotes():
    stream = Stream(name="s", columns={"a": "INT"}, retention="1 hour' , x = 'y\\")
    with pytest.raises(Exception, match="retention"):
        parse_statement(stream.statement)


def test_words_about_it_are_shown():
    attributes = {
        "name": "posts",
        "columns": {"uid": "INT"},
        "description": "What is posted.",
        "owners": ["team:growth"],
        "tags": {"tier": "gold"},
        "column_descriptions": {"uid": "who"},
    }
    (spec,) = loaded(Stream, attributes).resolve_all_asset_specs()
    assert spec.description.startswith("What is posted.")
    assert (spec.owners, spec.tags["tier"]) == (["team:growth"], "gold")
    assert spec.metadata["dagster/column_schema"].columns[0].description == "who"


def test_a_mistake_names_the_component_and_its_place():
    with pytest.raises(ComponentTreeException) as caught:
        loaded(Stream, {"name": "posts", "columns": {"uid": "INTT"}})
    told, error = [], caught.value
    while error is not None:
        told.append(str(error))
        error = error.__cause__
    assert any('Stream "posts"' in text and "INTT" in text for text in told)


def test_two_views_of_one_code_location_do_not_collide():
    both = [loaded(ContinuousView, {"name": name, "query": "SELECT count(*) AS n FROM posts"}, name) for name in ("a", "b")]
    merged = dg.Definitions.merge(*(dg.Definitions(assets=each.assets) for each in both), loaded(Upkeep))
    dg.Definitions.validate_loadable(merged)
    assert keys(merged) == {"posts", "a", "a/base", "b", "b/base", "platform/overview"}
    job = merged.resolve_job_def("maintain_views")
    assert {key.to_user_string() for key in job.asset_layer.selected_asset_keys} == {"a/base", "b/base"}


def test_a_sample_is_declared_by_a_call(tmp_path, monkeypatch):
    from platform_plugin.orchestration import sample

    monkeypatch.setenv("PLATFORM_URL", str(tmp_path / "lake"))
    made = sample("some", "posts", 10, where="score > 1", strata=["uid"], window="1 hour", owners=["team:growth"])
    (spec,) = made.specs
    assert "ON `posts` SIZE 10" in spec.description.replace("ON posts", "ON `posts`")
    assert "STRATIFIED BY" in spec.description
    assert {dep.asset_key.to_user_string() for dep in spec.deps} == {"posts"}
    assert spec.owners == ["team:growth"]
