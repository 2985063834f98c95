"""`certain_fields` and `empty_rows`: the columns of a plan whose types need not be asked of Spark, and rows to try it over.

A type is certain where the algebra tells it and Spark has it in the same form; the kernel, run over no rows, agrees or refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.relations import HIDDEN_COLUMNS
from platform_plugin.algebra.types.data_types import Field, IntervalType, Struct, is_same_in_spark
from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.lake.values.types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow as pa

    from platform_plugin.algebra.plan.nodes import Output
    from platform_plugin.algebra.types.data_types import DataType

_HIDDEN_FIELDS = tuple(Field(name=column.name, type=column.type) for column in HIDDEN_COLUMNS if column.type is not None)


def certain_fields(columns: Sequence[Output]) -> tuple[Field, ...]:
    """The columns as fields; raises `RefusedByEngine` for one whose type only Spark can tell."""
    fields = []
    for column in columns:
        if column.type is None or not _is_certain(column.type):
            raise RefusedByEngine(f"the type of {column.name}")
        fields.append(Field(name=column.name, type=column.type))
    return tuple(fields)


def empty_rows(fields: Sequence[Field], hidden: Collection[str]) -> pa.Table:
    """No rows of a stream, with its hidden columns of these names; a column of its own of such a name is hidden by them."""
    own = [field for field in fields if field.name not in hidden]
    return arrow_schema((*own, *(field for field in _HIDDEN_FIELDS if field.name in hidden))).empty_table()


def _is_certain(kind: DataType) -> bool:
    if isinstance(kind, Struct):
        return all(_is_certain(part.type) for part in kind.fields)
    return isinstance(kind, IntervalType) or is_same_in_spark(kind)
