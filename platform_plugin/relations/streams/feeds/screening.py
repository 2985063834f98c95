"""Screening: marks the records that do not fit a stream's columns, with the reason for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import types as t
from pyspark.sql.connect import functions as f

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.engine.spark.frames.schema import to_spark_type
from platform_plugin.engine.spark.frames.text_options import text_options
from platform_plugin.language.text.counting import count_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

# Columns beside a stream's own while records are screened. No column of a user's can have such a name.
CORRUPT, SOURCE, PARTITION, POSITION, RAW = "\x1fcorrupt", "\x1fsource", "\x1fpartition", "\x1fposition", "\x1fraw"
VALUE = "\x1fvalue"
BROKEN, WHY, BAD, REASON = "\x1fbroken", "\x1fwhy", "\x1fbad", "\x1freason"

_UUID = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
_UNSIGNED = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64, "uint128": 128}


def column(name: str) -> Any:
    """A column by its exact name, whatever characters it has."""
    return f.col("`" + name.replace("`", "``") + "`")


def reader_options(reader: Mapping[str, Any]) -> dict[str, str]:
    """The options of a feed for Spark's readers and parsing functions; what can't be parsed is returned as text."""
    return {**text_options(reader), "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


def record_type(kind: Field) -> t.DataType:
    """The type in which a text record's value is parsed."""
    return t.StringType() if kind.type == Primitive("uuid") else to_spark_type(kind.type, column=kind.name)


def record_schema(fields: Sequence[Field]) -> t.StructType:
    """The schema for parsing text records: the columns, and the whole record where it does not fit them."""
    return t.StructType([*(t.StructField(field.name, record_type(field)) for field in fields), t.StructField(CORRUPT, t.StringType())])


def parse_records(
    records: DataFrame, fields: Sequence[Field], format_: str, reader: Mapping[str, Any], *, refuses_extra_fields: bool = False
) -> DataFrame:
    """The columns of records that come as bytes in `VALUE`, with their sources; records that do not fit are marked."""
    text = column(VALUE).cast("string")
    options = reader_options(reader)
    schema = record_schema(fields)
    extra: Any = f.lit(None).cast("array<string>")
    if format_ == "json":
        value = f.from_json(text, schema, options)
        # Of an array only the first element would be taken.
        whole = ~f.ltrim(text).startswith("[")
        if refuses_extra_fields:
            extra = f.array_except(f.json_object_keys(text), f.array(*[f.lit(field.name) for field in fields]))
            whole = whole & f.coalesce(f.size(extra) == 0, f.lit(False))  # noqa: FBT003  Spark's literal
    else:
        columns = ", ".join(f"`{part.name.replace('`', '``')}` {part.dataType.simpleString()}" for part in schema.fields)
        value, whole = f.from_csv(text, columns, options), f.lit(True)  # noqa: FBT003  Spark's literal
    record = column("parsed")
    fits = text.isNotNull() & f.is_valid_utf8(text) & whole & record.isNotNull() & record[CORRUPT].isNull()
    why = parse_reason(column(VALUE), fields, format_, reader)
    named = f.concat(f.lit('it has a field "'), f.substring(extra[0], 1, 80), f.lit('" that the stream does not have'))
    return records.withColumn("parsed", value).select(
        *[record[field.name].alias(field.name) for field in fields],
        *[column(name) for name in (SOURCE, PARTITION, POSITION)],
        column(VALUE).alias(RAW),
        f.coalesce(~fits, f.lit(True)).alias(BROKEN),  # noqa: FBT003  Spark's literal
        (f.when(f.size(extra) > 0, named).otherwise(why) if refuses_extra_fields else why).alias(WHY),
    )


