"""`cut_plan`: merged states replace groupings over streams, and what is below these becomes stream parts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

from sqlglot import exp

from platform_plugin.algebra.build.grouping import call_in
from platform_plugin.algebra.plan.names import Aliases, output_name, unique_name
from platform_plugin.algebra.plan.nodes import (
    Aggregate,
    Column,
    Derived,
    Distinct,
    Filter,
    Item,
    Limit,
    Output,
    Project,
    Scalar,
    Scan,
    SetOperation,
    Sort,
    columns,
    inputs,
    outputs,
)
from platform_plugin.algebra.plan.relations import ROW_ID
from platform_plugin.algebra.plan.render import render
from platform_plugin.algebra.plan.traversal import (
    aliases_in,
    column_reference,
    columns_in,
    is_plan,
    map_columns,
    map_inputs,
    map_scalars,
    number_aliases,
    walk_expression,
)
from platform_plugin.algebra.sessions import find_session
from platform_plugin.algebra.types.infer import type_of
from platform_plugin.operators.group.admission import (
    check_below,
    find_ungrouped_streams,
    is_volatile,
    name_of,
    refuse_loose,
    refuse_session_sets,
)
from platform_plugin.operators.group.aggregates import split_call
from platform_plugin.operators.group.branches import Statics, add_row_id, split_branches
from platform_plugin.operators.group.calls import put_condition_into_values, read_call
from platform_plugin.operators.group.conditions import set_clocks_apart, uncorrelate
from platform_plugin.operators.group.lookups import arrange_joins
from platform_plugin.operators.group.parts import SplitPlan, State, StreamPart
from platform_plugin.operators.group.splitting import NoSplit, Splitting, ValueKeys
from platform_plugin.operators.group.state_columns import StateColumns, join_answers

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.algebra.plan.nodes import Place, Query, Source
    from platform_plugin.algebra.types.data_types import DataType
    from platform_plugin.operators.group.admission import Refuser

    Typer = Callable[[str], tuple[DataType, ...]]
    Rule = Callable[[Any], Any]

# Stands for the number of a stream's row until a branch says which column that is.
_ROW = Column("the branch", ROW_ID)


def cut_plan(whole: Query, refuse: Refuser, typer: Typer | None) -> SplitPlan:
    """The split of a plan at the first grouping above each stream."""
    aliases = Aliases()
    for alias in sorted(aliases_in(whole)):
        aliases.take(alias)
    return _Cutter(refuse=refuse, typer=typer, aliases=aliases, statics=Statics(aliases=aliases)).run(whole)


BRANCH_RULES: list[Rule] = [arrange_joins]
"""Rewrites of what stands between a stream and its grouping, in their order: each returns a source with the same rows and columns."""


def apply_rules(branch: Any) -> Any:
    """A branch after all rules; one without a stream is run once, so that it stays as it is written."""
    return reduce(lambda source, rule: rule(source), BRANCH_RULES, branch) if find_ungrouped_streams(branch) else branch


@dataclass(slots=True, kw_only=True)
class _Cutter:
    refuse: Refuser
    typer: Typer | None
    aliases: Aliases
    statics: Statics
    states: list[State] = field(default_factory=list)
    shapes: list[tuple[Any, ...]] = field(default_factory=list)
    streams: list[StreamPart] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def run(self, whole: Query) -> SplitPlan:
        upper = self._drop_sorts(self._cut_all(whole))
        refuse_loose(upper, self.refuse)
        return SplitPlan(
            columns=outputs(upper),
            statics=tuple(self.statics.parts),
            states=tuple(self.states),
            streams=tuple(self.streams),
            upper=upper,
            volatile=is_volatile(upper),
            notes=tuple(dict.fromkeys(self.notes)),
        )

    def _cut_all(self, node: Any) -> Any:
        """Innermost groupings first: what they become is small, and changes only when somebody reads."""
        node = self._group_subqueries(map_inputs(node, self._cut_all))
        if isinstance(node, SetOperation) and node.kind != "union" and not node.all:
            # Equal rows come once, so that the different rows of each side are enough.
            node = replace(node, left=self._different(node.left), right=self._different(node.right))
        if isinstance(node, SetOperation) and node.kind == "union" and not node.all and _loose_in(node):
            node = Distinct(query=replace(node, all=True), at=node.at)
        if isinstance(node, Distinct) and find_ungrouped_streams(node.query):
            return self._cut(self._grouped(node), "DISTINCT")
        if isinstance(node, Aggregate) and find_ungrouped_streams(node.source):
            return self._cut(node, "GROUP BY")
        return node

    def _group_subqueries(self, node: Any) -> Any:
        """IN asks whether a value is among a stream's, so that its different values are enough."""
        if any(find_ungrouped_streams(below) for below in inputs(node)):
            return node

        def change(value: Scalar) -> Scalar:
            plans = list(value.plans)
            for found in walk_expression(value.node):
                if isinstance(found, exp.In) and (asked := found.args.get("query")) is not None and is_plan(asked):
                    plan = plans[int(asked.name)]
                    own = aliases_in(plan)
                    if all(column.alias in own for column in columns_in(plan)):
                        plans[int(asked.name)] = self._different(plan)
            return Scalar(value.node, tuple(plans))

        return map_scalars(node, change)

    def _different(self, query: Query) -> Query:
        return self._cut(self._grouped(Distinct(query=query)), "DISTINCT") if find_ungrouped_streams(query) else query

    def _grouped(self, node: Distinct) -> Aggregate:
        """DISTINCT is a grouping by all columns."""
        alias = self.aliases.take("rows_of")
        keys = tuple(Item(value=column_reference(alias, found.name), name=found.name, type=found.type) for found in outputs(node.query))
        return Aggregate(source=Derived(query=node.query, alias=alias), keys=keys, calls=(), at=node.at)

    def _drop_sorts(self, node: Any) -> Any:
        """R6: without LIMIT an order is of no use, since no table keeps it."""
        if isinstance(node, Limit) and isinstance(node.query, Sort):
            return replace(node, query=replace(node.query, query=self._drop_sorts(node.query.query)))
        if isinstance(node, Sort):
            self.notes.append("ORDER BY without LIMIT is left out: sort when reading the view")
            return self._drop_sorts(node.query)
        return map_inputs(node, self._drop_sorts)

    def _cut(self, node: Aggregate, grouping: str) -> Query:
        asked = node
        node, clocks = set_clocks_apart(node)
        check_below(node.source, grouping, self.refuse)
        self._check_values(node)
        node, correlated = uncorrelate(node)
        apart = clocks + correlated
        if clocks.conditions:
            kept = f"; groups are kept by {', '.join(output_name(key.value.node) for key in clocks.keys)} for that" if clocks.keys else ""
            self.notes.append(f"conditions on the time of the query are checked at each read{kept}")
        self._refuse_outer(node)
        source = node.source
        branches = [apply_rules(branch) for branch in split_branches(source, self.aliases, self._clash)]
        main = self._store(node)
        by_value: list[tuple[StateColumns, list[tuple[Item, Any]]]] = []
        answers: dict[str, Callable[[str], exp.Expr]] = {}
        for item in node.calls:
            call = call_in(item.value.node)
            if call is not None and str(call.this) in ("grouping", "grouping_id"):
                self._keep_grouping(item, node, main, answers)
                continue
            found = self._split(item, source)
            if isinstance(found, Splitting):
                main.add_call(item, found, answers)
            else:
                self._by_value(by_value, item, found, node)
        whole_groups = bool(by_value) and not main.stored and not main.passed and not asked.keys
        if not node.keys and not main.stored and not by_value:
            main.add_rows()
        stores = [store for store, _ in by_value]
        if whole_groups or (by_value and not main.stored and not main.passed and stores[0].condition is None):
            states = [self._state(store, branches) for store in stores]
            return join_answers(
                asked, None, {}, [(s, i) for s, (_, i) in zip(states, by_value, strict=True)], aliases=self.aliases, apart=apart
            )
        state = self._state(main, branches)
        others = [(self._state(store, branches), items) for store, items in by_value]
        return join_answers(asked, (state, main), answers, others, aliases=self.aliases, apart=apart)

    def _store(self, node: Aggregate, keys: tuple[Item, ...] = (), condition: exp.Expr | None = None) -> StateColumns:
        return StateColumns(keys=(*node.keys, *keys), condition=condition, names={item.name.lower() for item in (*node.keys, *keys)})

    def _keep_grouping(self, item: Item, node: Aggregate, main: StateColumns, answers: dict[str, Callable[[str], exp.Expr]]) -> None:
        """grouping(key) asks which set a row is of, which the upper query knows."""
        if node.sets is None:
            raise self.refuse(
                "A1", "grouping", "grouping(…) without GROUPING SETS", _place(item), "write 0, or GROUP BY ROLLUP(…), CUBE or GROUPING SETS"
            )
        main.passed.append(item)
        answers[item.name] = lambda alias: column_reference(alias, item.name).node

    def _by_value(self, found: list[tuple[StateColumns, list[tuple[Item, Any]]]], item: Item, split: ValueKeys, node: Aggregate) -> None:
        if find_session(node.keys) is not None:
            item = put_condition_into_values(item, split.values)
            split = cast("ValueKeys", self._split(item, node.source))
        call = read_call(item.value.node)
        condition = call.condition
        self.notes.append(_told(call.name, split))
        for store, items in found:
            if store.values == split.values and store.condition == condition:
                items.append((item, split))
                return
        types = columns(node.source)
        names = {key.name.lower() for key in node.keys}
        keys = tuple(
            Item(value=Scalar(value), name=unique_name(_word(value), names), type=type_of(Scalar(value), types)) for value in split.values
        )
        store = self._store(node, keys, condition)
        store.values = split.values
        store.add_rows()
        found.append((store, [(item, split)]))

    def _split(self, item: Item, source: Source) -> Splitting | ValueKeys:
        call = read_call(item.value.node)
        types = columns(source)
        kind = type_of(Scalar(call.args[0]), types) if call.args and not isinstance(call.args[0], exp.Star) else None
        row = column_reference(*_ROW).node
        try:
            try:
                return split_call(call, kind, lambda: row)
            except NoSplit:
                asked = self._ask(call.args[0], source) if kind is None and call.args else None
                if asked is None:
                    raise
                return split_call(call, asked, lambda: row)
        except NoSplit as error:
            raise self.refuse("A1", call.name, error.message, _place(item), error.hint) from None

    def _ask(self, argument: exp.Expr, source: Source) -> DataType | None:
        if self.typer is None:
            return None
        query = Project(source=source, items=(Item(value=Scalar(argument), name="argument"),))
        return self.typer(render(query))[0]

    def _state(self, store: StateColumns, branches: list[Any]) -> State:
        """The state with the columns of a store, fed by every branch; the same state for the same columns and branches."""
        parts: list[Aggregate] = []
        for branch in branches:
            source = branch if store.condition is None else Filter(source=branch, condition=Scalar(store.condition))
            part = Aggregate(source=source, keys=store.keys, calls=tuple(store.stored))
            numbered = _ROW in columns_in(part)
            if numbered and find_ungrouped_streams(branch):
                self._check_row_ids(branch)
                inner, column = add_row_id(source)
                calls = tuple(replace(item, value=map_columns(item.value, _instead(column))) for item in part.calls)
                part = replace(part, source=inner, calls=calls)
            elif numbered:
                calls = tuple(replace(item, value=map_columns(item.value, _minus_one)) for item in part.calls)
                part = replace(part, calls=calls)
            parts.append(part)
        shape = (tuple(number_aliases(part) for part in parts), tuple(store.merges))
        for known, state in zip(self.shapes, self.states, strict=True):
            if known == shape:
                return state
        name = f"state_{len(self.states) + 1}"
        keys, partials = (tuple(Output(name=item.name, type=item.type) for item in items) for items in (store.keys, store.stored))
        self.states.append(State(name=name, keys=keys, partials=partials, merge=store.merge()))
        self.shapes.append(shape)
        for part in parts:
            if not find_ungrouped_streams(part.source):
                self.statics.add(part, feeds=name)
                continue
            stream = find_ungrouped_streams(part.source)[0]
            query = self.statics.settle(part)
            number = len(self.streams) + 1
            self.streams.append(StreamPart(name=f"stream_{number}", state=name, stream=".".join(stream.relation), query=query))
        return self.states[-1]

    def _check_values(self, node: Aggregate) -> None:
        """Refuse keys and aggregates that are not settled when a row arrives; a session window, only as a key."""
        session = find_session(node.keys)
        items = [key for key in (*node.keys, *node.calls) if key is not session]
        if session is not None:
            refuse_session_sets(node, session, self.refuse)
            items += [replace(session, value=Scalar(part)) for part in session.value.node.args["expressions"]]
        check_below(Project(source=Filter(source=_NOTHING, condition=Scalar(exp.true())), items=tuple(items)), "", self.refuse)

    def _refuse_outer(self, node: Aggregate) -> None:
        own = aliases_in(node)
        for column in sorted(columns_in(node)):
            if column.alias not in own:
                stream = name_of(find_ungrouped_streams(node.source)[0])
                raise self.refuse(
                    "R4",
                    "correlated sub-query",
                    f'a sub-query over stream "{stream}" is asked again for each "{column.alias}.{column.name}"',
                    find_ungrouped_streams(node.source)[0].at,
                    f"group {stream} by the columns that are compared, in a sub-query in FROM, and LEFT JOIN the groups: "
                    "a count of no rows is NULL there, so write coalesce(n, 0)",
                )

    def _check_row_ids(self, branch: Any) -> None:
        """Refuse the order of arrival of a stream with a column of its own that is called as the row id."""
        scan = find_ungrouped_streams(branch)[0]
        own = next((found.name for found in scan.fields if found.name.lower() == ROW_ID and not found.hidden), None)
        if own is not None:
            raise self.refuse(
                "A1",
                ROW_ID,
                f'the order of arrival is not known in stream "{name_of(scan)}", which has a column "{own}" of its own',
                scan.at,
                f"write max_by(x, {own}) in place of last(x), if that column says the order, or rename it; not the same if it does not",
            )

    def _clash(self, node: SetOperation, name: str) -> Exception:
        message = f'UNION ALL brings column "{name}" to a type that only Spark knows'
        return self.refuse(
            "R2",
            "UNION ALL",
            message,
            node.at,
            "CAST it on both sides to the type that it shall have; not the same where Spark would take another type",
        )


