"""Rendering of statements: values back to the SQL text that makes them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from platform_plugin.algebra.types.blob_text import parse_blob
from platform_plugin.algebra.types.data_types import DataType, Decimal, Field, List, Map, Primitive, Struct, quoted
from platform_plugin.language.statements.statements import (
    AddColumn,
    Alter,
    Change,
    Comment,
    CreateHistory,
    CreateSample,
    CreateSchema,
    CreateStream,
    CreateTable,
    CreateView,
    Drop,
    DropColumn,
    Feed,
    Name,
    Option,
    RenameColumn,
    RenameRelation,
    SetDefault,
    SetNullable,
    SetOptions,
    SetType,
    Statement,
)
from platform_plugin.language.text.options import STREAM
from platform_plugin.language.text.words import RESERVED

if TYPE_CHECKING:
    from collections.abc import Iterable


def identifier(name: str) -> str:
    """A name as it may stand in a statement, between back-ticks only where it must be.

    >>> identifier("posts"), identifier("order"), identifier("two words")
    ('posts', '`order`', '`two words`')
    """
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.upper() not in RESERVED else quoted(name)


def name_text(name: Name) -> str:
    """A relation's name, every part quoted where it must be."""
    return ".".join(identifier(part) for part in name.parts)


def string_text(value: str) -> str:
    r"""A string literal that means this value.

    >>> string_text("it's")
    "'it\\'s'"
    """
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def type_text(kind: DataType) -> str:
    """A type with all that is said of its parts."""
    match kind:
        case List(element=element):
            return f"ARRAY<{type_text(element.type)}>"
        case Map(key=key, value=value):
            return f"MAP<{type_text(key.type)}, {type_text(value.type)}>"
        case Struct(fields=fields):
            return f"STRUCT<{', '.join(_part_text(part) for part in fields)}>"
        case _:
            return str(kind)


def _part_text(part: Field) -> str:
    comment = f" COMMENT {string_text(part.comment)}" if part.comment is not None else ""
    return f"{identifier(part.name)}: {type_text(part.type)}{'' if part.nullable else ' NOT NULL'}{comment}"


def column_text(column: Field) -> str:
    """A column as CREATE and ALTER take it."""
    text = f"{identifier(column.name)} {type_text(column.type)}"
    if not column.nullable:
        text += " NOT NULL"
    if column.default is not None:
        text += f" DEFAULT {_default_text(column)}"
    return text if column.comment is None else f"{text} COMMENT {string_text(column.comment)}"


def _default_text(column: Field) -> str:
    default = column.default or ""
    if column.computed_default:
        return default
    match column.type:
        case Primitive(name="blob"):
            return f"X'{parse_blob(default).hex()}'"
        case Primitive(name=name) if name == "boolean" or (name.startswith(("int", "uint", "float")) and name != "interval"):
            return default
        case Decimal():
            return default
        case _:
            return string_text(default)


def duration_text(value: timedelta) -> str:
    """A duration in the words that options take.

    >>> duration_text(timedelta(hours=1)), duration_text(timedelta(days=1, seconds=90))
    ('1 hour', '1 day 90 seconds')
    """
    seconds, unit = value.seconds, "second"
    for size, longer in ((3600, "hour"), (60, "minute")):
        if seconds and seconds % size == 0:
            seconds, unit = seconds // size, longer
            break
    parts = ((value.days, "day"), (seconds, unit), (value.microseconds, "microsecond"))
    return " ".join(f"{amount} {word}{'' if amount == 1 else 's'}" for amount, word in parts if amount)


def options_text(options: Iterable[Option]) -> str:
    """A parenthesised option list."""
    return "(" + ", ".join(f"{option.name} = {_value_text(option.value)}" for option in options) + ")"


def _value_text(value: str | float | bool | timedelta | None) -> str:  # noqa: FBT001
    match value:
        case bool():
            return "true" if value else "false"
        case timedelta():
            return string_text(duration_text(value))
        case str():
            return string_text(value)
        case _:
            return str(value)


