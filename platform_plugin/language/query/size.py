"""The size of a query's result, from its text: its last LIMIT, and whether it multiplies the rows that it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.algebra.functions import BOUNDED_CALLS
from platform_plugin.language.text.bare_names import find_names
from platform_plugin.language.text.tokens import NUMBER, QUOTED, WORD, tokenize

if TYPE_CHECKING:
    from platform_plugin.language.text.places import Span
    from platform_plugin.language.text.tokens import Tokens

_LONGEST = 10_000

# What, before LIMIT at the same depth, makes more of it than the first rows that are found.
_ORDERING = frozenset(("ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "OFFSET", "|>"))
# What makes more rows than are read.
_MULTIPLYING = frozenset(("JOIN", "LATERAL", "WITH", "RECURSIVE", "ROLLUP", "CUBE", "SETS", "PIVOT", "UNPIVOT", "|>"))
# Words before a bracket that don't make a row longer than about what it is made of. All other words are looked after at run time.
_PLAIN_WORDS = """
    ALL AND AS BETWEEN BY CASE DISTINCT ELSE EXTRACT FILTER FROM HAVING IN INTO IS NOT ON OR OVER SELECT THEN VALUES WHEN WHERE WITHIN
"""
_PLAIN = frozenset(_PLAIN_WORDS.split()) | {name.upper() for name in BOUNDED_CALLS}


def split_limit(query: Span) -> tuple[Span, int | None]:
    """A query without its last LIMIT, and that number; None where ORDER BY decides which rows the LIMIT leaves.

    >>> from platform_plugin.language.text.places import Span
    >>> query = "SELECT a FROM t LIMIT 10"
    >>> body, limit = split_limit(Span(query, 0, len(query)))
    >>> body.text, limit
    ('SELECT a FROM t', 10)
    """
    tokens = find_names(tokenize(query.source, query.start, query.end))
    last = len(tokens) - 1
    if last < 3 or tokens.kind(last) != NUMBER or not tokens.text(last).isdecimal() or tokens.upper(last - 1) != "LIMIT":
        return query, None
    limit = int(tokens.text(last))
    if limit >= 1 << 31 or _ORDERING & _words(tokens, deepest=0):
        return query, None
    return tokens.span(0, last - 1), limit


def is_bounded_query(query: Span) -> bool:
    """Whether a query's result is at most a few times as large as what it reads.

    >>> from platform_plugin.language.text.places import Span
    >>> [
    ...     is_bounded_query(Span(query, 0, len(query)))
    ...     for query in ("SELECT max(a) FROM t WHERE b IN (1, 2)", "SELECT repeat(a, 999) FROM t")
    ... ]
    [True, False]
    """
    if query.end - query.start > _LONGEST:
        return False
    tokens = find_names(tokenize(query.source, query.start, query.end))
    if _MULTIPLYING & _words(tokens):
        return False
    brackets = (index for index in range(1, len(tokens)) if tokens.upper(index) == "(")
    return all(tokens.kind(index - 1) not in (WORD, QUOTED) or tokens.upper(index - 1) in _PLAIN for index in brackets)


def _words(tokens: Tokens, *, deepest: int | None = None) -> set[str]:
    found = set()
    depth = 0
    for index in range(len(tokens)):
        word = tokens.upper(index)
        depth += {"(": 1, ")": -1}.get(word, 0)
        if deepest is None or depth <= deepest:
            found.add(word)
    return found
