"""The folder of what is cached on this machine's disk: where it is, and the copies in it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CACHE_VARIABLE = "PLATFORM_CACHE_DIR"
COPY_ENDING = ".arrow"


class CopyFile(NamedTuple):
    """A copy on disk: when it was last used, in seconds since 1970, its size and its path."""

    used_at: float
    bytes: int
    path: Path


def locate_cache(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of what is cached on disk: PLATFORM_CACHE_DIR, else `platform` in the user's folder of caches.

    >>> str(locate_cache({"PLATFORM_CACHE_DIR": "/srv/cache"}))
    '/srv/cache'
    """
    if named := environment.get(CACHE_VARIABLE):
        return Path(named)
    home = environment.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path("~/.cache").expanduser()) / "platform"


def list_copies(root: Path) -> Iterator[CopyFile]:
    """The copies of all lakes below a folder; others may add and remove some meanwhile."""
    with suppress(OSError):
        for folder in list(root.iterdir()):
            with suppress(OSError):
                for entry in os.scandir(folder):
                    if entry.name.endswith(COPY_ENDING):
                        with suppress(OSError):
                            found = entry.stat()
                            yield CopyFile(found.st_mtime, found.st_size, Path(entry.path))