def statement_text(statement: Statement) -> str:
    """The text of a definition; other statements are given back as they were written.

    >>> from platform_plugin.language.script import parse_statement
    >>> print(statement_text(parse_statement("create table t(id int primary key, `a b` text)")))
    CREATE TABLE t (
        id INT NOT NULL,
        `a b` STRING,
        PRIMARY KEY (id)
    )
    """
    match statement:
        case CreateTable():
            body = f" {_columns_text(statement.columns, statement.primary_key)}" if statement.columns else ""
            text = _create(statement, "TABLE", body) + _trailer(statement.comment, statement.options)
            return text if statement.query is None else f"{text} AS\n{statement.query.text}"
        case CreateHistory():
            return _create(statement, "TABLE", f" AS HISTORY OF {name_text(statement.stream)}")
        case CreateStream():
            return _stream_text(statement)
        case CreateView():
            kind = "CONTINUOUS VIEW" if statement.continuous else "VIEW"
            aliases = ", ".join(identifier(alias.name) + _comment_text(alias.comment) for alias in statement.aliases)
            head = _create(statement, kind, f" ({aliases})" if aliases else "") + _trailer(statement.comment, statement.options)
            return f"{head} AS\n{statement.query.text}"
        case CreateSample():
            return _sample_text(statement)
        case CreateSchema():
            return f"CREATE SCHEMA {'IF NOT EXISTS ' if statement.if_not_exists else ''}{identifier(statement.name)}"
        case Drop():
            exists, cascade = "IF EXISTS " if statement.if_exists else "", " CASCADE" if statement.cascade else ""
            return f"DROP {statement.kind} {exists}{name_text(statement.name)}{cascade}"
        case Alter():
            exists = "IF EXISTS " if statement.if_exists else ""
            return f"ALTER {statement.kind} {exists}{name_text(statement.name)} {_change_text(statement.change)}"
        case Comment():
            column = "" if statement.column is None else f".{identifier(statement.column)}"
            said = "NULL" if statement.text is None else string_text(statement.text)
            return f"COMMENT ON {'COLUMN' if column else statement.kind} {name_text(statement.name)}{column} IS {said}"
        case _:
            return statement.span.text


def _create(statement: CreateTable | CreateHistory | CreateStream | CreateView, kind: str, rest: str) -> str:
    replaced = "OR REPLACE " if getattr(statement, "or_replace", False) else ""
    exists = "IF NOT EXISTS " if statement.if_not_exists else ""
    return f"CREATE {replaced}{kind} {exists}{name_text(statement.name)}{rest}"


def _columns_text(columns: Iterable[Field], keys: tuple[str, ...] = ()) -> str:
    lines = [column_text(column) for column in columns]
    if keys:
        lines.append(f"PRIMARY KEY ({', '.join(identifier(key) for key in keys)})")
    return "(\n    " + ",\n    ".join(lines) + "\n)"


def _comment_text(comment: str | None) -> str:
    return "" if comment is None else f" COMMENT {string_text(comment)}"


def _trailer(comment: str | None, options: tuple[Option, ...]) -> str:
    return _comment_text(comment) + (f" WITH {options_text(options)}" if options else "")


def feed_text(feed: Feed) -> str:
    """A stream's feed as it is written after FROM."""
    place = name_text(feed.relation) if feed.relation else string_text(feed.location)
    return f"{feed.kind} {place}{f' {options_text(feed.options)}' if feed.options else ''}"


def _stream_text(statement: CreateStream) -> str:
    body = f" {_columns_text(statement.columns)}" if statement.columns else ""
    if statement.feed is not None:
        body += f" FROM {feed_text(statement.feed)}"
    unsaid = {"on_overrun": "abort", "on_unconsumed": "keep"}
    limits = {name: getattr(statement, name) for name in STREAM}
    options = tuple(Option(name=name, value=value) for name, value in limits.items() if value is not None and value != unsaid.get(name))
    return _create(statement, "STREAM", body) + _trailer(statement.comment, options)


def _sample_text(statement: CreateSample) -> str:
    exists = "IF NOT EXISTS " if statement.if_not_exists else ""
    parts = ", ".join(name_text(part) for part in statement.parts)
    of = f"SAMPLES ({parts})" if parts else name_text(statement.relation)
    text = f"CREATE SAMPLE {exists}{name_text(statement.name)} ON {of} SIZE {statement.size}"
    if statement.where is not None:
        text += f" WHERE {statement.where.text}"
    if statement.weight is not None:
        text += f" WEIGHTED BY ({identifier(statement.weight)})"
    if statement.strata:
        text += f" STRATIFIED BY ({', '.join(identifier(column) for column in statement.strata)})"
    if statement.size_per_stratum is not None:
        text += f" SIZE {statement.size_per_stratum} PER STRATUM"
    return text + (f" WITH {options_text(statement.options)}" if statement.options else "")


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
