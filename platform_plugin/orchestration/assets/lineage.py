"""`trace_columns`: the columns of relations that each column of a query's result is computed from."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from platform_plugin.algebra.plan.nodes import (
    Aggregate,
    Column,
    Derived,
    Distinct,
    Filter,
    Generate,
    Join,
    Limit,
    LiteralRows,
    Project,
    Scan,
    SetOperation,
    Sort,
    Window,
    outputs,
)
from platform_plugin.algebra.plan.traversal import column_of, walk_expression

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.algebra.plan.nodes import Item, Query, Scalar, Source


class Origin(NamedTuple):
    """A column of a relation, by the relation's schema and name."""

    schema: str
    relation: str
    column: str


Origins = frozenset[Origin]
_Known = dict[Column, Origins]


def trace_columns(query: Query) -> dict[str, Origins]:
    """The columns whose values go into each column of a result; columns that only select rows do not count.

    >>> from platform_plugin.algebra.plan.relations import RelationFacts
    >>> from platform_plugin.algebra.types.data_types import Field, Primitive
    >>> from platform_plugin.operators.group.split import read_plan
    >>> fields = (Field(name="uid", type=Primitive("int32")), Field(name="score", type=Primitive("int32")))
    >>> posts = RelationFacts(name=("main", "posts"), kind="stream", fields=fields)
    >>> plan = read_plan("SELECT uid AS who, 2 * avg(score) AS mean FROM posts WHERE uid > 0 GROUP BY uid", {"posts": posts})
    >>> {name: sorted(origin.column for origin in found) for name, found in trace_columns(plan).items()}
    {'who': ['uid'], 'mean': ['score']}
    """
    return {column.name: found for column, found in zip(outputs(query), _query(query, {}), strict=True)}


def _query(query: Query, outer: Mapping[Column, Origins]) -> list[Origins]:
    match query:
        case Project(source=source, items=items) | Window(source=source, items=items):
            return _items(items, {**outer, **_source(source, outer)})
        case Aggregate(source=source, keys=keys, calls=calls):
            return _items((*keys, *calls), {**outer, **_source(source, outer)})
        case Distinct(query=inner) | Sort(query=inner) | Limit(query=inner):
            return _query(inner, outer)
        case SetOperation(left=left, right=right):
            pairs = zip_longest(_query(left, outer), _query(right, outer), fillvalue=Origins())
            return [mine | theirs for mine, theirs in pairs]


def _items(items: tuple[Item, ...], known: Mapping[Column, Origins]) -> list[Origins]:
    return [_scalar(item.value, known) for item in items]


def _scalar(value: Scalar, known: Mapping[Column, Origins]) -> Origins:
    columns = (column_of(node) for node in walk_expression(value.node))
    own = [known.get(column, Origins()) for column in columns if column is not None]
    return Origins().union(*own, *(found for plan in value.plans for found in _query(plan, known)))


def _source(source: Source, outer: Mapping[Column, Origins]) -> _Known:
    match source:
        case Scan(relation=relation, alias=alias, fields=fields):
            return {Column(alias, found.name): Origins({Origin(relation[0], relation[-1], found.name)}) for found in fields}
        case Derived(query=query, alias=alias):
            traced = zip(outputs(query), _query(query, outer), strict=True)
            return {Column(alias, found.name): origins for found, origins in traced}
        case Filter(source=inner):
            return _source(inner, outer)
        case Join(left=left, right=right):
            found = _source(left, outer)
            return {**found, **_source(right, {**outer, **found})}
        case Generate(source=inner, call=call, alias=alias, names=names):
            found = _source(inner, outer)
            made = _scalar(call, {**outer, **found})
            return {**found, **{Column(alias, name): made for name in names}}
        case LiteralRows(rows=rows, alias=alias, names=names):
            return {Column(alias, name): Origins().union(*(_scalar(row[place], outer) for row in rows)) for place, name in enumerate(names)}
        case _:
            return {}
