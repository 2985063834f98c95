"""Volatile calls: where an expression asks for the time, for who asks, or for chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.algebra.functions import VOLATILE, is_volatile_call
from platform_plugin.language.text.tokens import QUOTED, WORD

if TYPE_CHECKING:
    from collections.abc import Collection

    from platform_plugin.language.text.tokens import Tokens


def find_volatile_call(tokens: Tokens, columns: Collection[str]) -> int | None:
    """The first token that calls a volatile function, with brackets or without; columns of a function's name are no calls of it."""
    known = {column.lower() for column in columns}
    for index, kind in enumerate(tokens.kinds):
        if kind not in (WORD, QUOTED):
            continue
        name, following = tokens.text(index).strip("`").lower(), tokens.upper(index + 1)
        if following == "(":
            if is_volatile_call(name, has_arguments=tokens.upper(index + 2) != ")"):
                return index
        elif kind == WORD and name in VOLATILE and name not in known and "." not in (following, tokens.upper(index - 1)):
            return index
    return None
