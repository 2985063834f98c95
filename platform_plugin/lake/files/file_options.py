"""File options: compression, row group size and target file size of tables, from here or DuckLake's `set_option`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.relations import read_noted_options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.commit.writer import Writer

COMPRESSION = "parquet_compression"
ROW_GROUP_SIZE = "parquet_row_group_size"
TARGET_SIZE = "target_file_size"
NAMES = (TARGET_SIZE, COMPRESSION, ROW_GROUP_SIZE)

DEFAULT_COMPRESSION = "zstd"
# DuckLake knows `brotli` too, which Spark can't read without a library of its own: such files are written with the default.
_CODECS = {"snappy": "snappy", "zstd": "zstd", "gzip": "gzip", "lz4": "lz4", "uncompressed": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """How files of a table are written: the options in effect, and those of them that were `declared` for the table itself."""

    compression: str = DEFAULT_COMPRESSION
    row_group_rows: int | None = None
    target_bytes: int | None = None
    declared: tuple[tuple[str, str | int], ...] = ()

    @classmethod
    def of(cls, declared: Mapping[str, Any], inherited: Mapping[str, Any] | None = None) -> FileOptions:
        """The options of a table from its own and those of its schema and lake; invalid values are ignored.

        >>> FileOptions.of({"target_file_size": "1000"}, {"parquet_compression": "snappy"}).compression
        'snappy'
        """
        own, others = _sensible(declared), _sensible(inherited or {})
        options = {**others, **own}
        return cls(
            compression=_CODECS[options.get(COMPRESSION, DEFAULT_COMPRESSION)],
            row_group_rows=options.get(ROW_GROUP_SIZE),
            target_bytes=options.get(TARGET_SIZE),
            declared=tuple(own.items()),
        )


STANDARD = FileOptions()


def _sensible(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they are declared here; DuckLake's `lz4_raw` is what everybody writes for `lz4`."""
    compression = str(options.get(COMPRESSION)).lower().removesuffix("_raw")
    found = {TARGET_SIZE: _number(options.get(TARGET_SIZE)), COMPRESSION: compression if compression in _CODECS else None}
    found[ROW_GROUP_SIZE] = _number(options.get(ROW_GROUP_SIZE))
    return {name: value for name, value in found.items() if value is not None}


def _number(value: Any) -> int | None:
    return int(value) if str(value).isdecimal() and int(value) > 0 else None


def read_file_options(connection: Connection, tables: Mapping[int, tuple[UUID, int]]) -> dict[int, FileOptions]:
    """The options of tables, given with their identities and the ids of their schemas; tables without options are left out."""
    if not tables:
        return {}
    scopes = _read_scopes(connection)
    noted = read_noted_options(connection, NAMES, [str(uuid) for uuid, _ in tables.values()])
    if not scopes and not noted:
        return {}
    return {
        table_id: FileOptions.of(noted.get(str(uuid), {}) | scopes.get(("table", table_id), {}), _inherited(scopes, schema_id))
        for table_id, (uuid, schema_id) in tables.items()
    }


def read_inherited(connection: Connection, schema_id: int) -> dict[str, str]:
    """The options that a new table of a schema has unless it declares others."""
    return _inherited(_read_scopes(connection), schema_id)


def _inherited(scopes: Mapping[tuple[str | None, int | None], Mapping[str, str]], schema_id: int) -> dict[str, str]:
    return {**scopes.get((None, None), {}), **scopes.get(("schema", schema_id), {})}


def _read_scopes(connection: Connection) -> dict[tuple[str | None, int | None], dict[str, str]]:
    m = c.METADATA.c
    found: dict[tuple[str | None, int | None], dict[str, str]] = {}
    for row in connection.execute(sa.select(m.key, m.value, m.scope, m.scope_id).where(m.key.in_(NAMES))):
        found.setdefault((row.scope, row.scope_id), {})[row.key] = row.value
    return found


def write_file_options(w: Writer, table_id: int, options: Mapping[str, str | int]) -> None:
    """Write options of a table where every client of the lake reads them; its other options stay."""
    m = c.METADATA.c
    w.connection.execute(sa.delete(c.METADATA).where(m.scope == "table", m.scope_id == table_id, m.key.in_(options)))
    for name, value in options.items():
        w.insert(c.METADATA, key=name, value=str(value), scope="table", scope_id=table_id)
