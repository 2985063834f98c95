"""Reflection for SQLAlchemy: schemas, tables, columns, keys and comments, from the catalogue.

Only the columns of views need Spark.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.engine import default, reflection
from sqlalchemy.util import warn

from platform_plugin.algebra.types.data_types import DataType, Field, IntervalType, List, Map, Struct
from platform_plugin.dialect.faults import raise_dbapi_errors
from platform_plugin.dialect.types import Document, IntervalColumn
from platform_plugin.errors import UnknownObject, UnsupportedType
from platform_plugin.lake.catalogue.relations import Declaration, read_declaration
from platform_plugin.lake.catalogue.tables import Name, Table, View
from platform_plugin.lake.values.types import to_sqlalchemy
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.language.text.writing import column_text, identifier, type_text
from platform_plugin.relations.kinds import declared_kind, every_kind, find_kind
from platform_plugin.relations.streams.kind import STREAM

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.platform import Platform
    from platform_plugin.relations.kind import Kind, Reflection

_DEFAULT_SCHEMA = "main"


class PlatformReflection(default.DefaultDialect):
    """The reflecting half of the dialect. One `Inspector` reads everything at one snapshot."""

    @reflection.cache
    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        with raise_dbapi_errors():
            return _platform(connection).lake.schemas(_snapshot(connection, kw))

    @reflection.cache
    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Tables, streams and samples: the relations with rows of their own."""
        return _names(connection, _reflected_as("table"), schema, kw)

    @reflection.cache
    def get_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return _names(connection, _reflected_as("view"), schema, kw)

    def get_stream_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Streams only."""
        return _names(connection, (STREAM,), schema, kw)

    @reflection.cache
    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        try:
            _find(connection, table_name, schema, kw)
        except exc.NoSuchTableError:
            return False
        return True

    @reflection.cache
    def has_schema(self, connection: Connection, schema_name: str, **kw: Any) -> bool:
        with raise_dbapi_errors():
            return schema_name in _platform(connection).lake.schemas(_snapshot(connection, kw))

    @reflection.cache
    def get_columns(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        relation = _find(connection, table_name, schema, kw)
        fields = _view_fields(connection, relation) if isinstance(relation, View) else relation.fields
        return [reflected_column(field) for field in fields]

    @reflection.cache
    def get_pk_constraint(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """The declared key; rows are not checked against it."""
        declared = _declaration(connection, _find(connection, table_name, schema, kw))
        return {"constrained_columns": list(declared.primary_key), "name": None}

    @reflection.cache
    def get_foreign_keys(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return _nothing(connection, table_name, schema, kw)

    @reflection.cache
    def get_indexes(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return _nothing(connection, table_name, schema, kw)

    @reflection.cache
    def get_unique_constraints(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return _nothing(connection, table_name, schema, kw)

    @reflection.cache
    def get_check_constraints(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return _nothing(connection, table_name, schema, kw)

    @reflection.cache
    def get_table_comment(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return {"text": _find(connection, table_name, schema, kw).comment}

    @reflection.cache
    def get_table_options(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """The options that make a reflected stream a stream again."""
        relation = _find(connection, table_name, schema, kw)
        declared = _declaration(connection, relation)
        return {f"platform_{name}": value for name, value in declared_kind(relation, declared).reflect_options(declared).items()}

    @reflection.cache
    def get_view_definition(self, connection: Connection, view_name: str, schema: str | None = None, **kw: Any) -> str:
        relation = _find(connection, view_name, schema, kw)
        if not isinstance(relation, View):
            raise exc.NoSuchTableError(_shown(view_name, schema))
        return relation.sql

    def get_materialized_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return []

    def get_temp_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return []

    def get_temp_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return []

    def get_sequence_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return _names(connection, _reflected_as("sequence"), schema, kw)


def _reflected_as(what: Reflection) -> tuple[Kind[Any], ...]:
    return tuple(kind for kind in every_kind() if kind.reflected_as == what and not kind.is_hidden)


def _names(connection: Connection, kinds: Collection[Kind[Any]], schema: str | None, kw: dict[str, Any]) -> list[str]:
    """The names of the relations of some kinds in a schema."""
    with raise_dbapi_errors():
        lake, snapshot = _platform(connection).lake, _snapshot(connection, kw)
        relations: list[Table | View] = [*lake.tables(snapshot), *lake.views(snapshot)]
        own = [relation for relation in relations if relation.name.schema == (schema or _DEFAULT_SCHEMA)]
        return [relation.name.relation for relation in own if find_kind(lake, relation, snapshot) in kinds]


def reflected_column(field: Field) -> dict[str, Any]:
    """A column in the form of `Inspector.get_columns`."""
    return {
        "name": field.name,
        "type": _reflected_type(field.type, field.name),
        "nullable": field.nullable,
        "default": _default(field),
        "comment": field.comment,
        "autoincrement": False,
    }


def _reflected_type(kind: DataType, column: str) -> Any:
    match kind:
        case Struct() | Map():
            return Document(type_text(kind))
        case IntervalType():
            return IntervalColumn(type_text(kind))
        case List(element=element):
            inner = _reflected_type(element.type, column)
            # SQLAlchemy writes an array of arrays as one of two dimensions.
            nested = isinstance(inner, sa.ARRAY)
            return sa.ARRAY(inner.item_type if nested else inner, dimensions=(inner.dimensions or 1) + 1 if nested else 1)
    try:
        return to_sqlalchemy(kind, column=column)
    except UnsupportedType as error:
        warn(error.message)
        return sa.types.NullType()


def _default(field: Field) -> str | None:
    if field.default is None:
        return None
    bare = replace(field, name="c", nullable=True, comment=None)
    return column_text(bare).removeprefix(f"c {type_text(field.type)} DEFAULT ")


def _platform(connection: Connection) -> Platform:
    return cast("Any", connection.connection.dbapi_connection).platform  # type: ignore[no-any-return]


def _snapshot(connection: Connection, kw: dict[str, Any]) -> Snapshot:
    """The inspector's snapshot, taken once; without an inspector, the newest."""
    cache = kw.get("info_cache")
    if cache is None:
        return _platform(connection).lake.snapshot()
    if "platform snapshot" not in cache:
        cache["platform snapshot"] = _platform(connection).lake.snapshot()
    return cast("Snapshot", cache["platform snapshot"])


