"""`plan_sharing`: the stream parts of many views as few queries, so that a range is read once for all of them.

Parts with the same source share a query, whatever they group by and filter: the query groups by each set of keys in one pass (GROUPING
SETS), and an aggregate of a part with a filter of its own carries that filter. So the number of queries is the number of different sources:
a stream alone, or a stream with what it looks up. A filter or an expression that could fail on a row that another part's filter excludes is
not combined with other filters, and has a query of its own. Where a range has far fewer groups of all keys together than rows, it is first
reduced to those groups, and each part merges them (the finest grouping of the lattice).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from platform_plugin.algebra.functions import SAFE_CALLS, TIME_WINDOWS
from platform_plugin.algebra.plan.filters import split_filters
from platform_plugin.algebra.plan.nodes import Aggregate, Derived, Filter, Item, Output, Project, Scalar, Scan, scans
from platform_plugin.algebra.plan.relations import HIDDEN_COLUMNS
from platform_plugin.algebra.plan.render import render
from platform_plugin.algebra.plan.traversal import (
    absorb_plans,
    column_of,
    column_reference,
    columns_in,
    map_columns,
    map_inputs,
    number_aliases,
    walk_expression,
)
from platform_plugin.algebra.types.infer import LONG
from platform_plugin.operators.group.calls import call_expression
from platform_plugin.operators.group.parts import ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from platform_plugin.algebra.plan.nodes import Query
    from platform_plugin.operators.group.parts import SplitPlan, State, StreamPart

SET = "grouping_set"
"""The column of a shared result that holds the number of the grouping set of a row."""
# Filters stand at aggregates however many there are. Rows that were repeated for each filter that they pass, with its number as a key, took
# 1.3 times as long for 20 filters of one row in 20 each, 0.4 times for 64, but 5 times for 64 that nearly all rows pass.
# With at least so many rows to a group of all keys, aggregating twice costs less than expanding every row.
_WORTH = 4
_SAFE_NODES = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Paren,
    exp.Boolean,
    exp.Null,
    exp.Star,
    exp.Case,
    exp.If,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Is,
    exp.In,
    exp.Between,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.Like,
    exp.Filter,
    exp.Where,
    exp.Distinct,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewParts:
    """A view's plan, and the relations with the results of its static parts; views that pin the same result name the same relation."""

    view: str
    plan: SplitPlan
    statics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPart:
    """The rows of a shared result that belong to a part, and its columns that belong to the state.

    The rows are those with `grouping_set` = `number`, where that is given, and of these, where `hits` is a column, those with `hits` above
    0. `columns` are pairs of a column of the state and one of the result, in the state's order.
    """

    view: str
    part: str
    state: str
    number: int | None
    hits: str | None
    columns: tuple[tuple[str, str], ...]

    def sql(self, result: str) -> str:
        """The SQL that selects the part's rows from the shared result with that name."""
        items = tuple(Item(value=column_reference("result", column), name=name) for name, column in self.columns)
        source: Any = Scan(relation=(result,), kind="state", alias="result", fields=())
        conditions: list[exp.Expr] = []
        if self.number is not None:
            conditions.append(exp.EQ(this=column_reference("result", SET).node, expression=exp.Literal.number(self.number)))
        if self.hits is not None:
            conditions.append(exp.GT(this=column_reference("result", self.hits).node, expression=exp.Literal.number(0)))
        for condition in conditions:
            source = Filter(source=source, condition=Scalar(condition))
        return render(Project(source=source, items=items))


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedQuery:
    """One query over a range that aggregates for several parts; `lattice` says that it groups by all keys first."""

    query: Query = field(repr=False)
    parts: tuple[SharedPart, ...]
    lattice: bool
    hidden: frozenset[str]
    """The hidden columns that the rows of the stream must have."""

    @property
    def relations(self) -> tuple[str, ...]:
        """The stream, and the results of static parts by their given names."""
        return tuple(dict.fromkeys(".".join(found.relation) for found in scans(self.query)))

    def sql(self, names: Mapping[str, str | tuple[str, ...]] | None = None, *, pretty: bool = False) -> str:
        """The query's SQL; `names` maps the stream's name to a range's."""
        return render(self.query, {tuple(key.split(".")): name for key, name in (names or {}).items()}, pretty=pretty)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPass:
    """All queries that a range of a stream needs, for all views over it."""

    stream: str
    queries: tuple[SharedQuery, ...]

    def explain(self) -> str:
        """What the queries share, in words."""
        lines = [f"a range of {self.stream} is read by {_times(len(self.queries), 'query', 'queries')}"]
        for number, query in enumerate(self.queries, 1):
            views = sorted({part.view for part in query.parts})
            sets = len({part.number for part in query.parts})
            way = "by way of the finest groups" if query.lattice else "straight from the rows"
            lines.append(f"  query {number}: {_times(len(query.parts), 'part')} of {', '.join(views)}; {_times(sets, 'grouping')}, {way}")
        return "\n".join(lines)


