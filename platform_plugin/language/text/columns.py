"""Column lists of CREATE and ALTER: names, types, constraints, defaults and comments."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from platform_plugin.algebra.types import data_types as types
from platform_plugin.algebra.types.blob_text import blob_text
from platform_plugin.algebra.types.data_types import Field, Primitive, holds_interval
from platform_plugin.language.text.cursor import TokenCursor, refuse_twice
from platform_plugin.language.text.datatypes import read_type
from platform_plugin.language.text.places import suggest_word, syntax_error
from platform_plugin.language.text.values import Literal, moment_value, read_cell

if TYPE_CHECKING:
    from platform_plugin.algebra.types.data_types import DataType

_NUMBERS = ("int", "uint", "float")
_UNKEPT = ("FOREIGN", "UNIQUE", "CHECK", "CONSTRAINT", "REFERENCES", "GENERATED")


@dataclass(slots=True, kw_only=True)
class _ColumnList:
    columns: list[Field]
    keys: list[str]
    key_at: int | None = None


def read_columns(cursor: TokenCursor) -> tuple[tuple[Field, ...], tuple[str, ...]]:
    """The columns in parentheses, and the names of those in the primary key, which never hold NULL."""
    found = _ColumnList(columns=[], keys=[])
    first = cursor.index
    cursor.listed(lambda: _read_item(cursor, found))
    span = cursor.span(first)
    if not found.columns:
        raise syntax_error(span, "a relation needs at least one column")
    names = [column.name for column in found.columns]
    refuse_twice(span, names)
    by_name = {name.lower(): name for name in names}
    for key in found.keys:
        if key.lower() not in by_name:
            raise syntax_error(span, f'primary key column "{key}" is not a column', hint=suggest_word(key, names))
    keys = tuple(by_name[key.lower()] for key in found.keys)
    refuse_twice(span, keys)
    return tuple(replace(column, nullable=False) if column.name in keys else column for column in found.columns), keys


def _read_item(cursor: TokenCursor, found: _ColumnList) -> None:
    if cursor.upper() in _UNKEPT and cursor.upper(1) in ("KEY", "(", ""):
        raise _not_kept(cursor)
    if cursor.at_words("PRIMARY", "KEY"):
        _one_key(cursor, found)
        cursor.advance(2)
        found.keys += cursor.names("a column of the key")
        return
    column, key = read_column(cursor)
    if key:
        _one_key(cursor, found)
        found.keys.append(column.name)
    found.columns.append(column)


def _one_key(cursor: TokenCursor, found: _ColumnList) -> None:
    if found.keys:
        raise cursor.fail(message="a relation has one primary key", hint="write PRIMARY KEY (a, b) after the columns for a key of several")


def _not_kept(cursor: TokenCursor) -> Exception:
    return cursor.fail(
        message=f"{cursor.upper()} constraints are not kept", hint="declare NOT NULL and PRIMARY KEY here, and other rules as checks"
    )


def read_column_type(cursor: TokenCursor) -> DataType:
    """The type of a column that is written to; Spark's intervals are types of results only."""
    first = cursor.index
    kind = read_type(cursor)
    if holds_interval(Field(name="", type=kind)):
        hint = "declare BIGINT for microseconds or INT for months; a continuous view can have intervals among its results"
        raise syntax_error(cursor.span(first), f"{cursor.span(first).text} is not a type of a table's column", hint=hint)
    return kind


def read_column(cursor: TokenCursor) -> tuple[Field, bool]:
    """One column, and whether it is declared as the primary key."""
    name = cursor.new_identifier("a column name")
    kind = read_column_type(cursor)
    nullable, key, default, comment = True, False, None, None
    while True:
        if cursor.accept("NOT", "NULL"):
            nullable = False
        elif cursor.accept("NULL"):
            nullable = True
        elif cursor.accept("PRIMARY", "KEY"):
            key = True
        elif cursor.accept("DEFAULT"):
            default = read_default(cursor, kind)
        elif cursor.accept("COMMENT"):
            comment = cursor.string("a comment")
        elif cursor.upper() in _UNKEPT:
            raise _not_kept(cursor)
        else:
            return Field(name=name, type=kind, nullable=nullable and not key, default=default, comment=comment), key


def read_default(cursor: TokenCursor, kind: DataType | None = None) -> str | None:
    """A literal default in text form, checked against the column's type where that is known."""
    first = cursor.index
    found = read_cell(cursor.tokens, cursor.index, {}) if cursor.index < cursor.last else None
    if found is None or found[1] > cursor.last or not isinstance(found[0], Literal) or found[0].kind == "default":
        raise cursor.fail("a literal", hint="a default is one literal; compute other values when inserting")
    cursor.advance(found[1] - first)
    literal = found[0]
    if literal.kind == "null":
        return None
    text = default_text(literal)
    if kind is not None and not _fits(literal, kind, text):
        raise syntax_error(cursor.span(first), f"default {cursor.span(first).text[:40]} is no {kind}")
    return text


def default_text(literal: Literal) -> str:
    """The text in which a literal is stored as a column's default."""
    match literal.kind, literal.value:
        case "boolean", value:
            return "true" if value else "false"
        case "binary", bytes(value):
            return blob_text(value)
        case "decimal", Decimal() as value:
            return format(value, "f")
        case _, value:
            return str(value)


def _fits(literal: Literal, kind: DataType, text: str) -> bool:
    match kind:
        case Primitive(name="boolean"):
            return literal.kind == "boolean"
        case Primitive(name=name) if name.startswith(("int", "uint")) and name != "interval":
            return literal.kind == "integer"
        case Primitive(name=name) if name.startswith(_NUMBERS):
            return literal.kind in ("integer", "decimal", "double") and math.isfinite(float(text))
        case types.Decimal():
            return literal.kind in ("integer", "decimal")
        case Primitive(name="date"):
            return literal.kind in ("date", "string") and moment_value("DATE", text) is not None
        case Primitive(name=name) if name.startswith("timestamp"):
            return literal.kind in ("date", "string", "timestamp", "timestamp_ntz") and moment_value("TIMESTAMP", text) is not None
        case Primitive(name="blob"):
            return literal.kind == "binary"
        case Primitive():
            return literal.kind == "string"
        case _:
            return False
