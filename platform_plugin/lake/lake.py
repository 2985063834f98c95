"""The class `Lake`: an open catalogue with its data folder, to read, write and commit without Spark."""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Self

import sqlalchemy as sa

from platform_plugin.algebra.predicates.conditions import ALWAYS
from platform_plugin.cache import Cache, set_budget
from platform_plugin.errors import ObjectExists, SnapshotExpired, UnknownObject
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue import founding
from platform_plugin.lake.catalogue.bulk import split_chunks
from platform_plugin.lake.catalogue.database import create_engine, read_transaction, write_transaction
from platform_plugin.lake.catalogue.location import Location
from platform_plugin.lake.catalogue.tables import (
    CommitRecord,
    Name,
    Snapshot,
    Table,
    View,
    find_nearest_name,
    read_commits,
    read_names,
    read_schemas,
    read_snapshot,
    read_tables,
    read_views,
)
from platform_plugin.lake.commit.gates import Gates
from platform_plugin.lake.files import files
from platform_plugin.lake.files.data_folder import DataFolder
from platform_plugin.lake.files.sources import Sources
from platform_plugin.lake.migrations.version import check_version, migrate_tables
from platform_plugin.lake.read import read, scan
from platform_plugin.lake.upkeep import leases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import timedelta
    from pathlib import Path
    from types import TracebackType
    from uuid import UUID

    import pyarrow as pa
    from sqlalchemy.engine import Connection

    from platform_plugin.algebra.predicates.conditions import Condition
    from platform_plugin.errors import PlatformError
    from platform_plugin.lake.commit.before_images import BeforeImages
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.files.data_folder import NameMapping
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.read import changes, check, net_changes
    from platform_plugin.lake.read.scan import TableScan
    from platform_plugin.lake.upkeep import expire, merge, vacuum

# By handle, since a folder may become another lake.
_RELATIONS: Cache[tuple[int, int, Name], Table | View] = Cache(
    "relations", weigh=lambda relation: 1_500 * len(getattr(relation, "fields", "2"))
)
_NUMBERS = count()


