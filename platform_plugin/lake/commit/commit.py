"""The class `Commit`: changes to any number of relations that become visible together, or not at all."""

from __future__ import annotations

import getpass
import json
import random
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import sqlalchemy as sa
from sqlalchemy import exc

from platform_plugin.algebra.types.data_types import holds_interval
from platform_plugin.errors import CatalogueError, CommitConflict, InvalidValue, OutcomeUnknown, PlatformError, StorageError
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.admissible import check_field, check_name, check_text, partition_keys
from platform_plugin.lake.catalogue.database import LostRace
from platform_plugin.lake.catalogue.identifiers import new_uuid
from platform_plugin.lake.catalogue.interval_columns import INTERVAL_TABLES
from platform_plugin.lake.catalogue.relations import RELATION_TABLES
from platform_plugin.lake.catalogue.snapshots import find_marked
from platform_plugin.lake.catalogue.stalls import read_gate_stalls
from platform_plugin.lake.catalogue.tables import Name, Snapshot, Table, View, number_fields, read_schemas, read_snapshot
from platform_plugin.lake.commit import column_operations as columns
from platform_plugin.lake.commit import data_operations as data
from platform_plugin.lake.commit import schema_operations as ddl
from platform_plugin.lake.commit.before_images import BEFORE_IMAGE_TABLES, BeforeImages, KeepBeforeImages
from platform_plugin.lake.commit.dependents import DEPENDENT_TABLES, check_needs
from platform_plugin.lake.commit.gates import EndGateStalls
from platform_plugin.lake.commit.not_null import prepare_not_null
from platform_plugin.lake.commit.passes import PASS_TABLES, NotePass
from platform_plugin.lake.commit.writer import Writer
from platform_plugin.lake.files.file_options import FileOptions, read_inherited
from platform_plugin.lake.ring.retention import KeepRings, RingFull
from platform_plugin.lake.ring.segments import RING_TABLES
from platform_plugin.lake.values.defaults import check_default

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType
    from uuid import UUID

    from platform_plugin.algebra.types.data_types import DataType, Field
    from platform_plugin.lake.files.files import DataFile, DeleteFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.values.stall import Stall

ATTEMPTS = 20
_TICK = timedelta(microseconds=1)
_PAUSE_SECONDS = 0.01
_FULL_PAUSE_SECONDS = 0.05
_RECONNECT_SECONDS = 30.0
_LARGE_BYTES = 8 << 20


