"""`RelationFacts`: what building a plan needs to know of each relation that the query names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.nodes import Output
from platform_plugin.algebra.types.data_types import Primitive

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import RelationKind
    from platform_plugin.algebra.types.data_types import Field

ROW_ID, ARRIVED_AT = "_row_id", "_arrived_at"
HIDDEN_COLUMNS = (
    Output(name=ROW_ID, type=Primitive("int64"), hidden=True),
    Output(name=ARRIVED_AT, type=Primitive("timestamptz"), hidden=True),
)
"""The hidden columns of streams: row ids, which grow in the order of arrival, and arrival times."""


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

    @property
    def hidden(self) -> tuple[Output, ...]:
        """The hidden columns of a stream; one with a column of such a name has none."""
        names = {column.name.lower() for column in self.outputs}
        return HIDDEN_COLUMNS if self.kind == "stream" and not names & {ROW_ID, ARRIVED_AT} else ()

    def __str__(self) -> str:
        return ".".join(self.name)
