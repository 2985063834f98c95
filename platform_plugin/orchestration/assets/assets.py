"""`build_assets`: an asset for each model of a folder, and for each relation of the lake that no model declares."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from platform_plugin.cache import Cache
from platform_plugin.distribution import install_line
from platform_plugin.errors import PlatformError
from platform_plugin.orchestration.assets.checks import CheckedRelation, build_checks
from platform_plugin.orchestration.assets.inventory import absence_text
from platform_plugin.orchestration.assets.missing import find_missing
from platform_plugin.orchestration.assets.tracing import Memory, Tracing, describe_columns
from platform_plugin.orchestration.assets.translator import Relation, Translator
from platform_plugin.orchestration.components.model import fingerprint, read_relations
from platform_plugin.orchestration.preview import as_virtual, source_link
from platform_plugin.orchestration.runs.jobs import MaintainedAsset
from platform_plugin.orchestration.runs.pools import find_slot
from platform_plugin.orchestration.runs.step import build_asset, build_upkeep
from platform_plugin.orchestration.sensors.ingesting import POOL as INGESTION_POOL
from platform_plugin.orchestration.sensors.sampling import POOL as SAMPLE_POOL
from platform_plugin.orchestration.shown.metadata import model_metadata, status_metadata, stored_metadata, traced_metadata
from platform_plugin.quality.gallery import has_gallery

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.orchestration.assets.inventory import Inventory, LakeRelation
    from platform_plugin.orchestration.components.model import Model

_LOG = logging.getLogger(__name__)
UPKEEP = "platform/upkeep"
"""The tag of assets that a sensor keeps current: `maintain` for bases of views, `ingest` for streams with a feed, `sample` for samples."""
_CROWD = 100
INTAKE_POOLS = {"ingest": INGESTION_POOL, "sample": SAMPLE_POOL}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltAssets:
    """The assets of some models and a lake, with the targets of sensors and the relations with checks."""

    assets: tuple[dg.AssetsDefinition | dg.AssetSpec, ...]
    checks: tuple[dg.AssetChecksDefinition, ...]
    targets: tuple[MaintainedAsset, ...]
    checked: tuple[CheckedRelation, ...]


def build_definitions(models: Sequence[Model], inventory: Inventory, *, translator: Translator | None = None) -> dg.Definitions:
    """The assets of some models and a lake. Neither the lake's data nor Spark is used."""
    built = build_assets(models, inventory, translator or Translator())
    return dg.Definitions(assets=[*built.assets], asset_checks=[*built.checks])


def build_assets(
    models: Sequence[Model],
    inventory: Inventory,
    translator: Translator,
    *,
    step: str | None = None,
    memory: Memory | None = None,
    checked_within: bool = False,
    elsewhere: Callable[[Name], bool] | None = None,
) -> BuiltAssets:
    """The same, with what sensors need to know of the views; `step` tells the step of these views from others in their pool.

    With `checked_within` the steps of the assets also run their checks, and there is no other step for them. With `elsewhere`, which tells
    what other components declare, names in queries that nothing declares are warned of.
    """
    if inventory.absence is not None:
        _warn(f"only the SQL files are loaded: {absence_text(inventory.absence)}")
    unchecked = [str(model.name) for model in models if model.suite is not None and (model.suite.gate or model.suite.engine == "arrow")]
    if unchecked and not has_gallery():
        _warn(f"the suites of {', '.join(unchecked)} can't be checked: Great Expectations is not installed; {install_line('quality')}")
    models = describe_columns(models, inventory)
    tracing = Tracing(models, inventory, memory)
    for text in find_missing(models, inventory, tracing, elsewhere) if elsewhere is not None else ():
        _warn(text)
    declared = {str(model.name).lower() for model in models}
    relations = [_relation(tracing, model.name, model, inventory.find(model.name)) for model in models]
    relations += [_relation(tracing, stored.name, None, stored) for key, stored in inventory.relations.items() if key not in declared]
    names = {str(relation.name).lower(): relation.name for relation in relations}
    builder = _Builder(inventory, translator, tracing, names, _groups(relations, translator))
    assets: list[dg.AssetsDefinition | dg.AssetSpec] = []
    targets: list[MaintainedAsset] = []
    by_pool: defaultdict[str, list[tuple[MaintainedAsset, dg.AssetSpec, dg.AssetSpec]]] = defaultdict(list)
    for relation in relations:
        spec = builder.spec(relation)
        if relation.is_continuous:
            base, pool = builder.base_spec(relation), translator.pool(relation)
            targets.append(_target(relation, base, pool, view=spec.key))
            by_pool[pool].append((targets[-1], base, spec))
            continue
        if UPKEEP in spec.tags:
            targets.append(_target(relation, spec, INTAKE_POOLS[spec.tags[UPKEEP]]))
        model = relation.model
        inside = [CheckedRelation(model=model, key=spec.key)] if checked_within and model is not None else []
        assets.append(build_asset(model, spec, checked=inside) if model is not None else spec)
    for pool, views in by_pool.items():
        specs = [(view.name, each) for view, base, spec in views for each in (base, spec)]
        called = f"{step}_{pool}" if step and len(by_pool) > 1 else step or pool
        own = [CheckedRelation(model=view.model, key=spec.key) for view, _, spec in views if checked_within and view.model is not None]
        slot = find_slot(pool, inventory.endpoint) or pool
        assets.append(build_upkeep(slot, called, [view for view, _, _ in views], specs, checked=own))
    checked = [
        CheckedRelation(
            model=relation.model,
            key=translator.asset_key(relation.name),
            after=(translator.base_key(relation.name),) if relation.is_continuous else (),
        )
        for relation in relations
        if relation.model is not None
    ]
    checks = None if checked_within else build_checks(checked, step=step)
    return BuiltAssets(
        assets=tuple(assets),
        checks=(checks,) if checks is not None else (),
        targets=tuple(targets),
        checked=tuple(checked),
    )


