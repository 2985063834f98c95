"""`Rule`, `PlannedQuery` and `apply_rules`: what rules say of a query's plan, and the rules that fired with their time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlglot import exp

    from platform_plugin.algebra.plan.nodes import Place, Query
    from platform_plugin.algebra.rules.lookup import Lookup

Phase = Literal["names", "sizes"]
"""What a rule has to know: the names and types of columns, or also how large the relations are."""


class ScanSize(NamedTuple):
    """The bytes that are read of a relation, and whether it is a stream."""

    size_bytes: int
    is_stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFacts:
    """What rules know of the relations, by their names in the plan."""

    sizes: Mapping[str, ScanSize] = field(default_factory=dict)
    broadcast_bytes: int = 0
    """A hash table of up to so many bytes of files goes to every executor whole; a larger one is built from shuffled parts."""
    has_hints: bool = False
    """Whether the text has hints for Spark of its own; then it decides how relations are joined."""


class ResultLimit(NamedTuple):
    """The most rows of a result, and the place of that number in the text."""

    rows: int
    at: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQuery:
    """The plan of a query, and what rules have found out of it. Relations go by the names that the plan has for them."""

    plan: Query
    has_written_names: bool = True
    """Whether the text names every column of the result; else only Spark knows the names."""
    columns: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The columns of a relation that the query uses, in lower case; all of those that are not listed."""
    conditions: Mapping[str, tuple[exp.Expr, ...]] = field(default_factory=dict)
    """Conditions on a relation's own columns that hold for every row that the query can use."""
    limit: ResultLimit | None = None
    """A LIMIT of any rows: the reader stops there, and Spark need not know of it."""
    is_bounded: bool = False
    """Whether the result is at most a few times as large as what is read."""
    lookup: Lookup | None = None
    """The query as columns of one relation under plain conditions, which needs no engine."""
    is_rewritten: bool = False
    """Whether Spark gets the plan as text, and not the user's text."""


class Rule(Protocol):
    """One thing that can be found out of a plan, or done better in it."""

    @property
    def name(self) -> str:
        """By what it is listed and switched off."""

    @property
    def phase(self) -> Phase:
        """When it can be applied."""

    def apply(self, query: PlannedQuery, facts: RuleFacts) -> PlannedQuery | None:
        """The query with what the rule has to say of it, or None if that is nothing."""


class Firing(NamedTuple):
    """A rule that had something to say, and how long that took."""

    name: str
    seconds: float


def apply_rules(
    rules: Iterable[Rule], query: PlannedQuery, facts: RuleFacts, *, off: frozenset[str] = frozenset()
) -> tuple[PlannedQuery, tuple[Firing, ...]]:
    """The query after all rules that are not switched off, in their order, and those that fired."""
    firings = []
    for rule in rules:
        if rule.name in off:
            continue
        begun = time.perf_counter()
        after = rule.apply(query, facts)
        if after is not None:
            query = after
            firings.append(Firing(rule.name, time.perf_counter() - begun))
    return query, tuple(firings)
