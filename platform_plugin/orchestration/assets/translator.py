"""`Translator`: the asset key, group, kinds, tags and owners of each relation in Dagster."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from platform_plugin.lake.catalogue.tables import DEFAULT_SCHEMA
from platform_plugin.orchestration.assets.automation import upstream_changed
from platform_plugin.orchestration.components.documentation import ON_CHANGE
from platform_plugin.orchestration.sensors.firing import USUAL_POOL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.orchestration.assets.inventory import LakeRelation
    from platform_plugin.orchestration.components.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """The relation behind an asset: the model of a file, a relation of the lake, or both."""

    name: Name
    kind: str
    model: Model | None = None
    stored: LakeRelation | None = None
    is_continuous: bool = False


_NOUNS = ("streams", "tables", "views", "samples", "results")


class Translator:
    """Override a method to change that attribute of every asset; `asset_key` also applies to the relations of a query.

    >>> from platform_plugin.lake.catalogue.tables import Name
    >>> Translator().asset_key(Name.of("posts")).to_user_string(), Translator().asset_key(Name.of(("raw", "clicks"))).to_user_string()
    ('posts', 'raw/clicks')
    """

    def asset_key(self, name: Name) -> dg.AssetKey:
        """The relation's name, after its schema if that is not the default one; Dagster accepts only ASCII words."""
        parts = [name.relation] if name.schema == DEFAULT_SCHEMA else [name.schema, name.relation]
        return dg.AssetKey([_plain(part) for part in parts])

    def base_key(self, name: Name) -> dg.AssetKey:
        """The key of a continuous view's base, below the view's own; the graph shows its last word, so that names the view again.

        >>> from platform_plugin.lake.catalogue.tables import Name
        >>> Translator().base_key(Name.of("impact")).to_user_string()
        'impact/impact_base'
        """
        path = self.asset_key(name).path
        return dg.AssetKey([*path, f"{path[-1]}_base"])

    def pool(self, relation: Relation) -> str:
        """The pool of a view: views of one pool are maintained by one run at a time, those of different pools by runs side by side."""
        return USUAL_POOL

    def automation_condition(self, relation: Relation) -> dg.AutomationCondition[Any] | None:
        """When Dagster materializes a table by itself, from its YAML file. Views are kept current by a sensor."""
        rebuild = relation.model.documentation.rebuild if relation.model is not None else None
        if rebuild is None:
            return None
        return upstream_changed() if rebuild == ON_CHANGE else dg.AutomationCondition.on_cron(rebuild)

    def group_name(self, relation: Relation) -> str:
        """The kind in the plural, or `results` for tables of a query; below it the file's folders with other names."""
        model = relation.model
        noun = "results" if model is not None and model.is_built else f"{relation.kind}s"
        folders = model.file.split("/")[:-1] if model is not None else []
        return "/".join([noun, *(_plain(folder) for folder in folders if folder not in _NOUNS)])

    def crowded_group_name(self, relation: Relation, group: str) -> str:
        """The group of a relation if its own would have more than a hundred members: below that, the first relation that it reads."""
        reads = relation.model.reads if relation.model is not None else ()
        return "/".join([group, _plain(reads[0].relation)]) if reads else group

    def kinds(self, relation: Relation) -> set[str]:
        """The kinds that the graph draws on the asset."""
        return {relation.kind, "spark"}

    def description(self, relation: Relation) -> str:
        """The description in the file, or the comment in the lake, or the kind of the relation; lists show all of it."""
        model, stored = relation.model, relation.stored
        said = (model.description if model is not None else None) or (stored.comment if stored is not None else None)
        return said or _sentence(relation)

    def base_description(self, relation: Relation) -> str:
        """The description of a base: its role, then the description of its view."""
        view = relation.name.relation
        stored = (
            f"The stored part of the view {view}: what maintenance runs have consumed. Readers add the rows that no run has consumed yet."
        )
        return f"{stored}\n\n{self.description(relation)}"

    def owners(self, relation: Relation) -> Sequence[str]:
        """The owners in the YAML file beside the model."""
        return relation.model.documentation.owners if relation.model is not None else []

    def tags(self, relation: Relation) -> Mapping[str, str]:
        """The tags in the YAML file beside the model."""
        return relation.model.documentation.tags if relation.model is not None else {}


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def _sentence(relation: Relation) -> str:
    """What lists show of something that nobody has described."""
    reads = relation.model.reads if relation.model is not None else ()
    of = f" {'over' if relation.kind == 'view' else 'of'} {', '.join(name.relation for name in reads)}" if reads else ""
    return f"A {'continuous view' if relation.is_continuous else relation.kind}{of}."
