"""`parse_script` and `parse_statement`: a text of SQL becomes statement values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from platform_plugin.cache import Cache
from platform_plugin.language.statements.explain import Explain
from platform_plugin.language.statements.registry import StatementKind, find_statement_kinds, list_verbs
from platform_plugin.language.statements.select import Select
from platform_plugin.language.statements.statement import StatementOpening
from platform_plugin.language.text.bodies import QUERY_WORDS, is_at_query, read_query
from platform_plugin.language.text.cursor import TokenCursor
from platform_plugin.language.text.places import syntax_error
from platform_plugin.language.text.tokens import Tokens, check_brackets, tokenize
from platform_plugin.language.text.values import Parameter, find_parameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.language.statements.statement import Statement

_HINTS = {
    "MERGE": "write the matched rows with UPDATE and the others with INSERT … SELECT",
    "TRUNCATE": "DELETE FROM removes every row",
    "BEGIN": "every statement commits by itself",
    "START": "every statement commits by itself",
    "COMMIT": "every statement commits by itself",
    "ROLLBACK": "every statement commits by itself",
    "USE": "name the schema in front: schema.relation",
    "SET": "session settings are not part of the language, besides SET RULE",
    "CACHE": "caching is not part of the language",
}


# A statement holds its text, its tokens and small values for its parts: about forty bytes for each character of it.
_SCRIPTS: Cache[str, tuple[Statement, ...]] = Cache(
    "parsed statements", weigh=lambda statements: sum(40 * len(s.span.text) for s in statements)
)


def parse_script(text: str) -> tuple[Statement, ...]:
    """The statements of a text, separated by semicolons; empty ones are left out.

    >>> [type(statement).__name__ for statement in parse_script("SHOW STREAMS; SELECT ';' -- done")]
    ['Show', 'Select']
    """
    return _SCRIPTS.find(text, lambda: _parse_script(text))


def _parse_script(text: str) -> tuple[Statement, ...]:
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
        raise syntax_error(text, "an empty statement", expected="a statement")
    if len(statements) > 1:
        raise syntax_error(statements[1].span, "more than one statement", hint="run a script with parse_script, or one statement at a time")
    return statements[0]


def _parse(tokens: Tokens, first: int, last: int) -> Statement:
    check_brackets(tokens, first, last)
    parameters = find_parameters(tokens, first, last)
    cursor = TokenCursor(tokens, first, last, f"{tokens.upper(first)} statement".strip())
    statement = _read(cursor, parameters)
    cursor.finish()
    if parameters and _takes_none(statement):
        raise syntax_error(
            next(iter(parameters.values())).span,
            "a definition has no parameters",
            hint="write the value itself, or join a table that holds it",
        )
    return replace(statement, span=tokens.span(first, last), parameters=tuple(parameters.values()))


def _takes_none(statement: Statement) -> bool:
    inner = statement.statement if isinstance(statement, Explain) else statement
    return not inner.takes_parameters


def _read(cursor: TokenCursor, parameters: Mapping[int, Parameter]) -> Statement:
    first, verb = cursor.index, cursor.upper()
    if is_at_query(cursor):
        return Select(query=read_query(cursor))
    kinds = find_statement_kinds(verb)
    if not kinds:
        for known in (*list_verbs(), *QUERY_WORDS):
            cursor.at_words(known)
        raise cursor.fail(hint=_HINTS.get(verb), message=f"unknown statement {cursor.tokens.text(first)[:40]}")
    cursor.advance()
    replaced = verb == "CREATE" and cursor.accept("OR", "REPLACE")
    kind, words = _choose(cursor, verb, kinds, replaced=replaced)
    opening = StatementOpening(words=words, replaced=replaced, parameters=parameters, read=lambda inner: _read(inner, parameters))
    if kind.read is None:
        message = f"{words} begins statements that have no reader"
        raise TypeError(message)
    return replace(kind.read(cursor, opening), span=cursor.span(first))


def _choose(cursor: TokenCursor, verb: str, kinds: list[StatementKind], *, replaced: bool) -> tuple[StatementKind, str]:
    """The statement that begins with these words, which the cursor steps over."""
    for kind in kinds:
        if replaced and not kind.replaces:
            continue
        for words in kind.words:
            first, *rest = words.split()
            if first == verb and (not rest or cursor.accept(*rest)):
                return kind, words
    raise cursor.fail(hint=_HINTS.get(verb))
