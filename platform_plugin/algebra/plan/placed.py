"""`render_placed`: a plan as Spark SQL, with the place in the user's text that each part of it comes from."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.plan.render import query_tree, tree_sql

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.algebra.plan.nodes import Query

# Characters that no text has stand around the number of a place, until the text is there.
_FIRST, _LAST = "\ue000", "\ue001"
POSITION = "_position_"
"""With its number after it, the name of a parameter that the user's text gives by its position; a plan may use it elsewhere, or twice."""
_MARK = re.compile(f"{_FIRST}(\\d+){_LAST}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedText:
    """Spark SQL, and the offsets at which parts of the user's text begin in it."""

    text: str
    starts: tuple[int, ...] = field(repr=False)
    sources: tuple[int, ...] = field(repr=False)

    def locate(self, position: int, default: int) -> int:
        """The offset in the user's text for an offset in this text: that of the last part before it."""
        piece = bisect_right(self.starts, position) - 1
        return self.sources[piece] if piece >= 0 else default


def render_placed(query: Query, names: Mapping[tuple[str, ...], str | tuple[str, ...]]) -> PlacedText:
    """The text of a plan, each relation called by the name that is given for it."""
    marked = tree_sql(query_tree(query, names), change=_mark)
    pieces, starts, sources, length, end = list[str](), list[int](), list[int](), 0, 0
    for mark in _MARK.finditer(marked):
        piece = marked[end : mark.start()]
        pieces.append(piece)
        length += len(piece)
        starts.append(length)
        sources.append(int(mark[1]))
        end = mark.end()
    return PlacedText(text="".join([*pieces, marked[end:]]), starts=tuple(starts), sources=tuple(sources))


def _mark(node: exp.Expr) -> None:
    """Put a leaf's place before its text."""
    meta = node._meta  # noqa: SLF001  `meta` would make one for every node
    if not meta:
        return
    parameter = meta.get("parameter")
    if parameter is not None and parameter.index is not None:
        node.args["this"] = f":{POSITION}{parameter.index}"
    at = meta.get("at")
    leaf = (node.args.get("table") or node.this) if isinstance(node, exp.Column) else node
    if at is not None and isinstance(leaf, (exp.Identifier, exp.Literal, exp.Anonymous, exp.Var)):
        leaf.args["this"] = f"{_FIRST}{at[0]}{_LAST}{leaf.this}"
