"""`read_body`: the tree of a view's query, or an error where a view can't have what a query may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.language.query.exact import read_exact_tree
from platform_plugin.language.query.query import analyse_query
from platform_plugin.operators.group.admission import Refuser

if TYPE_CHECKING:
    from sqlglot import exp

    from platform_plugin.language.text.places import Span


def read_body(text: str | Span) -> exp.Expr:
    """The tree of a query that the platform accepts, or an error at the place that can't be parsed.

    >>> read_body("SELECT weekday(at) AS day FROM posts WHERE score > 1.50BD").sql("spark", normalize_functions=False)
    'SELECT weekday(at) AS day FROM posts WHERE score > 1.50BD'
    """
    query = analyse_query(text)
    refuse = Refuser(source=query.span.source)
    if query.parameters:
        span = query.parameters[0].span
        hint = "write the value, or compare with it when reading the view"
        raise refuse("R10", "parameter", "a view has no parameters", (span.start, span.end), hint)
    for reference in query.relations:
        named = reference.travel or reference.changes
        if named is not None:
            span = named.span
            hint = "leave it out: a view is read at the snapshot of its reader; not the same as long as the table changes"
            raise refuse("R10", "snapshot", "a view names no snapshot", (span.start, span.end), hint)
    return read_exact_tree(query)
