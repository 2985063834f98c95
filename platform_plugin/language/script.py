"""Scripts: text in, statements out."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from platform_plugin.language.statements.alter import read_alter, read_comment, read_drop
from platform_plugin.language.statements.ask import read_describe, read_explain, read_refresh, read_resume, read_show, read_suspend
from platform_plugin.language.statements.create import read_create
from platform_plugin.language.statements.statements import (
    Alter,
    Comment,
    CreateHistory,
    CreateSample,
    CreateSchema,
    CreateStream,
    CreateTable,
    CreateView,
    Explain,
    Select,
    Statement,
)
from platform_plugin.language.statements.write import read_copy, read_delete, read_insert, read_update
from platform_plugin.language.text.bodies import QUERY_WORDS, at_query, read_query
from platform_plugin.language.text.cursor import Cursor
from platform_plugin.language.text.places import fault
from platform_plugin.language.text.tokens import Tokens, check_brackets, tokenize
from platform_plugin.language.text.values import Parameter, find_parameters

if TYPE_CHECKING:
    from collections.abc import Callable

_READERS: dict[str, Callable[[Cursor, dict[int, Parameter]], Statement]] = {
    "CREATE": lambda cursor, _: read_create(cursor),
    "DROP": lambda cursor, _: read_drop(cursor),
    "ALTER": lambda cursor, _: read_alter(cursor),
    "COMMENT": lambda cursor, _: read_comment(cursor),
    "INSERT": read_insert,
    "DELETE": lambda cursor, _: read_delete(cursor),
    "UPDATE": read_update,
    "COPY": read_copy,
    "SHOW": lambda cursor, _: read_show(cursor),
    "DESCRIBE": lambda cursor, _: read_describe(cursor),
    "DESC": lambda cursor, _: read_describe(cursor),
    "REFRESH": lambda cursor, _: read_refresh(cursor, rebuild=False),
    "REBUILD": lambda cursor, _: read_refresh(cursor, rebuild=True),
    "SUSPEND": lambda cursor, _: read_suspend(cursor),
    "RESUME": lambda cursor, _: read_resume(cursor),
    "EXPLAIN": lambda cursor, parameters: read_explain(cursor, lambda inner: _read(inner, parameters)),
}
_UNBOUND = (CreateTable, CreateHistory, CreateStream, CreateView, CreateSample, CreateSchema, Alter, Comment)
_HINTS = {
    "MERGE": "write the matched rows with UPDATE and the others with INSERT … SELECT",
    "TRUNCATE": "DELETE FROM removes every row",
    "BEGIN": "every statement commits by itself",
    "START": "every statement commits by itself",
    "COMMIT": "every statement commits by itself",
    "ROLLBACK": "every statement commits by itself",
    "USE": "name the schema in front: schema.relation",
    "SET": "session settings are not part of the language",
    "CACHE": "caching is not part of the language",
}


@lru_cache(maxsize=1024)
def parse_script(text: str) -> tuple[Statement, ...]:
    """The statements of a text, separated by semicolons; empty ones vanish.

    >>> [type(statement).__name__ for statement in parse_script("SHOW STREAMS; SELECT ';' -- done")]
    ['Show', 'Select']
    """
    tokens = tokenize(text)
    statements, first = [], 0
    for index in range(len(tokens) + 1):
        if index == len(tokens) or (tokens.kinds[index] == "sign" and text[tokens.starts[index]] == ";"):
            if index > first:
                statements.append(_parse(tokens, first, index))
            first = index + 1
    return tuple(statements)


def parse_statement(text: str) -> Statement:
    """The one statement of a text.

    >>> parse_statement("DROP TABLE IF EXISTS users").name.relation
    'users'
    """
    statements = parse_script(text)
    if not statements:
        raise fault(text, "an empty statement", expected="a statement")
    if len(statements) > 1:
        raise fault(statements[1].span, "more than one statement", hint="run a script with parse_script, or one statement at a time")
    return statements[0]


def _parse(tokens: Tokens, first: int, last: int) -> Statement:
    check_brackets(tokens, first, last)
    parameters = find_parameters(tokens, first, last)
    cursor = Cursor(tokens, first, last, f"{tokens.upper(first)} statement".strip())
    statement = _read(cursor, parameters)
    cursor.finish()
    if parameters and _takes_none(statement):
        raise fault(
            next(iter(parameters.values())).span,
            "a definition has no parameters",
            hint="write the value itself, or join a table that holds it",
        )
    return replace(statement, span=tokens.span(first, last), parameters=tuple(parameters.values()))


def _takes_none(statement: Statement) -> bool:
    inner = statement.statement if isinstance(statement, Explain) else statement
    # A table made from a query is filled once, so its query may have parameters.
    return isinstance(inner, _UNBOUND) and not (isinstance(inner, CreateTable) and inner.query)


def _read(cursor: Cursor, parameters: dict[int, Parameter]) -> Statement:
    first, word = cursor.index, cursor.upper()
    if at_query(cursor):
        return Select(query=read_query(cursor))
    reader = _READERS.get(word)
    if reader is None:
        for known in (*_READERS, *QUERY_WORDS):
            cursor.at_words(known)
        raise cursor.fail(hint=_HINTS.get(word), message=f"unknown statement {cursor.tokens.text(first)[:40]}")
    cursor.advance()
    statement = reader(cursor, parameters)
    return replace(statement, span=cursor.span(first))
