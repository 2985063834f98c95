"""The SQLAlchemy tables and column types of a DuckLake 1.0 catalogue, column for column as in its specification."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect
    from sqlalchemy.types import TypeEngine

FORMAT_VERSION = "1.0"


class Flag(TypeDecorator[bool]):
    """A boolean: SQLite catalogues hold 0 and 1 in a BIGINT column, PostgreSQL ones a BOOLEAN."""

    impl = sa.Boolean
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(sa.BigInteger() if dialect.name == "sqlite" else sa.Boolean())

    def process_bind_param(self, value: bool | None, dialect: Dialect) -> Any:  # noqa: FBT001  the signature is SQLAlchemy's
        return int(value) if value is not None and dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> bool | None:
        return None if value is None else bool(value)


class UtcTimestamp(TypeDecorator[datetime]):
    """A point in time with microseconds: text in UTC on SQLite, TIMESTAMPTZ on PostgreSQL."""

    impl = sa.DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(sa.String() if dialect.name == "sqlite" else sa.DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        return moment_text(value) if value is not None and dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.astimezone(UTC)


class Identity(TypeDecorator[UUID]):
    """A UUID: text on SQLite, UUID on PostgreSQL."""

    impl = sa.Uuid
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(sa.String() if dialect.name == "sqlite" else sa.Uuid())

    def process_bind_param(self, value: UUID | None, dialect: Dialect) -> Any:
        return str(value) if value is not None and dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> UUID | None:
        return UUID(value) if isinstance(value, str) else value


def moment_text(moment: datetime) -> str:
    """A time in DuckDB's UTC text form, without trailing zeros, so that texts of all clients sort by time.

    >>> moment_text(datetime(2026, 1, 2, 3, 4, 5, 60000, tzinfo=UTC)), moment_text(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    ('2026-01-02 03:04:05.06+00', '2026-01-02 03:04:05+00')
    """
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")
    return (text.rstrip("0") if moment.microsecond else text) + "+00"


metadata = sa.MetaData()


def _table(name: str, *columns: sa.Column[Any] | sa.Index) -> sa.Table:
    return sa.Table(f"ducklake_{name}", metadata, *columns)


def _number(name: str, *, key: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, primary_key=key, autoincrement=False)


def _text(name: str, *, required: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String, nullable=not required)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, Flag)


def _lifetime() -> tuple[sa.Column[int], sa.Column[int]]:
    return _number("begin_snapshot"), _number("end_snapshot")


# The indexes are ours: the specification names none, and other readers do not mind them.
# Without them the file list of a table costs a scan of every file the lake ever had.

METADATA = _table("metadata", _text("key", required=True), _text("value", required=True), _text("scope"), _number("scope_id"))
SNAPSHOT = _table(
    "snapshot",
    _number("snapshot_id", key=True),
    sa.Column("snapshot_time", UtcTimestamp),
    _number("schema_version"),
    _number("next_catalog_id"),
    _number("next_file_id"),
)
SNAPSHOT_CHANGES = _table(
    "snapshot_changes",
    _number("snapshot_id", key=True),
    _text("changes_made"),
    _text("author"),
    _text("commit_message"),
    _text("commit_extra_info"),
)
SCHEMA = _table(
    "schema",
    _number("schema_id", key=True),
    sa.Column("schema_uuid", Identity),
    *_lifetime(),
    _text("schema_name"),
    _text("path"),
    _flag("path_is_relative"),
)
TABLE = _table(
    "table",
    _number("table_id"),
    sa.Column("table_uuid", Identity),
    *_lifetime(),
    _number("schema_id"),
    _text("table_name"),
    _text("path"),
    _flag("path_is_relative"),
    sa.Index("platform_table_by_name", "table_name"),
    sa.Index("platform_table_by_id", "table_id"),
)
VIEW = _table(
    "view",
    _number("view_id"),
    sa.Column("view_uuid", Identity),
    *_lifetime(),
    _number("schema_id"),
    _text("view_name"),
    _text("dialect"),
    _text("sql"),
    _text("column_aliases"),
)
TAG = _table("tag", _number("object_id"), *_lifetime(), _text("key"), _text("value"))
COLUMN_TAG = _table("column_tag", _number("table_id"), _number("column_id"), *_lifetime(), _text("key"), _text("value"))
COLUMN = _table(
    "column",
    _number("column_id"),
    *_lifetime(),
    _number("table_id"),
    _number("column_order"),
    _text("column_name"),
    _text("column_type"),
    _text("initial_default"),
    _text("default_value"),
    _flag("nulls_allowed"),
    _number("parent_column"),
    _text("default_value_type"),
    _text("default_value_dialect"),
    sa.Index("platform_column_by_table", "table_id"),
)
DATA_FILE = _table(
    "data_file",
    _number("data_file_id", key=True),
    _number("table_id"),
    *_lifetime(),
    _number("file_order"),
    _text("path"),
    _flag("path_is_relative"),
    _text("file_format"),
    _number("record_count"),
    _number("file_size_bytes"),
    _number("footer_size"),
    _number("row_id_start"),
    _number("partition_id"),
    _text("encryption_key"),
    _number("mapping_id"),
    _number("partial_max"),
    sa.Index("platform_data_file_by_table", "table_id", "end_snapshot", "begin_snapshot"),
)
DELETE_FILE = _table(
    "delete_file",
    _number("delete_file_id", key=True),
    _number("table_id"),
    *_lifetime(),
    _number("data_file_id"),
    _text("path"),
    _flag("path_is_relative"),
    _text("format"),
    _number("delete_count"),
    _number("file_size_bytes"),
    _number("footer_size"),
    _text("encryption_key"),
    _number("partial_max"),
    sa.Index("platform_delete_file_by_table", "table_id", "data_file_id"),
)
FILE_COLUMN_STATS = _table(
    "file_column_stats",
    _number("data_file_id"),
    _number("table_id"),
    _number("column_id"),
    _number("column_size_bytes"),
    _number("value_count"),
    _number("null_count"),
    _text("min_value"),
    _text("max_value"),
    _flag("contains_nan"),
    _text("extra_stats"),
    sa.Index("platform_file_stats_by_column", "table_id", "column_id"),
    sa.Index("platform_file_stats_by_file", "data_file_id"),
)
FILE_PARTITION_VALUE = _table(
    "file_partition_value",
    _number("data_file_id"),
    _number("table_id"),
    _number("partition_key_index"),
    _text("partition_value"),
    sa.Index("platform_partition_value_by_table", "table_id", "partition_key_index"),
    sa.Index("platform_partition_value_by_file", "data_file_id"),
)
FILE_VARIANT_STATS = _table(
    "file_variant_stats",
    _number("data_file_id"),
    _number("table_id"),
    _number("column_id"),
    _text("variant_path"),
    _text("shredded_type"),
    _number("column_size_bytes"),
    _number("value_count"),
    _number("null_count"),
    _text("min_value"),
    _text("max_value"),
    _flag("contains_nan"),
    _text("extra_stats"),
)
TABLE_STATS = _table(
    "table_stats",
    _number("table_id"),
    _number("record_count"),
    _number("next_row_id"),
    _number("file_size_bytes"),
    sa.Index("platform_table_stats_by_table", "table_id"),
)
TABLE_COLUMN_STATS = _table(
    "table_column_stats",
    _number("table_id"),
    _number("column_id"),
    _flag("contains_null"),
    _flag("contains_nan"),
    _text("min_value"),
    _text("max_value"),
    _text("extra_stats"),
    sa.Index("platform_table_column_stats_by_table", "table_id"),
)
PARTITION_INFO = _table("partition_info", _number("partition_id"), _number("table_id"), *_lifetime())
PARTITION_COLUMN = _table(
    "partition_column",
    _number("partition_id"),
    _number("table_id"),
    _number("partition_key_index"),
    _number("column_id"),
    _text("transform"),
)
SORT_INFO = _table("sort_info", _number("sort_id"), _number("table_id"), *_lifetime())
SORT_EXPRESSION = _table(
    "sort_expression",
    _number("sort_id"),
    _number("table_id"),
    _number("sort_key_index"),
    _text("expression"),
    _text("dialect"),
    _text("sort_direction"),
    _text("null_order"),
)
SCHEDULED_FOR_DELETION = _table(
    "files_scheduled_for_deletion",
    _number("data_file_id"),
    _text("path"),
    _flag("path_is_relative"),
    sa.Column("schedule_start", UtcTimestamp),
)
INLINED_DATA_TABLES = _table("inlined_data_tables", _number("table_id"), _text("table_name"), _number("schema_version"))
COLUMN_MAPPING = _table("column_mapping", _number("mapping_id"), _number("table_id"), _text("type"))
NAME_MAPPING = _table(
    "name_mapping",
    _number("mapping_id"),
    _number("column_id"),
    _text("source_name"),
    _number("target_field_id"),
    _number("parent_column"),
    _flag("is_partition"),
)
SCHEMA_VERSIONS = _table("schema_versions", _number("begin_snapshot"), _number("schema_version"), _number("table_id"))
MACRO = _table("macro", _number("schema_id"), _number("macro_id"), _text("macro_name"), *_lifetime())
MACRO_IMPL = _table("macro_impl", _number("macro_id"), _number("impl_id"), _text("dialect"), _text("sql"), _text("type"))
MACRO_PARAMETERS = _table(
    "macro_parameters",
    _number("macro_id"),
    _number("impl_id"),
    _number("column_id"),
    _text("parameter_name"),
    _text("parameter_type"),
    _text("default_value"),
    _text("default_value_type"),
)

# What the specification does not cover lives beside it. Nouns of upper layers declare theirs on the same metadata.
PLATFORM_LAKE = sa.Table("platform_lake", metadata, sa.Column("key", sa.String, primary_key=True), sa.Column("value", sa.String))
PLATFORM_LEASE = sa.Table(
    "platform_lease",
    metadata,
    sa.Column("lease_id", sa.String, primary_key=True),
    sa.Column("snapshot_id", sa.BigInteger, nullable=False),
    sa.Column("holder", sa.String),
    sa.Column("acquired_at", UtcTimestamp, nullable=False),
    sa.Column("expires_at", UtcTimestamp, nullable=False),
)


AnyRow = sa.Row[Any, *tuple[Any, ...]]


def is_visible_at(table: sa.Table | sa.TableClause, snapshot_id: int | sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """The condition for rows of a versioned catalogue table that are visible at a snapshot."""
    return sa.and_(table.c.begin_snapshot <= snapshot_id, sa.or_(table.c.end_snapshot.is_(None), table.c.end_snapshot > snapshot_id))


def user_column(name: str) -> sa.ColumnClause[Any]:
    """A user's column in a table of the catalogue; it is always quoted, since databases reserve more words than their drivers know."""
    return sa.column(sa.sql.quoted_name(name, quote=True))


def inlined_delete_table(table_id: int) -> sa.TableClause:
    """The table that lists single-row deletes of a table's files: one row for each (file, position in the file)."""
    return sa.table(
        f"ducklake_inlined_delete_{table_id}",
        sa.column("file_id", sa.BigInteger),
        sa.column("row_id", sa.BigInteger),
        sa.column("begin_snapshot", sa.BigInteger),
    )
