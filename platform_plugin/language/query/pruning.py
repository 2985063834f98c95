"""`BoundFormula`: the conditions of a query on one relation with the caller's arguments, by which files are left out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from platform_plugin.algebra.predicates.formulas import TRUE, UNBOUND, AllOf, Formula, describe
from platform_plugin.language.text.values import Literal, Parameter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from platform_plugin.algebra.predicates.conditions import Condition
    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.language.query.scopes import Node


@dataclass(frozen=True, slots=True)
class BoundFormula:
    """A formula that is true of every row that a query can use, and the arguments that give its parameters values."""

    formula: Formula = TRUE
    arguments: Mapping[str, object] | Sequence[object] = ()

    def condition(self, fields: Sequence[Field]) -> Condition:
        """The rows that the query can use, of a relation with these fields.

        What is said of other columns than these, and by parameters without a value, says nothing.
        """
        types = {field.name.lower(): field.type for field in fields}
        return describe(self.formula, types.get, lambda cell: _value(cell, self.arguments))


ALL_ROWS = BoundFormula()
"""Nothing is known of the rows that a query can use."""


def read_conditions(conditions: Iterable[Node], column_of: Callable[[Node], str | None]) -> Formula:
    """The formula of conditions that hold together; `column_of` gives the relation's column that a node stands for, in lower case."""
    from platform_plugin.algebra.predicates.read import read_formula
    from platform_plugin.language.text.leaves import read_constant

    return AllOf(tuple(read_formula(node, column_of, read_constant) for node in conditions))


def _value(cell: object, arguments: Mapping[str, object] | Sequence[object]) -> object:
    match cell:
        case Parameter(name=str(name)) if not isinstance(arguments, (list, tuple)):
            return arguments.get(name, UNBOUND)  # type: ignore[union-attr]
        case Parameter(index=int(index)) if isinstance(arguments, (list, tuple)) and index < len(arguments):
            return arguments[index]
        # Spark's sessions have the time zone UTC.
        case Literal(kind="timestamp", value=datetime() as moment) if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC)
        case Literal(kind=kind, value=value) if kind != "default":
            return value
    return UNBOUND
