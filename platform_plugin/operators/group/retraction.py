"""`plan_retraction`: what is stored of an aggregate where rows are taken back, and the stored values without some rows.

The rule of each function stands in the one table, `algebra/functions`. Where there is none, a group's values have to be kept with their
numbers of rows, as those of `number` are anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.functions import FUNCTIONS, can_retract, canonical_name
from platform_plugin.algebra.types.data_types import DataType, Decimal
from platform_plugin.algebra.types.infer import LONG
from platform_plugin.operators.group.aggregates import split_call
from platform_plugin.operators.group.calls import call_expression, cast, parse_expression
from platform_plugin.operators.group.moments import MOMENTS, moment_retract, pair_retract
from platform_plugin.operators.group.splitting import Part, ValueKeys, value_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.operators.group.calls import Call
    from platform_plugin.operators.group.splitting import Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction:
    """How an aggregate takes rows back.

    `parts` are what is stored of a group: those of the split and, where these don't say whether any value is left, the number of values.
    `without` gives the stored values of a group without some of its rows, from those of all and those of the rows that leave. Floats are
    right to rounding, and a NaN or an infinity that was added stays.
    """

    rule: str
    keys: tuple[exp.Expr, ...]
    """Further keys of the state, of an aggregate that needs each different value; those without rows are dropped."""
    parts: tuple[Part, ...]
    without: Callable[[Parts, Parts], tuple[exp.Expr, ...]]


def plan_retraction(call: Call, argument_type: DataType | None, row_id: Callable[[], exp.Expr]) -> Retraction | None:
    """How a call takes rows back; None if it can't. The arguments are those of `split_call`, which refuses what does not split at all."""
    split = split_call(call, argument_type, row_id)
    name = canonical_name(call.name)
    if isinstance(split, ValueKeys):
        rows = Part(
            name="n",
            value=call.filtered(call_expression("count", exp.Star())),
            merge=lambda columns: call_expression("sum", columns[0]),
            type=LONG,
        )
        return Retraction(rule="number", keys=split.values, parts=(rows,), without=_subtract_numbers)
    if not can_retract(name) or call.distinct:
        return None
    rule = str(FUNCTIONS[name].retract)
    if rule == "weight":
        return _weighted(call, name, split.parts)
    without = {"formula": moment_retract if name in MOMENTS else pair_retract, "difference": _subtract_lists}[rule]
    return Retraction(rule=rule, keys=(), parts=split.parts, without=lambda before, gone: (without(before[0], gone[0]),))


def _weighted(call: Call, name: str, parts: tuple[Part, ...]) -> Retraction:
    """Numbers that are subtracted. A sum of no values is NULL, so that the number of values stands beside it."""
    if name in ("count", "count_if"):
        return Retraction(rule="weight", keys=(), parts=parts, without=_subtract_numbers)
    stored = (parts[0], value_count(call))
    kind = parts[0].type
    difference = "coalesce(_0, 0) ^ coalesce(_1, 0)" if name == "bit_xor" else "_0 - coalesce(_1, 0)"

    def without(before: Parts, gone: Parts) -> tuple[exp.Expr, ...]:
        rest = parse_expression(difference, before[0], gone[0])
        # The difference of decimals has a digit more.
        rest = cast(rest, str(kind)) if isinstance(kind, Decimal) else rest
        (number,) = _subtract_numbers(before[1:], gone[1:])
        return parse_expression("CASE WHEN _0 > 0 THEN _1 END", number, rest), number

    return Retraction(rule="weight", keys=(), parts=stored, without=without)


def _subtract_numbers(before: Parts, gone: Parts) -> tuple[exp.Expr, ...]:
    return (parse_expression("coalesce(_0, 0) - coalesce(_1, 0)", before[0], gone[0]),)


def _subtract_lists(before: exp.Expr, gone: exp.Expr) -> exp.Expr:
    """A list without each value of another one once, in whatever order."""
    return parse_expression(
        "aggregate(_1, _0, (rest, value) -> CASE WHEN array_position(rest, value) > 0 THEN concat("
        "slice(rest, 1, CAST(array_position(rest, value) AS INT) - 1), "
        "slice(rest, CAST(array_position(rest, value) AS INT) + 1, size(rest))) ELSE rest END)",
        before,
        gone,
    )
