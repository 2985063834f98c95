"""The size of a query's result, from its text: its last LIMIT, and whether it multiplies the rows that it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.language.text.bare_names import find_names
from platform_plugin.language.text.tokens import NUMBER, QUOTED, WORD, tokenize

if TYPE_CHECKING:
    from platform_plugin.language.text.places import Span
    from platform_plugin.language.text.tokens import Tokens

SMALL_ROWS = 10_000
SMALL_BYTES = 1024 * 1024
_LONGEST = 10_000

# What, before LIMIT at the same depth, makes more of it than the first rows that are found.
_ORDERING = frozenset(("ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "OFFSET", "|>"))
# What makes more rows than are read.
_MULTIPLYING = frozenset(("JOIN", "LATERAL", "WITH", "RECURSIVE", "ROLLUP", "CUBE", "SETS", "PIVOT", "UNPIVOT", "|>"))
# Words before a bracket that do not make a row longer than about what it is made of. Whoever is not listed is looked after at run time.
_PLAIN = frozenset(
    """
    abs all and any any_value array as avg between bigint bool_and bool_or boolean by case cast ceil ceiling char_length coalesce count
    count_if date date_add date_diff date_format date_sub date_trunc datediff day dayofmonth decimal dense_rank distinct double else every
    exists exp extract filter first first_value float floor from greatest having hour if ifnull in int into is isnotnull isnull last
    last_value lcase least left length like ln log log10 lower ltrim max max_by mean median min min_by minute mod month named_struct not
    nth_value ntile nullif nvl on or over percent_rank percentile percentile_approx pow power rank right round row_number rtrim second
    select sign some sqrt std stddev string struct substr substring sum then timestamp to_date to_timestamp trim try_cast try_divide ucase
    upper values var_pop var_samp variance when where within year
    """.upper().split()
)


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