def _groups(relations: Sequence[Relation], translator: Translator) -> dict[Name, str]:
    """The group of each relation. The graph opens with its groups closed, so one that is opened must be of a size to look at."""
    groups = {relation.name: translator.group_name(relation) for relation in relations}
    counts = Counter(groups.values())
    return {
        relation.name: translator.crowded_group_name(relation, group) if counts[group] > _CROWD else group
        for relation, group in zip(relations, groups.values(), strict=True)
    }


def _target(relation: Relation, spec: dg.AssetSpec, pool: str, *, view: dg.AssetKey | None = None) -> MaintainedAsset:
    parents = tuple(dep.asset_key for dep in spec.deps)
    return MaintainedAsset(
        view=view,
        name=relation.name,
        kind=relation.kind,
        key=spec.key,
        pool=pool,
        model=relation.model,
        code_version=spec.code_version,
        parents=parents,
    )


def _relation(tracing: Tracing, name: Name, model: Model | None, stored: LakeRelation | None) -> Relation:
    kind = model.kind if model is not None else stored.kind if stored is not None else "table"
    return Relation(name=name, kind=kind, model=model, stored=stored, is_continuous=kind == "view" and tracing.of(name).is_continuous)


@dataclass(frozen=True, slots=True)
class _Builder:
    inventory: Inventory
    translator: Translator
    tracing: Tracing
    names: Mapping[str, Name]
    groups: Mapping[Name, str]

    def spec(self, relation: Relation) -> dg.AssetSpec:
        """The spec of a relation's asset; a view's asset is virtual, since a view is current at every read."""
        translator, model, stored = self.translator, relation.model, relation.stored
        traced = self.tracing.of(relation.name)
        metadata = {**_sql(relation), **(model_metadata(model) if model is not None else {})}
        if _is_made_by_query(relation):
            metadata |= traced_metadata(relation, traced, translator)
        if stored is not None:
            said = model.documentation.columns if model is not None else {}
            # What the file declares is what it will be; the catalogue has the figures.
            metadata = stored_metadata(stored, self.inventory.snapshot, said) | metadata
        if relation.is_continuous:
            metadata |= status_metadata(stored)
        if self.inventory.absence is not None:
            metadata["lake"] = absence_text(self.inventory.absence)
        own = [translator.base_key(relation.name)] if relation.is_continuous else []
        spec = dg.AssetSpec(
            key=translator.asset_key(relation.name),
            deps=[*own, *(self._key(name) for name in self._live_reads(relation))],
            description=translator.description(relation),
            metadata=metadata,
            group_name=self.groups[relation.name],
            kinds=translator.kinds(relation),
            owners=translator.owners(relation),
            tags={**translator.tags(relation), **_upkeep(relation)},
            code_version=_code_version(relation),
            automation_condition=translator.automation_condition(relation),
        )
        return as_virtual(spec) if relation.kind == "view" else spec

    def base_spec(self, relation: Relation) -> dg.AssetSpec:
        """The spec of a continuous view's base: what runs write, and what readers merge with unconsumed rows."""
        translator, split = self.translator, self.tracing.of(relation.name).split
        metadata: dict[str, Any] = status_metadata(relation.stored)
        metadata["view"] = dg.MetadataValue.asset(translator.asset_key(relation.name))
        if relation.model is not None:
            metadata["dagster/code_references"] = source_link(relation.model.path)
        if split is not None:
            metadata["split"] = dg.MetadataValue.md(split.drawn)
        return dg.AssetSpec(
            key=translator.base_key(relation.name),
            deps=[self._key(name) for name in self._base_reads(relation)],
            description=translator.base_description(relation),
            metadata=metadata,
            group_name=self.groups[relation.name],
            kinds={"base", "spark"},
            owners=translator.owners(relation),
            tags={**translator.tags(relation), UPKEEP: "maintain"},
            code_version=_query_version(relation),
        )

    def _key(self, name: Name) -> dg.AssetKey:
        stored = self.inventory.find(name)
        return self.translator.asset_key(self.names.get(str(name).lower(), stored.name if stored is not None else name))

    def _live_reads(self, relation: Relation) -> tuple[Name, ...]:
        """What a relation reads when it is read or built; tables that only the base looks up are not among them."""
        split = self.tracing.of(relation.name).split
        if not relation.is_continuous or split is None:
            return _reads(relation)
        kept = {each.lower() for each in split.below} - {each.lower() for each in (*split.above, *split.streams)}
        return tuple(name for name in _reads(relation) if _full(name) not in kept)

    def _base_reads(self, relation: Relation) -> tuple[Name, ...]:
        """What a base is made of; what is read only above the grouping is not among it."""
        split = self.tracing.of(relation.name).split
        if split is None:
            return _reads(relation)
        above = {each.lower() for each in split.above if each not in split.below}
        return tuple(name for name in _reads(relation) if _full(name) not in above)


