"""The assignment rule for columns of a Spark query: Spark's ANSI store assignment, with silent losses refused.

`lake/values/assignment.py` has the same rule for values that do not come from Spark.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import types as t
from pyspark.sql.connect import functions as f

from platform_plugin.algebra.types.data_types import Field, List, Map, Primitive, Struct
from platform_plugin.engine.spark.frames.schema import to_spark_type
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.values.assignment import DATE_FORM, LOCAL_FORM, LOCAL_TIMESTAMPS, MOMENT_FORM, TIME_FORM

_LARGEST_FLOAT = "3.4028235677973366E38D"
_FORMS = {"date": DATE_FORM, "time": TIME_FORM, "timestamptz": MOMENT_FORM} | dict.fromkeys(LOCAL_TIMESTAMPS, LOCAL_FORM)
_UNITS = {Primitive("timestamp_s"): "second", Primitive("timestamp_ms"): "millisecond"}
_KINDS = {"date": "DATE", "time": "TIME(6)", "timestamptz": "TIMESTAMP"} | dict.fromkeys(LOCAL_TIMESTAMPS, "TIMESTAMP_NTZ")


def checked_column(column: Any, given: t.DataType, field: Field) -> Any:
    """The column, with texts of dates and times parsed, which fails where the cast after it would lose something."""
    if isinstance(given, t.NullType):
        return column
    if isinstance(field.type, Struct) and isinstance(given, t.StructType):
        _refuse_unknown_parts(field.type, given, field)
    match field.type, given:
        case List(element=element), t.ArrayType() if _differs(given.elementType, element):
            part = _named(element, field)
            return f.transform(column, lambda value: checked_column(value, given.elementType, part))
        case Map(key=key, value=content), t.MapType() if _differs(given.keyType, key) or _differs(given.valueType, content):
            first, second = _named(key, field), _named(content, field)
            keyed = f.transform_keys(column, lambda name, _: checked_column(name, given.keyType, first))
            return f.transform_values(keyed, lambda _, value: checked_column(value, given.valueType, second))
        case Struct(fields=parts), t.StructType() if any(_changes(part, given) for part in parts):
            return _struct(column, given, parts, field)
    return column if field.children else _leaf(column, given, field)


def truncate_times(column: Any, field: Field) -> Any:
    """The column with times truncated to the precision of the field."""
    return f.date_trunc(_UNITS[field.type], column) if field.type in _UNITS else column


def _named(part: Field, whole: Field) -> Field:
    return replace(part, name=f"{whole.name}.{part.name}")


def _differs(given: t.DataType, field: Field) -> bool:
    return given != to_spark_type(field.type, column=field.name) or any(part.type in (*_UNITS, Primitive("json")) for part in field.walk())


def _changes(part: Field, given: t.StructType) -> bool:
    found = next((other for other in given.fields if other.name.lower() == part.name.lower()), None)
    return found is not None and _differs(found.dataType, part)


def _refuse_unknown_parts(kind: Struct, given: t.StructType, field: Field) -> None:
    names = [part.name.lower() for part in given.fields]
    if set(names) - {part.name.lower() for part in kind.fields} or len(set(names)) < len(names):
        raise InvalidValue(f'column "{field.name}" can\'t take values of type {given.simpleString()}', hint=f"it takes {field.type}")


def _struct(column: Any, given: t.StructType, parts: tuple[Field, ...], field: Field) -> Any:
    by_name = {part.name.lower(): part for part in parts}
    built = []
    for other in given.fields:
        value = column.getField(other.name)
        part = by_name.get(other.name.lower())
        built.append((value if part is None else checked_column(value, other.dataType, _named(part, field))).alias(other.name))
    return f.when(column.isNotNull(), f.struct(*built))


def _leaf(column: Any, given: t.DataType, field: Field) -> Any:
    name = field.type.name if isinstance(field.type, Primitive) else "decimal"
    is_number, is_moment = isinstance(given, t.NumericType), isinstance(given, t.TimestampType | t.TimestampNTZType)
    if isinstance(given, t.StringType):
        return _of_text(column, given, field, name)
    if name in ("json", "uuid") or (name == "varchar" and isinstance(given, t.BinaryType)) or (name == "time" and is_moment):
        if name == "uuid" and isinstance(given, t.BinaryType):
            return column
        raise InvalidValue(
            f'column "{field.name}" can\'t take values of type {given.simpleString()}', hint=f"it takes {field.type}; cast them"
        )
    if is_number and ("int" in name or name == "decimal"):
        return _exact(column, given, field, name)
    if name == "float32" and isinstance(given, t.DoubleType | t.DecimalType):
        fits = (
            (f.abs(column) <= f.expr(_LARGEST_FLOAT))
            | f.isnan(column.cast("double"))
            | (f.abs(column.cast("double")) == f.expr("double('inf')"))
        )
        return _unless(fits, column, given, f' is out of range for column "{field.name}"')
    if is_moment and name == "date":
        return _unless(column == column.cast("date"), column, given, f' has a time of day, column "{field.name}" takes dates')
    if is_moment and field.type in _UNITS:
        whole = f.date_trunc(_UNITS[field.type], column) == column
        return _unless(whole, column, given, f' has a finer time than column "{field.name}" keeps')
    return column


def _exact(column: Any, given: t.DataType, field: Field, name: str) -> Any:
    """Numbers that a whole number or a decimal can't be are refused: fractions of the one, NaN and the infinities of both."""
    if isinstance(given, t.FloatType | t.DoubleType) and name == "decimal":
        return _unless(
            ~f.isnan(column) & (f.abs(column) < f.expr("double('inf')")), column, given, f' is no value for column "{field.name}"'
        )
    if name != "decimal" and (isinstance(given, t.FloatType | t.DoubleType) or (isinstance(given, t.DecimalType) and given.scale > 0)):
        return _unless(column == f.floor(column), column, given, f' has a fraction, column "{field.name}" takes whole numbers')
    return column


def _of_text(column: Any, given: t.DataType, field: Field, name: str) -> Any:
    if name in _FORMS:
        read = _unless(column.rlike(f"^(?:{_FORMS[name]})\\z"), column, given, f' is no value for column "{field.name}"').cast(_KINDS[name])
        return _leaf(read, to_spark_type(field.type), field) if field.type in _UNITS else read
    if name == "json":
        return _unless(f.try_parse_json(column).isNotNull(), column, given, f' is no value for column "{field.name}"')
    return column


def _unless(holds: Any, column: Any, given: t.DataType, complaint: str) -> Any:
    message = f.concat(column.cast("string"), f.lit(complaint))
    return f.when(column.isNull() | holds, column).otherwise(f.raise_error(message).cast(given))
