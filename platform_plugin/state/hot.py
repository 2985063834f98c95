"""`HotCopies`: copies of a lake's stored files on this machine, sorted by address and uncompressed, which processes map into memory.

A stored file never changes, so a copy is right or it is none: its foot has its length, a checksum, and what it is a copy of. A copy that
was cut off, or belongs to another lake, or to a store with other keys or columns, is made anew. Copies that were not used for longest leave
when all of them together exceed the limit `hot_bytes`. Any number of processes may write, read and remove them at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import time
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.cache import Cache, CacheFigures
from platform_plugin.lake.values.xxhash import hash_bytes, hash_longs
from platform_plugin.state.cache_folder import COPY_ENDING, list_copies, locate_cache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from uuid import UUID

_MAGIC = b"HOTCOPY1"
_FOOT = struct.Struct("<16s16sQQ8s")  # lake, likeness, length, checksum, magic
_WORDS = 1 << 17
_STALE_SECONDS = 3600.0
# A use is noted in the file system at most this often.
_NOTE_SECONDS = 60.0
# One copy may not drive out all others.
_LARGEST_SHARE = 2
_NUMBERS = count()


class HotCopies:
    """The copies of one lake's files. `budget` bounds the bytes of all lakes' copies together; with 0 there are none."""

    def __init__(self, lake: UUID, *, budget: int, folder: Path | None = None) -> None:
        self._root = locate_cache() if folder is None else folder
        self._lake = lake
        self._folder = self._root / str(lake)
        self._budget = budget

    @property
    def is_on(self) -> bool:
        """Whether copies are made and used."""
        return self._budget > 0

    def find(self, name: str, likeness: str) -> pa.Table | None:
        """The rows of the copy with this name, mapped into memory; None if there is none of this likeness."""
        if not self.is_on:
            return None
        key = (str(self._folder), name, likeness)
        mapped = _MAPPED.get(key)
        if mapped is None:
            path = self._path(name)
            rows = _map(path, self._lake, likeness)
            if rows is None:
                return None
            mapped = _MAPPED.put(key, _Mapped(path, rows))
        mapped.note_use()
        return mapped.rows

    def put(self, name: str, likeness: str, rows: pa.Table) -> pa.Table:
        """Write a copy of these rows, and return them mapped; where that can't be done the rows are returned as they are."""
        if not self.is_on or rows.nbytes * _LARGEST_SHARE > self._budget:
            return rows
        path = self._path(name)
        part = path.with_name(f"{path.name}.{os.getpid()}-{next(_NUMBERS)}.part")
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(part, self._lake, likeness, rows)
            part.replace(path)
        except (OSError, pa.ArrowException):  # a full disk, or a text column of 2 GiB: the answer does not depend on copies
            with suppress(OSError):
                part.unlink()
            return rows
        self._evict()
        return self.find(name, likeness) or rows

    def figures(self) -> CacheFigures:
        """The copies of all lakes, with the finds of this process."""
        found = list(list_copies(self._root))
        uses = _MAPPED.figures()
        return CacheFigures(
            name="hot copies on disk", entries=len(found), bytes=sum(copy.bytes for copy in found), hits=uses.hits, misses=uses.misses
        )

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{COPY_ENDING}"

    def _evict(self) -> None:
        """Remove the copies that were not used for longest, until the rest fit; another process may be at it."""
        with _hold(self._root / "lock") as held:
            if not held:
                return
            _remove_parts(self._root)
            found = sorted(list_copies(self._root), reverse=True)
            left = self._budget
            for copy in found:
                left -= copy.bytes
                if left < 0:
                    with suppress(OSError):
                        copy.path.unlink()


class _Mapped:
    """A mapped copy; its last use stands in the times of its file."""

    __slots__ = ("noted", "path", "rows")

    def __init__(self, path: Path, rows: pa.Table) -> None:
        self.path, self.rows, self.noted = path, rows, 0.0

    def note_use(self) -> None:
        now = time.monotonic()
        if now - self.noted > _NOTE_SECONDS or not self.noted:
            self.noted = now
            with suppress(OSError):  # removed meanwhile; what is mapped stays
                os.utime(self.path)


# The bytes are the file system's, which drops them when memory is short.
_MAPPED: Cache[tuple[str, str, str], _Mapped] = Cache("mapped hot copies", weigh=lambda mapped: 2_000 * (1 + mapped.rows.num_columns))


def _write(path: Path, lake: UUID, likeness: str, rows: pa.Table) -> None:
    whole = rows.combine_chunks()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, whole.schema) as writer:
        for batch in whole.to_batches():
            writer.write_batch(batch)
    with pa.memory_map(str(path), "r") as written:
        content = written.read_buffer()
    foot = _FOOT.pack(lake.bytes, _digest(likeness), content.size, _checksum(content), _MAGIC)
    with path.open("ab") as file:
        file.write(foot)
        file.flush()
        os.fsync(file.fileno())


def _map(path: Path, lake: UUID, likeness: str) -> pa.Table | None:
    try:
        with pa.memory_map(str(path), "r") as file:
            content = file.read_buffer()
        end = content.size - _FOOT.size
        if end < 0:
            return None
        *identity, length, checksum, magic = _FOOT.unpack(content.slice(end))
        payload = content.slice(0, end)
        if magic != _MAGIC or identity != [lake.bytes, _digest(likeness)] or length != end or checksum != _checksum(payload):
            return None
        return pa.ipc.open_file(payload).read_all()
    except (OSError, pa.ArrowException):
        return None


def _digest(likeness: str) -> bytes:
    return hashlib.blake2b(likeness.encode(), digest_size=16).digest()


def _checksum(content: pa.Buffer) -> int:
    """A checksum as fast as memory: the sums of blocks, each hashed with its number."""
    whole = content.size // 8 // _WORDS * _WORDS
    blocks = np.frombuffer(content, dtype="<u8", count=whole).reshape(-1, _WORDS).sum(axis=1, dtype=np.uint64)
    hashes = hash_longs(blocks, np.arange(len(blocks), dtype=np.uint64))
    rest = hash_bytes(hashlib.blake2b(content.slice(whole * 8), digest_size=8).digest())
    return (int(hashes.sum(dtype=np.uint64)) ^ rest) & ((1 << 64) - 1)


def _remove_parts(root: Path) -> None:
    """Remove what killed processes have begun."""
    for path in root.glob("*/*.part"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                path.unlink()


@contextmanager
def _hold(path: Path) -> Iterator[bool]:
    """Whether this process has the lock of a folder of copies, without waiting for it."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield False
    else:
        yield True
    finally:
        os.close(handle)
