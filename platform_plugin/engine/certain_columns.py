"""`certain_fields`: the columns of a plan whose types need not be asked of Spark.

A type is certain where the algebra tells it and Spark has it in the same form; the kernel, run over no rows, agrees or refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.algebra.types.data_types import Field, IntervalType, Struct, is_same_in_spark
from platform_plugin.engine.refusal import RefusedByEngine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.algebra.plan.nodes import Output
    from platform_plugin.algebra.types.data_types import DataType


def certain_fields(columns: Sequence[Output]) -> tuple[Field, ...]:
    """The columns as fields; raises `RefusedByEngine` for one whose type only Spark can tell."""
    fields = []
    for column in columns:
        if column.type is None or not _is_certain(column.type):
            raise RefusedByEngine(f"the type of {column.name}")
        fields.append(Field(name=column.name, type=column.type))
    return tuple(fields)


def _is_certain(kind: DataType) -> bool:
    if isinstance(kind, Struct):
        return all(_is_certain(part.type) for part in kind.fields)
    return isinstance(kind, IntervalType) or is_same_in_spark(kind)
