"""ALTER, DROP and COMMENT: the statements that change what a relation is."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from platform_plugin.language.statements.statements import (
    AddColumn,
    Alter,
    Change,
    Comment,
    Drop,
    DropColumn,
    Kind,
    Name,
    RenameColumn,
    RenameRelation,
    SetDefault,
    SetNullable,
    SetOptions,
    SetType,
    Statement,
)
from platform_plugin.language.text import options as known
from platform_plugin.language.text.columns import read_column, read_default
from platform_plugin.language.text.datatypes import read_type
from platform_plugin.language.text.options import read_options
from platform_plugin.language.text.places import fault

if TYPE_CHECKING:
    from platform_plugin.language.text.cursor import Cursor

# Which of a feed's options a stream knows depends on the feed it has.
_FEED = {name: takes for options in (known.FEEDS["KAFKA"], known.FEEDS["FILES"]) for name, takes in options.items()}
_OPTIONS = {"TABLE": known.TABLE, "STREAM": known.STREAM | _FEED, "VIEW": known.VIEW}


def read_drop(cursor: Cursor) -> Statement:
    """The statement after DROP."""
    kind = _read_kind(cursor, "TABLE", "STREAM", "VIEW", "SAMPLE", "SCHEMA")
    exists = cursor.accept("IF", "EXISTS")
    name = cursor.name(f"a {kind.lower()} name")
    if kind == "SCHEMA" and name.schema is not None:
        raise fault(name.span, "a schema's name has one part")
    cascade = cursor.accept("CASCADE")
    if not cascade:
        cursor.accept("RESTRICT")
    return Drop(kind=kind, name=name, if_exists=exists, cascade=cascade)


def _read_kind(cursor: Cursor, *kinds: str) -> Kind:
    if cursor.accept("FOREIGN", "TABLE"):
        return "STREAM"
    for word in ("CONTINUOUS", "MATERIALIZED"):
        if "VIEW" in kinds and cursor.accept(word, "VIEW"):
            return "VIEW"
    return cast("Kind", cursor.expect_one(*kinds))


def read_alter(cursor: Cursor) -> Statement:
    """The statement after ALTER."""
    kind = _read_kind(cursor, "TABLE", "STREAM", "VIEW")
    exists = cursor.accept("IF", "EXISTS")
    name = cursor.name(f"a {kind.lower()} name")
    return Alter(kind=kind, name=name, if_exists=exists, change=_read_change(cursor, kind))


def _read_change(cursor: Cursor, kind: Kind) -> Change:
    if cursor.accept("RENAME", "TO"):
        return RenameRelation(to=cursor.new_name("a new name"))
    if cursor.accept("SET"):
        if cursor.at_words("("):
            return SetOptions(options=read_options(cursor, _OPTIONS[kind], f"a {kind.lower()}"))
        raise cursor.fail()
    if kind == "VIEW":
        raise cursor.fail(hint="CREATE OR REPLACE VIEW changes a view's query")
    if cursor.accept("ADD"):
        cursor.accept("COLUMN")
        exists = cursor.accept("IF", "NOT", "EXISTS")
        first = cursor.index
        column, key = read_column(cursor)
        if key:
            raise fault(cursor.span(first), "an added column can't be the primary key")
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


def _read_column_change(cursor: Cursor) -> Change:
    column = cursor.identifier("a column")
    if cursor.accept("TYPE") or cursor.accept("SET", "DATA", "TYPE"):
        return SetType(column=column, type=read_type(cursor))
    if cursor.accept("DROP", "NOT", "NULL"):
        return SetNullable(column=column, nullable=True)
    if cursor.accept("SET", "NOT", "NULL"):
        return SetNullable(column=column, nullable=False)
    if cursor.accept("DROP", "DEFAULT"):
        return SetDefault(column=column, default=None)
    if cursor.accept("SET", "DEFAULT"):
        return SetDefault(column=column, default=read_default(cursor))
    raise cursor.fail()


def read_comment(cursor: Cursor) -> Statement:
    """The statement after COMMENT."""
    cursor.expect("ON")
    if cursor.accept("COLUMN"):
        first = cursor.index
        parts = [cursor.identifier("a relation")]
        while cursor.accept("."):
            parts.append(cursor.identifier("a column"))
        span = cursor.span(first)
        if not 2 <= len(parts) <= 3:
            raise fault(span, "a column is named after its relation", expected="relation.column or schema.relation.column")
        kind: Kind = "TABLE"
        name, column = Name(parts=tuple(parts[:-1]), span=span), parts[-1]
    else:
        kind, column = _read_kind(cursor, "TABLE", "STREAM", "VIEW", "SAMPLE"), None
        name = cursor.name(f"a {kind.lower()} name")
    cursor.expect("IS")
    text = None if cursor.accept("NULL") else cursor.string("'a comment' or NULL")
    return Comment(kind=kind, name=name, column=column, text=text)
