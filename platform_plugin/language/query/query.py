"""`analyse_query` and `analyse_expression`: the relations that a text reads, and its rendering for Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from platform_plugin.cache import Cache
from platform_plugin.language.query.rendering import Edit, RenderedQuery, render_edits
from platform_plugin.language.text.bare_names import find_names
from platform_plugin.language.text.places import Span, syntax_error
from platform_plugin.language.text.tokens import check_brackets, find_token, tokenize
from platform_plugin.language.text.values import Parameter, find_parameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlglot import exp

    from platform_plugin.language.query.references import Reference
    from platform_plugin.language.text.names import WrittenName
    from platform_plugin.language.text.tokens import Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query's text, the relations of the lake that it reads in the order of their places, and its parameters."""

    span: Span
    relations: tuple[Reference, ...]
    parameters: tuple[Parameter, ...]
    edits: tuple[Edit, ...] = field(repr=False)
    tokens: Tokens = field(repr=False)
    tree: exp.Expr = field(repr=False)
    """Sqlglot's tree with the user's text in its leaves; all who read it share it, so it must not be changed."""
    extraction: Span | None = field(default=None, repr=False)
    """The first `:part` that takes something out of a value, which the tree does not have."""
    is_shortened: bool = False
    """Whether the tree has only a part of some long lists of literals."""

    def whole_tree(self) -> exp.Expr:
        """The tree with all items of long lists."""
        if not self.is_shortened:
            return self.tree
        from platform_plugin.language.text.tree import parse_tree

        return parse_tree(self.tokens, find_parameters(self.tokens, 0, len(self.tokens)), is_whole=True).tree

    def render(self, names: Mapping[Reference, str | tuple[str, ...]], *, without_limit: int | None = None) -> RenderedQuery:
        """The Spark SQL in which each of these references reads the temporary view of the given name; other references stay as written.

        `without_limit` is the offset of the number of a LIMIT at the end that is to be left out.
        """
        span = self.span
        if without_limit is not None and (index := find_token(self.tokens, without_limit)) is not None:
            span = Span(span.source, span.start, self.tokens.ends[index - 2])
        return render_edits(span, self.edits, {reference.index: name for reference, name in names.items()})

    def ends_at(self, offset: int) -> bool:
        """Whether the last token begins at an offset."""
        return self.tokens.starts[-1] == offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A condition or a new value over the rows of one relation: `target` says what it needs of them, `relations` what else it reads.

    The formula of `target` holds only where the expression is a condition.
    """

    span: Span
    target: Reference
    relations: tuple[Reference, ...]
    edits: tuple[Edit, ...] = field(repr=False)

    def render(self, names: Mapping[Reference, str | tuple[str, ...]]) -> RenderedQuery:
        """The expression for Spark, to be put in parentheses over rows that go by the target's alias or name."""
        return render_edits(self.span, self.edits, {-1: ""} | {reference.index: name for reference, name in names.items()})


# A longer text is mostly values, which nobody asks for twice, and its tokens would drive out everything else.
_LONGEST_CACHED = 100_000
_QUERIES: Cache[tuple[str, int, int], Query] = Cache("queries", weigh=lambda query: 4_000 + 1_000 * len(query.tokens))


def analyse_query(text: str | Span) -> Query:
    """The one reading of a query, an error if it can't be parsed or reads anything but relations of the lake.

    >>> query = analyse_query("SELECT uid FROM posts AT (VERSION => 3) WHERE score > 5")
    >>> [(str(found.name), found.travel.version, found.alias) for found in query.relations]
    [('posts', 3, None)]
    >>> query.render({query.relations[0]: "v1"}).text
    'SELECT uid FROM `v1` AS `posts` WHERE score > 5'
    """
    span = text if isinstance(text, Span) else Span(text, 0, len(text))
    if span.end - span.start > _LONGEST_CACHED:
        return _analyse_query(span)
    return _QUERIES.find((span.source, span.start, span.end), lambda: _analyse_query(span))


def _analyse_query(span: Span) -> Query:
    # sqlglot is loaded with the first query, not with the package.
    from platform_plugin.language.query.analysis import analyse

    tokens, parameters = _read(span, "query")
    analysis = analyse(tokens, parameters)
    return Query(
        span=tokens.span(0, len(tokens)),
        relations=analysis.relations,
        parameters=tuple(parameters.values()),
        edits=analysis.edits,
        tokens=tokens,
        tree=analysis.parsed.tree,
        extraction=analysis.parsed.extraction(tokens),
        is_shortened=bool(analysis.parsed.masked.cut),
    )


def analyse_expression(text: str | Span, name: WrittenName, alias: str | None = None) -> Expression:
    """The relations that the WHERE or a SET expression of a DELETE or UPDATE reads, under the same refusals as a query.

    >>> from platform_plugin.language.text.names import WrittenName
    >>> found = analyse_expression("shop.users.id = 1 AND rate > (SELECT max(rate) FROM old)", WrittenName(parts=("shop", "users")))
    >>> str(found.target.name), [str(reference.name) for reference in found.relations]
    ('shop.users', ['old'])
    >>> found.render({found.relations[0]: "v1"}).text
    'users.id = 1 AND rate > (SELECT max(rate) FROM `v1` AS `old`)'
    """
    from platform_plugin.language.query.analysis import analyse

    tokens, parameters = _read(text if isinstance(text, Span) else Span(text, 0, len(text)), "expression")
    analysis = analyse(tokens, parameters, (name, alias))
    target, *relations = analysis.relations
    return Expression(span=tokens.span(0, len(tokens)), target=target, relations=tuple(relations), edits=analysis.edits)


def _read(span: Span, what: str) -> tuple[Tokens, dict[int, Parameter]]:
    tokens = find_names(tokenize(span.source, span.start, span.end))
    if not len(tokens):
        raise syntax_error(span, f"an empty {what}", expected=f"a{'n' if what[0] in 'aeiou' else ''} {what}")
    check_brackets(tokens, 0, len(tokens))
    return tokens, find_parameters(tokens, 0, len(tokens))