def screen_records(frame: DataFrame, fields: Sequence[Field], format_: str) -> DataFrame:
    """Mark the records that could not be parsed, and those that fit the types but not the rules of the columns.

    The reason is computed only where it is used, since it costs a second pass over the record.
    """
    rules = _rules(fields)
    wrong, why = column(BROKEN), column(WHY)
    for condition, what in reversed(rules):
        is_broken = f.coalesce(condition, f.lit(False))  # noqa: FBT003  Spark's literal
        wrong = wrong | is_broken
        why = f.when(is_broken & ~column(BROKEN), what).otherwise(why)
    record = f.struct(*[column(field.name) for field in fields])
    text = f.to_csv(record) if format_ == "csv" else f.to_json(record, {"ignoreNullFields": "false"})
    # A record of a topic without a value stays without one; only topics have partitions.
    raw = f.when(wrong & column(RAW).isNull() & column(PARTITION).isNull(), text.cast("binary")).otherwise(column(RAW))
    return frame.withColumns({RAW: raw, BAD: wrong, REASON: why})


def parse_reason(raw: Any, fields: Sequence[Field], format_: str, reader: Mapping[str, Any]) -> Any:
    """Why a record could not be parsed: parsed again as texts, the first value that does not fit its column is named."""
    raw = raw.cast("string")
    options = reader_options({name: value for name, value in reader.items() if name in ("delimiter", "quote", "escape", "null")})
    said: Any = f.lit("its values do not fit the columns")
    if format_ == "csv":
        names = [f"c{place}" for place in range(len(fields))]
        texts = f.from_csv(raw, ", ".join(f"`{name}` STRING" for name in (*names, CORRUPT)), options)
        what = _miscounted(raw, len(fields), str(reader.get("delimiter", ",")), str(reader.get("quote", '"')))
    else:
        names = [field.name for field in fields]
        parts = [t.StructField(name, t.StringType()) for name in (*names, CORRUPT)]
        texts = f.from_json(raw, t.StructType(parts), options)
        what = f.lit("it is not a JSON object")
    for field, name in reversed(list(zip(fields, names, strict=True))):
        if not field.children:
            text = texts[name]
            takes = _takes(field, text)
            said = f.when(text.isNotNull() & text.try_cast(record_type(field)).isNull(), takes).otherwise(said)
    said = f.when(texts.isNull() | texts[CORRUPT].isNotNull(), what).otherwise(said)
    return f.when(raw.isNull(), f.lit("it has no value")).when(~f.is_valid_utf8(raw), f.lit("it is not UTF-8")).otherwise(said)


def _miscounted(raw: Any, wanted: int, delimiter: str, quote: str) -> Any:
    """How many values a record has and how many there should be; between quotes a delimiter is none, so that only the latter is told."""
    count = ((f.length(raw) - f.length(f.replace(raw, f.lit(delimiter), f.lit("")))) / len(delimiter) + 1).cast("int")
    said = f.concat(
        f.lit("it has "), count.cast("string"), f.when(count == 1, " value").otherwise(" values"), f.lit(f", {wanted} expected")
    )
    is_quoted = f.contains(raw, f.lit(quote)) if quote else f.lit(False)  # noqa: FBT003  Spark's literal
    return f.when(is_quoted, f"it does not have {count_text(wanted, 'value')}").otherwise(said)


def _takes(field: Field, text: Any) -> Any:
    return f.concat(f.lit(f'column "{field.name}" takes {field.type}, not "'), f.substring(text, 1, 80), f.lit('"'))


def _rules(fields: Sequence[Field]) -> list[tuple[Any, Any]]:
    """What a value of each column must be beyond what its Spark type says: when it is broken, and how that is said."""
    rules: list[tuple[Any, Any]] = []
    for field in fields:
        value = column(field.name)
        if not field.nullable:
            rules.append((value.isNull(), f.lit(f'column "{field.name}" must not be NULL')))
        name = field.type.name if isinstance(field.type, Primitive) else ""
        wrong = _takes(field, value.cast("string"))
        if name == "uuid":
            rules.append((~value.rlike(_UUID), wrong))
        if name in _UNSIGNED:
            most = min(2 ** _UNSIGNED[name] - 1, 10**38 - 1)
            rules.append(((value < 0) | (value > f.lit(str(most)).cast("decimal(38,0)")), wrong))
    return rules
