"""ALTER: one change to a relation, its name, its columns or its options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.statements.statement import (
    DefinitionStatement,
    Statement,
    StatementOpening,
)
from platform_plugin.language.text.columns import read_column, read_column_type, read_default
from platform_plugin.language.text.kind_words import KindWord, find_kind_word, read_kind_word
from platform_plugin.language.text.options import Option, read_options
from platform_plugin.language.text.places import syntax_error
from platform_plugin.language.text.writing import (
    column_text,
    identifier,
    name_text,
    options_text,
    string_text,
    type_text,
)

if TYPE_CHECKING:
    from platform_plugin.algebra.types.data_types import DataType, Field
    from platform_plugin.language.text.cursor import TokenCursor
    from platform_plugin.language.text.names import WrittenName


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """A new last column."""

    column: Field
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropColumn:
    """The column to drop."""

    column: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """A column's new name."""

    column: str
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameRelation:
    """The relation's new name."""

    to: WrittenName


@dataclass(frozen=True, slots=True, kw_only=True)
class SetType:
    """A wider type for a column."""

    column: str
    type: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class SetNullable:
    """Whether a column accepts NULL from now on."""

    column: str
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDefault:
    """The default of a column for new rows, or None for NULL."""

    column: str
    default: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOptions:
    """New values of options; a stream's retention options are among them."""

    options: tuple[Option, ...]


Change = AddColumn | DropColumn | RenameColumn | RenameRelation | SetType | SetNullable | SetDefault | SetOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Alter(DefinitionStatement):
    """One change to a relation."""

    kind: str
    name: WrittenName
    change: Change
    if_exists: bool = False


def read_alter(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after ALTER."""
    kind = find_kind_word(read_kind_word(cursor, altered=True))
    exists = cursor.accept("IF", "EXISTS")
    name = cursor.name(f"a {kind.word.lower()} name")
    return Alter(kind=kind.word, name=name, if_exists=exists, change=_read_change(cursor, kind))


def _read_change(cursor: TokenCursor, kind: KindWord) -> Change:
    if cursor.accept("RENAME", "TO"):
        return RenameRelation(to=cursor.new_name("a new name"))
    if cursor.accept("SET"):
        if cursor.at_words("("):
            return SetOptions(options=read_options(cursor, kind.options, f"a {kind.word.lower()}"))
        raise cursor.fail()
    if not kind.has_columns:
        raise cursor.fail(hint=f"CREATE OR REPLACE {kind.word} changes a {kind.word.lower()}'s query")
    if cursor.accept("ADD"):
        cursor.accept("COLUMN")
        exists = cursor.accept("IF", "NOT", "EXISTS")
        first = cursor.index
        column, key = read_column(cursor)
        if key:
            raise syntax_error(cursor.span(first), "an added column can't be the primary key")
        return AddColumn(column=column, if_not_exists=exists)
    if cursor.accept("DROP"):
        cursor.accept("COLUMN")
        exists = cursor.accept("IF", "EXISTS")
        return DropColumn(column=cursor.identifier("a column"), if_exists=exists)
    if cursor.accept("RENAME"):
        cursor.accept("COLUMN")
        old = cursor.identifier("a column")
        cursor.expect("TO")
        return RenameColumn(column=old, to=cursor.new_identifier("a new name"))
    if cursor.accept("ALTER"):
        cursor.accept("COLUMN")
        return _read_column_change(cursor)
    raise cursor.fail()


def _read_column_change(cursor: TokenCursor) -> Change:
    column = cursor.identifier("a column")
    if cursor.accept("TYPE") or cursor.accept("SET", "DATA", "TYPE"):
        return SetType(column=column, type=read_column_type(cursor))
    if cursor.accept("DROP", "NOT", "NULL"):
        return SetNullable(column=column, nullable=True)
    if cursor.accept("SET", "NOT", "NULL"):
        return SetNullable(column=column, nullable=False)
    if cursor.accept("DROP", "DEFAULT"):
        return SetDefault(column=column, default=None)
    if cursor.accept("SET", "DEFAULT"):
        return SetDefault(column=column, default=read_default(cursor))
    raise cursor.fail()


def _change_text(change: Change) -> str:
    match change:
        case AddColumn(column=column, if_not_exists=exists):
            return f"ADD COLUMN {'IF NOT EXISTS ' if exists else ''}{column_text(column)}"
        case DropColumn(column=name, if_exists=exists):
            return f"DROP COLUMN {'IF EXISTS ' if exists else ''}{identifier(name)}"
        case RenameColumn(column=name, to=to):
            return f"RENAME COLUMN {identifier(name)} TO {identifier(to)}"
        case RenameRelation(to=target):
            return f"RENAME TO {name_text(target)}"
        case SetType(column=name, type=kind):
            return f"ALTER COLUMN {identifier(name)} TYPE {type_text(kind)}"
        case SetNullable(column=name, nullable=nullable):
            return f"ALTER COLUMN {identifier(name)} {'DROP' if nullable else 'SET'} NOT NULL"
        case SetDefault(column=name, default=None):
            return f"ALTER COLUMN {identifier(name)} DROP DEFAULT"
        case SetDefault(column=name, default=default):
            return f"ALTER COLUMN {identifier(name)} SET DEFAULT {string_text(default or '')}"
        case SetOptions(options=options):
            return f"SET {options_text(options)}"


def alter_text(statement: Alter) -> str:
    """The statement as text."""
    exists = "IF EXISTS " if statement.if_exists else ""
    return f"ALTER {statement.kind} {exists}{name_text(statement.name)} {_change_text(statement.change)}"
