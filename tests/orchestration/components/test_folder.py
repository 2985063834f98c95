from importlib.metadata import entry_points
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster.components.core.component_tree import ComponentTreeException
from dagster.components.testing import create_defs_folder_sandbox

from platform_plugin import Platform
from platform_plugin.orchestration import PlatformResource, SqlFolder, Translator
from tests.orchestration.conftest import POSTS, USERS


def specs_of(definitions):
    resources = dg.Definitions(resources={"platform": PlatformResource(url="nowhere")})
    return dg.Definitions.merge(definitions, resources).resolve_all_asset_specs()


def test_yaml_makes_the_assets_of_a_folder(tmp_path):
    (tmp_path / "users.sql").write_text(USERS)
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE visits (id INT)")
    for include, keys in ((True, {"users", "visits", "platform/overview"}), (False, {"users", "platform/overview"})):
        with create_defs_folder_sandbox() as sandbox:
            attributes = {"path": str(tmp_path), "url": str(tmp_path / "lake"), "include_lake": include}
            path = sandbox.scaffold_component(
                component_cls=SqlFolder,
                defs_path=f"shop_{include}",
                defs_yaml_contents={"type": "platform_plugin.orchestration.SqlFolder", "attributes": attributes},
            )
            with sandbox.load_component_and_build_defs(defs_path=path) as (component, definitions):
                assert isinstance(component, SqlFolder)
                assert {spec.key.to_user_string() for spec in specs_of(definitions)} == keys


def test_a_broken_file_is_named_in_the_error_that_dagster_shows(tmp_path):
    (tmp_path / "posts.sql").write_text(POSTS.replace("score INT", "score INTT"))
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=SqlFolder,
            defs_yaml_contents={"type": "platform_plugin.orchestration.SqlFolder", "attributes": {"path": str(tmp_path)}},
        )
        with pytest.raises(ComponentTreeException) as caught, sandbox.load_component_and_build_defs(defs_path=path):
            pass
    told = [caught.value]
    while told[-1].__cause__ is not None:
        told.append(told[-1].__cause__)
    assert any('file "posts.sql"' in str(error) and "line 1, column 37" in str(error) for error in told)


def test_a_subclass_brings_its_own_translator(tmp_path):
    class Named(Translator):
        def group_name(self, relation):
            return "shop"

    class ShopFolder(SqlFolder):
        @property
        def translator(self):
            return Named()

    (tmp_path / "users.sql").write_text(USERS)
    definitions = ShopFolder(path=".", url=str(tmp_path / "lake")).build_defs(SimpleNamespace(path=tmp_path, project_root=tmp_path))
    assert {spec.key.to_user_string(): spec.group_name for spec in specs_of(definitions)} == {
        "users": "shop",
        "platform/overview": "platform",
    }


def test_the_component_is_registered():
    registered = [point.value for point in entry_points(group="dagster_dg_cli.registry_modules")]
    if "platform_plugin.orchestration" not in registered:
        pytest.skip("the project is not installed in this environment")
    assert issubclass(SqlFolder, dg.Component)
