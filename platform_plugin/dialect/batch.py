"""`plan_batch`: one INSERT … VALUES with many sets of parameters becomes one statement, and so one file and one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from platform_plugin.language.script import parse_script
from platform_plugin.language.statements.insert import Insert
from platform_plugin.language.text.values import Literal, Parameter
from platform_plugin.relations.arguments import plan_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.language.text.values import Cell


def plan_batch(sql: str, sets: Sequence[Mapping[str, Any] | Sequence[Any]]) -> Insert | None:
    """The INSERT of all rows, in order, or None if the text is not one INSERT of literal rows.

    >>> plan_batch("INSERT INTO t VALUES (:a, 'x')", [{"a": 1}, {"a": 2}]).rows[1][0].value
    2
    """
    statements = parse_script(sql)
    if len(statements) != 1 or not isinstance(insert := statements[0], Insert) or insert.rows is None or insert.by_name:
        return None
    rows: list[tuple[Cell, ...]] = []
    expected = {parameter.name for parameter in insert.parameters}
    for given in sets:
        if not (isinstance(given, Mapping) and given.keys() == expected):
            plan_arguments(given, insert.parameters)
        rows += [tuple(_filled(cell, given) if isinstance(cell, Parameter) else cell for cell in row) for row in insert.rows]
    return replace(insert, rows=tuple(rows), parameters=())


def _filled(parameter: Parameter, given: Any) -> Literal:
    # The kind only matters for defaults and zones, which a bound value has none of; the offset is where an error points.
    return Literal("string", given[parameter.name if parameter.name is not None else parameter.index], parameter.span.start)
