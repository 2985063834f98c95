"""`Tracing`: the columns, lineage and splits of a folder's queries, from their texts and the catalogue alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from platform_plugin.algebra.plan.nodes import Output, outputs
from platform_plugin.algebra.plan.relations import RelationFacts
from platform_plugin.algebra.types.data_types import Field
from platform_plugin.errors import PlatformError, RefusedView
from platform_plugin.lake.catalogue.tables import DEFAULT_SCHEMA
from platform_plugin.operators.group.split import plan_split, read_plan
from platform_plugin.orchestration.assets.lineage import trace_columns
from platform_plugin.orchestration.components.model import read_relations
from platform_plugin.orchestration.shown.drawing import draw_split
from platform_plugin.relations.bind.names import lake_name
from platform_plugin.relations.kinds import named_kind
from platform_plugin.relations.views.kind import VIEW

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.language.text.places import Span
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.orchestration.assets.inventory import Inventory, LakeRelation
    from platform_plugin.orchestration.assets.lineage import Origins
    from platform_plugin.orchestration.components.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSplit:
    """A view's split for display: the streams below its groupings, all relations below and above them, and the drawn plan."""

    streams: tuple[str, ...]
    below: tuple[str, ...]
    above: tuple[str, ...]
    drawn: str

    @classmethod
    def of(cls, plan: SplitPlan) -> ShownSplit:
        """The display of a plan."""
        kept = dict.fromkeys(table for static in plan.statics for table in static.tables)
        return cls(
            streams=plan.stream_names,
            below=tuple({**dict.fromkeys(plan.stream_names), **kept}),
            above=plan.upper_tables,
            drawn=draw_split(plan),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRelation:
    """The columns, lineage and split of a relation, before anything runs; a column's type may be None. Only continuous views have a split.

    `trouble` is the error of a query that can't be traced: a refused view, or a query that reads unknown relations.
    """

    columns: tuple[Output, ...] = ()
    lineage: Mapping[str, Origins] = field(default_factory=dict)
    split: ShownSplit | None = None
    is_continuous: bool = False
    trouble: PlatformError | None = None


class Memory:
    """A memory of traced queries; this one forgets at once, `file_memory` has one that keeps them in a file."""

    def key(self, *_: object) -> str:
        """A text that differs whenever the result could differ."""
        return ""

    def recall(self, key: str) -> TracedRelation | None:
        """The result that was stored under a key."""
        return None

    def keep(self, key: str, traced: TracedRelation) -> TracedRelation:
        """Store a result, and return it."""
        return traced


class Tracing:
    """The relations of some models and a lake; each is traced when it is first used."""

    def __init__(self, models: Iterable[Model], inventory: Inventory, memory: Memory | None = None) -> None:
        self._memory = memory or Memory()
        self._models = {_key(model.name): model for model in models}
        self._inventory = inventory
        self._found: dict[str, TracedRelation] = {}
        self._under_way: set[str] = set()

    def of(self, name: Name) -> TracedRelation:
        """The traced relation with a name; an empty one for an unknown name."""
        key = _key(name)
        if key not in self._found:
            if key in self._under_way:
                return TracedRelation()
            self._under_way.add(key)
            self._found[key] = self._trace(name)
            self._under_way.discard(key)
        return self._found[key]

    def _trace(self, name: Name) -> TracedRelation:
        model, stored = self._models.get(_key(name)), self._inventory.find(name)
        if model is not None:
            said = model.declared
            if said.query is not None:
                is_view = model.kind == VIEW.name
                return self._view(said.query, said.names, is_wanted=said.is_continuous) if is_view else self._query(said.query, ())
            return TracedRelation(columns=self.of(lake_name(said.like)).columns if said.like is not None else _outputs(said.columns))
        if stored is None:
            return TracedRelation()
        if stored.query is not None:
            return self._view(stored.query, stored.names, is_wanted=stored.is_continuous)
        return TracedRelation(columns=_outputs(stored.fields))

    def _view(self, query: str | Span, names: tuple[str, ...], *, is_wanted: bool) -> TracedRelation:
        key = self._memory.key("view", query, names, is_wanted, self._readable(query))
        return self._memory.recall(key) or self._memory.keep(key, self._trace_view(query, names, is_wanted=is_wanted))

    def _trace_view(self, query: str | Span, names: tuple[str, ...], *, is_wanted: bool) -> TracedRelation:
        traced = self._trace_query(query, names)
        try:
            relations = self._relations(query, opaque=False)
            split = plan_split(query, relations, names=names)
        except RefusedView as refused:
            if refused.is_plain and not is_wanted:
                return traced
            return replace(traced, is_continuous=True, trouble=refused)
        except PlatformError as error:
            return replace(traced, is_continuous=is_wanted, trouble=traced.trouble or error)
        # One that reads other views only is computed when it is read.
        return replace(traced, split=ShownSplit.of(split), is_continuous=True) if split.streams else traced

    def _query(self, query: str | Span, names: tuple[str, ...]) -> TracedRelation:
        key = self._memory.key("query", query, names, self._readable(query))
        return self._memory.recall(key) or self._memory.keep(key, self._trace_query(query, names))

    def _readable(self, query: str | Span) -> list[RelationFacts]:
        """What a query reads, all of it: what follows from its text depends on nothing else."""
        try:
            return list(self._relations(query, opaque=False).values())
        except PlatformError:
            return []

    def _trace_query(self, query: str | Span, names: tuple[str, ...]) -> TracedRelation:
        try:
            plan = read_plan(query, self._relations(query, opaque=True))
        except PlatformError as error:
            return TracedRelation(trouble=error)
        columns, lineage = outputs(plan), trace_columns(plan)
        if len(names) == len(columns):
            lineage = {name: lineage[column.name] for name, column in zip(names, columns, strict=True)}
            columns = tuple(replace(column, name=name) for name, column in zip(names, columns, strict=True))
        return TracedRelation(columns=columns, lineage=lineage)

    def _relations(self, query: str | Span, *, opaque: bool) -> dict[str, RelationFacts]:
        """What a query names; a plain view is a relation like others if `opaque`, otherwise it comes with its text and what that names."""
        found: dict[str, RelationFacts] = {}
        waiting: list[str | Span] = [query]
        while waiting:
            for name in read_relations(waiting.pop()):
                if _key(name) in found:
                    continue
                relation = self._relation(name, opaque=opaque)
                if relation is None:
                    continue
                found[_key(name)] = relation
                if name.schema == DEFAULT_SCHEMA:
                    found[name.relation.lower()] = relation
                if relation.body is not None:
                    waiting.append(relation.body)
        return found

    def _relation(self, name: Name, *, opaque: bool) -> RelationFacts | None:
        model, stored = self._models.get(_key(name)), self._inventory.find(name)
        declared = model or stored
        if declared is None:
            return None
        traced = self.of(declared.name)
        # A type that nobody knows stays unknown; only names are needed then.
        fields = tuple(Field(name=column.name, type=cast("Any", column.type)) for column in traced.columns)
        full = (declared.name.schema, declared.name.relation)
        kind = named_kind(declared.kind)
        if kind is not None and kind is not VIEW:
            return RelationFacts(name=full, kind=kind.planned_as, fields=fields)
        if traced.is_continuous or opaque:
            return RelationFacts(name=full, kind="continuous" if traced.is_continuous else "table", fields=fields)
        renamed = () if model is None else model.declared.names
        named = stored.names if model is None and stored is not None else renamed
        return RelationFacts(name=full, kind="view", fields=fields if named else (), body=_text(model, stored))


def describe_columns(models: Sequence[Model], inventory: Inventory) -> tuple[Model, ...]:
    """The models with descriptions of columns: those of a relation also hold for its samples and histories, unless these have their own."""
    by_name = {_key(model.name): model for model in models}

    def said(name: Name, beneath: frozenset[str] = frozenset()) -> dict[str, str]:
        key = _key(name)
        model, stored = by_name.get(key), inventory.find(name)
        source = model.declared.like if model is not None else None
        if source is not None and key not in beneath:
            found = said(lake_name(source), beneath | {key})
        else:
            columns = model.columns if model is not None and model.columns else stored.fields if stored is not None else ()
            found = {column.name.lower(): column.comment for column in columns if column.comment}
        own = model.documentation.columns if model is not None else {}
        return found | {column.lower(): text for column, text in own.items()}

    return tuple(
        replace(model, documentation=model.documentation.model_copy(update={"columns": said(model.name)}))
        if model.declared.like is not None
        else model
        for model in models
    )


def _text(model: Model | None, stored: LakeRelation | None) -> str | None:
    if model is not None and model.declared.query is not None:
        return model.declared.query.text
    return stored.query if stored is not None else None


def _outputs(fields: tuple[Field, ...]) -> tuple[Output, ...]:
    return tuple(Output(name=found.name, type=found.type) for found in fields)


def _key(name: Name) -> str:
    return f"{name.schema}.{name.relation}".lower()
