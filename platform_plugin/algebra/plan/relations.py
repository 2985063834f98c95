"""`RelationFacts`: what building a plan needs to know of each relation that the query names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.nodes import Output

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import RelationKind
    from platform_plugin.algebra.types.data_types import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationFacts:
    """The facts of a relation: its full name, its kind and its columns.

    A plain view comes with the text of its query, which takes its place in the plan; `fields` may then be empty but for renamed columns. A
    continuous view and a sample change as streams do, but are small.
    """

    name: tuple[str, ...]
    kind: RelationKind
    fields: tuple[Field, ...] = ()
    body: str | None = None
    columns: tuple[Output, ...] = ()
    """The columns where not all of their types are known; else they are `fields`."""

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Its columns, with the types that are known."""
        return self.columns or tuple(Output(name=field.name, type=field.type) for field in self.fields)

    def __str__(self) -> str:
        return ".".join(self.name)
