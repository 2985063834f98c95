"""COPY: appends the rows of files that other programs wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from typing import Literal as Choice

from platform_plugin.language.statements.statement import (
    Statement,
    StatementOpening,
)
from platform_plugin.language.text import options as known
from platform_plugin.language.text.file_formats import format_of
from platform_plugin.language.text.options import Option, read_options
from platform_plugin.language.text.values import Parameter

if TYPE_CHECKING:
    from platform_plugin.language.text.cursor import TokenCursor
    from platform_plugin.language.text.names import WrittenName


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Statement):
    """Files whose rows are appended; `format` is None where the ending of the path says it."""

    name: WrittenName
    path: str | Parameter = field(repr=False)
    columns: tuple[str, ...] = ()
    format: Choice["csv", "json", "parquet"] | None = None
    options: tuple[Option, ...] = ()


def read_copy(cursor: TokenCursor, opening: StatementOpening) -> Statement:
    """The statement after COPY."""
    cursor.accept("INTO")
    name = cursor.name("a relation")
    columns = cursor.names("a column") if cursor.at_words("(") else ()
    if cursor.at_words("TO"):
        raise cursor.fail("FROM", message="COPY … TO is not supported", hint="read the relation from Python with execute(…).arrow()")
    cursor.expect("FROM")
    path: str | Parameter
    if cursor.index in opening.parameters:
        path = opening.parameters[cursor.index]
        cursor.advance(1 if path.name is None else 2)
    else:
        path = cursor.string("'a path or glob'")
        if not path:
            cursor.advance(-1)
            raise cursor.fail("'a path or glob'", message="an empty path")
    cursor.accept("WITH")
    options = read_options(cursor, known.COPY, "COPY") if cursor.at_words("(") else ()
    cursor.finish()
    ending = None if isinstance(path, Parameter) else format_of(path)
    chosen = next((str(option.value) for option in options if option.name == "format"), ending)
    rest = tuple(option for option in options if option.name != "format")
    return Copy(name=name, columns=columns, path=path, format=_format(chosen), options=rest)


def _format(name: str | None) -> Choice["csv", "json", "parquet"] | None:
    return "csv" if name == "csv" else "json" if name == "json" else "parquet" if name == "parquet" else None
