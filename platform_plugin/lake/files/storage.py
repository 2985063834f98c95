"""`Storage`: the data folder on any fsspec file system; every file operation of this process, confined to that folder."""

from __future__ import annotations

import errno
import os
import posixpath
import threading
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import urlsplit

from platform_plugin.distribution import install_line_for_scheme
from platform_plugin.errors import PathOutsideLake, PlatformError, StorageError
from platform_plugin.lake.files.store_options import read_store_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fsspec import AbstractFileSystem

# Hadoop's name for a file system where it differs from fsspec's.
_HADOOP_SCHEMES = {"": "file", "s3": "s3a", "local": "file"}

# The libraries of object stores, and those through which they speak.
_LIBRARIES = frozenset({"aiobotocore", "aiohttp", "azure", "botocore", "fsspec", "gcsfs", "google", "s3fs"})


class Storage:
    """A folder of a file system. Paths given and returned are relative to it; none can lead out of it.

    Files in the folders of `outside` can be read, but not written or deleted.

    >>> Storage("/srv/lake/data/").absolute("main/users/a.parquet")
    '/srv/lake/data/main/users/a.parquet'
    >>> Storage("/srv/lake/data/").absolute("../secret")
    Traceback (most recent call last):
    platform_plugin.errors.PathOutsideLake: path "../secret" leads out of the lake's data folder
      hint: only files below the data folder can be part of a lake, and those in folders that the lake's URL names by outside=/path
    """

    def __init__(self, root: str, *, outside: Sequence[str] = ()) -> None:
        split = urlsplit(root)
        self._outside = tuple(outside)
        self.root = root.rstrip("/") + "/"
        self.scheme = "" if split.scheme in ("", "file") else split.scheme
        self._base = split.path.rstrip("/") + "/" if not self.scheme else self.root
        self._settled: set[str] = set()
        self._options: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs to open the folder, with this one's credentials for an object store."""
        return {"root": self.root, "outside": self._outside, "options": self._options or read_store_options(self.scheme)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["root"], outside=state["outside"])  # type: ignore[misc]
        self._options = state["options"]

    @property
    def is_local(self) -> bool:
        """Whether the folder is on this machine's own file systems."""
        return not self.scheme

    @cached_property
    def files(self) -> AbstractFileSystem:
        """The fsspec file system, opened on first use; credentials come from the environment, as that library reads them."""
        import fsspec

        try:
            system, _ = fsspec.url_to_fs(self.root, **self._options)
        except (ImportError, ValueError) as error:
            raise missing_file_system(self.scheme, error) from error
        return system

    def absolute(self, path: str) -> str:
        """The full path of a relative one; an absolute one is accepted when it lies inside."""
        inner = path
        if "://" in path or path.startswith("/"):
            full = urlsplit(path).path if urlsplit(path).scheme in ("", "file") and not self.scheme else path
            if not full.startswith(self._base):
                raise _outside(path)
            inner = full[len(self._base) :]
        if "\0" in inner or posixpath.normpath(inner).split("/", 1)[0] == ".." or ".." in inner.split("/"):
            raise _outside(path)
        full = self._base + inner
        if self.is_local and not self._really_inside(full):
            raise _outside(path)
        return full

    def readable(self, path: str) -> str:
        """The full path of a file to read, which may also lie in one of the folders of `outside`."""
        if self._outside and (full := self._outside_path(path)) is not None:
            return full
        return self.absolute(path)

    def _outside_path(self, path: str) -> str | None:
        full = urlsplit(path).path if not self.scheme and urlsplit(path).scheme == "file" else path
        if "\0" in full or ".." in full.split("/"):
            return None
        folder = next((folder for folder in self._outside if full.startswith(folder)), None)
        if folder is None or (self.is_local and not os.path.realpath(full).startswith(os.path.realpath(folder) + "/")):
            return None
        return full

    def relative(self, path: str) -> str:
        """The path below the root of a file that lies there."""
        return self.absolute(path)[len(self._base) :]

    def _really_inside(self, full: str) -> bool:
        """A symbolic link may lead elsewhere; the data folder itself may be one."""
        real = os.path.realpath(full)
        return real == self._real_base or real.startswith(self._real_base + "/")

    @cached_property
    def _real_base(self) -> str:
        return os.path.realpath(self._base)

    def missing_local(self, paths: Iterable[str]) -> str | None:
        """The first of some paths that does not exist on this machine's file systems; remote stores are not asked."""
        if not self.is_local:
            return None
        return next((path for path in paths if not os.path.exists(self._base + path)), None)  # noqa: PTH110  thousands in a commit

    def uri(self, path: str) -> str:
        """The URI by which Spark opens the file."""
        full = self.readable(path)
        scheme = _HADOOP_SCHEMES.get(self.scheme, self.scheme)
        rest = full if not self.scheme else full.split("://", 1)[1]
        return f"{scheme}://{rest}"

    @contextmanager
    def open(self, path: str, mode: str = "rb") -> Iterator[BinaryIO]:
        """Open one file; a missing or unreadable one is a `StorageError` that names it.

        A file that was not written to its end is removed; a complete one survives a power cut.
        """
        full = self.absolute(path) if "w" in mode else self.readable(path)
        try:
            with explain_storage_errors(path):
                if self.is_local and "w" in mode:
                    Path(full).parent.mkdir(parents=True, exist_ok=True)
                with cast("BinaryIO", self.files.open(full, mode)) as file:
                    yield file
                if "w" in mode:
                    self.settle(path)
        except BaseException:
            if "w" in mode:
                with suppress(StorageError):
                    self.delete([path])
            raise

    @contextmanager
    def open_arrow(self, path: str) -> Iterator[Any]:
        """Open one file for Arrow to read; a missing or unreadable one is a `StorageError` that names it.

        On this machine's file systems it is a file of Arrow's own: Arrow's threads may outlive a reader, and one that releases a Python
        file while the interpreter ends aborts the process.
        """
        if not self.is_local:
            with self.open(path) as file:
                yield file
            return
        import pyarrow as pa

        with explain_storage_errors(path), pa.OSFile(self.readable(path), "rb") as own:
            yield own

    def settle(self, path: str) -> None:
        """Wait until a file and its name are on this machine's disk; a remote store guarantees this itself."""
        if not self.is_local:
            return
        full = self.absolute(path)
        with explain_storage_errors(path):
            _sync(full)
            folder = posixpath.dirname(full)
            _sync_folder(folder)
            # The names of the folders on the way, once each.
            while folder not in self._settled and folder + "/" != self._base:
                self._settled.add(folder)
                folder = posixpath.dirname(folder)
                _sync_folder(folder)

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        with explain_storage_errors(path):
            return int(self.files.size(self.absolute(path)))

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return bool(self.files.exists(self.absolute(path)))

    def delete(self, paths: Iterable[str]) -> int:
        """Delete files, whether or not they exist; returns how many did. Files of `outside` stay."""
        found = 0
        for path in paths:
            if self._outside and self._outside_path(path) is not None:
                continue
            try:
                with explain_storage_errors(path):
                    self.files.rm_file(self.absolute(path))
                found += 1
            except StorageError as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
        return found

    def delete_beside(self, paths: Sequence[str]) -> None:
        """Delete files in the background; `vacuum` deletes what is left after an error. The process ends only after this work."""

        def delete() -> None:
            with suppress(StorageError):
                self.delete(paths)

        threading.Thread(target=delete, name="delete files", daemon=False).start()

    def listing(self, below: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """Every file below a folder with what the file system says of it; nothing for a folder that does not exist."""
        full = self.absolute(below) if below else self._base.rstrip("/")
        with explain_storage_errors(below or self.root):
            for name, info in self.files.find(full, detail=True).items():
                path = f"{self.scheme}://{name.lstrip('/')}" if self.scheme else name
                yield path[len(self._base) :], info


def _sync(full: str) -> None:
    descriptor = os.open(full, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(full: str) -> None:
    try:
        _sync(full)
    except OSError as error:
        # A folder may be closed to reading, and not every file system can be asked for this; a file's own data is the larger part.
        if error.errno not in (errno.EACCES, errno.EINVAL, errno.ENOTSUP):
            raise


def _outside(path: str) -> PathOutsideLake:
    return PathOutsideLake(
        f'path "{path}" leads out of the lake\'s data folder',
        hint="only files below the data folder can be part of a lake, and those in folders that the lake's URL names by outside=/path",
    )


def missing_file_system(scheme: str, error: Exception) -> StorageError:
    """The error for a URL whose scheme no installed package reads."""
    line = install_line_for_scheme(scheme)
    known = f"{line}; executors on other machines need it in their Python, too"
    hint = known if line else "check the spelling; a scheme of your own needs a package that registers it with fsspec"
    return StorageError(f'no file system for "{scheme}" is installed', detail=str(error), hint=hint)


def is_of_store(error: BaseException) -> bool:
    """Whether an error is that of a library for object stores, which have errors of their own for a store that fails."""
    return type(error).__module__.partition(".")[0] in _LIBRARIES


@contextmanager
def explain_storage_errors(path: str) -> Iterator[None]:
    """Turn errors of the file system inside the block into errors that name the file."""
    try:
        yield
    except PlatformError:
        raise
    except FileNotFoundError as error:
        raise StorageError(
            f'file "{path}" is missing', hint="it was removed by hand or by another program; restore it from a copy"
        ) from error
    except PermissionError as error:
        raise StorageError(
            f'file "{path}" can\'t be opened', detail="permission denied", hint="check the permissions of the data folder"
        ) from error
    except Exception as error:
        if not isinstance(error, OSError) and not is_of_store(error):
            raise
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "make room and try again; nothing was changed" if full else "check the disk or the object store"
        problem = "can't be written: the disk is full" if full else "can't be read or written"
        raise StorageError(f'file "{path}" {problem}', detail=str(error) or type(error).__name__, hint=hint) from error
