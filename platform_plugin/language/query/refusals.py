"""Refusals of queries that would read past the platform: paths, data sources and functions that Spark SQL offers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from platform_plugin.algebra.functions import REFUSED_FUNCTIONS, TABLE_FUNCTIONS
from platform_plugin.language.query.call_options import TAKES_OPTIONS, refuse_call_options
from platform_plugin.language.text.names import WrittenName
from platform_plugin.language.text.places import refusal_error, suggest_word, syntax_error
from platform_plugin.language.text.tokens import DOUBLE, QUOTED, STRING, WORD
from platform_plugin.language.text.words import FILE_FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.language.text.places import Span
    from platform_plugin.language.text.tokens import Tokens

# Functions that run arbitrary Java, or read files that their arguments name.
_TAKES_FROM = frozenset(("EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY", "POSITION"))
_ONLY_READS = "a query only reads"
_NO_CODE = "a query runs no code but Spark's own functions"
_NO_FILES = "files enter through COPY"


def refuse_tokens(tokens: Tokens) -> None:
    """Refuse forbidden calls, paths and words by the tokens alone, so that no parser's reading of the query matters."""
    has_names = bool(tokens.names)
    tokens = replace(tokens, names=frozenset()) if has_names else tokens
    for index, kind in enumerate(tokens.kinds):
        if kind in (QUOTED, WORD):
            following = tokens.upper(index + 1)
            if has_names:
                _refuse_path(tokens, index)
            if following == "(":
                _refuse_call(tokens, index)
            elif kind == WORD:
                _refuse_word(tokens, index, following)
        elif kind == "sign":
            text = tokens.upper(index)
            if text == "|>":
                raise _at(tokens, index, "pipes are not supported", "|> is not supported", "write SELECT … FROM (…)")
            if text == "@":
                raise syntax_error(tokens.span(index, index + 1), "unexpected @ in a query", hint="write AT (VERSION => n) for a snapshot")
            if text == ";":
                raise syntax_error(tokens.span(index, index + 1), "more than one statement in a query")


def _refuse_path(tokens: Tokens, index: int) -> None:
    """Where words were told from keywords by their places, a path is refused wherever it stands."""
    if tokens.upper(index + 1) == "." and tokens.kind(index + 2) == QUOTED:
        schema, relation = (tokens.text(place).strip("`") for place in (index, index + 2))
        refuse_file(WrittenName(parts=(schema, relation), span=tokens.span(index, index + 3)))


def _refuse_call(tokens: Tokens, index: int) -> None:
    name = tokens.text(index).strip("`").lower()
    if name in REFUSED_FUNCTIONS:
        raise _at(tokens, index, _NO_CODE, f"function {name} is refused", None)
    if name == "identifier":
        raise _at(tokens, index, "names are written out", "IDENTIFIER(…) is refused", "write the name itself")
    if name == "table" and tokens.kind(index) == WORD:
        raise _at(tokens, index, _ONLY_READS, "a table as an argument is refused", "write FROM (SELECT …)")
    if name in TAKES_OPTIONS:
        refuse_call_options(tokens, index, name)


def _refuse_word(tokens: Tokens, index: int, following: str) -> None:
    word = tokens.upper(index)
    if word == "INSERT" and following in ("INTO", "OVERWRITE"):
        raise _at(tokens, index, _ONLY_READS, "INSERT inside a query", "make it a statement: INSERT INTO … SELECT …")
    # A script may be given by a parameter too.
    if word == "USING" and (tokens.kind(index + 1) in (STRING, DOUBLE) or following in (":", "?")):
        raise _at(tokens, index, _NO_CODE, "scripts in queries are refused", None)
    if word == "LATERAL":
        _refuse_lateral(tokens, index + 1)


def _refuse_lateral(tokens: Tokens, index: int) -> None:
    """What makes rows for others is a table function as well, and the tree does not show it as one."""
    first = index + (tokens.upper(index) == "VIEW")
    first += tokens.upper(first) == "OUTER"
    last = first
    while tokens.upper(last + 1) == "." and tokens.kind(last + 2) in (WORD, QUOTED):
        last += 2
    # WITH lateral AS (…) names a query; no function is called AS.
    if tokens.kind(first) in (WORD, QUOTED) and tokens.upper(last + 1) == "(" and tokens.upper(last) != "AS":
        refuse_table_function(tokens.text(last).strip("`"), tokens.span(first, last + 1))


def refuse_root(kind: str, span: Span) -> Exception:
    """The error for a body that parses to something other than a query."""
    return refusal_error(span, _ONLY_READS, f"{kind.upper()} is not a query", hint="a body begins with SELECT, WITH, VALUES, FROM or TABLE")


def refuse_file(name: WrittenName) -> None:
    """Refuse a reference that is a path written as a relation's name."""
    schema = (name.schema or "").lower()
    if (schema in FILE_FORMATS or schema.startswith(("org.", "com."))) and any(character in name.relation for character in "/\\:*."):
        kind = schema if schema in ("csv", "json", "parquet") else "parquet"
        raise refusal_error(
            name.span, _NO_FILES, f'"{name.span.text}" is a file, not a relation', hint=f"COPY relation FROM 'path' (FORMAT {kind})"
        )


def refuse_table_function(name: str, span: Span) -> None:
    """Refuse a table function that reads more than its arguments."""
    if name.lower() not in TABLE_FUNCTIONS:
        rule = _NO_FILES if "read" in name.lower() or "file" in name.lower() else "table functions are those of Spark that read nothing"
        raise refusal_error(span, rule, f"table function {name} is refused", hint=suggest_word(name, TABLE_FUNCTIONS))


def _at(tokens: Tokens, index: int, rule: str, message: str, hint: str | None) -> Exception:
    return refusal_error(tokens.span(index, index + 1), rule, message, hint=hint)


def find_source_words(tokens: Tokens) -> Iterator[int]:
    """Every FROM and JOIN that a relation follows; those of EXTRACT(… FROM …) and IS DISTINCT FROM are left out."""
    brackets: list[bool] = []
    for index, kind in enumerate(tokens.kinds):
        if kind not in (WORD, "sign"):
            continue
        word = tokens.upper(index)
        if word in ("(", "["):
            brackets.append(tokens.upper(index - 1) in _TAKES_FROM)
        elif word in (")", "]") and brackets:
            brackets.pop()
        elif word == "JOIN":
            yield index
        elif word == "FROM" and not (brackets and brackets[-1]) and tokens.upper(index - 1) != ".":
            distinct = tokens.upper(index - 1) == "DISTINCT" and tokens.upper(index - 2) in ("IS", "NOT")
            if not distinct:
                yield index


def refuse_strings(tokens: Tokens) -> None:
    """Refuse a string where a relation belongs: it is almost always a double-quoted name, which Spark does not know."""
    for index in find_source_words(tokens):
        if tokens.kind(index + 1) in (STRING, DOUBLE):
            span = tokens.span(index + 1, index + 2)
            inner = span.text[1:-1][:80]
            raise syntax_error(
                span,
                f"{span.text[:80]} is a string in a query",
                expected="a relation",
                hint=f"names in queries go between back-ticks: `{inner}`",
            )
