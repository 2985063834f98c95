"""Intervals of Spark's from the whole numbers that the files of a lake hold."""

from __future__ import annotations

from typing import Any

from pyspark.sql.connect import functions as f

from platform_plugin.algebra.types.data_types import Field, IntervalType, List, Map, Struct, holds_interval
from platform_plugin.engine.spark.frames.schema import to_spark_type

_ONE = {True: "INTERVAL '1' MONTH", False: "INTERVAL '0.000001' SECOND"}


def read_interval_column(column: Any, field: Field) -> Any:
    """A column of numbers as the intervals that they stand for, also inside of other values."""
    if not holds_interval(field):
        return column
    match field.type:
        case IntervalType(is_months=is_months):
            return (f.expr(_ONE[is_months]) * column).cast(to_spark_type(field.type))
        case List(element=element):
            return f.transform(column, lambda value: read_interval_column(value, element))
        case Map(key=key, value=value):
            keyed = f.transform_keys(column, lambda name, _: read_interval_column(name, key))
            return f.transform_values(keyed, lambda _, content: read_interval_column(content, value))
        case Struct(fields=parts):
            made = f.struct(*(read_interval_column(column.getField(part.name), part).alias(part.name) for part in parts))
            return f.when(column.isNotNull(), made)
    raise AssertionError(field)
