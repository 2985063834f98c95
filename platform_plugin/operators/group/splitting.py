"""`Splitting`, `Part` and `ValueKeys`: how one call of an aggregate is stored, merged and answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.algebra.types.infer import LONG
from platform_plugin.operators.group.calls import call_expression

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlglot import exp

    from platform_plugin.algebra.types.data_types import DataType
    from platform_plugin.operators.group.calls import Call

    Parts = Sequence[exp.Expr]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One stored column of a call: its aggregate over a range's rows, the merge of its values, its type and its name."""

    name: str
    value: exp.Expr
    merge: Callable[[Parts], exp.Expr]
    type: DataType | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Splitting:
    """The stored columns of a call, and its answer from the merged columns."""

    parts: tuple[Part, ...]
    answer: Callable[[Parts], exp.Expr]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueKeys:
    """A call that needs the different values of its arguments, which are stored as further keys with the number of rows of each.

    `answer` makes the call from the columns of the values and of the number; with `expand` each row is first repeated as often as its
    number says.
    """

    values: tuple[exp.Expr, ...]
    answer: Callable[[Parts, exp.Expr], exp.Expr]
    expand: bool = False


class NoSplit(Exception):
    """A call can't be split; the message says what to write instead."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def require_type(call: Call, kind: DataType | None) -> DataType:
    """The type of a call's argument; an error for a call that can't be split without it."""
    if kind is None:
        shown = call.shown()
        raise NoSplit(
            f"the type of {shown} is not known before Spark runs it, so {call.name} can't be split",
            f"write {call.name}(CAST({shown} AS …))",
        )
    return kind


def split_single_column(
    name: str, value: exp.Expr, merge: str, kind: DataType | None, answer: Callable[[exp.Expr], exp.Expr] | None = None
) -> Splitting:
    """A call with one stored column, merged by the function with this name."""
    part = Part(name=name, value=value, merge=lambda columns: call_expression(merge, columns[0]), type=kind)
    return Splitting(parts=(part,), answer=lambda columns: answer(columns[0]) if answer else columns[0])


def value_count(call: Call) -> Part:
    """The stored column with the number of a call's values; it is the last one of its call."""
    return Part(
        name=f"n_{call.word()}",
        value=call.filtered(call_expression("count", call.args[0])),
        merge=lambda columns: call_expression("sum", columns[-1]),
        type=LONG,
    )
