"""Writing names, types, columns and options as statement text."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from platform_plugin.algebra.types.blob_text import parse_blob
from platform_plugin.algebra.types.data_types import DataType, Decimal, Field, List, Map, Primitive, Struct, quote_identifier
from platform_plugin.language.text.words import RESERVED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from platform_plugin.language.text.names import WrittenName
    from platform_plugin.language.text.options import Option


def identifier(name: str) -> str:
    """A name for a statement's text, between back-ticks only where it must be.

    >>> identifier("posts"), identifier("order"), identifier("two words")
    ('posts', '`order`', '`two words`')
    """
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.upper() not in RESERVED else quote_identifier(name)


def name_text(name: WrittenName) -> str:
    """A relation's name, each part quoted where it must be."""
    return ".".join(identifier(part) for part in name.parts)


def string_text(value: str) -> str:
    r"""A string literal that means this value.

    >>> string_text("it's")
    "'it\\'s'"
    """
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def type_text(kind: DataType) -> str:
    """A type with all its parts."""
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
    """A column as CREATE and ALTER accept it."""
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
    """A duration in the words that options accept.

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
    """An option list in parentheses."""
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


def columns_text(columns: Iterable[Field], keys: tuple[str, ...] = ()) -> str:
    """A column list in parentheses, one column on each line."""
    lines = [column_text(column) for column in columns]
    if keys:
        lines.append(f"PRIMARY KEY ({', '.join(identifier(key) for key in keys)})")
    return "(\n    " + ",\n    ".join(lines) + "\n)"


def comment_text(comment: str | None) -> str:
    """The COMMENT clause, or an empty text without a comment."""
    return "" if comment is None else f" COMMENT {string_text(comment)}"
