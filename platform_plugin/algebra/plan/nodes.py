"""The nodes of plans: a query as a tree of frozen values, such as `Scan`, `Filter`, `Join` and `Aggregate`.

There are two kinds of node. A *source* is what stands in FROM: its columns have a qualifier and a name. A *query* is what SELECT makes of a
source: its columns have names only, and it becomes a source again under an alias (`Derived`). Aliases are unique in the whole plan, and
every column in every expression is written with its alias, so that a part of a plan means the same wherever it is put.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from platform_plugin.algebra.types.widening import common_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sqlglot import exp

    from platform_plugin.algebra.types.data_types import DataType

Place = tuple[int, int]
"""The place of a part of the text that a plan was read from: its first character, and the one after its last."""

RelationKind = Literal["stream", "table", "view", "continuous", "sample", "state", "static"]
JoinHint = Literal["BROADCAST", "SHUFFLE_HASH"]
"""How Spark is to look a relation up in a join: in a table that every executor has whole, or in one of shuffled parts."""
JoinKind = Literal["inner", "cross", "left", "right", "full", "semi", "anti"]
SetKind = Literal["union", "intersect", "except"]


class Column(NamedTuple):
    """A column of a source, by the source's alias and the column's name."""

    alias: str
    name: str


class ScalarFacts(NamedTuple):
    """What one walk over an expression tells, without its sub-queries."""

    columns: frozenset[Column]
    kinds: frozenset[type[exp.Expr]]
    """The classes of its nodes; of those inside a column only the column counts."""
    calls: frozenset[str]
    """The functions that it calls."""
    size: int
    """The number of its nodes."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """An expression: sqlglot's tree, which is never changed after this value is made, and the plans of its sub-queries.

    A sub-query stands in the tree as `Placeholder(this="0")`, numbered by its place in `plans`.
    """

    node: exp.Expr
    plans: tuple[Query, ...] = ()
    _facts: ScalarFacts | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def facts(self) -> ScalarFacts:
        """What is in the expression, looked up once."""
        if self._facts is None:
            object.__setattr__(self, "_facts", _read_facts(self.node))
        return self._facts  # type: ignore[return-value]


def _read_facts(root: exp.Expr) -> ScalarFacts:
    from sqlglot import exp

    columns: set[Column] = set()
    kinds: set[type[exp.Expr]] = set()
    calls: set[str] = set()
    stack = [root]
    size = 0
    while stack:
        node = stack.pop()
        kind = node.__class__
        kinds.add(kind)
        size += 1
        args = node.args
        if isinstance(node, exp.Column):
            name, table = args["this"], args.get("table")
            if table is not None and isinstance(name, exp.Identifier):
                columns.add(Column(table.this, name.this))
            continue
        if kind is exp.Anonymous:
            calls.add(str(args["this"]))
        for value in args.values():
            if isinstance(value, exp.Expr):
                stack.append(value)
            elif value.__class__ is list:
                stack += [item for item in value if isinstance(item, exp.Expr)]
    return ScalarFacts(frozenset(columns), frozenset(kinds), frozenset(calls), size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An expression, the name of its value, and its type where that is known."""

    value: Scalar
    name: str
    type: DataType | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A column of a relation or of a query's result, with its type where that is known.

    One that is `hidden` is read by its name and is none of those that * stands for.
    """

    name: str
    type: DataType | None = None
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The rows of a relation, called `alias`."""

    relation: tuple[str, ...]
    kind: RelationKind
    alias: str
    fields: tuple[Output, ...] = field(repr=False)
    at: Place | None = field(default=None, compare=False, repr=False)
    hint: JoinHint | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Single:
    """One row without columns: a SELECT without FROM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralRows:
    """Rows that the text lists, as VALUES does, under the name `alias`."""

    rows: tuple[tuple[Scalar, ...], ...]
    alias: str
    names: tuple[str, ...]
    types: tuple[DataType | None, ...] = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """The result of a query, called `alias`."""

    query: Query
    alias: str
    hint: JoinHint | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The rows of a source for which a condition is true."""

    source: Source
    condition: Scalar
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Pairs of rows of two sources; `semi` and `anti` keep the columns of the left one only."""

    left: Source
    right: Source
    kind: JoinKind
    condition: Scalar | None
    lateral: bool = False
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """The rows of a source, each combined with every row that a generator makes from it; the generated rows are called `alias`."""

    source: Source
    call: Scalar
    alias: str
    names: tuple[str, ...]
    outer: bool = False
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """One row of `items` for each row of a source."""

    source: Source
    items: tuple[Item, ...]
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A projection in which at least one item calls a function OVER a window."""

    source: Source
    items: tuple[Item, ...]
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One row for each group: the keys, then the calls of aggregate functions. Without keys there is one group, even of no rows.

    `sets` says which keys each grouping set groups by, by their numbers; None groups by all of them once.
    """

    source: Source
    keys: tuple[Item, ...]
    calls: tuple[Item, ...]
    sets: tuple[tuple[int, ...], ...] | None = None
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """The different rows of a query."""

    query: Query
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SortKey:
    """A key of a sort, in terms of the names of the query's own columns."""

    value: Scalar
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """The rows of a query in an order."""

    query: Query
    keys: tuple[SortKey, ...]
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most `count` rows of a query, after the first `offset`."""

    query: Query
    count: Scalar | None
    offset: Scalar | None = None
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOperation:
    """UNION, INTERSECT or EXCEPT of two queries, by position; the left one gives the names."""

    left: Query
    right: Query
    kind: SetKind
    all: bool
    at: Place | None = field(default=None, compare=False, repr=False)


Source = Scan | Single | LiteralRows | Derived | Filter | Join | Generate
Query = Project | Window | Aggregate | Distinct | Sort | Limit | SetOperation
Node = Source | Query


def outputs(query: Query) -> tuple[Output, ...]:
    """The columns of a query's result, in order."""
    match query:
        case Project(items=items) | Window(items=items):
            return tuple(Output(name=item.name, type=item.type) for item in items)
        case Aggregate(keys=keys, calls=calls):
            return tuple(Output(name=item.name, type=item.type) for item in (*keys, *calls))
        case Distinct(query=inner) | Sort(query=inner) | Limit(query=inner):
            return outputs(inner)
        case SetOperation(left=left, right=right):
            pairs = zip(outputs(left), outputs(right), strict=False)
            return tuple(Output(name=a.name, type=common_type([a.type, b.type])) for a, b in pairs)


