"""`repeat_by_filter`: the rows of a source once for each of many filters that they pass, so that aggregates need no filters of their own.

A filter of an aggregate is asked for every row, and each aggregate of each part has a buffer of its own. Beyond some filters it costs less
to group by the number of the filter: an aggregate is computed once for all of them, of the rows that pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from platform_plugin.algebra.plan.nodes import Generate, Item, Scalar
from platform_plugin.algebra.plan.traversal import column_reference
from platform_plugin.operators.group.calls import call_expression

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_FILTERS = 16
"""Up to so many filters stand at aggregates."""
VARIANT = "variant"
"""The column with the number of a filter among those of a query."""
_ALIAS = "variants"
VARIANT_KEY = Item(value=column_reference(_ALIAS, VARIANT), name=VARIANT)


def repeat_by_filter(source: Any, filters: Sequence[Scalar | None]) -> Generate:
    """The rows of a source with the number of each filter that they pass; None is the filter that all rows pass."""
    numbers = [
        exp.Literal.number(number)
        if condition is None
        else exp.If(this=condition.node.copy(), true=exp.Literal.number(number), false=exp.Null())
        for number, condition in enumerate(filters)
    ]
    call = call_expression("explode", call_expression("array_compact", call_expression("array", *numbers)))
    return Generate(source=source, call=Scalar(call), alias=_ALIAS, names=(VARIANT,))