def _times(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparablePart:
    """A stream part in a form that compares with others: aliases numbered, static results by their given names, filters separate."""

    view: str
    part: StreamPart
    state: State
    base: Any
    conditions: tuple[Scalar, ...]
    keys: tuple[Item, ...]
    calls: tuple[Item, ...]

    @property
    def settled(self) -> bool:
        """Whether its expressions may stand beside other filters: none can fail on a row that its own filter excludes."""
        return all(_is_safe(value) for value in (*self.conditions, *(item.value for item in (*self.keys, *self.calls))))

    @property
    def values(self) -> tuple[Scalar, ...]:
        """The expressions that it groups by."""
        return tuple(item.value for item in self.keys)

    @property
    def groups_alone(self) -> bool:
        """Whether no other keys may stand beside its own.

        Spark reads a constant in GROUPING SETS as the number of a column, and a window of time drops or repeats rows for all.
        """
        return any(not columns_in(value) or _has_time_window(value) for value in self.values)


def _has_time_window(value: Scalar) -> bool:
    return any(isinstance(node, exp.Anonymous) and str(node.this).lower() in TIME_WINDOWS for node in walk_expression(value.node))


def plan_sharing(
    views: Sequence[ViewParts], stream: str, *, rows: int | None = None, distinct: Mapping[str, int] | None = None
) -> SharedPass:
    """The queries over a range of a stream for these views.

    `rows` is about how many rows a range has and `distinct` how many different values its columns have: with both, the finest grouping is
    chosen where it pays; without them it is not.
    """
    classes: list[list[ComparablePart]] = []
    for view in views:
        for part in view.plan.streams:
            if part.stream == stream:
                _place(prepare_part(view, part), classes)
    return SharedPass(stream=stream, queries=tuple(_shared(parts, rows, distinct or {}) for parts in classes))


def _place(found: ComparablePart, classes: list[list[ComparablePart]]) -> None:
    for parts in classes:
        first = parts[0]
        same = first.base == found.base and (first.values == found.values or not (first.groups_alone or found.groups_alone))
        if same and (all(part.conditions == found.conditions for part in parts) or (found.settled and all(part.settled for part in parts))):
            parts.append(found)
            return
    classes.append([found])


def prepare_part(view: ViewParts, part: StreamPart) -> ComparablePart:
    """A stream part in the form that compares with those of other views."""
    query = number_aliases(rename_static_results(part.query, view.statics, view.view))
    assert isinstance(query, Aggregate)  # noqa: S101  every stream part is one
    source, filters = split_filters(query.source)
    return ComparablePart(
        view=view.view,
        part=part,
        state=view.plan.state(part.state),
        base=_with_hidden(source, ()),
        conditions=tuple(one.condition for one in filters),
        keys=query.keys,
        calls=query.calls,
    )


def rename_static_results(node: Any, names: Mapping[str, str], view: str = "") -> Any:
    """A plan with these names for results of static parts; a name that is not given belongs to the one view."""
    if isinstance(node, Scan) and node.kind == "static":
        return replace(node, relation=(names.get(node.relation[-1], f"{view}_{node.relation[-1]}"),))
    return map_inputs(node, lambda below: rename_static_results(below, names, view))


def _with_hidden(node: Any, hidden: tuple[Output, ...]) -> Any:
    """The source with these hidden columns of streams, and no others: without any, parts that read different ones have the same source."""
    if isinstance(node, Scan):
        own = tuple(found for found in node.fields if not found.hidden)
        return replace(node, fields=(*own, *hidden) if node.kind == "stream" else own)
    return map_inputs(node, lambda below: _with_hidden(below, hidden))


def _is_safe(value: Scalar) -> bool:
    return not value.plans and all(
        isinstance(node, _SAFE_NODES) or (isinstance(node, exp.Anonymous) and str(node.this) in SAFE_CALLS)
        for node in walk_expression(value.node)
    )


def _shared(parts: list[ComparablePart], rows: int | None, distinct: Mapping[str, int]) -> SharedQuery:
    filters = list(dict.fromkeys(_condition(part) for part in parts))
    own_filters = len(filters) > 1
    keys: list[Item] = []
    calls: list[Item] = []
    merges: list[Item] = []
    made: list[SharedPart] = []
    sets = list(dict.fromkeys(tuple(sorted({_number(keys, item) for item in part.keys})) for part in parts))
    several = len(sets) > 1
    for part in parts:
        # Only filters without sub-queries stand beside others: see `settled`.
        condition = found.node if own_filters and (found := _condition(part)) is not None else None
        pairs = [(output.name, keys[_number(keys, item)].name) for output, item in zip(part.state.keys, part.keys, strict=True)]
        pairs += _add_calls(part, condition, calls, merges)
        hits = _hits(condition, calls, merges) if condition is not None and part.keys else None
        numbers = tuple(sorted({_number(keys, item) for item in part.keys}))
        number = sum(1 << (len(keys) - 1 - place) for place in range(len(keys)) if place not in numbers) if several else None
        made.append(SharedPart(view=part.view, part=part.part.name, state=part.part.state, number=number, hits=hits, columns=tuple(pairs)))
    source = _source(parts[0].base, [found for found in filters if found is not None], everywhere=None not in filters)
    hidden = frozenset().union(*(part.part.hidden for part in parts))
    lattice = several and _pays(keys, rows, distinct)
    rows_of = _with_hidden(source, tuple(column for column in HIDDEN_COLUMNS if column.name in hidden))
    finest = Aggregate(source=rows_of, keys=tuple(keys), calls=tuple(calls))
    query = _by_sets(finest, tuple(sets), tuple(merges) if lattice else None) if several else finest
    return SharedQuery(query=query, parts=tuple(made), lattice=lattice, hidden=hidden)


def _condition(part: ComparablePart) -> Scalar | None:
    """A part's filters as one, with the sub-queries of each."""
    if not part.conditions:
        return None
    plans: list[Query] = []
    both = reduce(
        lambda a, b: exp.And(this=exp.Paren(this=a), expression=exp.Paren(this=b)),
        [absorb_plans(value, plans).copy() for value in part.conditions],
    )
    return Scalar(both, tuple(plans))


def _number(keys: list[Item], item: Item) -> int:
    for number, known in enumerate(keys):
        if known.value == item.value:
            return number
    keys.append(replace(item, name=f"k{len(keys) + 1}"))
    return len(keys) - 1


def _add_calls(part: ComparablePart, condition: exp.Expr | None, calls: list[Item], merges: list[Item]) -> list[tuple[str, str]]:
    """The stored columns of a part among those of all, each different one once, and how each merges."""
    values = [item.value.node if condition is None else _filtered(item.value.node, condition) for item in part.calls]
    names: dict[str, str] = {}
    known = {(call.value, _shape(merged, call.name)): call.name for call, merged in zip(calls, merges, strict=True)}
    added: list[tuple[Item, Item, str]] = []
    for item, value, merged in zip(part.calls, values, part.state.merges, strict=True):
        same = known.get((Scalar(value), _shape(merged, item.name)))
        names[item.name] = same or f"p{len(calls) + len(added) + 1}"
        if same is None:
            added.append((Item(value=Scalar(value), name=names[item.name], type=item.type), merged, item.name))
    for call, merged, _ in added:
        calls.append(call)
        merges.append(
            replace(merged, value=map_columns(merged.value, lambda column: column_reference(ROWS, names[column.name])), name=call.name)
        )
    return [(item.name, names[item.name]) for item in part.calls]


def _shape(merged: Item, own: str) -> Scalar:
    """How a column merges, whatever it is called; a column that merges with the help of others is only like itself."""
    return map_columns(merged.value, lambda column: column_reference(ROWS, "own") if column.name == own else None)


def _filtered(node: exp.Expr, condition: exp.Expr) -> exp.Expr:
    """An aggregate, or an expression of several, over the rows for which a condition is true."""
    if isinstance(node, exp.Filter):
        both = exp.And(this=exp.Paren(this=condition.copy()), expression=exp.Paren(this=node.expression.this.copy()))
        return exp.Filter(this=node.this.copy(), expression=exp.Where(this=both))
    return exp.Filter(this=node.copy(), expression=exp.Where(this=condition.copy()))


def _hits(condition: exp.Expr, calls: list[Item], merges: list[Item]) -> str:
    """A column with the number of a group's rows for which a condition is true: groups without any are none of the part's."""
    value = Scalar(_filtered(call_expression("count", exp.Star()), condition))
    for call in calls:
        if call.value == value:
            return call.name
    name = f"p{len(calls) + 1}"
    calls.append(Item(value=value, name=name, type=LONG))
    merges.append(Item(value=Scalar(call_expression("sum", column_reference(ROWS, name).node)), name=name, type=LONG))
    return name


def _source(base: Any, filters: list[Scalar], *, everywhere: bool) -> Any:
    if not filters or not everywhere:
        return base
    plans: list[Query] = []
    some = reduce(
        lambda a, b: exp.Or(this=exp.Paren(this=a), expression=exp.Paren(this=b)),
        [absorb_plans(found, plans).copy() for found in filters],
    )
    return Filter(source=base, condition=Scalar(some, tuple(plans)))


def _pays(keys: list[Item], rows: int | None, distinct: Mapping[str, int]) -> bool:
    """Whether the groups of all keys together are few enough, were the keys' values combined at random."""
    if rows is None:
        return False
    groups = 1
    for item in keys:
        column = column_of(item.value.node)
        if column is None or column.name not in distinct:
            return False
        groups *= distinct[column.name] + 1
    return groups * _WORTH <= rows


def _by_sets(finest: Aggregate, sets: tuple[tuple[int, ...], ...], merges: tuple[Item, ...] | None) -> Aggregate:
    """A grouping by several sets of keys, of the rows or, if it is known how these merge, of the finest groups."""
    if merges is not None:
        keys = tuple(replace(item, value=column_reference(ROWS, item.name)) for item in finest.keys)
        finest = Aggregate(source=Derived(query=finest, alias=ROWS), keys=keys, calls=merges)
    number = Item(value=Scalar(call_expression("grouping_id", *(item.value.node for item in finest.keys))), name=SET, type=LONG)
    return replace(finest, calls=(*finest.calls, number), sets=sets)