def columns(source: Source) -> dict[Column, DataType | None]:
    """The columns of a source and their types where known, in the order in which * shows them."""
    match source:
        case Scan(alias=alias, fields=fields):
            return {Column(alias, found.name): found.type for found in fields}
        case Single():
            return {}
        case LiteralRows(alias=alias, names=names, types=types):
            return {Column(alias, name): kind for name, kind in zip(names, types, strict=True)}
        case Derived(query=query, alias=alias):
            return {Column(alias, found.name): found.type for found in outputs(query)}
        case Filter(source=inner):
            return columns(inner)
        case Join(left=left, right=right, kind=kind):
            return columns(left) if kind in ("semi", "anti") else {**columns(left), **columns(right)}
        case Generate(source=inner, alias=alias, names=names):
            return {**columns(inner), **{Column(alias, name): None for name in names}}


INPUT_FIELDS: Mapping[type[Node], tuple[str, ...]] = {
    Scan: (),
    Single: (),
    LiteralRows: (),
    **dict.fromkeys((Derived, Distinct, Sort, Limit), ("query",)),
    **dict.fromkeys((Filter, Generate, Project, Window, Aggregate), ("source",)),
    **dict.fromkeys((Join, SetOperation), ("left", "right")),
}
"""The fields of each kind of node that have the nodes below it."""
_GETTERS = {kind: attrgetter(*names) for kind, names in INPUT_FIELDS.items() if names}


def inputs(node: Node) -> tuple[Node, ...]:
    """The nodes directly below a node, without those of its sub-queries."""
    getter = _GETTERS.get(node.__class__)
    if getter is None:
        return ()
    found = getter(node)
    return found if found.__class__ is tuple else (found,)


def _item_values(node: Any) -> tuple[Scalar, ...]:
    return tuple([item.value for item in node.items])


_SCALARS: Mapping[type[Node], Callable[[Any], tuple[Scalar, ...]]] = {
    Filter: lambda node: (node.condition,),
    Join: lambda node: () if node.condition is None else (node.condition,),
    Generate: lambda node: (node.call,),
    Project: _item_values,
    Window: _item_values,
    Aggregate: lambda node: tuple([item.value for item in (*node.keys, *node.calls)]),
    Sort: lambda node: tuple([key.value for key in node.keys]),
    Limit: lambda node: tuple([value for value in (node.count, node.offset) if value is not None]),
    LiteralRows: lambda node: tuple([value for row in node.rows for value in row]),
}


def scalars(node: Node) -> tuple[Scalar, ...]:
    """The expressions of a node itself, in the order in which they are written."""
    getter = _SCALARS.get(node.__class__)
    return () if getter is None else getter(node)


def subqueries(node: Node) -> tuple[Query, ...]:
    """The plans of the sub-queries in a node's own expressions."""
    return tuple([plan for value in scalars(node) for plan in value.plans])


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it, sub-queries included, parents first."""
    stack: list[Node] = [node]
    while stack:
        found = stack.pop()
        yield found
        plans = subqueries(found)
        if plans:
            stack += plans[::-1]
        stack += inputs(found)[::-1]


def scans(node: Node) -> tuple[Scan, ...]:
    """The relations that a plan reads, in the order of the text."""
    return tuple(found for found in walk(node) if isinstance(found, Scan))
