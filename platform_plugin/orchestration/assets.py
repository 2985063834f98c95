"""Assets: one for each model of a folder, and one for each relation of the lake that no model declares."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import dagster as dg

from platform_plugin.errors import PlatformError
from platform_plugin.orchestration.metadata import model_metadata, stored_metadata
from platform_plugin.orchestration.model import read_by
from platform_plugin.orchestration.preview import as_virtual
from platform_plugin.orchestration.step import build_asset
from platform_plugin.orchestration.translator import Relation, Translator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.lake.tables import Name
    from platform_plugin.orchestration.inventory import Inventory
    from platform_plugin.orchestration.model import Model

_LOG = logging.getLogger(__name__)


def build_definitions(models: Sequence[Model], inventory: Inventory, *, translator: Translator | None = None) -> dg.Definitions:
    """The assets of some models and a lake. Neither the lake's data nor Spark is touched."""
    translator = translator or Translator()
    if inventory.absence is not None:
        _LOG.warning("only the SQL files are loaded: %s", _one_line(inventory.absence))
    declared = {str(model.name).lower() for model in models}
    relations = [Relation(name=model.name, kind=model.kind, model=model, stored=inventory.find(model.name)) for model in models]
    foreign = [
        Relation(name=stored.name, kind=stored.kind, stored=stored) for key, stored in inventory.relations.items() if key not in declared
    ]
    names = {str(relation.name).lower(): relation.name for relation in (*relations, *foreign)}
    specs = {relation.name: build_spec(relation, inventory, translator, names) for relation in (*relations, *foreign)}
    return dg.Definitions(
        assets=[
            *(build_asset(model, specs[model.name]) for model in models),
            *(specs[relation.name] for relation in foreign),
        ]
    )


def build_spec(relation: Relation, inventory: Inventory, translator: Translator, names: dict[str, Name]) -> dg.AssetSpec:
    """What Dagster knows of a relation before anything runs."""
    model, stored = relation.model, relation.stored
    metadata = model_metadata(model) if model is not None else {}
    if stored is not None:
        said = model.documentation.columns if model is not None else {}
        # What the file declares is what it will be; the catalogue has the figures.
        metadata = stored_metadata(stored, inventory.snapshot, said) | metadata
    if inventory.absence is not None:
        metadata["lake"] = _one_line(inventory.absence)
    spec = dg.AssetSpec(
        key=translator.asset_key(relation.name),
        deps=[translator.asset_key(names.get(str(name).lower(), name)) for name in _reads(relation)],
        description=translator.description(relation),
        metadata=metadata,
        group_name=translator.group_name(relation),
        kinds=translator.kinds(relation),
        owners=translator.owners(relation),
        tags=translator.tags(relation),
        code_version=model.code_version if model is not None else None,
    )
    return as_virtual(spec) if relation.kind == "view" else spec


def _reads(relation: Relation) -> tuple[Name, ...]:
    if relation.model is not None:
        return relation.model.reads
    if relation.stored is None or relation.stored.query is None:
        return ()
    try:
        return read_by(relation.stored.query)
    except PlatformError as error:
        # Another client may have stored it; that must not keep the other assets from loading.
        _LOG.warning('the query of view "%s" can\'t be read: %s', relation.name, error.message)
        return ()


def _one_line(error: PlatformError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message
