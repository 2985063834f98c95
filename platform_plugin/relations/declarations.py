"""Definitions of relations as values: what a file declares and what the lake has, in the same form for every kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.language.text.names import WrittenName
    from platform_plugin.language.text.places import Span

Action = Literal["created", "rebuilt", "replaced", "altered", "unchanged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredRelation:
    """The definition of a relation: its columns, or the query that gives them."""

    name: WrittenName
    columns: tuple[Field, ...] = ()
    primary_key: tuple[str, ...] = ()
    comment: str | None = None
    query: Span | None = None
    names: tuple[str, ...] = ()
    """Its own names for the columns of its query."""
    reads: tuple[WrittenName, ...] = ()
    """The relations that it reads, where no query tells them."""
    like: WrittenName | None = None
    """The relation whose columns it has."""
    is_built: bool = False
    """Whether defining it again computes its rows again."""
    is_continuous: bool = False
    """Whether the definition says CONTINUOUS."""
    takes_in: bool = False
    """Whether a run ingests or draws rows for it."""
    has_lag: bool = False
    """Whether it declares a target lag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedRelation:
    """A relation's definition as the lake has it, read without Spark."""

    fields: tuple[Field, ...] = ()
    primary_key: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    query: str | None = None
    names: tuple[str, ...] = ()
    is_continuous: bool = False
    is_maintained: bool = False
    """Whether a run has consumed rows for it."""
    takes_in: bool = False


class DefinitionOutcome(NamedTuple):
    """What was done to make the lake agree with a definition."""

    action: Action
    metrics: JobMetrics | None = None


UNCHANGED = DefinitionOutcome("unchanged")
