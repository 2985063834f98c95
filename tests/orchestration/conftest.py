"""A folder of models and a lake of their own for every test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pytest

from platform_plugin.orchestration import PlatformResource, Translator
from platform_plugin.orchestration.assets.assets import build_definitions
from platform_plugin.orchestration.assets.inventory import read_inventory
from platform_plugin.orchestration.components.model import read_models

if TYPE_CHECKING:
    from pathlib import Path

USERS = "-- Who posts.\nCREATE TABLE users (id INT PRIMARY KEY, region STRING COMMENT 'where', rate DECIMAL(9,2));"
POSTS = "CREATE STREAM posts (uid INT, score INT) WITH (retention_rows = 1000);"
IMPACT = "CREATE VIEW impact AS SELECT uid, avg(score) AS score FROM posts GROUP BY uid"
PRICES = "CREATE TABLE prices AS SELECT region, rate / score AS price FROM impact JOIN main.USERS ON id = uid"


class Project:
    """A folder of SQL files beside a lake, and what Dagster makes of them."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "dbt_like_sql"
        self.folder.mkdir()
        self.lake = root / "lake"

    def write(self, **files: str) -> None:
        """`users="CREATE …"` writes users.sql, `users_yml` writes users.yml."""
        for name, text in files.items():
            file = f"{name[:-4]}.yml" if name.endswith("_yml") else f"{name}.sql"
            (self.folder / file).write_text(text)

    def definitions(self, translator: Translator | None = None) -> dg.Definitions:
        built = build_definitions(read_models(self.folder), read_inventory(str(self.lake)), translator=translator)
        return dg.Definitions.merge(built, dg.Definitions(resources=self.resources()))

    def resources(self) -> dict[str, PlatformResource]:
        return {"platform": PlatformResource(url=str(self.lake), create=True)}

    def specs(self) -> dict[str, dg.AssetSpec]:
        return {spec.key.to_user_string(): spec for spec in self.definitions().resolve_all_asset_specs()}

    def materialize(self, *keys: str, instance: dg.DagsterInstance | None = None) -> dict[str, dg.AssetMaterialization]:
        """What the steps of these assets reported; a step that fails raises."""
        definitions = self.definitions()
        chosen = [asset for asset in definitions.assets or () if isinstance(asset, dg.AssetsDefinition)]
        with instance or dg.DagsterInstance.ephemeral() as using:
            result = dg.materialize(
                chosen,
                selection=list(keys) if keys else None,
                resources=self.resources(),
                instance=using,
            )
        events = result.get_asset_materialization_events()
        return {str(event.asset_key.to_user_string()): event.materialization for event in events if event.asset_key}


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


@pytest.fixture
def shop(project):
    """The project with a table, a stream, a view over it and a table made from a query."""
    project.write(users=USERS, posts=POSTS, impact=IMPACT, prices=PRICES)
    return project