class Lake(DataFolder):
    """An open lake. Every read names one snapshot and sees the whole lake as of that snapshot.

    >>> import tempfile, pyarrow as pa
    >>> lake = Lake.create(tempfile.mkdtemp() + "/lake")
    >>> people = pa.table({"id": [1, 2], "name": ["Ada", "Grace"]})
    >>> with lake.commit("load people") as commit:
    ...     table = commit.create_table("people", lake.columns_of(people))
    ...     commit.append(table, [lake.write(table, people)])
    >>> lake.read("people").column("name").to_pylist()
    ['Ada', 'Grace']
    >>> lake.close()
    """

    def __init__(self, location: Location, *, uuid: UUID, data_path: str) -> None:
        super().__init__(data_path, outside=location.outside)
        self.location = location
        self.uuid = uuid
        self.sources = Sources.of(location.sources)
        self.gates = Gates()
        self._number = next(_NUMBERS)
        self._prepared: set[str] = set()
        self._unsure = False
        self._process = os.getpid()

    # Life

    @classmethod
    def create(cls, url: str | Path | Location, *, exist_ok: bool = False) -> Lake:
        """Create an empty lake; a place that holds a lake or anything else already is refused.

        With `exist_ok` a lake that is there is opened as it is; any number of processes may do that at once, and one creates it.
        """
        try:
            return cls._opened(url, founding.create)
        except ObjectExists:
            if not exist_ok:
                raise
        return cls.open(url)

    @classmethod
    def open(cls, url: str | Path | Location) -> Lake:
        """Open the lake at a URL or folder; anything that is no lake, or of a format newer than this version knows, is refused."""
        return cls._opened(url, founding.check)

    @classmethod
    def adopt(cls, url: str | Path | Location) -> Lake:
        """Open a lake that was moved, or that another client created, and note in its catalogue where its data is now."""
        return cls._opened(url, founding.adopt)

    @classmethod
    def upgrade(cls, url: str | Path | Location) -> tuple[str, str]:
        """Migrate a lake to the newest format that this version knows; the format that it had, and the one that it has now.

        Clients that only know the older one can't read it any more, and nothing leads back but a copy of the catalogue.
        """
        return founding.upgrade(url if isinstance(url, Location) else Location.parse(url))

    @classmethod
    def _opened(cls, url: str | Path | Location, how: Any) -> Lake:
        location = url if isinstance(url, Location) else Location.parse(url)
        set_budget()
        identity, data_path = how(location)
        return cls(location, uuid=identity, data_path=data_path)

    def __repr__(self) -> str:
        return f'Lake("{self.location}")'

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the catalogue."""
        if "_engine" in self.__dict__:
            self._engine.dispose(close=self._process == os.getpid())
            del self.__dict__["_engine"]

    @cached_property
    def _engine(self) -> sa.Engine:
        return create_engine(self.location.catalogue)

    @property
    def engine(self) -> sa.Engine:
        """The catalogue's engine, one per process: a forked child must not share its parent's connections."""
        if self._process != os.getpid():
            self.close()
            self._process = os.getpid()
        return self._engine

    def reading(self) -> AbstractContextManager[Connection]:
        """A read transaction on the catalogue."""
        return read_transaction(self.engine)

    @contextmanager
    def writing(self, *, shared: bool = False) -> Iterator[Connection]:
        """A write transaction on the catalogue; the first one on a lake of an older version migrates it, unless it is a reader's note."""
        with write_transaction(self.engine, shared=shared) as connection:
            if shared:
                check_version(connection)
            else:
                migrate_tables(connection)
            yield connection

    def prepare_tables(self, tables: Iterable[sa.Table]) -> None:
        """Create those of these `platform_*` tables that the catalogue does not have yet."""
        unsure = [table for table in dict.fromkeys(tables) if table.name not in self._prepared]
        if not unsure:
            return
        # Whoever only reads asks too, for its leases, and must not be the first to write to a lake of an older version.
        with self.reading() as connection:
            look = sa.inspect(connection)
            missing = [table for table in unsure if not look.has_table(table.name)]
        if missing:
            with self.writing() as connection:
                for table in missing:
                    table.create(connection, checkfirst=True)
        self._prepared.update(table.name for table in unsure)

    # Snapshots

    def snapshot(self, version: int | None = None, *, at: datetime | None = None) -> Snapshot:
        """The newest snapshot, one by its id, or the one that was current at a time."""
        with self.reading() as connection:
            return self._snapshot(connection, version, at)

    def newest_id(self) -> int:
        """The id of the newest snapshot, for callers that need nothing else of it; cheaper than `snapshot`."""
        try:
            connection = self.engine.raw_connection()
        except Exception:  # noqa: BLE001  as below
            return self.snapshot().id
        try:
            cursor = connection.cursor()
            cursor.execute("SELECT max(snapshot_id) FROM ducklake_snapshot")
            found = cursor.fetchone()
            cursor.close()
        except Exception:  # noqa: BLE001  each driver has errors of its own; the long way tells what is wrong
            return self.snapshot().id
        finally:
            connection.close()
        return int(found[0]) if found and found[0] is not None else self.snapshot().id

    @staticmethod
    def _snapshot(connection: Connection, version: int | None, at: datetime | None) -> Snapshot:
        moment = at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at
        found = read_snapshot(connection, id=version, at=moment)
        if found is not None:
            return found
        newest = read_snapshot(connection)
        oldest = connection.execute(sa.select(sa.func.min(c.SNAPSHOT.c.snapshot_id))).scalar()
        if version is not None and (newest is None or version > newest.id):
            raise UnknownObject(f"snapshot {version} does not exist yet", hint=f"the newest is {newest.id if newest else 'none'}")
        what = f"snapshot {version}" if version is not None else f"the snapshot of {moment}"
        raise SnapshotExpired(f"{what} is no longer kept", hint=f"the oldest is {oldest}; run SHOW SNAPSHOTS")

    def commits(
        self, *, after: int = -1, until: int | None = None, limit: int | None = None, of: Table | View | None = None
    ) -> list[CommitRecord]:
        """The records of commits, oldest first; with a limit, only the newest ones; with `of`, only those that changed this relation."""
        with self.reading() as connection:
            return read_commits(connection, after=after, until=until, limit=limit, of=of)

    def commit(
        self, message: str, *, base: Snapshot | None = None, author: str | None = None, notes: Mapping[str, Any] | None = None
    ) -> Commit:
        """Open a commit; `base` is the snapshot that its changes were computed from, by default the newest."""
        from platform_plugin.lake.commit.commit import Commit

        return Commit(self, message, base=base or self.snapshot(), author=author, notes=notes)

    # Relations

    def schemas(self, snapshot: Snapshot | None = None) -> list[str]:
        """The names of all schemas."""
        with self.reading() as connection:
            return list(read_schemas(connection, (snapshot or self._snapshot(connection, None, None)).id))

    def tables(self, snapshot: Snapshot | None = None) -> list[Table]:
        """All tables."""
        with self.reading() as connection:
            return read_tables(connection, (snapshot or self._snapshot(connection, None, None)).id)

    def views(self, snapshot: Snapshot | None = None) -> list[View]:
        """All stored queries."""
        with self.reading() as connection:
            return read_views(connection, (snapshot or self._snapshot(connection, None, None)).id)

    def table(self, name: str | tuple[str, str] | Name, snapshot: Snapshot | None = None) -> Table:
        """One table by name; an unknown name is an error that suggests the nearest one."""
        target = Name.of(name)
        with self.reading() as connection:
            return self.find_table(connection, target, snapshot or self._snapshot(connection, None, None))

    def find_table(self, connection: Connection, name: Name, snapshot: Snapshot) -> Table:
        """The same inside a transaction. The answer is cached, since no relation's definition changes within a schema version."""
        found = self.find_relation(connection, name, snapshot)
        if not isinstance(found, Table):
            raise UnknownObject(f'"{name}" is a view, not a table', hint="name the table that it reads")
        return found

    def find_relation(self, connection: Connection, name: Name, snapshot: Snapshot) -> Table | View:
        """The table or stored query of a name, whatever its case, since no two names differ only in case."""
        found = self.seek_relation(connection, name, snapshot)
        if found is None:
            near = find_nearest_name(name, read_names(connection, snapshot.id))
            hint = f"did you mean {near}?" if near is not None else "run SHOW TABLES"
            raise UnknownObject(f'table "{name}" does not exist at snapshot {snapshot.id}', hint=hint)
        return found

    def seek_relation(self, connection: Connection, name: Name, snapshot: Snapshot) -> Table | View | None:
        """The same, or None if there is no such relation."""
        key = (self._number, snapshot.schema_version, name)
        relation = _RELATIONS.get(key) or _read_relation(connection, name, snapshot)
        if relation is not None:
            _RELATIONS.put(key, relation)
        return relation

    # Rows

    @staticmethod
    def columns_of(rows: pa.Table | pa.Schema) -> tuple[Any, ...]:
        """The columns of a new table for these rows."""
        from platform_plugin.lake.values.types import from_arrow

        return from_arrow(rows if not hasattr(rows, "schema") else rows.schema)

    def write_before_images(
        self, scan: TableScan, positions: Mapping[int, Sequence[int]], *, inlined: Sequence[int] = ()
    ) -> list[BeforeImages]:
        """Write the rows at positions of a scan's files, and inlined rows by row id, as the before-images of a commit that deletes them."""
        from platform_plugin.lake.read import before_images

        return before_images.write_rows_at(self, scan, positions, inlined)

    def discard(self, written: Iterable[files.DataFile | files.DeleteFile | BeforeImages]) -> None:
        """Remove files that no commit will name; after a commit of unknown outcome they are left for `vacuum` instead."""
        going = list(written)
        if going and not self._unsure:
            named = self._named([file.path for file in going])
            files.discard(self.storage, [file for file in going if file.path not in named])

    def _named(self, paths: Sequence[str]) -> set[str]:
        """Those of these files that the catalogue names: an interrupt may come when their commit is made already."""
        from platform_plugin.lake.commit.before_images import name_before_images

        # The catalogue has them as seen from their table's folder, which is some part of the path.
        endings = {"/".join(path.split("/")[place:]): path for path in paths for place in range(path.count("/") + 1)}
        found: set[str] = set()
        with self.reading() as connection:
            for part in split_chunks(list(endings)):
                for table in (c.DATA_FILE, c.DELETE_FILE):
                    found.update(connection.execute(sa.select(table.c.path).where(table.c.path.in_(part))).scalars())
            found |= name_before_images(connection, paths)
        return {endings[ending] for ending in found}

    def explain_missing(self, path: str, snapshot: Snapshot) -> PlatformError:
        """The reason why a reader of a snapshot misses a file."""
        from platform_plugin.lake.read import missing

        return missing.explain_missing(self, path, snapshot)

    def read_name_mapping(self, mapping_id: int) -> NameMapping:
        """The mapping of a file of another program."""
        from platform_plugin.lake.catalogue.name_mappings import read_name_mapping

        with self.reading() as connection:
            return read_name_mapping(connection, mapping_id)

    def spare_files(self) -> None:
        """From now on leave all files that `discard` is given: a commit of unknown outcome may have named them."""
        self._unsure = True

    def describe_files(self, table: Table, paths: Sequence[str]) -> list[DataFile]:
        """Read the footers of files that Spark or another program wrote below the data folder."""
        return files.read_data_files(self.storage, table, paths)

    def scan(self, table: Table, snapshot: Snapshot, *, where: Condition = ALWAYS) -> TableScan:
        """The files, deletes and inlined rows that hold a table's rows at a snapshot, without files that can't match `where`."""
        with self.reading() as connection:
            known = table if table.id is not None else self.find_table(connection, table.name, snapshot)
            return scan.read_scan(connection, known, snapshot, where=where)

    def read(
        self,
        name: str | tuple[str, str] | Name,
        *,
        snapshot: Snapshot | None = None,
        columns: Sequence[str] | None = None,
        where: Condition = ALWAYS,
    ) -> pa.Table:
        """A table's rows as Arrow, without Spark; `where` is applied to the rows, not only to the files."""
        with self.reading() as connection:
            snapshot = snapshot or self._snapshot(connection, None, None)
            table = self.find_table(connection, Name.of(name), snapshot)
            plan = scan.read_scan(connection, table, snapshot, where=where)
        return read.read_rows(self, plan, columns=columns, where=where)

    def changes(
        self, name: str | tuple[str, str] | Name, *, after: Snapshot, until: Snapshot | None = None, where: Condition = ALWAYS
    ) -> changes.Changes:
        """The rows that were added to and deleted from a table between two snapshots, as files and positions: every step."""
        from platform_plugin.lake.read import changes

        with self.reading() as connection:
            until = until or self._snapshot(connection, None, None)
            table = self.find_table(connection, Name.of(name), until)
            return changes.read_changes(connection, table, after=after, until=until, where=where)

    def net_changes(
        self, name: str | tuple[str, str] | Name, *, after: Snapshot, until: Snapshot | None = None, where: Condition = ALWAYS
    ) -> net_changes.NetChanges:
        """The rows of an older snapshot that a newer one does not have, and those that it has instead, as files and positions."""
        from platform_plugin.lake.read import net_changes

        with self.reading() as connection:
            until = until or self._snapshot(connection, None, None)
            table = self.find_table(connection, Name.of(name), until)
            return net_changes.read_net_changes(connection, table, after=after, until=until, where=where)

    # Care

    def lease(self, snapshot: Snapshot | None = None, *, holder: str | None = None, duration: timedelta = leases.DURATION) -> leases.Lease:
        """Keep a snapshot and its files until the lease is released or ends; use it in a `with` block."""
        return leases.acquire_lease(self, snapshot, holder=holder, duration=duration)

    def retain(self) -> list[Table]:
        """Evict what the limits of streams no longer keep, also from streams without appends; an append does so by itself."""
        from platform_plugin.lake.ring import retention

        return retention.retain_due(self)

    def expire(self, older_than: datetime, *, dry_run: bool = False) -> expire.ExpireOutcome:
        """Forget snapshots older than a time, except the newest and leased ones; their files are scheduled for deletion.

        With `dry_run` nothing is forgotten, and the result says what would be.
        """
        from platform_plugin.lake.upkeep import expire

        return expire.expire(self, older_than, dry_run=dry_run)

    def check(self) -> list[check.CatalogueFinding]:
        """What the catalogue says of files and can't be true, such as partition values that the statistics contradict."""
        from platform_plugin.lake.read import check
        from platform_plugin.lake.upkeep import image_check

        return [*check.check(self), *image_check.check_images(self)]

    def vacuum(self, *, grace: timedelta | None = None, dry_run: bool = False) -> vacuum.VacuumOutcome:
        """Delete scheduled files that no reader can need, and files that no commit named, if they are older than a day or `grace`."""
        from platform_plugin.lake.upkeep import vacuum

        return vacuum.vacuum(self, grace=vacuum.GRACE if grace is None else grace, dry_run=dry_run)

    def merge(
        self, name: str | tuple[str, str] | Name, *, target_bytes: int | None = None, rewriter: merge.Rewriter | None = None
    ) -> merge.MergeOutcome:
        """Rewrite a table's small files, deleted rows and inlined rows into few files of the target size; its rows stay the same.

        A `rewriter` writes the files in other processes.
        """
        from platform_plugin.lake.upkeep import merge

        table = self.table(name)
        return merge.merge(
            self, table, target_bytes=target_bytes or table.file_options.target_bytes or files.TARGET_FILE_BYTES, rewriter=rewriter
        )


def _read_relation(connection: Connection, name: Name, snapshot: Snapshot) -> Table | View | None:
    found: list[Table | View] = [*read_tables(connection, snapshot.id, name=name), *read_views(connection, snapshot.id, name=name)]
    if found:
        return found[0]
    known = read_names(connection, snapshot.id, like=name)
    same = next((other for other in known if str(other).lower() == str(name).lower()), None)
    return _read_relation(connection, same, snapshot) if same is not None and same != name else None