class Commit:
    """Changes that a `with` block collects, and that one database transaction makes visible at its end, as one snapshot.

    An exception inside the block discards everything. If others have committed meanwhile, all that the commit relies on is checked again:
    if it still holds, the commit is repeated on top of theirs, otherwise `CommitConflict` names both commits.
    """

    def __init__(
        self, lake: Lake, message: str, *, base: Snapshot, author: str | None = None, notes: Mapping[str, Any] | None = None
    ) -> None:
        check_text("the message or author of a commit", message, author)
        self.base = base
        self.message = message
        self.snapshot: Snapshot | None = None
        self._lake = lake
        self._author = author or _user()
        self._identity = str(new_uuid())
        self._notes = dict(notes or {})
        self._operations: list[data.Operation] = []
        self._appended: dict[UUID, tuple[Table, list[DataFile]]] = {}
        self._following: list[data.Operation] = []
        self._images: dict[UUID, tuple[Table, list[BeforeImages]]] = {}
        self._passes: dict[Name, NotePass] = {}
        self._ungated: dict[Name, bool] = {}
        self._bypassed: list[Stall] = []
        self._released: dict[str, int] = {}
        self._schemas: dict[str, tuple[str, Mapping[str, str]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            try:
                self.snapshot = self._run()
                self._lake.gates.report(self._bypassed, self.snapshot)
            except PlatformError:
                raise
            except BaseException:
                # An interrupt in the middle of it: the database may still make the commit.
                self._lake.spare_files()
                raise

    @property
    def made(self) -> Snapshot:
        """The snapshot that this commit made, once its block has ended."""
        if self.snapshot is None:
            raise InvalidValue(f'commit "{self.message}" is not made yet', hint="leave its block first")
        return self.snapshot

    def add_notes(self, notes: Mapping[str, Any]) -> None:
        """Add notes to those that the snapshot will have."""
        self._notes |= notes

    # Relations

    def create_schema(self, name: str, *, if_not_exists: bool = False) -> None:
        """Add an empty schema."""
        check_name("schema", name)
        self._do(ddl.CreateSchemaOp(name, if_not_exists))

    def drop_schema(self, name: str) -> None:
        """Drop an empty schema."""
        self._do(ddl.DropSchema(name))

    def create_table(
        self,
        name: str | tuple[str, str] | Name,
        fields: Sequence[Field],
        *,
        comment: str | None = None,
        partition_by: Sequence[tuple[str, str]] = (),
        file_options: Mapping[str, str | int] | None = None,
    ) -> Table:
        """Add an empty table and return it, so that this commit can append files to it.

        `partition_by` pairs a column with a transform: identity, year, month, day or hour. `file_options` are DuckLake's, by their names.
        """
        target = Name.of(name)
        check_name("table", target.relation)
        if not fields:
            raise InvalidValue(f'table "{target}" has no columns', hint="name at least one")
        names = [field.name.lower() for field in fields]
        twice = (
            next((field.name for field in fields if names.count(field.name.lower()) > 1), None) if len(set(names)) < len(names) else None
        )
        if twice is not None:
            raise InvalidValue(f'column "{twice}" is there twice in table "{target}"', hint="names that differ only in case are the same")
        for field in fields:
            check_field(field)
        fields = [check_default(field) for field in fields]
        if any(map(holds_interval, fields)):
            self._lake.prepare_tables(INTERVAL_TABLES)
        check_text("a comment", comment)
        uuid = new_uuid()
        schema_folder, inherited = self._schema(target)
        table = Table(
            id=None,
            uuid=uuid,
            name=target,
            path=f"{schema_folder}{ddl.folder_name(target.relation, str(uuid))}/",
            fields=number_fields(fields),
            comment=comment,
            file_options=FileOptions.of(file_options or {}, inherited),
        )
        table = replace(table, partition_keys=partition_keys(table, partition_by))
        self._do(ddl.CreateTableOp(table))
        return table

    def _schema(self, name: Name) -> tuple[str, Mapping[str, str]]:
        """The folder of a name's schema, and what tables there inherit of options of files."""
        if name.schema in self._schemas:
            return self._schemas[name.schema]
        with self._lake.reading() as connection:
            schemas = read_schemas(connection, self.base.id)
            if name.schema in schemas:
                schema_id, folder = schemas[name.schema]
                self._schemas[name.schema] = folder, read_inherited(connection, schema_id)
                return self._schemas[name.schema]
        created = any(isinstance(operation, ddl.CreateSchemaOp) and operation.name == name.schema for operation in self._operations)
        if created:
            raise InvalidValue(
                f'schema "{name.schema}" is created by this same commit', hint="create the schema in a commit of its own first"
            )
        raise ddl.missing_schema_error(name.schema)

    def drop_table(self, table: Table) -> None:
        """Drop a table."""
        self._do(ddl.DropTable(table))

    def rename_table(self, table: Table, name: str) -> None:
        """Give a table another name in its schema."""
        check_name("table", name)
        self._do(ddl.RenameTable(table, name))

    def add_column(self, table: Table, field: Field, *, parent: tuple[str, ...] = (), twin: Table | None = None) -> None:
        """Add a column at the end of a table, or a part to one of its structs; a `twin` of the same files gets it too."""
        check_field(field)
        self._do(columns.AddColumnOp(table, check_default(field), parent, twin))

    def drop_column(self, table: Table, *path: str) -> None:
        """Drop a column, or the part of a struct that the path leads to."""
        self._do(columns.DropColumnOp(table, path))

    def rename_column(self, table: Table, *path: str, to: str) -> None:
        """Give a column, or a part of a struct, another name."""
        check_name("column", to)
        self._do(columns.ChangeColumn(table=table, path=path, name=to))

    def widen_column(self, table: Table, *path: str, to: DataType) -> None:
        """Give a column a type that holds all values of its old one."""
        self._do(columns.ChangeColumn(table=table, path=path, type=to))

    def allow_null(self, table: Table, *path: str) -> None:
        """Let a column accept NULL from now on."""
        self._do(columns.ChangeColumn(table=table, path=path, nullable=True))

    def forbid_null(self, table: Table, column: str) -> None:
        """Make a column NOT NULL; a row with NULL in it is an error, now or when the commit is made."""
        self._do(prepare_not_null(self._lake, table, column, self.base))

    def set_default(self, table: Table, *path: str, default: str | None) -> None:
        """Set or drop the literal default of a column, for new rows whose writer leaves the column out."""
        check_text("a default", default)
        self._do(columns.ChangeColumn(table=table, path=path, default=default, drops_default=default is None))

    def comment(self, table: Table, text: str | None, *, column: tuple[str, ...] = ()) -> None:
        """Set the comment of a table or a column; None removes it."""
        check_text("a comment", text)
        self._do(ddl.CommentOp(table, text, column))

    def set_file_options(self, table: Table, options: Mapping[str, str | int]) -> None:
        """Set how new files of a table are written, by DuckLake's names; existing files stay as they are until they are merged."""
        self._do(ddl.SetFileOptions(table, options))

    def partition(self, table: Table, by: Sequence[tuple[str, str]]) -> None:
        """Partition the table's new files; existing files stay as they are."""
        self._do(ddl.PartitionBy(replace(table, partition_keys=partition_keys(table, by))))

    def create_view(
        self,
        name: str | tuple[str, str] | Name,
        sql: str,
        *,
        dialect: str = "spark",
        columns: Sequence[str] = (),
        comment: str | None = None,
        or_replace: bool = False,
    ) -> UUID:
        """Store a query under a name; returns its identity."""
        target = Name.of(name)
        check_name("view", target.relation)
        check_text("the text or a column of a view", sql, comment, *columns)
        uuid = new_uuid()
        self._do(
            ddl.CreateViewOp(
                name=target, sql=sql, dialect=dialect, columns=tuple(columns), comment=comment, or_replace=or_replace, uuid=uuid
            )
        )
        return uuid

    def drop_view(self, view: View) -> None:
        """Drop a stored query."""
        self._do(ddl.DropView(view))

    # Rows

    def append(self, table: Table, files: Iterable[DataFile]) -> None:
        """Append files to a table, if its gate accepts them."""
        joining = tuple(files)
        if self._lake.gates.check(table, joining):
            self.note_pass(table.name, table)
        elif joining or self._lake.gates.is_ignored(table.name):
            self._ungated[table.name] = self._lake.gates.is_ignored(table.name)
        self._appended.setdefault(table.uuid, (table, []))[1].extend(joining)

    def note_pass(self, name: Name, table: Table) -> None:
        """Note that what this commit adds to a table has passed the gate of a relation, which is the table or a view that it is part of."""
        self._refuse_finished()
        self._passes[name] = NotePass(name, table)

    def take_ungated(self, names: Iterable[Name]) -> None:
        """Note that this commit takes all that waits for relations; what gates of other processes hold back of them comes past these."""
        self._refuse_finished()
        self._ungated |= {name: True for name in names if self._lake.gates.find(name) is None}

    def remove(self, table: Table, file_ids: Iterable[int]) -> None:
        """Remove whole files from a table, whatever is deleted from them meanwhile."""
        self._do(data.RemoveFiles(table, tuple(file_ids)))

    def retain(self, *streams: Table) -> None:
        """Evict what streams no longer keep, also where nothing was appended."""
        self._do(KeepRings(streams))

    def replace(self, table: Table, file_ids: Iterable[int], files: Iterable[DataFile]) -> None:
        """Replace old files by new ones; a conflict if rows were deleted from the old ones meanwhile."""
        self._do(data.RemoveFiles(table, tuple(file_ids), unchanged_since_base=True))
        self.append(table, files)

    def delete(self, table: Table, deletes: Mapping[int, DeleteFile]) -> None:
        """Delete rows by position: for each data file id, a delete file that lists all its deleted positions."""
        self._do(data.DeleteRows(table, tuple(deletes.items())))

    def delete_inlined(self, table: Table, row_ids: Iterable[int]) -> None:
        """Delete rows that another client stores inside the catalogue."""
        self._do(data.DeleteInlinedRows(table, tuple(row_ids)))

    def keep_before_images(self, table: Table, images: Iterable[BeforeImages]) -> None:
        """Name the files that hold the rows which this commit ends in a table: all of them, or the commit is refused."""
        self._refuse_finished()
        self._images.setdefault(table.uuid, (table, []))[1].extend(images)

    # Notes and what they rely on

    def put(self, table: sa.Table, expected: Mapping[str, Any] | None = data.ANYTHING, **row: Any) -> None:
        """Write one row of a `platform_*` table, by its primary key.

        `expected` has values that the row must hold before; None says that there must be no such row.
        """
        self._do(data.PutRow(table, row, expected))

    def forget(self, table: sa.Table, expected: Mapping[str, Any] | None = data.ANYTHING, **key: Any) -> None:
        """Remove one row of a `platform_*` table, by its primary key."""
        self._do(data.ForgetRow(table, key, expected))

    def expect_unchanged(self, *tables: Table) -> None:
        """Refuse to commit if others changed the rows or columns of these tables since this commit's base."""
        self._do(data.ExpectUnchanged(tables))

    def also(self, operation: data.Operation) -> None:
        """Add an operation of a higher layer; it runs in the same transaction."""
        self._do(operation)

    def follow(self, operation: data.Operation) -> None:
        """Add an operation that runs after files were appended and their rows have ids; without such files it does not run."""
        self._refuse_finished()
        self._following.append(operation)

    def _do(self, operation: data.Operation) -> None:
        self._refuse_finished()
        self._operations.append(operation)

    def _refuse_finished(self) -> None:
        if self.snapshot is not None:
            raise InvalidValue(f'commit "{self.message}" is finished', hint="open another one")

    def _planned(self) -> list[data.Operation]:
        """The operations in their order, appends last so that tables of this commit exist and row ids follow removals."""
        appended = tuple((table, tuple(files)) for table, files in self._appended.values() if files)
        passes = self._passes.values()
        images = [KeepBeforeImages(table, tuple(files)) for table, files in self._images.values() if files]
        if not appended:
            return [*self._operations, *images, *passes]
        rings = KeepRings(tuple(table for table, _ in appended))
        return [*self._operations, *images, data.AppendFiles(appended), *self._following, rings, *passes]

    def _run(self) -> Snapshot:
        operations = [*self._planned(), *self._find_bypassed()]
        rings = [*RELATION_TABLES, *RING_TABLES] if any(isinstance(operation, KeepRings) for operation in operations) else []
        noted = [operation.table for operation in operations if isinstance(operation, data.PutRow | data.ForgetRow)]
        images = [*BEFORE_IMAGE_TABLES] if self._images else []
        passes = [*PASS_TABLES, *RELATION_TABLES] if self._passes else []
        self._lake.prepare_tables([*DEPENDENT_TABLES, *rings, *noted, *images, *passes])
        since = time.monotonic()
        while True:
            try:
                made = self._race(operations)
            except RingFull as full:
                if time.monotonic() - since > full.wait.total_seconds():
                    raise
                time.sleep(_FULL_PAUSE_SECONDS)
                continue
            self._delete_released()
            return made

    def _find_bypassed(self) -> list[data.Operation]:
        """Find the gates that what is committed comes past, and what deletes the notes of that which it takes."""
        if not self._lake.gates.has_handler and not any(self._ungated.values()):
            return []
        self._bypassed = read_gate_stalls(self._lake, self._ungated)
        taken = tuple(name for stall in self._bypassed if self._ungated[name := Name.of((stall.schema, stall.name))])
        return [EndGateStalls(taken)] if taken else []

    def _delete_released(self) -> None:
        """The commit is made whatever becomes of these files; what can't be deleted now is vacuumed later."""
        storage, paths = self._lake.storage, list(self._released)
        # Large files take a disk long to let go of, 150 µs a megabyte, and the writer need not wait for it.
        if sum(self._released.values()) > _LARGE_BYTES:
            storage.delete_beside(paths)
            return
        with suppress(StorageError):
            storage.delete(paths)

    def _race(self, operations: Sequence[data.Operation]) -> Snapshot:
        for attempt in range(ATTEMPTS):
            try:
                return self._attempt(operations)
            except LostRace as error:
                # A client that does not queue with us took the snapshot id first, or rows that this commit waited for.
                if attempt == ATTEMPTS - 1:
                    raise CommitConflict(
                        f'commit "{self.message}" lost {ATTEMPTS} races for the next snapshot',
                        detail=str(error),
                        hint="another client commits without pause; try again later",
                    ) from error
                time.sleep(_PAUSE_SECONDS * 2 ** min(attempt, 6) * random.random())
        raise AssertionError  # unreachable: the last attempt returns or raises

    def _attempt(self, operations: Sequence[data.Operation]) -> Snapshot:
        committing = False
        try:
            with self._lake.writing() as connection:
                snapshot = self._write(connection, operations)
                committing = True
        except PlatformError as error:
            if committing and isinstance(error.__cause__, exc.DBAPIError):
                return self._find_outcome(error)
            raise
        return snapshot

    def _write(self, connection: sa.Connection, operations: Sequence[data.Operation]) -> Snapshot:
        head = read_snapshot(connection)
        if head is None:
            raise CatalogueError("the catalogue holds no snapshot", hint="it was damaged or never finished; restore it from a copy")
        # Clocks may go back or stand still; time travel needs that each snapshot has a later time than the one before.
        now = max(datetime.now(UTC), head.time + _TICK)
        w = Writer(connection, head=head, base=self.base, label=f'"{self.message}" by {self._author}', storage=self._lake.storage, time=now)
        # The row of the new snapshot comes first: from here on nobody else can take its id, so what is read below holds.
        try:
            connection.execute(
                sa.insert(c.SNAPSHOT).values(
                    snapshot_id=w.id,
                    snapshot_time=now,
                    schema_version=head.schema_version,
                    next_catalog_id=head.next_catalog_id,
                    next_file_id=head.next_file_id,
                )
            )
        except exc.IntegrityError as error:
            raise LostRace(f"snapshot {w.id} was taken") from error
        for operation in operations:
            operation.apply(w)
        check_needs(w)
        w.finish(author=self._author, message=self.message, notes=json.dumps({"commit": self._identity, **self._notes}))
        self._released = w.released
        return Snapshot(id=w.id, time=now, schema_version=w.schema_version, next_catalog_id=w.next_catalog_id, next_file_id=w.next_file_id)

    def _find_outcome(self, error: PlatformError) -> Snapshot:
        """The database went away while it was told to commit: only it knows whether it did.

        Asked as a writer, since the server may still be at it: its transaction holds the writers' lock until it has ended.
        """
        deadline = time.monotonic() + _RECONNECT_SECONDS
        while True:
            try:
                with self._lake.writing() as connection:
                    found = find_marked(connection, self._identity, after=self.base.id)
                    snapshot = None if found is None else read_snapshot(connection, id=found)
            except CatalogueError as still:
                if time.monotonic() > deadline:
                    self._lake.spare_files()
                    raise OutcomeUnknown(
                        f'commit "{self.message}" may or may not have been made: the catalogue went away while committing',
                        detail=still.detail,
                        hint=f"look for {self._identity} in commit_extra_info of SHOW SNAPSHOTS before repeating it",
                    ) from error
                time.sleep(0.2)
                continue
            if snapshot is None:
                raise error
            return snapshot


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "unknown"
