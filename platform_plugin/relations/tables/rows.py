"""`literal_rows`: the literal rows of a statement as Arrow with a table's columns, without an engine."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from platform_plugin.errors import PlatformError
from platform_plugin.lake.values.assignment import arrow_array, assign_value
from platform_plugin.lake.values.defaults import default_value
from platform_plugin.lake.values.types import arrow_field
from platform_plugin.language.text.places import locate_offset
from platform_plugin.language.text.values import Literal, Parameter
from platform_plugin.relations.arguments import Arguments, argument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.language.text.places import Span
    from platform_plugin.language.text.values import Cell


def literal_rows(rows: Sequence[Sequence[Cell]], fields: Sequence[Field], arguments: Arguments, source: Span) -> pa.Table:
    """Rows of cells as the columns of a table; a value that does not fit is an error with its place."""
    columns, now = [], datetime.now(UTC)
    for index, field in enumerate(fields):
        values = [_value(row[index], field, arguments, source, now) for row in rows]
        columns.append(arrow_array(values, field))
    shape = [arrow_field(field).with_nullable(nullable=True).with_type(column.type) for field, column in zip(fields, columns, strict=True)]
    return pa.Table.from_arrays(columns, schema=pa.schema(shape))


def _value(cell: Cell, field: Field, arguments: Arguments, source: Span, now: datetime) -> Any:
    try:
        match cell:
            case Literal(kind="default"):
                return default_value(field, now)
            case Literal(kind="timestamp", value=datetime() as moment):
                return assign_value(moment if moment.tzinfo else moment.replace(tzinfo=UTC), field)
            case Literal(value=value):
                return assign_value(value, field)
            case Parameter():
                return assign_value(argument(cell, arguments), field)
    except PlatformError as error:
        place = locate_offset(source.source, cell.offset) if isinstance(cell, Literal) else locate_offset(cell.span, 0, len(cell.span.text))
        raise place.attach(error) from error
