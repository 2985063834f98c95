"""What a file declares and what the lake holds of a relation, in the same words for every kind."""

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
    """A definition: the columns that it names, or the query that gives them."""

    name: WrittenName
    columns: tuple[Field, ...] = ()
    primary_key: tuple[str, ...] = ()
    comment: str | None = None
    query: Span | None = None
    names: tuple[str, ...] = ()
    """Its own names for the columns of its query."""
    reads: tuple[WrittenName, ...] = ()
    """What it is made of, where no query says that."""
    like: WrittenName | None = None
    """The relation whose columns it has."""
    is_built: bool = False
    """Whether to make it again computes its rows anew."""
    is_continuous: bool = False
    """Whether it says that it is maintained."""
    takes_in: bool = False
    """Whether a run takes up what there is for it."""
    has_lag: bool = False
    """Whether it says how far it may be behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedRelation:
    """A relation as it is in the lake, read without Spark."""

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
    """What was done so that the lake holds what a definition says."""

    action: Action
    metrics: JobMetrics | None = None


UNCHANGED = DefinitionOutcome("unchanged")