def _full(name: Name) -> str:
    return f"{name.schema}.{name.relation}".lower()


def _upkeep(relation: Relation) -> dict[str, str]:
    """How a sensor keeps a relation current that is no view, whether a file declares it or not."""
    declares = relation.model or relation.stored
    return {UPKEEP: declares.intake} if declares is not None and declares.intake is not None else {}


def _sql(relation: Relation) -> dict[str, Any]:
    """The statement of a file, or the query that the lake has."""
    model, stored = relation.model, relation.stored
    sql = model.statement.span.text if model is not None else stored.query if stored is not None else None
    return {"sql": dg.MetadataValue.md(f"```sql\n{sql}\n```")} if sql else {}


def _is_made_by_query(relation: Relation) -> bool:
    return relation.kind in ("view", "sample") or (relation.model is not None and bool(relation.model.reads))


def _code_version(relation: Relation) -> str | None:
    return relation.model.code_version if relation.model is not None else None


def _query_version(relation: Relation) -> str | None:
    if relation.model is not None and relation.model.declared.query is not None:
        return fingerprint(relation.model.declared.query.text)
    stored = relation.stored
    return fingerprint(stored.query) if stored is not None and stored.query is not None else None


def _reads(relation: Relation) -> tuple[Name, ...]:
    if relation.model is not None:
        return relation.model.reads
    if relation.stored is None or relation.stored.query is None:
        return ()
    try:
        return read_relations(relation.stored.query)
    except PlatformError as error:
        # Another client may have stored it; that must not keep the other assets from loading.
        _LOG.warning('the query of view "%s" can\'t be read: %s', relation.name, error.message)
        return ()


_WARNINGS: Cache[str, None] = Cache("warnings that were logged")


def _warn(text: str) -> None:
    """Say something once: a code location is loaded several times before anything runs."""
    _WARNINGS.find(text, lambda: _LOG.warning(text))
