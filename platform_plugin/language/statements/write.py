"""INSERT, DELETE, UPDATE and COPY: the statements that change rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from platform_plugin.language.statements.statements import Assignment, Copy, Delete, Insert, Statement, Update
from platform_plugin.language.text import options as known
from platform_plugin.language.text.bodies import at_query, read_query
from platform_plugin.language.text.cursor import Cursor, refuse_twice
from platform_plugin.language.text.options import read_options
from platform_plugin.language.text.places import fault
from platform_plugin.language.text.tokens import WORD
from platform_plugin.language.text.values import Parameter, read_cell

if TYPE_CHECKING:
    from platform_plugin.language.text.values import Cell

_ENDINGS = {".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}
_PACKED = (".gz", ".bz2", ".zst", ".snappy")


def read_insert(cursor: Cursor, parameters: dict[int, Parameter]) -> Statement:
    """The statement after INSERT."""
    if cursor.at_words("OVERWRITE"):
        raise cursor.fail("INTO", message="INSERT OVERWRITE is not supported", hint="DELETE the rows, then INSERT INTO")
    cursor.expect("INTO")
    if cursor.upper() == "TABLE" and cursor.upper(1) not in ("", "(", "."):
        cursor.advance()
    name = cursor.name("a relation")
    by_name = cursor.accept("BY", "NAME")
    # A parenthesis begins either the columns or a query in brackets.
    columns = cursor.names("a column") if cursor.at_words("(") and not at_query(cursor) else ()
    rows = None
    if cursor.at_words("VALUES"):
        rows = read_rows(cursor, parameters, len(columns) or None)
    query = read_query(cursor)
    return Insert(name=name, columns=columns, query=query, rows=rows, by_name=by_name)


def read_rows(cursor: Cursor, parameters: dict[int, Parameter], width: int | None) -> tuple[tuple[Cell, ...], ...] | None:
    """The rows of a VALUES at the cursor, which stays there; None when a cell is more than a literal or a parameter."""
    tokens, index, last = cursor.tokens, cursor.index + 1, cursor.last
    source, starts, kinds = tokens.source, tokens.starts, tokens.kinds
    rows: list[tuple[Cell, ...]] = []

    def sign(position: int) -> str:
        return source[starts[position]] if position < last and kinds[position] == "sign" else ""

    while True:
        if sign(index) != "(":
            return None
        first, row = index, []
        while True:
            cell = read_cell(tokens, index + 1, parameters) if index + 1 < last else None
            if cell is None:
                return None
            row.append(cell[0])
            index = cell[1]
            if sign(index) != ",":
                break
        if sign(index) != ")":
            return None
        width = width or len(row)
        if len(row) != width:
            span = tokens.span(first, index + 1)
            raise fault(span, f"row {len(rows) + 1} has {len(row)} values instead of {width}", expected=f"{width} values")
        rows.append(tuple(row))
        index += 1
        if index >= last:
            return tuple(rows)
        if sign(index) != ",":
            return None
        index += 1


def _read_alias(cursor: Cursor, *stops: str) -> str | None:
    if cursor.accept("AS"):
        return cursor.identifier("an alias")
    return cursor.identifier() if cursor.kind() in (WORD, "quoted") and cursor.upper() not in stops else None


def read_delete(cursor: Cursor) -> Statement:
    """The statement after DELETE."""
    cursor.expect("FROM")
    name = cursor.name("a table")
    alias = None if cursor.at_words("WHERE") else _read_alias(cursor, "WHERE")
    where = cursor.rest("a condition") if cursor.accept("WHERE") else None
    cursor.finish()
    return Delete(name=name, alias=alias, where=where)


def read_update(cursor: Cursor, parameters: dict[int, Parameter]) -> Statement:
    """The statement after UPDATE."""
    name = cursor.name("a table")
    alias = None if cursor.at_words("SET") else _read_alias(cursor, "SET")
    cursor.expect("SET")
    assignments: list[Assignment] = []
    first = cursor.index
    while not assignments or cursor.accept(","):
        column = cursor.identifier("a column")
        if cursor.upper() == "." and (alias or name.relation).lower() == column.lower():
            cursor.advance()
            column = cursor.identifier("a column")
        cursor.expect("=")
        begin = cursor.index
        expression = cursor.until("an expression", ",", "WHERE")
        cell = read_cell(cursor.tokens, begin, parameters)
        value = cell[0] if cell and cell[1] == cursor.index else None
        assignments.append(Assignment(column=column, expression=expression, value=value))
    refuse_twice(cursor.span(first), [assignment.column for assignment in assignments])
    where = cursor.rest("a condition") if cursor.accept("WHERE") else None
    cursor.finish()
    return Update(name=name, alias=alias, assignments=tuple(assignments), where=where)


def read_copy(cursor: Cursor, parameters: dict[int, Parameter]) -> Statement:
    """The statement after COPY."""
    cursor.accept("INTO")
    name = cursor.name("a relation")
    columns = cursor.names("a column") if cursor.at_words("(") else ()
    if cursor.at_words("TO"):
        raise cursor.fail("FROM", message="COPY … TO is not supported", hint="read the relation from Python with execute(…).arrow()")
    cursor.expect("FROM")
    path: str | Parameter
    if cursor.index in parameters:
        path = parameters[cursor.index]
        cursor.advance(1 if path.name is None else 2)
    else:
        path = cursor.string("'a path or glob'")
        if not path:
            cursor.advance(-1)
            raise cursor.fail("'a path or glob'", message="an empty path")
    cursor.accept("WITH")
    options = read_options(cursor, known.COPY, "COPY") if cursor.at_words("(") else ()
    cursor.finish()
    chosen = next((str(option.value) for option in options if option.name == "format"), None) or _ending(path)
    rest = tuple(option for option in options if option.name != "format")
    return Copy(name=name, columns=columns, path=path, format=_format(chosen), options=rest)


def _ending(path: str | Parameter) -> str | None:
    if isinstance(path, Parameter):
        return None
    plain = path.lower()
    for ending in _PACKED:
        plain = plain.removesuffix(ending)
    return next((kind for ending, kind in _ENDINGS.items() if plain.endswith(ending)), None)


def _format(name: str | None) -> Literal["csv", "json", "parquet"] | None:
    return "csv" if name == "csv" else "json" if name == "json" else "parquet" if name == "parquet" else None
