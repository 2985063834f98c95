"""Operations on schemas, tables and views: create, drop, rename, comment, partition and set file options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.errors import InvalidValue, ObjectExists, UnknownObject
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.formats import VIEW_COLUMN_TAG, is_newer
from platform_plugin.lake.catalogue.identifiers import new_uuid
from platform_plugin.lake.catalogue.tables import Name, Table, View, display_name, read_schemas
from platform_plugin.lake.commit.column_operations import column_row, comment_column, insert_column, note_altered, walk_columns
from platform_plugin.lake.files.file_options import write_file_options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from platform_plugin.lake.commit.writer import Writer

DIALECT = "duckdb"  # the dialect of default values; ours are literals that every dialect reads alike


@dataclass(frozen=True, slots=True)
class CreateSchemaOp:
    """Creates an empty schema."""

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
            path=f"{folder_name(self.name, str(uuid))}/",
            path_is_relative=True,
        )
        w.note(f"created_schema:{quote_change_name(self.name)}")
        w.changed_schema()


@dataclass(frozen=True, slots=True)
class DropSchema:
    """Drops a schema, which must be empty."""

    name: str

    def apply(self, w: Writer) -> None:
        w.flush()
        schemas = read_schemas(w.connection, w.id)
        if self.name not in schemas:
            raise UnknownObject(f'schema "{self.name}" does not exist', hint="run SHOW SCHEMAS")
        schema_id = schemas[self.name][0]
        for table in (c.TABLE, c.VIEW):
            if w.connection.execute(
                sa.select(table.c.schema_id).where(table.c.schema_id == schema_id, c.is_visible_at(table, w.id)).limit(1)
            ).first():
                raise InvalidValue(f'schema "{self.name}" is not empty', hint="drop its relations first")
        w.end(c.SCHEMA, c.SCHEMA.c.schema_id == schema_id)
        w.note(f"dropped_schema:{schema_id}")
        w.changed_schema()


@dataclass(frozen=True, slots=True)
class CreateTableOp:
    """Creates an empty table with the identity in its value."""

    table: Table

    def apply(self, w: Writer) -> None:
        name = self.table.name
        schema_id = find_schema_for(w, name)
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
        for column, parent in walk_columns(self.table.fields):
            insert_column(w, table_id, column, parent=parent)
            if column.comment is not None:
                comment_column(w, table_id, column.id, column.comment)
        if self.table.comment is not None:
            _comment(w, table_id, self.table.comment)
        if self.table.partition_keys:
            w.partition_ids[table_id] = set_partitioning(w, table_id, self.table)
        if self.table.file_options.declared:
            write_file_options(w, table_id, dict(self.table.file_options.declared))
        w.note(f"created_table:{quote_change_name(name.schema)}.{quote_change_name(name.relation)}")
        w.changed_schema(table_id)


@dataclass(frozen=True, slots=True)
class DropTable:
    """Drops a table; its files stay for older snapshots until those expire."""

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
    """Renames a table within its schema."""

    table: Table
    name: str

    def apply(self, w: Writer) -> None:
        table_id = w.table_id(self.table)
        target = Name(schema=self.table.name.schema, relation=self.name)
        schema_id = find_schema_for(w, target)
        row = w.connection.execute(
            sa.select(c.TABLE.c.path, c.TABLE.c.path_is_relative).where(c.TABLE.c.table_id == table_id, c.is_visible_at(c.TABLE, w.id))
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
        w.note(f"created_table:{quote_change_name(target.schema)}.{quote_change_name(target.relation)}")
        w.changed_schema(table_id)


@dataclass(frozen=True, slots=True)
class CommentOp:
    """Sets the comment of a table or one of its columns; None removes it."""

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
                comment_column(w, table_id, row.column_id, self.text)
        else:
            w.end(c.TAG, c.TAG.c.object_id == table_id, c.TAG.c.key == "comment")
            if self.text is not None:
                _comment(w, table_id, self.text)
        w.note(f"altered_table:{table_id}")
        w.changed_schema()


@dataclass(frozen=True, slots=True)
class SetFileOptions:
    """Sets how new files of a table are written from now on."""

    table: Table
    options: Mapping[str, str | int]

    def apply(self, w: Writer) -> None:
        write_file_options(w, w.table_id(self.table), self.options)
        w.changed_schema()  # tables are kept in memory for as long as this does not move


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """Sets how new files of a table are partitioned from now on; the keys are in the table's value."""

    table: Table

    def apply(self, w: Writer) -> None:
        table_id = w.table_id(self.table)
        w.end(c.PARTITION_INFO, c.PARTITION_INFO.c.table_id == table_id)
        if self.table.partition_keys:
            set_partitioning(w, table_id, self.table)
        note_altered(w, table_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateViewOp:
    """Stores a query under a name."""

    name: Name
    sql: str
    dialect: str
    columns: tuple[str, ...] = ()
    comment: str | None = None
    or_replace: bool = False
    uuid: UUID | None = None

    def apply(self, w: Writer) -> None:
        if self.or_replace:
            w.flush()
            row = w.connection.execute(
                sa.select(c.VIEW.c.view_id)
                .join(c.SCHEMA, sa.and_(c.SCHEMA.c.schema_id == c.VIEW.c.schema_id, c.is_visible_at(c.SCHEMA, w.id)))
                .where(c.is_visible_at(c.VIEW, w.id), c.VIEW.c.view_name == self.name.relation, c.SCHEMA.c.schema_name == self.name.schema)
            ).first()
            if row:
                _end_view(w, row.view_id)
        schema_id = find_schema_for(w, self.name)
        view_id = w.new_catalog_id()
        w.insert(
            c.VIEW,
            view_id=view_id,
            view_uuid=self.uuid or new_uuid(),
            begin_snapshot=w.id,
            schema_id=schema_id,
            view_name=self.name.relation,
            dialect=self.dialect,
            sql=self.sql,
            column_aliases=",".join(quote_change_name(column) for column in self.columns),
        )
        if self.comment is not None:
            _comment(w, view_id, self.comment)
        w.note(f"created_view:{quote_change_name(self.name.schema)}.{quote_change_name(self.name.relation)}")
        w.changed_schema()


@dataclass(frozen=True, slots=True)
class DropView:
    """Drops a stored query."""

    view: View

    def apply(self, w: Writer) -> None:
        if not _end_view(w, self.view.id):
            raise w.conflict(f'view "{self.view.name}" was dropped or replaced')


def _end_view(w: Writer, view_id: int) -> bool:
    ended = w.end(c.VIEW, c.VIEW.c.view_id == view_id)
    if is_newer(w.connection):
        w.end(VIEW_COLUMN_TAG, VIEW_COLUMN_TAG.c.view_id == view_id)
    w.end(c.TAG, c.TAG.c.object_id == view_id)
    w.note(f"dropped_view:{view_id}")
    w.changed_schema()
    return bool(ended)


def find_schema_for(w: Writer, name: Name) -> int:
    """The id of the schema for a new relation; an error if the schema does not exist or the name is in use."""
    w.flush()
    schemas = read_schemas(w.connection, w.id)
    if name.schema not in schemas:
        raise missing_schema_error(name.schema)
    schema_id = schemas[name.schema][0]
    for relation, column, kind in ((c.TABLE, c.TABLE.c.table_name, "table"), (c.VIEW, c.VIEW.c.view_name, "view")):
        # Names that differ only in case would be one name to Spark, and one folder on some file systems.
        row = w.connection.execute(
            sa.select(relation.c.begin_snapshot).where(
                relation.c.schema_id == schema_id, c.is_visible_at(relation, w.id), sa.func.lower(column) == sa.func.lower(name.relation)
            )
        ).first()
        if row is not None and w.base.id < row.begin_snapshot < w.id:
            raise w.conflict(f'{kind} "{name}" was created meanwhile', row.begin_snapshot)
        if row is not None:
            raise ObjectExists(f'{kind} "{name}" exists already', hint=f"drop it, or write CREATE {kind.upper()} IF NOT EXISTS")
    return schema_id


def missing_schema_error(name: str) -> UnknownObject:
    """The error for a schema that does not exist."""
    return UnknownObject(f'schema "{name}" does not exist', hint=f"run CREATE SCHEMA {display_name(name)}")


def folder_name(name: str, identity: str) -> str:
    """The folder name of a schema or table: its name where that is safe on every file system, else its identity."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and name == name.lower() and len(name) <= 100
    return name if plain else identity


def quote_change_name(name: str) -> str:
    """A name as it stands in a snapshot's list of changes.

    >>> quote_change_name('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def set_partitioning(w: Writer, table_id: int, table: Table) -> int:
    """Queue the catalogue rows of a table's partitioning; returns the partitioning's id."""
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


def _comment(w: Writer, object_id: int, text: str) -> None:
    w.insert(c.TAG, object_id=object_id, begin_snapshot=w.id, key="comment", value=text)
