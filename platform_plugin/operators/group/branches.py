"""Branches: a grouping's source becomes branches that read one stream each, and static parts that hold the rest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from platform_plugin.algebra.plan.names import unique_name
from platform_plugin.algebra.plan.nodes import (
    Aggregate,
    Column,
    Derived,
    Filter,
    Generate,
    Item,
    Join,
    Output,
    Project,
    Scalar,
    Scan,
    SetOperation,
    Single,
    Sort,
    columns,
    outputs,
    scans,
)
from platform_plugin.algebra.plan.relations import ROW_ID
from platform_plugin.algebra.plan.traversal import (
    aliases_in,
    column_reference,
    columns_in,
    map_columns_below,
    map_inputs,
    map_scalars,
    number_aliases,
)
from platform_plugin.algebra.types.infer import LONG
from platform_plugin.algebra.types.widening import common_type
from platform_plugin.operators.group.admission import find_ungrouped_streams
from platform_plugin.operators.group.calls import cast
from platform_plugin.operators.group.parts import StaticPart

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.algebra.plan.names import Aliases
    from platform_plugin.algebra.plan.nodes import Query, Source
    from platform_plugin.algebra.types.data_types import DataType


def split_branches(node: Any, aliases: Aliases, clash: Callable[[SetOperation, str], Exception]) -> list[Any]:
    """The branches of a source or query without UNION, whose rows together are its rows; each reads at most one stream.

    A join with the stream on its right is turned round, and sorts are dropped, since no row depends on either.
    """
    if isinstance(node, SetOperation) and node.kind == "union":
        kinds = _types(node, clash)
        return [
            _shaped(branch, outputs(node), kinds, aliases)
            for side in (node.left, node.right)
            for branch in split_branches(side, aliases, clash)
        ]
    if isinstance(node, Sort):
        return split_branches(node.query, aliases, clash)
    if not find_ungrouped_streams(node) or isinstance(node, Scan):
        return [node]
    if isinstance(node, Join):
        if find_ungrouped_streams(node.left):
            return [replace(node, left=branch) for branch in split_branches(node.left, aliases, clash)]
        kind = "left" if node.kind == "right" else node.kind
        return [replace(node, left=branch, right=node.left, kind=kind) for branch in split_branches(node.right, aliases, clash)]
    if isinstance(node, Derived):
        return [replace(node, query=branch) for branch in split_branches(node.query, aliases, clash)]
    return [replace(node, source=branch) for branch in split_branches(node.source, aliases, clash)]


def _types(node: SetOperation, clash: Callable[[SetOperation, str], Exception]) -> tuple[DataType | None, ...]:
    """The types that UNION brings both sides to: a branch on its own must bring them there too."""
    found: list[DataType | None] = []
    for left, right in zip(outputs(node.left), outputs(node.right), strict=True):
        kind = common_type([left.type, right.type])
        if left.type != right.type and kind is None:
            raise clash(node, left.name)
        found.append(None if left.type == right.type else kind)
    return tuple(found)


def _shaped(query: Query, names: tuple[Output, ...], kinds: tuple[DataType | None, ...], aliases: Aliases) -> Query:
    """A side of a UNION with the names and types of the whole."""
    own = outputs(query)
    if all(found.name == wanted.name and kind is None for found, wanted, kind in zip(own, names, kinds, strict=True)):
        return query
    alias = aliases.take("side")

    def item(found: Output, wanted: Output, kind: DataType | None) -> Item:
        value = column_reference(alias, found.name)
        return Item(value=value if kind is None else Scalar(cast(value.node, str(kind))), name=wanted.name, type=kind or found.type)

    items = tuple(item(*pair) for pair in zip(own, names, kinds, strict=True))
    return Project(source=Derived(query=query, alias=alias), items=items)


def add_row_id(source: Any) -> tuple[Any, Column]:
    """The branch with the stream's row id among its columns, and that column."""
    match source:
        case Scan(alias=alias, fields=fields):
            own = () if any(found.name == ROW_ID for found in fields) else (Output(name=ROW_ID, type=LONG, hidden=True),)
            return replace(source, fields=(*fields, *own)), Column(alias, ROW_ID)
        case Filter() | Generate():
            inner, column = add_row_id(source.source)
            return replace(source, source=inner), column
        case Join():
            inner, column = add_row_id(source.left)
            return replace(source, left=inner), column
        case Derived(query=Project() as query, alias=alias):
            inner, column = add_row_id(query.source)
            name = unique_name(ROW_ID, {item.name.lower() for item in query.items})
            items = (*query.items, Item(value=column_reference(*column), name=name, type=LONG))
            return replace(source, query=replace(query, source=inner, items=items)), Column(alias, name)
        case _:
            raise TypeError(type(source).__name__)


