"""Reading inlined rows, which another client stores inside the catalogue, as Arrow with the table's columns."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlalchemy as sa

from platform_plugin.algebra.types.blob_text import parse_blob
from platform_plugin.algebra.types.data_types import Decimal, Field, Primitive, stored_field
from platform_plugin.errors import SnapshotExpired, StorageError
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.formats import inlined_rows
from platform_plugin.lake.read.evolution import adapt_rows
from platform_plugin.lake.values.duckdb_text import parse_nested
from platform_plugin.lake.values.duckdb_time import parse_days, parse_moment
from platform_plugin.lake.values.types import arrow_schema, to_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.read.scan import InlinedTable


def read_inlined(
    connection: Connection,
    inlined: InlinedTable,
    table: Table,
    snapshot: Snapshot,
    *,
    fields: Sequence[Field] | None = None,
    after: int | None = None,
) -> tuple[pa.Table, list[int], list[int]]:
    """The rows of one inlined table that are part of a snapshot, with their row ids and the snapshots that added them.

    With `fields`, only those columns of the table; with `after`, only rows that were added after that snapshot.
    """
    wanted = table.fields if fields is None else tuple(fields)
    ids = {field.id for field in wanted}
    found = tuple(field for field in inlined.fields if field.id in ids)
    columns: list[sa.ColumnClause[Any]] = [c.user_column(field.name) for field in found]
    source = inlined_rows(connection, inlined.name)
    query = (
        sa.select(source.c.row_id, source.c.begin_snapshot, *columns).where(c.is_visible_at(source, snapshot.id)).order_by(source.c.row_id)
    )
    if after is not None:
        query = query.where(source.c.begin_snapshot > after)
    rows = fetch_counted_rows(connection, inlined.name, query, None if after is not None else inlined.row_count)
    return decode_rows(rows, found, replace(table, fields=wanted))


def read_row_ids(connection: Connection, inlined: InlinedTable, snapshot: Snapshot) -> tuple[int, int]:
    """The first row id of an inlined table's rows that are part of a snapshot, and the one after the last."""
    rows = inlined_rows(connection, inlined.name)
    query = sa.select(sa.func.min(rows.c.row_id), sa.func.max(rows.c.row_id)).where(c.is_visible_at(rows, snapshot.id))
    first, last = connection.execute(query).one()
    return first, last + 1


def fetch_counted_rows(connection: Connection, name: str, query: sa.Select[Any], count: int | None) -> Sequence[Any]:
    """The result of a query on inlined rows; an error if there are fewer than the read was planned for, since they were moved to a file."""
    rows = connection.execute(query).all() if sa.inspect(connection).has_table(name) else []
    if count is not None and len(rows) != count:
        raise SnapshotExpired("rows were moved to a file while they were read", hint="read again, or take a lease before a long read")
    return rows


def decode_rows(rows: Sequence[Any], fields: Sequence[Field], table: Table) -> tuple[pa.Table, list[int], list[int]]:
    """Rows of (row id, begin snapshot, values…) as Arrow, row ids and begin snapshots."""
    arrays = []
    fields = tuple(map(stored_field, fields))
    for index, field in enumerate(fields):
        kind = _storage(to_arrow(field.type, column=field.name))
        values = [None if row[index + 2] is None else _decoded(row[index + 2], field) for row in rows]
        arrays.append(pa.array(values, kind))
    schema = pa.schema([_storage_field(part) for part in arrow_schema([_nullable(field) for field in fields])])
    found = pa.Table.from_arrays(arrays, schema=schema) if fields else pa.table({"": pa.nulls(len(rows))}).select([])
    return adapt_rows(found, table.fields), [row[0] for row in rows], [row[1] for row in rows]


def _storage(kind: pa.DataType) -> pa.DataType:
    """The type with UUIDs as their bytes: Arrow makes no extension arrays from Python values."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_struct(kind):
        return pa.struct([_storage_field(part) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(_storage_field(kind.key_field), _storage_field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_storage_field(kind.value_field))
    return kind


def _storage_field(field: pa.Field) -> pa.Field:
    return field.with_type(_storage(field.type))


def _nullable(field: Field) -> Field:
    return Field(name=field.name, type=field.type, id=field.id)


def _decoded(value: Any, field: Field) -> Any:
    try:
        if field.children:
            return parse_nested(_text(value), field, _scalar)
        return _scalar(value, field)
    except (ValueError, IndexError, KeyError, ArithmeticError) as error:
        raise StorageError(
            f'an inlined value of column "{field.name}" can\'t be read',
            detail=str(error),
            hint="flush the inlined rows with the client that wrote them",
        ) from error


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _scalar(value: Any, field: Field) -> Any:
    """One value from the form that SQLite or PostgreSQL holds it in."""
    match field.type:
        case Decimal():
            return Number(_text(value))
        case Primitive(name="boolean"):
            return value in (1, True, "1", "true", "t")
        case Primitive(name="float32" | "float64"):
            return float(_text(value))
        case Primitive(name="int128" | "uint128"):
            return Number(_text(value))
        case Primitive(name=name) if "int" in name and name != "interval":
            return int(_text(value))
        case Primitive(name="varchar" | "json"):
            return _text(value)
        case Primitive(name="blob"):
            return bytes(value) if isinstance(value, bytes | memoryview) else parse_blob(value)
        case Primitive(name="uuid"):
            return (value if isinstance(value, uuid.UUID) else uuid.UUID(_text(value))).bytes
        case Primitive(name="date"):
            return value if isinstance(value, date) else parse_days(_text(value))
        case Primitive(name="time" | "timetz"):
            return _time(value if isinstance(value, time) else time.fromisoformat(_text(value)))
        case Primitive(name="time_ns"):
            # A time of day in nanoseconds is more than Python's own type holds.
            return parse_moment(f"1970-01-01 {_text(value)}", per_second=1_000_000_000)
        case Primitive(name=name) if name in _PER_SECOND:
            return value if isinstance(value, datetime) else parse_moment(_text(value), per_second=_PER_SECOND[name])
    raise AssertionError(field)


_PER_SECOND = {
    "timestamp": 1_000_000,
    "timestamptz": 1_000_000,
    "timestamp_s": 1,
    "timestamp_ms": 1_000,
    "timestamp_ns": 1_000_000_000,
}


def _time(value: time) -> time:
    """The time of day in UTC, as files have it."""
    if value.tzinfo is None:
        return value
    return datetime.combine(date(2000, 1, 1), value).astimezone(UTC).time()
