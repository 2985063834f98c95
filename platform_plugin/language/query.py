"""Queries: what a body touches, and how it is handed to Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from platform_plugin.language.places import Span, fault
from platform_plugin.language.rendering import Edit, Rendered, render_edits
from platform_plugin.language.tokens import check_brackets, tokenize
from platform_plugin.language.values import Parameter, find_parameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.language.relations import Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A body, the relations of the lake that it reads in the order of their places, and the parameters it waits for."""

    span: Span
    relations: tuple[Reference, ...]
    parameters: tuple[Parameter, ...]
    edits: tuple[Edit, ...] = field(repr=False)

    def render(self, names: Mapping[Reference, str | tuple[str, ...]]) -> Rendered:
        """The Spark SQL in which each of these references reads the temporary view of that name; others stay as written."""
        return render_edits(self.span, self.edits, {reference.index: name for reference, name in names.items()})


def analyse_query(text: str | Span) -> Query:
    """What a query reads, or an error where it can't be read or would go round the platform.

    >>> query = analyse_query("SELECT uid FROM posts AT (VERSION => 3) WHERE score > 5")
    >>> [(str(found.name), found.travel.version, sorted(found.columns)) for found in query.relations]
    [('posts', 3, ['score', 'uid'])]
    >>> query.render({query.relations[0]: "v1"}).text
    'SELECT uid FROM `v1` AS `posts` WHERE score > 5'
    """
    # sqlglot is loaded with the first query, not with the package.
    from platform_plugin.language.analysis import analyse

    span = text if isinstance(text, Span) else Span(text, 0, len(text))
    tokens = tokenize(span.source, span.start, span.end)
    if not len(tokens):
        raise fault(span, "an empty query", expected="a query")
    check_brackets(tokens, 0, len(tokens))
    parameters = find_parameters(tokens, 0, len(tokens))
    whole = tokens.span(0, len(tokens))
    relations, edits = analyse(tokens, parameters)
    return Query(span=whole, relations=relations, parameters=tuple(parameters.values()), edits=edits)