@dataclass(slots=True, kw_only=True)
class Statics:
    """Collects the static parts of a plan, equal ones once."""

    aliases: Aliases
    parts: list[StaticPart] = field(default_factory=list)

    def add(self, query: Query, feeds: str | None = None) -> str:
        """The name of the part for this query."""
        same = number_aliases(query)
        for part in self.parts:
            if part.feeds == feeds and number_aliases(part.query) == same:
                return part.name
        name = f"static_{len(self.parts) + 1}"
        self.parts.append(StaticPart(name=name, query=query, feeds=feeds))
        return name

    def settle(self, part: Aggregate) -> Aggregate:
        """The stream part with results of static parts in place of its tables."""
        needed = columns_in(replace(part, source=self._outline(part.source)))
        moved: dict[Column, Column] = {}
        source = self._source(part.source, needed, moved)
        found: Aggregate = replace(part, source=source)
        return map_columns_below(found, lambda column: column_reference(*moved[column]) if column in moved else None) if moved else found

    def _outline(self, source: Any) -> Any:
        """A source in which what becomes a static part is left out, so that only what others need of it is counted."""
        if not find_ungrouped_streams(source):
            return Single() if scans(source) else source
        if isinstance(source, Join) and source.lateral:
            return replace(source, left=self._outline(source.left))
        return _above(source, self._outline, lambda value: value)

    def _source(self, source: Any, needed: set[Column], moved: dict[Column, Column]) -> Any:
        if not scans(source):
            return source
        if not find_ungrouped_streams(source):
            return self._whole(source, needed, moved)
        if isinstance(source, Join) and source.lateral:
            left = self._source(source.left, needed, moved)
            return replace(
                source, left=left, right=self._tables(source.right), condition=source.condition and self._scalar(source.condition)
            )
        return _above(source, lambda below: self._source(below, needed, moved), self._scalar)

    def _scalar(self, value: Scalar) -> Scalar:
        """An expression whose sub-queries read static parts: a whole result where it stands alone, else tables one by one."""
        return Scalar(value.node, tuple(self._subquery(plan) for plan in value.plans)) if value.plans else value

    def _subquery(self, plan: Query) -> Query:
        if not scans(plan):
            return plan
        own = aliases_in(plan)
        if any(column.alias not in own for column in columns_in(plan)):
            return self._tables(plan)  # type: ignore[no-any-return]
        name, alias = self.add(plan), self.aliases.take("found")
        found = outputs(plan)
        scan = Scan(relation=(name,), kind="static", alias=alias, fields=found)
        return Project(
            source=scan, items=tuple(Item(value=column_reference(alias, item.name), name=item.name, type=item.type) for item in found)
        )

    def _whole(self, source: Source, needed: set[Column], moved: dict[Column, Column]) -> Scan:
        """A source without streams becomes one static part with the columns that are needed."""
        wanted = {column: kind for column, kind in columns(source).items() if column in needed}
        alias = source.alias if isinstance(source, (Scan, Derived)) else self.aliases.take("looked_up")
        taken: set[str] = set()
        items = []
        for column, kind in wanted.items():
            name = unique_name(column.name, taken)
            items.append(Item(value=column_reference(*column), name=name, type=kind))
            if column != (alias, name):
                moved[column] = Column(alias, name)
        query = Project(source=source, items=tuple(items))
        fields = outputs(query)
        return Scan(relation=(self.add(query),), kind="static", alias=alias, fields=fields)

    def _tables(self, node: Any) -> Any:
        """Tables inside of a correlated part, each settled by itself."""
        if isinstance(node, Scan):
            items = tuple(Item(value=column_reference(node.alias, found.name), name=found.name, type=found.type) for found in node.fields)
            return replace(node, relation=(self.add(Project(source=node, items=items)),), kind="static")
        return map_inputs(node, self._tables)


def _above(node: Any, change: Callable[[Any], Any], scalar: Callable[[Scalar], Scalar]) -> Any:
    """A source over changed sources, through the projections between them, with its own expressions changed."""
    node = map_scalars(node, scalar)
    match node:
        case Derived(query=Project() as query):
            query = map_scalars(query, scalar)
            return replace(node, query=replace(query, source=change(query.source)))
        case Filter() | Generate():
            return replace(node, source=change(node.source))
        case Join():
            return replace(node, left=change(node.left), right=change(node.right))
        case _:
            return node
