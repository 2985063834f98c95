"""The operations of a commit that change what relations there are and what they look like."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.algebra.types import DataType, Field, widens
from platform_plugin.errors import InvalidValue, ObjectExists, UnknownObject
from platform_plugin.lake import catalogue as c
from platform_plugin.lake.identifiers import new_uuid
from platform_plugin.lake.tables import Name, Table, View, numbered, read_schemas, shown
from platform_plugin.lake.types import catalogue_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from platform_plugin.lake.writer import Writer

DIALECT = "duckdb"  # the dialect of default values; ours are literals that every dialect reads alike


@dataclass(frozen=True, slots=True)
class CreateSchema:
    """A new, empty schema."""

    name: str
    if_not_exists: bool = False

    def apply(self, w: Writer) -> None:
        w.flush()
        if self.name in read_schemas(w.connection, w.id):
            if self.if_not_exists:
                return
            raise ObjectExists(f'schema "{self.name}" exists already', hint="choose another name")
        uuid = new_uuid()
        w.insert(
            c.SCHEMA,
            schema_id=w.new_catalog_id(),
            schema_uuid=uuid,
            begin_snapshot=w.id,
            schema_name=self.name,
            path=f"{folder(self.name, str(uuid))}/",
            path_is_relative=True,
        )
        w.note(f"created_schema:{quoted_word(self.name)}")
        w.changed_schema()


@dataclass(frozen=True, slots=True)
class DropSchema:
    """The end of a schema, which must be empty."""

    name: str

    def apply(self, w: Writer) -> None:
        w.flush()
        schemas = read_schemas(w.connection, w.id)
        if self.name not in schemas:
            raise UnknownObject(f'schema "{self.name}" does not exist', hint="run SHOW SCHEMAS")
        schema_id = schemas[self.name][0]
        for table in (c.TABLE, c.VIEW):
            if w.connection.execute(
                sa.select(table.c.schema_id).where(table.c.schema_id == schema_id, c.live(table, w.id)).limit(1)
            ).first():
                raise InvalidValue(f'schema "{self.name}" is not empty', hint="drop its relations first")
        w.end(c.SCHEMA, c.SCHEMA.c.schema_id == schema_id)
        w.note(f"dropped_schema:{schema_id}")
        w.changed_schema()


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A new, empty table with the identity that its value already carries."""

    table: Table

    def apply(self, w: Writer) -> None:
        name = self.table.name
        schema_id = open_name(w, name)
        table_id = w.new_catalog_id()
        w.table_ids[self.table.uuid] = table_id
        schema_folder = read_schemas(w.connection, w.id)[name.schema][1]
        if not self.table.path.startswith(schema_folder):
            raise w.conflict(f'schema "{name.schema}" was created anew')
        w.insert(
            c.TABLE,
            table_id=table_id,
            table_uuid=self.table.uuid,
            begin_snapshot=w.id,
            schema_id=schema_id,
            table_name=name.relation,
            path=self.table.path[len(schema_folder) :],
            path_is_relative=True,
        )
        for column, parent in _with_parents(self.table.fields):
            insert_column(w, table_id, column, parent=parent)
            if column.comment:
                _comment_column(w, table_id, column.id, column.comment)
        if self.table.comment:
            _comment(w, table_id, self.table.comment)
        if self.table.partition_keys:
            w.partition_ids[table_id] = set_partitioning(w, table_id, self.table)
        w.note(f"created_table:{quoted_word(name.schema)}.{quoted_word(name.relation)}")
        w.changed_schema(table_id)


@dataclass(frozen=True, slots=True)
class DropTable:
    """The end of a table; its files stay for older snapshots until those expire."""

    table: Table

    def apply(self, w: Writer) -> None:
        table_id = w.table_id(self.table)
        for rows in (c.TABLE, c.COLUMN, c.COLUMN_TAG, c.DATA_FILE, c.DELETE_FILE, c.PARTITION_INFO, c.SORT_INFO):
            w.end(rows, rows.c.table_id == table_id)
        w.end(c.TAG, c.TAG.c.object_id == table_id)
        w.table_ids.pop(self.table.uuid, None)
        w.note(f"dropped_table:{table_id}")
        w.changed_schema()


