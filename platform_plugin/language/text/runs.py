"""`find_runs` and `is_call`: the literals and types that several tokens make, and the words before a bracket that name a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.language.text.tokens import DOUBLE, NUMBER, SIGN, STRING, WORD, find_closing

if TYPE_CHECKING:
    from platform_plugin.language.text.tokens import Tokens

TEXTS = (STRING, DOUBLE)
MOMENTS = {"DATE": "date", "TIMESTAMP": "timestamptz", "TIMESTAMP_LTZ": "timestamptz", "TIMESTAMP_NTZ": "timestamp", "TIME": "time"}
"""The words of typed literals, each with its type."""
_RUN_WORDS = frozenset(("CAST", "TRY_CAST", "::", "INTERVAL", *MOMENTS))
# Words that stand before a bracket and are no calls.
_NO_CALL_WORDS = """
    ALL AND ANTI ANY AS BETWEEN BY CASE CAST CROSS CUBE DISTINCT DIV ELSE ESCAPE EXCEPT EXISTS EXTRACT FILTER FROM FULL GROUP HAVING
    ILIKE IN INNER INTERSECT INTERVAL IS JOIN LATERAL LIKE LIMIT MINUS NATURAL NOT OFFSET ON OR ORDER OUTER OVER PIVOT QUALIFY RLIKE
    REGEXP ROLLUP SELECT SEMI SETS SOME STREAM TABLE TABLESAMPLE THEN TRY_CAST UNION UNPIVOT USING VALUES WHEN WHERE WITH
    RECURSIVE
"""
_NO_CALL = frozenset(_NO_CALL_WORDS.split())
# Calls whose arguments are written with words between them, and those words.
_WORDY = {"TRIM": ("FROM",), "SUBSTRING": ("FROM",), "SUBSTR": ("FROM",), "POSITION": ("IN",), "OVERLAY": ("PLACING",)}


def find_runs(tokens: Tokens) -> dict[int, int]:
    """Runs of tokens that are one literal or one type: the index after each, by its first token."""
    runs: dict[int, int] = {}
    kinds = tokens.kinds
    for index, word in enumerate(tokens.uppers):
        if word not in _RUN_WORDS and kinds[index] not in TEXTS:
            continue
        if word in ("CAST", "TRY_CAST") and tokens.upper(index + 1) == "(":
            after = find_closing(tokens, index + 1)
            places = [place for place in range(index + 2, after) if tokens.upper(place) == "AS" and _depth(tokens, index + 2, place) == 0]
            if places:
                runs[places[-1] + 1] = after
        elif word == "::":
            runs[index + 1] = _type_end(tokens, index + 1)
        elif word in MOMENTS and tokens.kind(index + 1) in TEXTS:
            runs[index] = index + 2
        elif word == "INTERVAL" and (end := _interval_end(tokens, index)) is not None:
            runs[index] = end
        elif tokens.kind(index) in TEXTS and tokens.kind(index + 1) in TEXTS and tokens.kind(index - 1) not in TEXTS:
            after = index + 1
            while tokens.kind(after) in TEXTS:
                after += 1
            runs[index] = after
    return runs


def _type_end(tokens: Tokens, index: int) -> int:
    after = index + 1
    if tokens.upper(after) == "(":
        return find_closing(tokens, after) + 1
    if tokens.upper(after) == "<":
        depth = 0
        while after < len(tokens):
            depth += {"<": 1, ">": -1}.get(tokens.upper(after), 0)
            after += 1
            if depth == 0:
                break
    return after


def _interval_end(tokens: Tokens, index: int) -> int | None:
    """The end of an interval made of constants, or None where it holds an expression."""
    after = index + 1
    if tokens.upper(after) in ("-", "+"):
        after += 1
    if tokens.kind(after) in TEXTS and any(character.isalpha() for character in tokens.text(after)):
        return after + 1
    found = None
    while tokens.kind(after) in (*TEXTS, NUMBER) and tokens.kind(after + 1) == WORD:
        after += 2
        if tokens.upper(after) == "TO" and tokens.kind(after + 1) == WORD:
            after += 2
        found = after
    return found


def is_call(tokens: Tokens, index: int, word: str) -> bool:
    """Whether the word before a bracket names a function."""
    before = tokens.upper(index - 1)
    if word in ("ANY", "SOME", "ALL"):
        return word != "ALL" and not (tokens.kind(index - 1) == SIGN and before not in ("(", ",")) and before not in ("LIKE", "ILIKE")
    if word == "EXISTS":
        return tokens.upper(index + 2) not in ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
    if word in _WORDY:
        inside = range(index + 2, find_closing(tokens, index + 1))
        return not any(tokens.upper(place) in _WORDY[word] and _depth(tokens, index + 2, place) == 0 for place in inside)
    return word not in _NO_CALL


def _depth(tokens: Tokens, first: int, last: int) -> int:
    signs = [tokens.upper(place) for place in range(first, last)]
    return sum(sign in ("(", "[") for sign in signs) - sum(sign in (")", "]") for sign in signs)