def _find(connection: Connection, name: str, schema: str | None, kw: dict[str, Any]) -> Table | View:
    with raise_dbapi_errors():
        lake = _platform(connection).lake
        snapshot = _snapshot(connection, kw)
        with lake.reading() as reading:
            try:
                return lake.find_relation(reading, Name(schema=schema or _DEFAULT_SCHEMA, relation=name), snapshot)
            except UnknownObject:
                raise exc.NoSuchTableError(_shown(name, schema)) from None


def _shown(name: str, schema: str | None) -> str:
    return f"{schema}.{name}" if schema else name


def _nothing(connection: Connection, name: str, schema: str | None, kw: dict[str, Any]) -> list[Any]:
    _find(connection, name, schema, kw)
    return []


def _declaration(connection: Connection, relation: Table | View) -> Declaration:
    if isinstance(relation, View):
        return Declaration(kind="view")
    with raise_dbapi_errors(), _platform(connection).lake.reading() as reading:
        return read_declaration(reading, relation.uuid)


def _view_fields(connection: Connection, view: View) -> list[Field]:
    """The columns that a view's query gives now."""
    with raise_dbapi_errors():
        rows = _platform(connection).execute(f"DESCRIBE {identifier(view.name.schema)}.{identifier(view.name.relation)}")
        return [Field(name=row[0], type=parse_type(row[1])) for row in rows]
