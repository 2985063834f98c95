"""`shape_rows`: rows from Python (Arrow, pandas or dicts) as Arrow with a stream's columns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.files.files import fit_rows
from platform_plugin.lake.values.assignment import arrow_array, assign_value
from platform_plugin.lake.values.defaults import default_value
from platform_plugin.lake.values.types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.tables import Table

_TAKEN = "an Arrow table or record batch, a pandas frame, or a list of dicts"


def shape_rows(rows: Any, table: Table, schema: pa.Schema | None = None) -> pa.Table:
    """The rows with exactly the table's columns and types; unknown columns, and NULL in a NOT NULL column, are errors.

    Columns are matched by name, in any case; a missing one gets its default. `schema`, if given, is the table's own.
    """
    schema = schema or arrow_schema(table.fields)
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        given = rows
    elif type(rows).__module__.partition(".")[0] == "pandas" and hasattr(rows, "columns"):
        # A copy: the frame's memory may change while the rows wait for their commit.
        given = pa.Table.from_pandas(rows.copy(), preserve_index=False)
    elif isinstance(rows, list | tuple):
        given = _of_dicts(rows, table.fields)
    else:
        raise InvalidValue(f"rows of type {type(rows).__name__} can't be appended", hint=f"give {_TAKEN}")
    if _is_shaped(given, schema):
        return pa.Table.from_arrays(given.columns, schema=schema)
    return fit_rows(_named(given, table.fields), table.fields, schema)


def refit_rows(rows: pa.Table, before: Table, now: Table) -> pa.Table:
    """Rows with a table's earlier columns as rows with its present ones, matched by column id."""
    current = {field.id: field for field in now.fields}
    kept = [(field.name, current[field.id].name) for field in before.fields if field.id in current]
    chosen = rows.select([old for old, _ in kept]).rename_columns([new for _, new in kept])
    return fit_rows(chosen, now.fields, arrow_schema(now.fields))


def _is_shaped(rows: pa.Table, schema: pa.Schema) -> bool:
    """Whether nothing is to be done, which saves small appends most of their time."""
    return rows.column_names == schema.names and all(
        column.type.equals(target.type) and (target.nullable or column.null_count == 0)
        for column, target in zip(rows.columns, schema, strict=True)
    )


def _named(rows: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """Names in the spelling of the table."""
    spelt = {field.name.lower(): field.name for field in fields}
    names = [spelt.get(name.lower(), name) for name in rows.column_names]
    return rows if names == rows.column_names else rows.rename_columns(names)


def _of_dicts(rows: Sequence[Any], fields: Sequence[Field]) -> pa.Table:
    for row in rows:
        if not isinstance(row, dict):
            raise InvalidValue(f"a row of type {type(row).__name__} can't be appended", hint="give each row as a dict")
    by_name = {field.name.lower(): field for field in fields}
    named: list[Mapping[str, Any]] = [{str(name).lower(): value for name, value in row.items()} for row in rows]
    for row, given in zip(named, rows, strict=True):
        unknown = next((name for name in row if name not in by_name), None)
        if unknown is not None:
            hint = f"its columns are {', '.join(field.name for field in fields)}"
            raise InvalidValue(f'column "{unknown}" is not in the table', hint=hint)
        if len(row) < len(given):
            raise InvalidValue("a column is there twice in a row", detail=", ".join(map(str, given)))
    columns, now = [], datetime.now(UTC)
    for name, field in by_name.items():
        values = [assign_value(row[name], field) if name in row else default_value(field, now) for row in named]
        columns.append(arrow_array(values, field))
    return pa.table(dict(zip((field.name for field in fields), columns, strict=True)))
