"""`JoinHints`: hints by which Spark builds hash tables of what a stream is joined with, and never of the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.nodes import Join

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import JoinKind, Source


def _spine(source: Source) -> list[tuple[JoinKind | None, Source]] | None:
    """The sources of left-deep joins, each with the kind of its join; None where a join stands on a right side, or is lateral."""
    if not isinstance(source, Join):
        return [(None, source)]
    left = None if source.lateral or isinstance(source.right, Join) else _spine(source.left)
    return None if left is None else [*left, (source.kind, source.right)]
