"""Output for machines: rows as JSON lines or CSV, batch by batch, and single JSON documents."""

from __future__ import annotations

import json
import math
import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    import pyarrow as pa

    from platform_plugin.relations.result import Result


def print_document(document: object) -> None:
    """Print one JSON document on standard output."""
    print(json.dumps(json_value(document), ensure_ascii=False))


def json_value(value: Any) -> Any:
    r"""A value as JSON without loss: exact decimals, times, bytes and NaN become strings.

    >>> json_value({"price": Decimal("1.10"), "at": date(2026, 1, 31), "raw": b"\x01", "ratio": float("nan"), "map": [("k", 1)]})
    {'price': '1.10', 'at': '2026-01-31', 'raw': '01', 'ratio': 'NaN', 'map': {'k': 1}}
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case timedelta():
            return value.total_seconds()
        case tuple() if is_months(value):
            return value.months  # type: ignore[attr-defined]
        case bytes():
            return value.hex()
        case dict():
            return {str(key): json_value(part) for key, part in value.items()}
        case [(_, _), *_] if all(isinstance(part, tuple) for part in value):
            # Arrow hands out a map as a list of pairs, and nothing else as tuples.
            return {key if isinstance(key, str) else json.dumps(json_value(key)): json_value(part) for key, part in value}
        case list() | tuple():
            return [json_value(part) for part in value]
        case _:
            return str(value)


def is_months(value: tuple[Any, ...]) -> bool:
    """Whether a value is Arrow's for an interval of months."""
    return type(value).__name__ == "MonthDayNano"


def distinct_names(names: Sequence[str]) -> list[str]:
    """Unique names for the keys of an object: repeated names are numbered, so that no column is lost.

    >>> distinct_names(["id", "id", "id_2"])
    ['id', 'id_3', 'id_2']
    """
    taken = set(names)
    found: list[str] = []
    for name in names:
        number, unique = 2, name
        while unique in found or (unique != name and unique in taken):
            unique, number = f"{name}_{number}", number + 1
        found.append(unique)
    return found


def write_json(result: Result, out: TextIO, limit: int | None) -> int:
    """Write every row as an object on a line of its own; returns the number of rows."""
    if not result.columns:
        out.write(json.dumps({"message": result.message, "row_count": result.row_count, "snapshot": result.snapshot.id}) + "\n")
        return 0
    names, written = distinct_names(result.columns), 0
    encode = json.JSONEncoder(ensure_ascii=False).encode
    for batch in limit_batches(result, limit):
        columns = [_plain_column(column) for column in batch.columns]
        out.writelines(encode(dict(zip(names, row, strict=True))) + "\n" for row in zip(*columns, strict=True))
        written += batch.num_rows
    return written


def _plain_column(column: pa.Array) -> list[Any]:
    import pyarrow.types as kinds

    values = column.to_pylist()
    simple = kinds.is_integer(column.type) or kinds.is_string(column.type) or kinds.is_boolean(column.type)
    return values if simple else [json_value(value) for value in values]


def write_csv(result: Result, out: TextIO, limit: int | None) -> int:
    """Write rows as CSV (RFC 4180) under a header; NULL is empty, an empty string is a pair of quotes."""
    import csv

    from pyarrow.csv import WriteOptions
    from pyarrow.csv import write_csv as write

    if not result.columns:
        if result.message:
            print(result.message, file=sys.stderr)
        return 0
    csv.writer(out, lineterminator="\n").writerow(result.columns)
    out.flush()
    options, written = WriteOptions(include_header=False), 0
    for batch in limit_batches(result, limit):
        # Through the binary layer below, because Arrow writes bytes.
        write(_flat(batch), out.buffer, options)
        written += batch.num_rows
    return written


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Columns that CSV has no form for, as text: what is nested as JSON, bytes as hexadecimal digits."""
    import pyarrow as pa
    import pyarrow.types as kinds

    columns = []
    for column in batch.columns:
        kind = column.type
        if kinds.is_nested(kind):
            texts = [None if value is None else json.dumps(json_value(value), ensure_ascii=False) for value in column.to_pylist()]
            columns.append(pa.array(texts, pa.string()))
        elif kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind) or _is_length(kind):
            texts = [None if value is None else str(json_value(value)) for value in column.to_pylist()]
            columns.append(pa.array(texts, pa.string()))
        elif kinds.is_timestamp(kind):
            # Arrow's own form has a blank in the middle and nine zeros at the end.
            columns.append(pa.array([None if value is None else value.isoformat() for value in column.to_pylist()], pa.string()))
        else:
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=distinct_names(batch.schema.names))


def _is_length(kind: Any) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_duration(kind) or kinds.is_interval(kind))


def limit_batches(result: Result, limit: int | None) -> Any:
    """The batches of a result up to a number of rows; later ones are never fetched."""
    left = limit
    for batch in result.batches():
        if left is not None and batch.num_rows >= left:
            yield batch.slice(0, left)
            return
        yield batch
        left = None if left is None else left - batch.num_rows
