"""The list of the kinds of relations. A kind more is a folder and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from platform_plugin.errors import CatalogueError, InvalidValue
from platform_plugin.relations.samples.kind import SAMPLE
from platform_plugin.relations.streams.kind import STREAM
from platform_plugin.relations.tables.kind import TABLE
from platform_plugin.relations.views.kind import STATE, VIEW

if TYPE_CHECKING:
    from platform_plugin.lake.catalogue.relations import Declaration
    from platform_plugin.lake.catalogue.tables import Snapshot, Table, View
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.kind import Kind

KINDS: tuple[Kind[Any], ...] = (TABLE, STREAM, VIEW, SAMPLE, STATE)
"""The kinds of the package, in the order in which they are asked and told."""

_REGISTERED: dict[str, Kind[Any]] = {}
_BY_NAME = {kind.name: kind for kind in KINDS}


def register(kind: Kind[Any]) -> None:
    """Add a kind from outside the package; a name that is taken by another kind is refused."""
    taken = {each for other in every_kind() if other is not kind for each in (other.name, other.plural)}
    if taken.intersection((kind.name, kind.plural)):
        raise InvalidValue(f'there is a kind "{kind.name}" or "{kind.plural}" already', hint="give it another name")
    _REGISTERED[kind.name] = kind


def unregister(kind: Kind[Any]) -> None:
    """Take a kind off again that was registered."""
    _REGISTERED.pop(kind.name, None)


def every_kind() -> tuple[Kind[Any], ...]:
    """The kinds of the package and those that were registered."""
    return (*KINDS, *_REGISTERED.values()) if _REGISTERED else KINDS


def named_kind(name: str) -> Kind[Any] | None:
    """The kind of a name, or None."""
    return _BY_NAME.get(name) or _REGISTERED.get(name)


def is_hidden(name: str) -> bool:
    """Whether relations of the kind of this name are parts of others."""
    kind = named_kind(name)
    return kind is not None and kind.is_hidden


def declared_kind(relation: Table | View, declaration: Declaration) -> Kind[Any]:
    """The kind of a relation that was declared so; one that only another version of the package knows is an error."""
    kind = named_kind(declaration.kind)
    if kind is None:
        raise CatalogueError(f'"{relation.name}" is a {declaration.kind}, which is not known here', hint="open the lake with what made it")
    return kind


def find_kind(lake: Lake, relation: Table | View, snapshot: Snapshot) -> Kind[Any]:
    """The kind of a relation at a snapshot."""
    from platform_plugin.lake.catalogue.relations import Declaration

    return declared_kind(relation, Declaration(kind=kind_name(lake, relation, snapshot)))


def kind_name(lake: Lake, relation: Table | View, snapshot: Snapshot) -> str:
    """The word for what a relation is."""
    from platform_plugin.lake.catalogue.relations import known_kinds
    from platform_plugin.lake.catalogue.tables import Table

    declared = known_kinds(lake, snapshot).get(str(relation.uuid))
    return declared or (TABLE if isinstance(relation, Table) else VIEW).name