@dataclass(frozen=True, slots=True)
class RenameTable:
    """Another name for the same table, in the same schema."""

    table: Table
    name: str

    def apply(self, w: Writer) -> None:
        table_id = w.table_id(self.table)
        target = Name(schema=self.table.name.schema, relation=self.name)
        schema_id = open_name(w, target)
        row = w.connection.execute(
            sa.select(c.TABLE.c.path, c.TABLE.c.path_is_relative).where(c.TABLE.c.table_id == table_id, c.live(c.TABLE, w.id))
        ).one()
        w.end(c.TABLE, c.TABLE.c.table_id == table_id)
        w.insert(
            c.TABLE,
            table_id=table_id,
            table_uuid=self.table.uuid,
            begin_snapshot=w.id,
            schema_id=schema_id,
            table_name=self.name,
            path=row.path,
            path_is_relative=row.path_is_relative,
        )
        # The reference reader's own word for a renamed table.
        w.note(f"created_table:{quoted_word(target.schema)}.{quoted_word(target.relation)}")
        w.changed_schema(table_id)


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column at the end, or a new part of a struct; rows of older files read as its default."""

    table: Table
    field: Field
    parent: tuple[str, ...] = ()

    def apply(self, w: Writer) -> None:
        table_id = w.table_id(self.table)
        siblings, parent_id = _siblings(w, table_id, self.table, self.parent)
        if any(row.column_name.lower() == self.field.name.lower() for row in siblings):
            raise ObjectExists(f'column "{self.field.name}" exists already in table "{self.table.name}"', hint="choose another name")
        if not self.field.nullable and self.field.default is None:
            raise InvalidValue(
                f'column "{self.field.name}" must not be NULL, but older rows have no value for it', hint="give it a DEFAULT"
            )
        highest = w.connection.execute(
            sa.select(sa.func.max(c.COLUMN.c.column_id), sa.func.max(c.COLUMN.c.column_order)).where(c.COLUMN.c.table_id == table_id)
        ).one()
        (column,) = numbered([replace(self.field, initial_default=self.field.default)], first=(highest[0] or 0) + 1)
        for part, parent in _with_parents((column,)):
            insert_column(w, table_id, part, parent=parent if parent is not None else parent_id)
        if column.comment:
            _comment_column(w, table_id, column.id, column.comment)
        _altered(w, table_id)


@dataclass(frozen=True, slots=True)
class DropColumn:
    """The end of a column; its values stay in the files for older snapshots."""

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
            .where(c.PARTITION_INFO.c.table_id == table_id, c.live(c.PARTITION_INFO, w.id), c.PARTITION_COLUMN.c.column_id == row.column_id)
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
        _altered(w, table_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeColumn:
    """Another name, a wider type, another default or NULLs allowed: the same column by id."""

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
            old = _field_at(self.table, self.path)
            if old.children or not widens(old.type, self.type) or catalogue_name(old.type) != row.column_type:
                raise InvalidValue(
                    f'column "{shown_path}" is {old.type} and can\'t become {self.type}',
                    hint="types can only be widened; add a column and copy instead",
                )
            changed["column_type"] = catalogue_name(self.type)
            # DuckDB keeps a table's bounds, in the column's type, until the next file id changes, and loses them when types differ.
            w.new_file_id()
        if self.nullable is False and row.nulls_allowed:
            raise InvalidValue(f'column "{shown_path}" may hold NULL already', hint="only DROP NOT NULL is possible on a table with rows")
        if self.nullable is not None:
            changed["nulls_allowed"] = self.nullable
        if self.default is not None or self.drops_default:
            changed["default_value"] = "NULL" if self.drops_default else self.default
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
        _altered(w, table_id)


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a table or one of its columns; None takes it away."""

    table: Table
    text: str | None
    column: tuple[str, ...] = ()

    def apply(self, w: Writer) -> None:
        table_id = w.table_id(self.table)
        if self.column:
            row = column_row(w, table_id, self.table, self.column)
            tag = c.COLUMN_TAG
            w.end(tag, tag.c.table_id == table_id, tag.c.column_id == row.column_id, tag.c.key == "comment")
            if self.text is not None:
                _comment_column(w, table_id, row.column_id, self.text)
        else:
            w.end(c.TAG, c.TAG.c.object_id == table_id, c.TAG.c.key == "comment")
            if self.text is not None:
                _comment(w, table_id, self.text)
        w.note(f"altered_table:{table_id}")
        w.changed_schema()


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """How new files of a table are partitioned from now on; the keys are on the table value."""

    table: Table

    def apply(self, w: Writer) -> None:
        table_id = w.table_id(self.table)
        w.end(c.PARTITION_INFO, c.PARTITION_INFO.c.table_id == table_id)
        if self.table.partition_keys:
            set_partitioning(w, table_id, self.table)
        _altered(w, table_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView:
    """A stored query under a name."""

    name: Name
    sql: str
    dialect: str
    columns: tuple[str, ...] = ()
    comment: str | None = None
    or_replace: bool = False

    def apply(self, w: Writer) -> None:
        if self.or_replace:
            w.flush()
            row = w.connection.execute(
                sa.select(c.VIEW.c.view_id)
                .join(c.SCHEMA, sa.and_(c.SCHEMA.c.schema_id == c.VIEW.c.schema_id, c.live(c.SCHEMA, w.id)))
                .where(c.live(c.VIEW, w.id), c.VIEW.c.view_name == self.name.relation, c.SCHEMA.c.schema_name == self.name.schema)
            ).first()
            if row:
                _end_view(w, row.view_id)
        schema_id = open_name(w, self.name)
        view_id = w.new_catalog_id()
        w.insert(
            c.VIEW,
            view_id=view_id,
            view_uuid=new_uuid(),
            begin_snapshot=w.id,
            schema_id=schema_id,
            view_name=self.name.relation,
            dialect=self.dialect,
            sql=self.sql,
            column_aliases=",".join(quoted_word(column) for column in self.columns),
        )
        if self.comment:
            _comment(w, view_id, self.comment)
        w.note(f"created_view:{quoted_word(self.name.schema)}.{quoted_word(self.name.relation)}")
        w.changed_schema()


@dataclass(frozen=True, slots=True)
class DropView:
    """The end of a stored query."""

    view: View

    def apply(self, w: Writer) -> None:
        if not _end_view(w, self.view.id):
            raise w.conflict(f'view "{self.view.name}" was dropped or replaced')


def _end_view(w: Writer, view_id: int) -> bool:
    ended = w.end(c.VIEW, c.VIEW.c.view_id == view_id)
    w.end(c.TAG, c.TAG.c.object_id == view_id)
    w.note(f"dropped_view:{view_id}")
    w.changed_schema()
    return bool(ended)


def open_name(w: Writer, name: Name) -> int:
    """The id of the schema in which a new relation of that name has room."""
    w.flush()
    schemas = read_schemas(w.connection, w.id)
    if name.schema not in schemas:
        raise no_schema(name.schema)
    schema_id = schemas[name.schema][0]
    for relation, column, kind in ((c.TABLE, c.TABLE.c.table_name, "table"), (c.VIEW, c.VIEW.c.view_name, "view")):
        # Names that differ only in case would be one name to Spark, and one folder on some file systems.
        row = w.connection.execute(
            sa.select(relation.c.begin_snapshot).where(
                relation.c.schema_id == schema_id, c.live(relation, w.id), sa.func.lower(column) == sa.func.lower(name.relation)
            )
        ).first()
        if row is not None and w.base.id < row.begin_snapshot < w.id:
            raise w.conflict(f'{kind} "{name}" was created meanwhile', row.begin_snapshot)
        if row is not None:
            raise ObjectExists(f'{kind} "{name}" exists already', hint=f"drop it, or write CREATE {kind.upper()} IF NOT EXISTS")
    return schema_id


def no_schema(name: str) -> UnknownObject:
    """The error for a schema that is not there."""
    return UnknownObject(f'schema "{name}" does not exist', hint=f"run CREATE SCHEMA {shown(name)}")


def folder(name: str, identity: str) -> str:
    """A folder name for a schema or table: its own where that is safe on every file system, else its identity."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and name == name.lower() and len(name) <= 100
    return name if plain else identity


def quoted_word(name: str) -> str:
    r"""A name as the list of changes has it.

    >>> print(quoted_word('this "one"'))
    "this ""one"\""
    """
    return '"' + name.replace('"', '""') + '"'


def _with_parents(fields: Iterable[Field], parent: int | None = None) -> Iterable[tuple[Field, int | None]]:
    for field in fields:
        yield field, parent
        yield from _with_parents(field.children, field.id)


def insert_column(w: Writer, table_id: int, field: Field, *, parent: int | None) -> None:
    """Queue the catalogue row of one column; its order is that of the ids."""
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
        default_value_type="" if field.children else "literal",
        default_value_dialect=DIALECT,
    )


def set_partitioning(w: Writer, table_id: int, table: Table) -> int:
    """Queue the rows that say how a table is partitioned; returns the partitioning's id."""
    partition_id = w.new_catalog_id()
    w.insert(c.PARTITION_INFO, partition_id=partition_id, table_id=table_id, begin_snapshot=w.id)
    for index, key in enumerate(table.partition_keys):
        w.insert(
            c.PARTITION_COLUMN,
            partition_id=partition_id,
            table_id=table_id,
            partition_key_index=index,
            column_id=key.column_id,
            transform=key.transform,
        )
    return partition_id


def _siblings(w: Writer, table_id: int, table: Table, parent: tuple[str, ...]) -> tuple[list[c.AnyRow], int | None]:
    w.flush()
    parent_id = column_row(w, table_id, table, parent).column_id if parent else None
    same_parent = c.COLUMN.c.parent_column.is_(None) if parent_id is None else c.COLUMN.c.parent_column == parent_id
    rows = w.connection.execute(
        sa.select(c.COLUMN).where(c.COLUMN.c.table_id == table_id, c.COLUMN.c.end_snapshot.is_(None), same_parent)
    ).all()
    return list(rows), parent_id


def column_row(w: Writer, table_id: int, table: Table, path: tuple[str, ...]) -> c.AnyRow:
    """The live catalogue row of a column, found by the names on the way to it."""
    siblings, _ = _siblings(w, table_id, table, path[:-1])
    exact = next((row for row in siblings if row.column_name == path[-1]), None)
    found = exact or next((row for row in siblings if row.column_name.lower() == path[-1].lower()), None)
    if found is not None:
        return found
    raise UnknownObject(
        f'column "{".".join(path)}" does not exist in table "{table.name}"',
        hint=f"its columns are {', '.join(row.column_name for row in siblings)}",
    )


def _field_at(table: Table, path: tuple[str, ...]) -> Field:
    fields = table.fields
    field: Field | None = None
    for name in path:
        field = next((f for f in fields if f.name.lower() == name.lower()), None)
        if field is None:
            break
        fields = field.children
    if field is None:
        raise UnknownObject(f'column "{".".join(path)}" does not exist in table "{table.name}"')
    return field


def _altered(w: Writer, table_id: int) -> None:
    w.note(f"altered_table:{table_id}")
    w.changed_schema(table_id)


def _comment(w: Writer, object_id: int, text: str) -> None:
    w.insert(c.TAG, object_id=object_id, begin_snapshot=w.id, key="comment", value=text)


def _comment_column(w: Writer, table_id: int, column_id: int | None, text: str) -> None:
    w.insert(c.COLUMN_TAG, table_id=table_id, column_id=column_id, begin_snapshot=w.id, key="comment", value=text)
