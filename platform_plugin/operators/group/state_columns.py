"""`StateColumns`: the columns of a state while a plan is split; `join_answers`: the query over merged states."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.plan.names import unique_name
from platform_plugin.algebra.plan.nodes import Aggregate, Derived, Generate, Item, Join, Output, Project, Scalar, Scan
from platform_plugin.algebra.plan.traversal import column_reference, map_columns, map_nodes, walk_expression
from platform_plugin.algebra.sessions import bound_sessions, stored_keys
from platform_plugin.algebra.types.infer import LONG
from platform_plugin.operators.group.calls import call_expression, parse_expression
from platform_plugin.operators.group.parts import ROWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.algebra.plan.names import Aliases
    from platform_plugin.algebra.plan.nodes import Query, Source
    from platform_plugin.operators.group.conditions import GroupConditions
    from platform_plugin.operators.group.parts import State
    from platform_plugin.operators.group.splitting import Splitting, ValueKeys

_GROUPING = "grouping_set"


@dataclass(slots=True, kw_only=True)
class StateColumns:
    """The keys and stored columns of a state, with the merge of each, in terms of columns of `ROWS`."""

    keys: tuple[Item, ...]
    names: set[str]
    condition: exp.Expr | None = None
    values: tuple[exp.Expr, ...] = ()
    stored: list[Item] = field(default_factory=list)
    merges: list[Item] = field(default_factory=list)
    passed: list[Item] = field(default_factory=list)

    def add_rows(self) -> None:
        """Add a column with the number of rows."""
        name = unique_name("n", self.names)
        self.stored.append(Item(value=Scalar(call_expression("count", exp.Star())), name=name, type=LONG))
        self.merges.append(Item(value=Scalar(call_expression("sum", column_reference(ROWS, name).node)), name=name, type=LONG))

    def add_call(self, item: Item, split: Splitting, answers: dict[str, Callable[[str], exp.Expr]]) -> None:
        """Add the stored columns of a call, without those that another call stores already."""
        holes = [column_reference(ROWS, f"\0{number}").node for number in range(len(split.parts))]
        names: list[str] = []
        merges: list[exp.Expr] = []
        for number, part in enumerate(split.parts):
            merge = part.merge(holes)
            merges.append(merge)
            same = self._same(part.value, merge, f"\0{number}")
            names.append(same or unique_name(part.name, self.names))
            if same is None:
                self.stored.append(Item(value=Scalar(part.value), name=names[-1], type=part.type))
                self.merges.append(Item(value=Scalar(merge), name=names[-1], type=part.type))
        known = {f"\0{number}": name for number, name in enumerate(names)}
        self.merges = [replace(merged, value=_filled(merged.value, known)) for merged in self.merges]
        answer = split.answer
        answers[item.name] = lambda alias: answer([column_reference(alias, name).node for name in names])

    def _same(self, value: exp.Expr, merge: exp.Expr, hole: str) -> str | None:
        """The stored column that is this value, if it is merged from itself alone in the same way."""
        for stored, merged in zip(self.stored, self.merges, strict=True):
            if stored.value.node == value and _filled(Scalar(merge), {hole: stored.name}).node == merged.value.node:
                return stored.name
        return None

    def merge(self) -> Query:
        """The query that merges all rows of a group to one."""
        fields = tuple(Output(name=item.name, type=item.type) for item in (*self.keys, *self.stored))
        source = Scan(relation=(ROWS,), kind="state", alias=ROWS, fields=fields)
        return bound_sessions(Aggregate(source=source, keys=stored_keys(self.keys, ROWS), calls=tuple(self.merges)), "joined")


def _filled(value: Scalar, names: dict[str, str]) -> Scalar:
    return map_columns(value, lambda column: column_reference(ROWS, names[column.name]) if column.name in names else None)


def join_answers(
    node: Aggregate,
    main: tuple[State, StateColumns] | None,
    answers: dict[str, Callable[[str], exp.Expr]],
    by_value: list[tuple[State, list[tuple[Item, ValueKeys]]]],
    *,
    aliases: Aliases,
    apart: GroupConditions,
) -> Query:
    """The query over merged states that gives the rows of a grouping.

    `apart` are conditions of a grouping that can only be checked on the stored groups, which are finer than the grouping's own.
    """
    source: Source | None = None
    found: dict[str, exp.Expr] = {}
    first = ""
    if main is not None:
        source, first = _main(node, *main, aliases, apart, with_set=bool(by_value))
        found = {name: answer(first) for name, answer in answers.items()}
    for state, items in by_value:
        for expand in (False, True):
            chosen = [(item, split) for item, split in items if split.expand is expand]
            if not chosen:
                continue
            with_set = main is not None or len(by_value) > 1 or len(items) > len(chosen)
            query = _valued(node, state, chosen, aliases, apart, with_set=with_set)
            alias = aliases.take("by_value")
            derived = Derived(query=query, alias=alias)
            found |= {item.name: _missing(item, column_reference(alias, item.name).node) for item, _ in chosen}
            if source is None:
                source, first = derived, alias
                continue
            pairs = [key.name for key in node.keys] + ([_GROUPING] if node.sets is not None else [])
            equal = [
                exp.NullSafeEQ(this=column_reference(first, name).node, expression=column_reference(alias, name).node) for name in pairs
            ]
            condition = Scalar(exp.and_(*equal) if len(equal) > 1 else equal[0]) if equal else None
            source = Join(left=source, right=derived, kind="left" if equal else "cross", condition=condition)
    if source is None:
        msg = "a grouping without any state"
        raise ValueError(msg)
    keys = tuple(replace(key, value=column_reference(first, key.name)) for key in node.keys)
    return Project(source=source, items=(*keys, *(replace(item, value=Scalar(found[item.name])) for item in node.calls)), at=node.at)


def _missing(item: Item, column: exp.Expr) -> exp.Expr:
    """A group of which no row is in a state of values has the answer of no rows."""
    counts = any(str(call.this) in ("count", "count_if") for call in walk_expression(item.value.node) if isinstance(call, exp.Anonymous))
    return parse_expression("coalesce(_0, 0)", column) if counts else column


def _main(
    node: Aggregate, state: State, store: StateColumns, aliases: Aliases, apart: GroupConditions, *, with_set: bool
) -> tuple[Source, str]:
    alias = aliases.take(state.name)
    scan = Scan(relation=(state.name,), kind="state", alias=alias, fields=state.columns)
    if node.sets is None and not apart.conditions:
        return scan, alias
    # Finer groups are stored than are asked for, so that each of these merges them once more.
    keys = stored_keys(node.keys, alias)
    merges = [replace(item, value=map_columns(item.value, lambda column: column_reference(alias, column.name))) for item in store.merges]
    passed = [replace(item, value=_on_keys(item.value, node, alias)) for item in store.passed]
    if with_set and node.sets is not None:
        passed.append(Item(value=Scalar(call_expression("grouping_id", *(key.value.node for key in keys))), name=_GROUPING, type=LONG))
    query = Aggregate(source=apart.over(scan, alias), keys=keys, calls=(*merges, *passed), sets=node.sets)
    outer = aliases.take("sets")
    return Derived(query=bound_sessions(query, aliases.take("joined")), alias=outer), outer


def _on_keys(value: Scalar, node: Aggregate, alias: str) -> Scalar:
    """grouping(key) of the state's column that is the key."""

    def put(found: exp.Expr) -> exp.Expr | None:
        return next((column_reference(alias, key.name).node for key in node.keys if key.value.node == found), None)

    return Scalar(map_nodes(value.node, put))


def _valued(
    node: Aggregate, state: State, items: list[tuple[Item, ValueKeys]], aliases: Aliases, apart: GroupConditions, *, with_set: bool
) -> Query:
    alias = aliases.take(state.name)
    source: Source = Scan(relation=(state.name,), kind="state", alias=alias, fields=state.columns)
    number = column_reference(alias, state.partials[0].name).node
    values = [column_reference(alias, key.name).node for key in state.keys[len(node.keys) + len(apart.keys) :]]
    if items[0][1].expand:
        call = Scalar(parse_expression("explode(array_repeat(0, CAST(_0 AS INT)))", number))
        source = Generate(source=source, call=call, alias=aliases.take("each"), names=("row",))
    keys = stored_keys(node.keys, alias)
    calls = [replace(item, value=Scalar(split.answer(values, number))) for item, split in items]
    if with_set and node.sets is not None:
        calls.append(Item(value=Scalar(call_expression("grouping_id", *(key.value.node for key in keys))), name=_GROUPING, type=LONG))
    query = Aggregate(source=apart.over(source, alias), keys=keys, calls=tuple(calls), sets=node.sets)
    return bound_sessions(query, aliases.take("joined"))
