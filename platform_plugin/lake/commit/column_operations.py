"""Operations on the columns of a table: add, drop and change. Columns have ids, so that existing files stay valid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.algebra.types.data_types import DataType, Field, IntervalType, can_widen
from platform_plugin.errors import InvalidValue, ObjectExists, UnknownObject
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.interval_columns import note_interval
from platform_plugin.lake.catalogue.tables import Table, number_fields
from platform_plugin.lake.values.defaults import check_default
from platform_plugin.lake.values.types import catalogue_name, from_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from platform_plugin.lake.commit.writer import Writer

DIALECT = "duckdb"  # the dialect of default values; ours are literals that every dialect reads alike


@dataclass(frozen=True, slots=True)
class AddColumnOp:
    """Adds a column at the end, or a part to a struct; rows of older files read as its default."""

    table: Table
    field: Field
    parent: tuple[str, ...] = ()
    twin: Table | None = None  # another table of the same files, which must know the column by the same id

    def apply(self, w: Writer) -> None:
        highest = max(_highest_id(w, w.table_id(table)) for table in (self.table, self.twin) if table is not None)
        self._add(w, self.table, highest)
        if self.twin is not None:
            self._add(w, self.twin, highest)

    def _add(self, w: Writer, table: Table, highest: int) -> None:
        table_id = w.table_id(table)
        siblings, parent_id = _siblings(w, table_id, table, self.parent)
        if any(row.column_name.lower() == self.field.name.lower() for row in siblings):
            raise ObjectExists(f'column "{self.field.name}" exists already in table "{table.name}"', hint="choose another name")
        if not self.field.nullable and self.field.default is None:
            raise InvalidValue(
                f'column "{self.field.name}" must not be NULL, but older rows have no value for it', hint="give it a DEFAULT"
            )
        (column,) = number_fields([replace(self.field, initial_default=self.field.default)], first=highest + 1)
        for part, parent in walk_columns((column,)):
            insert_column(w, table_id, part, parent=parent if parent is not None else parent_id)
        if column.comment is not None:
            comment_column(w, table_id, column.id, column.comment)
        note_altered(w, table_id)


def _highest_id(w: Writer, table_id: int) -> int:
    w.flush()  # the same commit may have added columns already
    return w.connection.execute(sa.select(sa.func.max(c.COLUMN.c.column_id)).where(c.COLUMN.c.table_id == table_id)).scalar() or 0


@dataclass(frozen=True, slots=True)
class DropColumnOp:
    """Drops a column; its values stay in the files for older snapshots."""

    table: Table
    path: tuple[str, ...]

    def apply(self, w: Writer) -> None:
        table_id = w.table_id(self.table)
        siblings, _ = _siblings(w, table_id, self.table, self.path[:-1])
        row = column_row(w, table_id, self.table, self.path)
        if len(siblings) == 1:
            raise InvalidValue(f'column "{".".join(self.path)}" is the last one of its table', hint="drop the table instead")
        partitioned = w.connection.execute(
            sa.select(c.PARTITION_COLUMN.c.column_id)
            .join(c.PARTITION_INFO, c.PARTITION_INFO.c.partition_id == c.PARTITION_COLUMN.c.partition_id)
            .where(
                c.PARTITION_INFO.c.table_id == table_id,
                c.is_visible_at(c.PARTITION_INFO, w.id),
                c.PARTITION_COLUMN.c.column_id == row.column_id,
            )
        ).first()
        if partitioned:
            raise InvalidValue(
                f'column "{self.path[-1]}" partitions table "{self.table.name}"', hint="partition the table by other columns first"
            )
        ending = [row.column_id]
        while ending:
            w.end(c.COLUMN, c.COLUMN.c.table_id == table_id, c.COLUMN.c.column_id.in_(ending))
            w.end(c.COLUMN_TAG, c.COLUMN_TAG.c.table_id == table_id, c.COLUMN_TAG.c.column_id.in_(ending))
            ending = list(
                w.connection.execute(
                    sa.select(c.COLUMN.c.column_id).where(
                        c.COLUMN.c.table_id == table_id, c.COLUMN.c.end_snapshot.is_(None), c.COLUMN.c.parent_column.in_(ending)
                    )
                ).scalars()
            )
        note_altered(w, table_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeColumn:
    """Changes the name, type, default or nullability of a column, which keeps its id."""

    table: Table
    path: tuple[str, ...]
    name: str | None = None
    type: DataType | None = None
    nullable: bool | None = None
    default: str | None = None
    drops_default: bool = False

    def apply(self, w: Writer) -> None:
        table_id = w.table_id(self.table)
        row = column_row(w, table_id, self.table, self.path)
        shown_path = ".".join(self.path)
        changed: dict[str, Any] = {}
        if self.name is not None:
            siblings, _ = _siblings(w, table_id, self.table, self.path[:-1])
            if any(other.column_name.lower() == self.name.lower() and other.column_id != row.column_id for other in siblings):
                raise ObjectExists(f'column "{self.name}" exists already in table "{self.table.name}"', hint="choose another name")
            changed["column_name"] = self.name
        if self.type is not None:
            # The row, not the table's value: the same commit may have renamed the column.
            nested = row.column_type in ("struct", "list", "map")
            old = None if nested else from_catalogue(row.column_type, (), column=shown_path)
            if old is None or not can_widen(old, self.type):
                raise InvalidValue(
                    f'column "{shown_path}" is {old or row.column_type.upper()} and can\'t become {self.type}',
                    hint="types can only be widened; add a column and copy instead",
                )
            changed["column_type"] = catalogue_name(self.type)
            # DuckDB keeps a table's bounds, in the column's type, until the next file id changes, and loses them when types differ.
            w.new_file_id()
        if self.nullable is not None:
            changed["nulls_allowed"] = self.nullable
        if self.default is not None or self.drops_default:
            changed["default_value"] = "NULL" if self.default is None else _declared_default(row, self.default, shown_path)
            # What was an expression of another client is a literal from now on.
            changed |= {"default_value_type": "literal", "default_value_dialect": DIALECT}
        values = {**row._mapping, **changed, "begin_snapshot": w.id, "end_snapshot": None}  # noqa: SLF001  SQLAlchemy's public name for it
        if row.begin_snapshot == w.id:
            w.connection.execute(
                sa.update(c.COLUMN)
                .where(c.COLUMN.c.table_id == table_id, c.COLUMN.c.column_id == row.column_id, c.COLUMN.c.begin_snapshot == w.id)
                .values(changed)
            )
        else:
            w.end(c.COLUMN, c.COLUMN.c.table_id == table_id, c.COLUMN.c.column_id == row.column_id)
            w.insert(c.COLUMN, **values)
        note_altered(w, table_id)


def _declared_default(row: c.AnyRow, default: str, shown_path: str) -> str:
    if row.column_type in ("struct", "list", "map"):
        raise InvalidValue(
            f'column "{shown_path}" of type {row.column_type.upper()} can\'t have a default', hint="give the value with each row"
        )
    field = Field(name=shown_path, type=from_catalogue(row.column_type, (), column=shown_path), default=default)
    return check_default(field).default or ""


def walk_columns(fields: Iterable[Field], parent: int | None = None) -> Iterable[tuple[Field, int | None]]:
    """Columns and all their parts, each with the id of its parent."""
    for field in fields:
        yield field, parent
        yield from walk_columns(field.children, field.id)


def insert_column(w: Writer, table_id: int, field: Field, *, parent: int | None) -> None:
    """Queue the catalogue row of one column; columns are ordered by their ids."""
    if field.default == "NULL":
        # The catalogue says "no default" with this word, and every reader would take it so.
        raise InvalidValue(f'column "{field.name}" can\'t have the text NULL as its default', hint="choose another word, or no default")
    w.insert(
        c.COLUMN,
        column_id=field.id,
        begin_snapshot=w.id,
        table_id=table_id,
        column_order=field.id,
        column_name=field.name,
        column_type=catalogue_name(field.type),
        initial_default=field.initial_default,
        default_value="NULL" if field.default is None else field.default,
        nulls_allowed=field.nullable,
        parent_column=parent,
        default_value_type="" if field.children else "expression" if field.computed_default else "literal",
        default_value_dialect=DIALECT,
    )
    if isinstance(field.type, IntervalType):
        note_interval(w, table_id, field.id, field.type)


def _siblings(w: Writer, table_id: int, table: Table, parent: tuple[str, ...]) -> tuple[list[c.AnyRow], int | None]:
    w.flush()
    parent_id = column_row(w, table_id, table, parent).column_id if parent else None
    same_parent = c.COLUMN.c.parent_column.is_(None) if parent_id is None else c.COLUMN.c.parent_column == parent_id
    rows = w.connection.execute(
        sa.select(c.COLUMN).where(c.COLUMN.c.table_id == table_id, c.COLUMN.c.end_snapshot.is_(None), same_parent)
    ).all()
    return list(rows), parent_id


def column_row(w: Writer, table_id: int, table: Table, path: tuple[str, ...]) -> c.AnyRow:
    """The live catalogue row of a column, by the path of names that leads to it."""
    siblings, _ = _siblings(w, table_id, table, path[:-1])
    exact = next((row for row in siblings if row.column_name == path[-1]), None)
    found = exact or next((row for row in siblings if row.column_name.lower() == path[-1].lower()), None)
    if found is not None:
        return found
    raise UnknownObject(
        f'column "{".".join(path)}" does not exist in table "{table.name}"',
        hint=f"its columns are {', '.join(row.column_name for row in siblings)}",
    )


def note_altered(w: Writer, table_id: int) -> None:
    """Record that a table has another definition from this snapshot on."""
    w.note(f"altered_table:{table_id}")
    w.changed_schema(table_id)


def comment_column(w: Writer, table_id: int, column_id: int | None, text: str) -> None:
    """Queue the row of a column's comment."""
    w.insert(c.COLUMN_TAG, table_id=table_id, column_id=column_id, begin_snapshot=w.id, key="comment", value=text)
