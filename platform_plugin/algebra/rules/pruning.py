"""`Pruning`: the conditions that rows of each relation must meet, wherever they stand in a query, by which files are left out."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.filters import conjuncts
from platform_plugin.algebra.plan.nodes import (
    Aggregate,
    Derived,
    Distinct,
    Filter,
    Generate,
    Join,
    Limit,
    Project,
    Scan,
    SetOperation,
    Sort,
    outputs,
    subqueries,
)
from platform_plugin.algebra.plan.traversal import column_of, column_reference, columns_in, map_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlglot import exp

    from platform_plugin.algebra.plan.nodes import Query, Scalar, Source
    from platform_plugin.algebra.rules.rule import Phase, PlannedQuery, RuleFacts


_ROWS = "rows"


class Pruning:
    """A condition above a projection, a grouping, a union or a join is one on the rows below where it is on columns that they pass on."""

    name = "pruning"
    phase: Phase = "names"

    def apply(self, query: PlannedQuery, facts: RuleFacts) -> PlannedQuery | None:
        """Note the conditions on every relation; for one that is read twice, those that both have."""
        del facts
        conditions = find_conditions(query.plan)
        return replace(query, conditions=conditions) if conditions else None


def find_conditions(plan: Query, known: Sequence[Scalar] = ()) -> dict[str, tuple[exp.Expr, ...]]:
    """The conditions on each relation for the rows that the query can use, where `known` hold for every row of its result that is used."""
    descent = _Descent()
    descent.into_query(plan, known)
    conditions: dict[str, tuple[exp.Expr, ...]] = {}
    for relation, uses in descent.uses.items():
        shared = [node for node in uses[0] if all(node in other for other in uses[1:])]
        if shared:
            conditions[relation] = tuple(shared)
    return conditions


@dataclass(slots=True)
class _Descent:
    """A walk from the result down to the relations, with the conditions that hold for every row that is of use."""

    uses: dict[str, list[list[exp.Expr]]] = field(default_factory=lambda: defaultdict(list))

    def into_query(self, query: Query, known: Sequence[Scalar]) -> None:
        """Go on below a query; `known` are conditions on its result, in terms of columns without an alias."""
        self._into_subqueries(query)
        match query:
            case Project(source=source, items=items):
                self.into_source(source, _below(known, {item.name: item.value for item in items}))
            case Aggregate(source=source, keys=keys, sets=None) if keys:
                self.into_source(source, _below(known, {item.name: item.value for item in keys}))
            case Distinct(query=inner) | Sort(query=inner):
                self.into_query(inner, known)
            case Limit(query=inner):
                self.into_query(inner, ())
            case SetOperation(left=left, right=right):
                names = _same_columns(left, right)
                shared = [value for value in known if all(column.name in names for column in columns_in(value))]
                self.into_query(left, shared)
                self.into_query(right, [_renamed(value, names) for value in shared])
            case _:
                self.into_source(query.source, ())

    def into_source(self, source: Source, known: Iterable[Scalar]) -> None:
        """Go on below a source; `known` are conditions on its columns."""
        self._into_subqueries(source)
        match source:
            case Filter(source=inner, condition=condition):
                self.into_source(inner, [*known, *(part for part in conjuncts(condition) if not part.plans)])
            case Join():
                self._into_join(source, list(known))
            case Generate(source=inner):
                self.into_source(inner, known)
            case Derived(query=query, alias=alias):
                self.into_query(query, [value for value in known if _is_on(value, alias)])
            case Scan(relation=relation, alias=alias):
                self.uses[relation[-1]].append([_unaliased(value) for value in known if _is_on(value, alias)])
            case _:
                pass

    def _into_join(self, join: Join, known: list[Scalar]) -> None:
        on = [part for part in conjuncts(join.condition) if not part.plans] if join.condition is not None else []
        kind = join.kind
        # A row of the side that an outer join keeps comes out even if it has no partner, so that ON says nothing of it; and what holds for
        # the result holds for the other side's rows only where no NULLs stand in for them.
        self.into_source(
            join.left, [*(known if kind not in ("right", "full") else ()), *(on if kind in ("inner", "semi", "right") else ())]
        )
        self.into_source(
            join.right, [*(known if kind in ("inner", "cross", "right") else ()), *(on if kind not in ("right", "full") else ())]
        )

    def _into_subqueries(self, node: Query | Source) -> None:
        for plan in subqueries(node):
            self.into_query(plan, ())


def _is_on(value: Scalar, alias: str) -> bool:
    columns = columns_in(value)
    return bool(columns) and all(column.alias == alias for column in columns)


def _unaliased(value: Scalar) -> exp.Expr:
    """The condition in terms of the relation, by whatever alias this use of it goes."""
    return map_columns(value, lambda column: column_reference(_ROWS, column.name)).node


def _below(known: Iterable[Scalar], items: Mapping[str, Scalar]) -> list[Scalar]:
    """The conditions in terms of what is below a projection; those on more than columns that it passes on are left out."""
    return [
        map_columns(value, lambda column: items[column.name])
        for value in known
        if all(_passes(items.get(column.name)) for column in columns_in(value))
    ]


def _passes(value: Scalar | None) -> bool:
    return value is not None and column_of(value.node) is not None


def _same_columns(left: Query, right: Query) -> dict[str, str]:
    """The columns of two queries that are combined, by the left one's names, whose values are combined as they are.

    A number that is combined with texts becomes one, and compares as one: `1 > 5` is not what `'1' > '05'` says.
    """
    pairs = zip(outputs(left), outputs(right), strict=False)
    return {mine.name: other.name for mine, other in pairs if mine.type is not None and mine.type == other.type}


def _renamed(value: Scalar, names: Mapping[str, str]) -> Scalar:
    return map_columns(value, lambda column: column_reference(column.alias, names.get(column.name, column.name)))
