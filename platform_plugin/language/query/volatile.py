"""`find_volatile_call`: the first call in an expression that depends on the time, the user or chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.algebra.functions import MAKE_MOMENTS, VOLATILE, is_volatile_call, moment_word
from platform_plugin.language.text.tokens import DOUBLE, QUOTED, STRING, WORD

if TYPE_CHECKING:
    from collections.abc import Collection

    from platform_plugin.language.text.tokens import Tokens

_ORDERINGS = frozenset(("<", "<=", ">", ">=", "!<", "!>"))
_BEFORE_TIMES = _ORDERINGS | {"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "BETWEEN"}


def find_volatile_call(tokens: Tokens, columns: Collection[str]) -> int | None:
    """The first token that calls a volatile function, with or without brackets; a column with such a name is no call."""
    known = {column.lower() for column in columns}
    for index, kind in enumerate(tokens.kinds):
        if kind in (STRING, DOUBLE) and moment_word(tokens.text(index)) is not None and _is_read_as_time(tokens, index):
            return index
        if kind not in (WORD, QUOTED):
            continue
        name, following = tokens.text(index).strip("`").lower(), tokens.upper(index + 1)
        if following == "(":
            if is_volatile_call(name, has_arguments=tokens.upper(index + 2) != ")"):
                return index
        elif kind == WORD and name in VOLATILE and name not in known and "." not in (following, tokens.upper(index - 1)):
            return index
    return None


def _is_read_as_time(tokens: Tokens, index: int) -> bool:
    before, following = tokens.upper(index - 1), tokens.upper(index + 1)
    if before == "(":
        return tokens.upper(index - 2) in ("CAST", "TRY_CAST") or tokens.upper(index - 2).lower() in MAKE_MOMENTS
    return before in _BEFORE_TIMES or following in _ORDERINGS or following == "::"
