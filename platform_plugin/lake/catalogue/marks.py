"""The mark file in a data folder, which names the lake and the catalogue database that the files belong to.

Without it a second catalogue would delete the first one's files as left-overs. A copy of a catalogue is the same lake, so the mark also
names the database: of two copies over one folder only one can be opened, and none deletes what the other needs.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import exc

from platform_plugin.errors import InvalidValue, StorageError
from platform_plugin.lake.catalogue.identifiers import new_uuid
from platform_plugin.lake.catalogue.location import CATALOGUE_FILE, Location

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from platform_plugin.lake.files.storage import Storage

MARKER = "_platform_lake.json"
_OTHER_FOLDER = "choose an empty folder for a new lake"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderMark:
    """The content of a mark; `database` is None for a catalogue inside the lake's own folder, which its path identifies."""

    lake: UUID
    catalogue: str
    database: str | None

    def to_json(self) -> bytes:
        """The mark's content."""
        return json.dumps({"lake": str(self.lake), "catalogue": self.catalogue, "database": self.database}).encode()


def database_identity(connection: Connection) -> str | None:
    """The identity of a catalogue's PostgreSQL schema, by numbers that a dump restored elsewhere does not have; None on SQLite."""
    if connection.dialect.name != "postgresql":
        return None
    here = "SELECT oid FROM pg_database WHERE datname = current_database()"
    schema = "SELECT oid FROM pg_namespace WHERE nspname = current_schema()"
    database, namespace = connection.execute(sa.text(f"SELECT ({here}), ({schema})")).one()
    try:
        with connection.begin_nested():
            cluster = connection.execute(sa.text("SELECT system_identifier FROM pg_control_system()")).scalar()
    except exc.ProgrammingError:  # where the administrator keeps it from others
        cluster = None
    return f"{cluster or 'unknown'}/{database}/{namespace}"


def read_mark(storage: Storage) -> FolderMark | None:
    """The mark of a data folder, if there is one."""
    if not storage.exists(MARKER):
        return None
    with storage.open(MARKER) as file:
        text = file.read()
    try:
        found = json.loads(text)
        return FolderMark(lake=UUID(found["lake"]), catalogue=str(found["catalogue"]), database=found.get("database"))
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(f'the mark "{MARKER}" of data folder "{storage.root}" can\'t be read', hint="restore it from a copy") from error


def claim_folder(storage: Storage, location: Location, database: str | None) -> UUID:
    """Mark a data folder as a new lake's; a mark of the same lake, left by an interrupted creation, is reused."""
    found = [path for path, _ in storage.listing() if not path.startswith(MARKER)]
    if found:
        problem = "belongs to another lake" if storage.exists(MARKER) else "is not empty"
        raise StorageError(f'data folder "{storage.root}" {problem}', detail=f'it holds "{found[0]}"', hint=_OTHER_FOLDER)
    mine = FolderMark(lake=new_uuid(), catalogue=str(location), database=database)
    if not storage.exists(MARKER) and _leave(storage, mine):
        return mine.lake
    known = read_mark(storage)
    if known is None or known.catalogue != mine.catalogue:
        detail = f'its catalogue is "{known.catalogue}"' if known else None
        raise StorageError(f'data folder "{storage.root}" belongs to another lake', detail=detail, hint=_OTHER_FOLDER)
    if known.database != database:
        _write(storage, FolderMark(lake=known.lake, catalogue=known.catalogue, database=database))
    return known.lake


def refuse_strangers(storage: Storage, lake: UUID, location: Location, database: str | None) -> FolderMark | None:
    """The mark of a data folder; the folder of another lake, or of another copy of this catalogue, is refused."""
    mark = _of_this_lake(storage, lake, location)
    if mark is not None and None not in (mark.database, database) and mark.database != database:
        raise StorageError(
            f'data folder "{storage.root}" belongs to another copy of the catalogue of "{location}"',
            detail=f'the catalogue was last known as "{mark.catalogue}"',
            hint="use that one; if this one is to take its place, run `platform init --adopt` with its URL, or Lake.adopt(url)",
        )
    return mark


def take_over_folder(storage: Storage, lake: UUID, location: Location, database: str | None) -> None:
    """Write this catalogue into the mark, unless the one that it names still exists and names the same files."""
    mark = _of_this_lake(storage, lake, location)
    mine = FolderMark(lake=lake, catalogue=str(location), database=database)
    if mark == mine:
        return
    if mark is None:
        _leave(storage, mine)
        return
    other = _still_there(mark, storage, location)
    if other is not None:
        raise StorageError(
            f'data folder "{storage.root}" belongs to the catalogue "{other}"', hint="copy the data folder too, or remove that catalogue"
        )
    _write(storage, mine)


def _of_this_lake(storage: Storage, lake: UUID, location: Location) -> FolderMark | None:
    mark = read_mark(storage)
    if mark is not None and mark.lake != lake:
        raise StorageError(f'data folder "{storage.root}" belongs to another lake than "{location}"', hint="correct the URL")
    return mark


def _still_there(mark: FolderMark, storage: Storage, location: Location) -> Path | None:
    """The catalogue that a mark names, if it is another file than ours beside the very same data folder."""
    try:
        known = Location.parse(mark.catalogue)
    except InvalidValue:
        return None
    if known.folder is None or location.folder is None:
        return None
    file, mine = known.folder / CATALOGUE_FILE, location.folder / CATALOGUE_FILE
    try:
        same_data = Path(known.data_path).samefile(storage.absolute(""))
        return file if same_data and not file.samefile(mine) else None
    except OSError:
        return None


def _leave(storage: Storage, mark: FolderMark) -> bool:
    """Leave a whole mark or none; False if another lake was first."""
    if not storage.is_local:
        _write(storage, mark)
        return True
    draft = _draft(storage, mark)
    try:
        os.link(storage.absolute(draft), storage.absolute(MARKER))
    except FileExistsError:
        return False
    except OSError as error:
        raise _unmarkable(storage, error) from error
    finally:
        storage.delete([draft])
    return True


def _write(storage: Storage, mark: FolderMark) -> None:
    """Put a whole mark in the place of the one that is there."""
    if not storage.is_local:
        with storage.open(MARKER, "wb") as file:
            file.write(mark.to_json())
        return
    try:
        Path(storage.absolute(_draft(storage, mark))).replace(storage.absolute(MARKER))
    except OSError as error:
        raise _unmarkable(storage, error) from error


def _draft(storage: Storage, mark: FolderMark) -> str:
    draft = f"{MARKER}.{new_uuid()}"
    with storage.open(draft, "wb") as file:
        file.write(mark.to_json())
    return draft


def _unmarkable(storage: Storage, error: OSError) -> StorageError:
    return StorageError(f'data folder "{storage.root}" can\'t be marked', detail=str(error), hint="use a local disk")
