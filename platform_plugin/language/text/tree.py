"""`parse_tree`: sqlglot's tree of a query, or an error at the place in the source."""

from __future__ import annotations

import contextlib
import gc
import re
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

import sqlglot
from sqlglot.errors import SqlglotError

from platform_plugin.errors import PlatformError
from platform_plugin.language.text.bare_names import FOREIGN, KEYWORDS
from platform_plugin.language.text.leaves import restore_leaves
from platform_plugin.language.text.masking import mask
from platform_plugin.language.text.places import suggest_word, syntax_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.language.query.scopes import Node
    from platform_plugin.language.text.masking import MaskedQuery
    from platform_plugin.language.text.places import Span
    from platform_plugin.language.text.tokens import Tokens
    from platform_plugin.language.text.values import Parameter

# Frames that sqlglot takes for the deepest nesting that our tokenizer lets through, several times over.
_FRAMES = 60_000
_CLAUSES = (
    "SELECT",
    "DISTINCT",
    "FROM",
    "WHERE",
    "GROUP",
    "ORDER",
    "HAVING",
    "JOIN",
    "LEFT",
    "RIGHT",
    "INNER",
    "LIMIT",
    "UNION",
    "BETWEEN",
)
_lock = threading.Lock()
_users = 0
_before = 0
_collecting = False


@contextlib.contextmanager
def _room() -> Iterator[None]:
    """Room for deep recursion in pure Python, which takes heap and no stack; given back when the last user leaves.

    Garbage collection waits: a large tree is all alive, and searching it again and again doubles the time.
    """
    global _users, _before, _collecting  # noqa: PLW0603
    with _lock:
        if _users == 0:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, _FRAMES))
            _collecting = gc.isenabled()
            gc.disable()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                if _collecting:
                    gc.enable()
                with contextlib.suppress(RecursionError):
                    sys.setrecursionlimit(_before)


class ParsedQuery(NamedTuple):
    """The tree of a query with the user's text in its leaves, and what was left out of it."""

    tree: Node
    masked: MaskedQuery

    def extraction(self, tokens: Tokens) -> Span | None:
        """The first `:part` that takes something out of a value."""
        first = min(self.masked.extractions, default=None)
        return None if first is None else tokens.span(first, first + 1)


def parse_tree(
    tokens: Tokens, parameters: dict[int, Parameter], before: str = "", after: str = "", *, is_whole: bool = False
) -> ParsedQuery:
    """The tree of a query's tokens; `before` and `after` make a query of an expression."""
    masked = mask(tokens, parameters, before, after, is_whole=is_whole)
    whole = tokens.span(0, len(tokens))
    try:
        with _room():
            tree = sqlglot.parse_one(masked.text, dialect="spark")
            restore_leaves(tree, tokens, masked, parameters)
    except RecursionError as error:
        raise syntax_error(whole, "a query is nested too deeply", hint="name inner parts with WITH … AS (…)") from error
    except SqlglotError as error:
        raise _placed(tokens, masked, error) from error
    except PlatformError:
        raise
    except Exception as error:
        # The parser is not ours: whatever else it stumbles over is a query that can't be read.
        raise syntax_error(whole, "this query can't be read") from error
    return ParsedQuery(tree, masked)


def _placed(tokens: Tokens, masked: MaskedQuery, error: SqlglotError) -> Exception:
    details = (getattr(error, "errors", None) or [{}])[0]
    column, found = details.get("col"), str(details.get("highlight") or "")
    said = str(details.get("description") or "unexpected text").split("\n")[0]
    # The parser's own words for its tokens are nobody else's.
    said = re.sub(r"\s*(?:but )?got <token.*|<token.*", "", said, flags=re.IGNORECASE)
    index = None
    if isinstance(column, int):
        start = max(0, column - max(1, len(found)))
        at = max((offset for offset in masked.origins if offset <= start), default=0)
        index = masked.origins.get(at, 0)
    expected = said.removeprefix("Expecting ").removeprefix("Expected ").lower() if said.startswith("Expect") else None
    if index is None:
        return syntax_error(tokens.span(0, len(tokens)), "this query can't be read", expected=expected)
    place, hint = _typo(tokens, index)
    span = tokens.span(place, place + 1)
    return syntax_error(span, f"unexpected {span.text[:40]} in a query", expected=expected, hint=hint)


def _typo(tokens: Tokens, index: int) -> tuple[int, str | None]:
    """Where the fault is, and what was meant: a clause's misspelt keyword is read as an alias, so it shows one or two tokens later."""
    for place in (index, index - 1, index - 2):
        word = tokens.upper(place)
        if len(word) > 3 and word not in _CLAUSES and (hint := suggest_word(word, _CLAUSES)):
            return place, hint
    for place in (index, index - 1):
        if tokens.upper(place) in KEYWORDS | FOREIGN:
            return index, f"a name that could be read as a keyword goes between back-ticks: `{tokens.text(place)}`"
    return index, None
