"""`KINDS`, the list of the kinds of relations, and the registration of kinds from outside the package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from platform_plugin.errors import CatalogueError, InvalidValue
from platform_plugin.relations.samples.kind import SAMPLE
from platform_plugin.relations.streams.kind import STREAM
from platform_plugin.relations.tables.kind import TABLE
from platform_plugin.relations.views.kind import STATE, VIEW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.lake.catalogue.relations import Declaration
    from platform_plugin.lake.catalogue.tables import Snapshot, Table, View
    from platform_plugin.lake.lake import Lake
    from platform_plugin.language.statements.registry import StatementKind
    from platform_plugin.language.statements.statement import Statement
    from platform_plugin.language.text.kind_words import KindWord
    from platform_plugin.relations.declarations import DeclaredRelation
    from platform_plugin.relations.kind import DeclarableKind, Kind

KINDS: tuple[Kind[Any], ...] = (TABLE, STREAM, VIEW, SAMPLE, STATE)
"""The kinds of the package, in the order in which they are asked and listed."""


class Registration(NamedTuple):
    """A kind from outside the package, with its word and statements."""

    kind: Kind[Any]
    word: KindWord
    statements: tuple[StatementKind, ...]


_REGISTERED: dict[str, Registration] = {}
_BY_NAME = {kind.name: kind for kind in KINDS}


def register(kind: Kind[Any], *, word: KindWord, statements: Sequence[StatementKind] = ()) -> None:
    """Add a kind from outside the package, the word for it, and its statements; a name that is in use is refused."""
    from platform_plugin.language.statements.registry import STATEMENTS
    from platform_plugin.language.text.kind_words import KIND_WORDS

    unregister(kind)
    taken = {each for other in every_kind() for each in (other.name, other.plural)}
    if taken.intersection((kind.name, kind.plural)):
        raise InvalidValue(f'there is a kind "{kind.name}" or "{kind.plural}" already', hint="give it another name")
    _REGISTERED[kind.name] = Registration(kind, word, tuple(statements))
    KIND_WORDS.append(word)
    STATEMENTS.extend(statements)


def unregister(kind: Kind[Any]) -> None:
    """Remove a registered kind and its statements."""
    from platform_plugin.language.statements.registry import STATEMENTS
    from platform_plugin.language.text.kind_words import KIND_WORDS

    registered = _REGISTERED.pop(kind.name, None)
    if registered is not None:
        KIND_WORDS.remove(registered.word)
        for statement in registered.statements:
            STATEMENTS.remove(statement)


def every_kind() -> tuple[Kind[Any], ...]:
    """The kinds of the package and the registered ones."""
    return (*KINDS, *(each.kind for each in _REGISTERED.values())) if _REGISTERED else KINDS


def named_kind(name: str) -> Kind[Any] | None:
    """The kind with a name, or None."""
    registered = _REGISTERED.get(name)
    return registered.kind if registered is not None else _BY_NAME.get(name)


def _is_declarable(kind: Kind[Any]) -> TypeGuard[DeclarableKind[Any]]:
    # `isinstance` looks each method of the protocol up, which takes a tenth of the load of a thousand views.
    return hasattr(kind, "declared")


def declarable_kind(name: str) -> DeclarableKind[Any] | None:
    """The kind of a name, if files declare relations of it."""
    kind = named_kind(name)
    return kind if kind is not None and _is_declarable(kind) else None


def find_declared(statement: Statement) -> tuple[DeclarableKind[Any], DeclaredRelation] | None:
    """The kind of relation that a statement defines, and what it declares; None if it defines none that files declare."""
    kinds = (kind for kind in every_kind() if _is_declarable(kind))
    return next(((kind, found) for kind in kinds if (found := kind.declared(statement)) is not None), None)


def is_hidden(name: str) -> bool:
    """Whether relations of the kind with this name are parts of others."""
    kind = named_kind(name)
    return kind is not None and kind.is_hidden


def declared_kind(relation: Table | View, declaration: Declaration) -> Kind[Any]:
    """The kind of a relation with this declaration; a kind of another version of the package is an error."""
    kind = named_kind(declaration.kind)
    if kind is None:
        raise CatalogueError(f'"{relation.name}" is a {declaration.kind}, which is not known here', hint="open the lake with what made it")
    return kind


def find_kind(lake: Lake, relation: Table | View, snapshot: Snapshot) -> Kind[Any]:
    """The kind of a relation at a snapshot."""
    from platform_plugin.lake.catalogue.relations import Declaration

    return declared_kind(relation, Declaration(kind=kind_name(lake, relation, snapshot)))


def kind_name(lake: Lake, relation: Table | View, snapshot: Snapshot) -> str:
    """The word for the kind of a relation."""
    from platform_plugin.lake.catalogue.relations import read_kind_names
    from platform_plugin.lake.catalogue.tables import Table

    declared = read_kind_names(lake, snapshot).get(str(relation.uuid))
    return declared or (TABLE if isinstance(relation, Table) else VIEW).name
