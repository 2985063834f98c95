"""Creating a lake's catalogue, checking it at each opening, adopting one from elsewhere, and upgrading its format."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

from platform_plugin.distribution import NAME
from platform_plugin.errors import CatalogueError, LakeMoved, NoLake, ObjectExists, StorageError
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue import marks
from platform_plugin.lake.catalogue.database import create_engine, read_transaction, write_transaction
from platform_plugin.lake.catalogue.formats import NEWEST, READABLE, migrate, refuse_nested_schemas
from platform_plugin.lake.catalogue.identifiers import new_uuid
from platform_plugin.lake.catalogue.nearby import find_nearby_lake
from platform_plugin.lake.files.storage import Storage, explain_storage_errors
from platform_plugin.lake.migrations.expiry_indexes import add_indexes
from platform_plugin.lake.migrations.version import KEY, migrate_tables, refuse_newer, write_version

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.location import Location

_OLDER_FORMATS = ("0.1", "0.2", "0.3", "0.4")


def create(location: Location) -> tuple[UUID, str]:
    """Create the catalogue's tables and its first snapshot in one transaction; a place in use is refused."""
    if location.folder is not None:
        try:
            if location.folder.is_file():
                raise StorageError(f'"{location.folder}" is a file, not a folder', hint="choose another path for the lake")
            location.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f'folder "{location.folder}" can\'t be made', detail=error.strerror, hint="check the path and its permissions"
            ) from error
    engine = create_engine(location.catalogue, founding=True)
    try:
        with write_transaction(engine) as connection:
            # IF NOT EXISTS would ask for the right to make schemas even where there is nothing to make.
            if location.schema is not None and not sa.inspect(connection).has_schema(location.schema):
                connection.execute(sa.schema.CreateSchema(location.schema))
            if sa.inspect(connection).has_table(c.METADATA.name, schema=location.schema):
                raise ObjectExists(
                    f'lake "{location}" exists already',
                    hint="use it as it is (Platform.open, or Platform.create with exist_ok=True), or choose another place",
                )
            c.metadata.create_all(connection, checkfirst=False)
            add_indexes(connection)
            identity = marks.claim_folder(Storage(location.data_path), location, marks.database_identity(connection))
            _write_first_snapshot(connection, location, identity)
    finally:
        engine.dispose()
    return identity, location.data_path


def _write_first_snapshot(connection: Connection, location: Location, identity: UUID) -> None:
    metadata = {
        "version": c.FORMAT_VERSION,
        "created_by": f"platform-plugin {_version()}",
        "data_path": location.data_path,
        "encrypted": "false",
    }
    connection.execute(sa.insert(c.METADATA), [{"key": key, "value": value} for key, value in metadata.items()])
    connection.execute(
        sa.insert(c.SNAPSHOT).values(snapshot_id=0, snapshot_time=datetime.now(UTC), schema_version=0, next_catalog_id=1, next_file_id=0)
    )
    connection.execute(sa.insert(c.SNAPSHOT_CHANGES).values(snapshot_id=0, changes_made='created_schema:"main"'))
    connection.execute(
        sa.insert(c.SCHEMA).values(
            schema_id=0, schema_uuid=new_uuid(), begin_snapshot=0, schema_name="main", path="main/", path_is_relative=True
        )
    )
    connection.execute(sa.insert(c.PLATFORM_LAKE).values(key="uuid", value=str(identity)))
    write_version(connection)


def _version() -> str:
    try:
        return version(NAME)
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"


def check(location: Location) -> tuple[UUID, str]:
    """Check that there is a lake, that its version is known, and that its data is where the URL says; writes nothing."""
    identity, data_path, database = _inspect(location)
    if identity is None:
        raise CatalogueError(
            f'lake "{location}" was created by another client and is not adopted yet',
            hint="run `platform init --adopt` with its URL, or Lake.adopt(url): its own tables stay as they are, and its clients go on",
        )
    if location.is_local and _plain(data_path) != _plain(location.data_path):
        raise LakeMoved(
            f'lake "{location}" was moved: its catalogue says that its data is in "{data_path}"',
            hint="run `platform init --adopt` with its URL, or Lake.adopt(url), to note the new place",
        )
    if not location.is_local and _plain(data_path) != _plain(location.data_path):
        raise CatalogueError(
            f'the catalogue belongs to a lake whose data is in "{data_path}", not in "{location.data_path}"',
            hint="correct data= in the URL, or give this lake a PostgreSQL schema of its own with schema=",
        )
    marks.refuse_strangers(Storage(data_path), identity, location, database)
    return identity, data_path


def adopt(location: Location) -> tuple[UUID, str]:
    """Record the URL's data folder in the catalogue, and this catalogue in the mark of the data folder."""
    identity, data_path, database = _inspect(location)
    storage = Storage(location.data_path)
    if identity is None:
        _check_files(location, storage)
        identity = _add_tables(location)
    if not storage.exists(""):
        raise StorageError(f'data folder "{location.data_path}" does not exist', hint="move the data there first")
    marks.take_over_folder(storage, identity, location, database)
    if _plain(data_path) != _plain(location.data_path):
        engine = create_engine(location.catalogue)
        try:
            with write_transaction(engine) as connection:
                connection.execute(sa.update(c.METADATA).where(c.METADATA.c.key == "data_path").values(value=location.data_path))
        finally:
            engine.dispose()
    return identity, location.data_path


def upgrade(location: Location) -> tuple[str, str]:
    """Migrate a lake's catalogue to the newest format, and our tables in it, in one transaction; the format before, and the one now."""
    check(location)
    engine = create_engine(location.catalogue)
    try:
        with write_transaction(engine) as connection:
            migrate_tables(connection)
            return migrate(connection), NEWEST
    finally:
        engine.dispose()


