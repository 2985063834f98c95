"""SET NOT NULL: the check that no row holds NULL in a column, by file statistics or by reading files that have none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from platform_plugin.algebra.predicates.conditions import is_null
from platform_plugin.errors import InvalidValue, NullRefused
from platform_plugin.lake.commit.column_operations import ChangeColumn
from platform_plugin.lake.read.inlined import read_inlined
from platform_plugin.lake.read.read import iter_rows
from platform_plugin.lake.read.scan import read_scan

if TYPE_CHECKING:
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.lake import Lake


@dataclass(frozen=True, slots=True)
class SetNotNull:
    """Makes a column NOT NULL; files in `looked_at` hold no NULL, and files that came since are checked by their statistics."""

    table: Table
    column: str
    looked_at: frozenset[int]

    def apply(self, w: Writer) -> None:
        w.table_id(self.table)
        if self.table.id is not None:
            scan = read_scan(w.connection, self.table, w.head, where=is_null(self.column))
            if any(file.id not in self.looked_at for file in scan.files):
                raise w.conflict(f'rows came to table "{self.table.name}" that may hold NULL in column "{self.column}"')
            fields = [field for field in self.table.fields if field.name.lower() == self.column.lower()]
            for inlined in scan.inlined:
                rows, _, _ = read_inlined(w.connection, inlined, self.table, w.head, fields=fields)
                if rows.num_rows and rows.column(0).null_count:
                    raise nulls_held_error(self.table, self.column, rows.column(0).null_count)
        ChangeColumn(table=self.table, path=(self.column,), nullable=False).apply(w)


def prepare_not_null(lake: Lake, table: Table, column: str, base: Snapshot) -> SetNotNull:
    """Read the files whose statistics don't rule out NULL, before the commit; a NULL is an error."""
    field = table.field(column)
    if field is None or table.id is None:
        return SetNotNull(table, column, frozenset())
    if field.children:
        raise InvalidValue(
            f'column "{field.name}" of type {field.type} can\'t be made NOT NULL', hint="declare it when the table is created"
        )
    where = is_null(field.name)
    scan = lake.scan(table, base, where=where)
    found = sum(rows.num_rows for rows in iter_rows(lake, replace(scan, inlined=()), columns=[field.name], where=where))
    if found:
        raise nulls_held_error(table, field.name, found)
    return SetNotNull(table, field.name, frozenset(file.id for file in scan.files))


def nulls_held_error(table: Table, column: str, count: int) -> NullRefused:
    """The error for a column that can't be NOT NULL yet."""
    return NullRefused(
        f'column "{column}" of table "{table.name}" holds NULL in {count} rows',
        hint=f"give them a value first: UPDATE … WHERE {column} IS NULL",
    )
