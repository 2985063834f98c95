"""The aggregate vector_avg, split: it shows what an aggregate has to say, and exists in tests only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.algebra.types.data_types import Primitive, list_of
from platform_plugin.operators.group.aggregate_table import Row
from platform_plugin.operators.group.calls import call_expression, parse_expression
from platform_plugin.operators.group.splitting import NoSplit, Part, Splitting, require_type, value_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlglot import exp

    from platform_plugin.algebra.types.data_types import DataType
    from platform_plugin.operators.group.calls import Call
    from platform_plugin.operators.group.splitting import Parts

VECTOR = list_of(Primitive("float32"))


def split_vector_avg(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting:
    """The sum of the vectors and their number; the answer divides each element."""
    del row_id
    if str(require_type(call, kind)) != str(VECTOR):
        raise NoSplit(
            f"{call.name} of {kind} can't be kept up to date part by part", f"write {call.name}(CAST({call.shown()} AS {VECTOR}))"
        )

    def merge(columns: Parts) -> exp.Expr:
        return call_expression("vector_sum", columns[0])

    def answer(columns: Parts) -> exp.Expr:
        return parse_expression("transform(_0, e -> CAST(e / _1 AS FLOAT))", *columns)

    total = Part(
        name=f"vector_sum_{call.word()}", value=call.filtered(call_expression("vector_sum", call.args[0])), merge=merge, type=VECTOR
    )
    return Splitting(parts=(total, value_count(call)), answer=answer)


ROW = Row(
    functions=("vector_avg",),
    split=split_vector_avg,
    stored="the sum of the vectors, n",
    merge="vector_sum; sum(n)",
    answer="the sum / n, element by element",
)
