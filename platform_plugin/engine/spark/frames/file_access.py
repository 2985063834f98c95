"""`find_file_access`: whether Spark itself or tasks in Python read and write the files of a folder, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from platform_plugin.engine.spark.frames.stores import find_missing_store

if TYPE_CHECKING:
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.lake.files.storage import Storage


class FileAccess(NamedTuple):
    """Who reads and writes files, and why."""

    by_tasks: bool
    why: str


def find_file_access(session: Session, storage: Storage) -> FileAccess:
    """Who reads and writes the files of a folder; the server is asked once for each scheme of a session."""
    return find_place_access(session, storage.root, scheme=storage.scheme)


def find_place_access(session: Session, place: str, *, scheme: str) -> FileAccess:
    """The same for a URL or path."""
    if session.file_access != "auto":
        return FileAccess(session.file_access == "tasks", f"option file_access is {session.file_access}")
    if scheme in ("", "file", "local"):
        return FileAccess(by_tasks=False, why="they are in a folder")
    missing = find_missing_store(session, place, scheme=scheme)
    if missing is None:
        return FileAccess(by_tasks=False, why=f'Spark has a file system for "{scheme}"')
    return FileAccess(by_tasks=True, why=f'Spark has no file system for "{scheme}": {missing.package} is not there')