def _told(name: str, found: ValueKeys) -> str:
    values = ", ".join(output_name(value) for value in found.values)
    if found.expand:
        return f"{name} keeps every different {values} of a group, and goes through all its rows at each read"
    return f"{name} keeps every different {values} of a group, with the number of its rows"


def _loose_in(node: SetOperation) -> bool:
    return bool(find_ungrouped_streams(node.left) or find_ungrouped_streams(node.right))


def _instead(column: Column) -> Callable[[Column], Scalar | None]:
    return lambda found: column_reference(*column) if found == _ROW else None


def _minus_one(found: Column) -> Scalar | None:
    """Rows of tables come before all rows of streams."""
    return (
        Scalar(exp.Cast(this=exp.Literal.number("-1"), to=exp.DataType(this=exp.DType.USERDEFINED, kind="BIGINT")))
        if found == _ROW
        else None
    )


def _place(item: Item) -> Place | None:
    found = [inner.meta["at"] for inner in walk_expression(item.value.node) if "at" in inner.meta]
    call = call_in(item.value.node)
    return call.meta["at"] if call is not None and "at" in call.meta else min(found, default=None)


def _word(value: exp.Expr) -> str:
    found = [node.name for node in walk_expression(value) if isinstance(node, exp.Column)]
    return f"of_{found[0]}" if len(found) == 1 and not isinstance(value, exp.Column) else found[0] if found else "value"


_NOTHING = Scan(relation=("nothing",), kind="table", alias="nothing", fields=())
