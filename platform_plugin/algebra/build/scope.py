"""Name resolution by Spark's rules: the column that a name means, and the columns that a star stands for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.plan.nodes import Column, Scalar
from platform_plugin.algebra.plan.traversal import column_reference, copy_tree
from platform_plugin.algebra.volatility import may_be_bracketless_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from platform_plugin.algebra.types.data_types import DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleSource:
    """One source under the name that the text gives it, with its schema if it may be named with it, and its columns.

    `hidden` ones have a name, and * does not stand for them.
    """

    name: str
    schema: str | None
    columns: tuple[Column, ...]
    hidden: tuple[Column, ...] = ()
    _names: dict[str, Column] = field(default_factory=dict, init=False, repr=False, compare=False)

    def find(self, name: str, *, hidden: bool = False) -> Column | None:
        """The column of this name, which is in lower case, whatever its own case."""
        if hidden:
            return next((column for column in self.hidden if column.name.lower() == name), None)
        if not self._names:
            for column in self.columns:
                self._names.setdefault(column.name.lower(), column)
        return self._names.get(name)


@dataclass(slots=True, kw_only=True)
class Scope:
    """What the names in one SELECT can mean.

    `merged` are the columns of USING, which belong to both sides of a join; `windows` those that GROUP BY window(…) adds to the rows.
    """

    visible: list[VisibleSource] = field(default_factory=list)
    merged: dict[str, Scalar] = field(default_factory=dict)
    types: dict[Column, DataType | None] = field(default_factory=dict)
    parent: Scope | None = None
    windows: dict[str, Scalar] = field(default_factory=dict)

    def find(self, parts: list[str], fail: Callable[[str], Exception]) -> tuple[Scalar, int] | None:
        """What a dotted name means, and how many of its parts name it; the remaining parts are fields of a struct."""
        scope: Scope | None = self
        while scope is not None:
            found = scope._own(parts, fail)  # noqa: SLF001
            if found is not None:
                return found
            scope = scope.parent
        return None

    def _own(self, parts: list[str], fail: Callable[[str], Exception]) -> tuple[Scalar, int] | None:
        lower = [part.lower() for part in parts]
        for taken in (2, 1):
            if len(parts) <= taken:
                continue
            sources = [source for source in self.visible if self._is_called(source, lower[:taken])]
            found = _find_columns(sources, lower[taken])
            if len(found) > 1:
                raise fail(f'"{".".join(parts)}" could be a column of several relations')
            if found:
                return column_reference(*found[0]), taken + 1
        if lower[0] in self.merged:
            return _copied(self.merged[lower[0]]), 1
        found = _find_columns(self.visible, lower[0])
        if len(found) > 1:
            raise fail(f'"{parts[0]}" could be a column of several relations')
        if found:
            return column_reference(*found[0]), 1
        return (_copied(self.windows[lower[0]]), 1) if lower[0] in self.windows else None

    @staticmethod
    def _is_called(source: VisibleSource, parts: list[str]) -> bool:
        if len(parts) == 1:
            return source.name.lower() == parts[0]
        return source.schema is not None and [source.schema.lower(), source.name.lower()] == parts

    def star(self, parts: list[str]) -> Iterator[tuple[str, Scalar]] | None:
        """The columns that * or name.* stands for, or None if no source has that name."""
        lower = [part.lower() for part in parts]
        if lower:
            sources = [source for source in self.visible if self._is_called(source, lower)]
            return iter([(column.name, column_reference(*column)) for source in sources for column in source.columns]) if sources else None
        shown = [(_name(value, name), value) for name, value in self.merged.items()]
        shown += [
            (column.name, column_reference(*column))
            for source in self.visible
            for column in source.columns
            if column.name.lower() not in self.merged
        ]
        return iter(shown)


def _copied(value: Scalar) -> Scalar:
    return Scalar(copy_tree(value.node), value.plans)


def _find_columns(sources: list[VisibleSource], name: str) -> list[Column]:
    """The columns of a name in lower case; hidden ones count only where there is no other."""
    for hidden in (False, True):
        found = [column for source in sources if (column := source.find(name, hidden=hidden)) is not None]
        if found:
            return found
    return []


def _name(value: Scalar, name: str) -> str:
    return value.node.name if isinstance(value.node, exp.Column) else name


def resolve_column(node: exp.Column, scope: Scope, fail: Callable[[str], Exception]) -> Scalar | None:
    """The plan's column for a column of the text, as a tree of its own, with fields of structs; None if there is no such column."""
    parts = [part.name for part in node.parts]
    found = scope.find(parts, fail)
    if found is None:
        # Functions such as localtimestamp need no brackets, and sqlglot takes some of them for columns.
        return Scalar(exp.Anonymous(this=parts[0].lower())) if may_be_bracketless_call(node) else None
    value, used = found
    if used == len(parts):
        return value
    inner = value.node
    for part in parts[used:]:
        inner = exp.Dot(this=inner, expression=exp.to_identifier(part, quoted=True))
    return Scalar(inner, value.plans)