def _inspect(location: Location) -> tuple[UUID | None, str, str | None]:
    """The lake's identity if it was ever ours, where its catalogue says that its data is, and the database that holds it."""
    if location.folder is not None:
        file = location.folder / str(location.catalogue.database)
        # Never look inside: closing the file would drop the locks of other connections that this process has on it.
        try:
            is_file = file.is_file()
            is_empty = is_file and file.stat().st_size == 0
        except OSError as error:
            raise CatalogueError(
                f'catalogue "{file}" can\'t be opened', detail=error.strerror, hint="check the path and its permissions"
            ) from error
        if not is_file:
            raise _missing_lake(location, location.folder)
        if is_empty:
            raise CatalogueError(
                f'catalogue "{file}" is empty: its creation was interrupted', hint=f"create it again with `platform init {location}`"
            )
    engine = create_engine(location.catalogue)
    try:
        with read_transaction(engine) as connection:
            found = set(sa.inspect(connection).get_table_names())
            if c.METADATA.name not in found:
                raise CatalogueError(
                    f'the database of "{location}" is not a lake\'s catalogue', hint=f"create one with `platform init {location}`"
                )
            rows = connection.execute(sa.select(c.METADATA.c.key, c.METADATA.c.value).where(c.METADATA.c.scope.is_(None))).all()
            metadata = {row.key: row.value for row in rows}
            _check_version(metadata, location)
            missing = sorted(
                table.name for table in c.metadata.tables.values() if table.name.startswith("ducklake_") and table.name not in found
            )
            if missing:
                raise CatalogueError(
                    f'the catalogue of "{location}" lacks the table {missing[0]}', hint="it is damaged; restore it from a copy"
                )
            refuse_nested_schemas(connection)
            database = marks.database_identity(connection)
            own = c.PLATFORM_LAKE.c
            known = connection.execute(sa.select(own.key, own.value)).all() if c.PLATFORM_LAKE.name in found else []
            notes = {row.key: row.value for row in known}
            identity = notes.get("uuid")
            refuse_newer(int(notes.get(KEY, 0)), location)
    except sqlite3.DatabaseError as error:
        raise CatalogueError(f'the catalogue of "{location}" is damaged', detail=str(error), hint="restore it from a copy") from error
    finally:
        engine.dispose()
    data_path = metadata.get("data_path", location.data_path)
    return (UUID(identity) if identity else None), data_path, database


def _missing_lake(location: Location, folder: Path) -> NoLake:
    hint = f"create one with `platform init {location}`"
    if folder.is_file():
        hint = "that is a file; name the folder of the lake"
    elif (near := find_nearby_lake(folder)) is not None:
        hint = f"there is one at platform+local://{near}; create another with `platform init {location}`"
    return NoLake(f'there is no lake at "{folder}"', hint=hint)


def _check_version(metadata: dict[str, str], location: Location) -> None:
    found = metadata.get("version", "none")
    if found in READABLE:
        if metadata.get("encrypted") == "true":
            raise CatalogueError(f'lake "{location}" is encrypted', hint="encrypted lakes are not supported")
        return
    newer = found not in _OLDER_FORMATS
    hint = "upgrade platform-plugin" if newer else "upgrade the lake with the client that created it"
    raise CatalogueError(f'lake "{location}" has DuckLake format {found}, this version reads {" and ".join(READABLE)}', hint=hint)


def _check_files(location: Location, storage: Storage) -> None:
    """Refuse a data folder without the newest file that the catalogue names; where it names none there need be no folder yet."""
    engine = create_engine(location.catalogue)
    try:
        with read_transaction(engine) as connection:
            f, t, schema = c.DATA_FILE.c, c.TABLE.c, c.SCHEMA.c
            query = (
                sa.select(schema.path.label("schema_path"), t.path.label("table_path"), f.path)
                .join_from(c.DATA_FILE, c.TABLE, sa.and_(t.table_id == f.table_id, t.end_snapshot.is_(None)))
                .join(c.SCHEMA, sa.and_(schema.schema_id == t.schema_id, schema.end_snapshot.is_(None)))
                .where(f.path_is_relative, t.path_is_relative, schema.path_is_relative, f.end_snapshot.is_(None))
                .order_by(f.data_file_id.desc())
            )
            row = connection.execute(query.limit(1)).first()
    finally:
        engine.dispose()
    named = None if row is None else "".join(row)
    if named is not None and not storage.exists(named):
        raise StorageError(
            f'data folder "{location.data_path}" does not hold the files of the lake',
            detail=f'"{named}" is not there',
            hint="correct the URL, or move the data there first",
        )
    if storage.is_local:
        with explain_storage_errors(location.data_path):
            Path(storage.absolute("")).mkdir(parents=True, exist_ok=True)


def _add_tables(location: Location) -> UUID:
    """A lake that another client created gets our tables and indexes and an identity; no row and no table that it has is changed."""
    engine = create_engine(location.catalogue, founding=True)
    identity = new_uuid()
    try:
        with write_transaction(engine) as connection:
            for table in c.metadata.tables.values():
                if table.name.startswith("platform_"):
                    table.create(connection, checkfirst=True)
                for index in table.indexes:
                    index.create(connection, checkfirst=True)
            add_indexes(connection)
            known = connection.execute(sa.select(c.PLATFORM_LAKE.c.value).where(c.PLATFORM_LAKE.c.key == "uuid")).scalar()
            if known is not None:
                return UUID(known)
            connection.execute(sa.insert(c.PLATFORM_LAKE).values(key="uuid", value=str(identity)))
            write_version(connection)
    finally:
        engine.dispose()
    return identity


def _plain(path: str) -> str:
    return path.removeprefix("file://").rstrip("/")
