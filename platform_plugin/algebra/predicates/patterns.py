"""LIKE: the texts that a pattern can match, as an interval."""

from __future__ import annotations

from platform_plugin.algebra.predicates.ranges import NOT_NULL, Domain, above, below, points

_LAST = "\U0010ffff"
# Half characters are no text: the character after the last one before them is the first one after them.
_BEFORE_HALVES, _AFTER_HALVES = "\ud7ff", "\ue000"


def match_domain(pattern: str) -> tuple[Domain, bool]:
    r"""The texts that a pattern of LIKE can match, and whether it matches all of them.

    >>> [str(match_domain(pattern)[0]) for pattern in ("ab%", "ab%c", r"50\%", "_")]
    ['[ab, ac)', '[ab, ac)', '{50%}', '(-inf, inf)']
    """
    prefix, rest = _split(pattern)
    if rest is None:
        return NOT_NULL, False
    if not rest:
        return points([prefix]), True
    return begins_with(prefix), not rest.strip("%")


def _split(pattern: str) -> tuple[str, str | None]:
    """The plain text that a pattern begins with, and the rest; None for it if the pattern is none to Spark."""
    prefix = ""
    index = 0
    while index < len(pattern) and pattern[index] not in "%_":
        if pattern[index] == "\\":
            index += 1
            if pattern[index : index + 1] not in ("%", "_", "\\"):
                return prefix, None
        prefix += pattern[index]
        index += 1
    return prefix, pattern[index:]


def begins_with(prefix: str) -> Domain:
    """The texts that begin so."""
    after = _after(prefix)
    return (NOT_NULL if not prefix else above(prefix, closed=True)) & (NOT_NULL if after is None else below(after, closed=False))


def _after(prefix: str) -> str | None:
    """The least text that is larger than all that begin so; None if there is none."""
    short = prefix.rstrip(_LAST)
    if not short:
        return None
    last = short[-1]
    return short[:-1] + (_AFTER_HALVES if last == _BEFORE_HALVES else chr(ord(last) + 1))
