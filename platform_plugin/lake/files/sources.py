"""Sources outside the lake that COPY and feeds may read: absolute places, and the lists that permit them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import SplitResult, urlsplit

from platform_plugin.errors import InvalidValue, PathOutsideLake
from platform_plugin.redaction import holds_credentials

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SOURCES_VARIABLE = "PLATFORM_SOURCES"
_SAME_STORE = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_PATTERN = re.compile(r"[*?\[\]{}\\]")


def split_place(place: str) -> SplitResult:
    """The parts of a URL or path; one that can't be parsed is refused.

    >>> split_place("s3://bucket/a?.csv").netloc
    'bucket'
    """
    if "\0" in place or not place.strip() or any("\ud800" <= sign <= "\udfff" for sign in place):
        raise InvalidValue(
            "a path is empty, or holds what no name of a file may hold",
            hint="give a path, a glob, or a URL such as s3://bucket/prefix/*.csv",
        )
    try:
        split = urlsplit(place)
        _ = split.port if ":" in split.netloc else None
    except ValueError as error:
        raise InvalidValue(f'"{place}" is not a URL', detail=str(error), hint="write [ ] in host names for IPv6 addresses only") from error
    return split


def make_absolute(place: str) -> str:
    """A URL as it is, or a path without a scheme as an absolute path of this machine, relative to the working folder.

    Credentials are refused, since places are stored in statements, messages and logs.
    """
    if holds_credentials(place):
        raise InvalidValue(
            "a path has credentials in it", hint="give them to fsspec and Spark by the environment; statements are kept as they are written"
        )
    split = split_place(place)
    if "://" in place and split.scheme not in ("file", "local"):
        return place
    # What looks like a query or a fragment is a part of a file's name, or of a glob.
    path = place.partition("://")[2].removeprefix(split.netloc) if "://" in place else place
    if "://" in place and split.netloc not in ("", "localhost"):
        raise InvalidValue(f'"{place}" names a host', hint="a file of this machine is file:///path, with three slashes")
    try:
        return str(Path(path).expanduser().absolute())
    except (RuntimeError, OSError) as error:
        raise InvalidValue(f'"{path}" begins with a user who has no home here', hint="write the path out, from / on") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The folders, stores and brokers that COPY and feeds may read: those that every given list permits, or all without a list.

    >>> sources = Sources(lists=(("/srv/incoming", "s3://bucket/in", "kafka://one:9092"),))
    >>> sources.permits("s3a://bucket/in/x*.csv"), sources.permits("s3://bucket/{in,out}/x.csv"), sources.permits("kafka://two:9092")
    (True, False, False)
    """

    lists: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, named: Sequence[str] | None, environment: Mapping[str, str] = os.environ) -> Sources:
        """The sources of a lake's URL and of the environment: a URL can't permit more than the environment does."""
        lists = [] if named is None else [tuple(named)]
        if SOURCES_VARIABLE in environment:
            lists.append(tuple(part.strip() for part in environment[SOURCES_VARIABLE].split(",") if part.strip()))
        for part in (part for one in lists for part in one):
            if not part.startswith("/") and not re.match(r"[a-z][a-z0-9+.\-]*:", part):
                raise InvalidValue(
                    f'source "{part}" is no folder and no scheme', hint="write /path, s3://bucket/prefix, gs: or kafka://host:9092"
                )
        return cls(lists=tuple(lists))

    def permits(self, place: str) -> bool:
        """Whether everything that a path, glob or URL can match lies below a folder of each list; links are followed."""
        return all(any(_is_within(place, root) for root in one) for one in self.lists)

    def check(self, place: str) -> None:
        """Refuse a place that is not permitted."""
        if not self.permits(place):
            self._refuse(place)

    def _refuse(self, place: str) -> NoReturn:
        allowed = [root for one in self.lists for root in one]
        raise PathOutsideLake(
            f'"{place}" is not among the sources that may be read',
            detail=f"they are {', '.join(dict.fromkeys(allowed))}" if allowed else "there are none",
            hint=f"put the files there, or have {SOURCES_VARIABLE} or sources= of the lake's URL changed",
        )

    def check_file(self, path: str) -> None:
        """Refuse a file of this machine that is not permitted once links are followed; its name is no pattern."""
        real = os.path.realpath(path)
        for one in self.lists:
            if not any(root.rstrip("/") == "file:" or (root.startswith("/") and _lies_in(real, root)) for root in one):
                self._refuse(path)

    def confined(self, place: str) -> str:
        """The place with links before its first pattern resolved, for a reader that follows links; links that lead out are refused."""
        self.check(place)
        if not self.lists or "://" in place:
            return place
        fixed, rest = _fixed(place)
        real = os.path.realpath(fixed)
        for folder, folders, files in os.walk(real):
            for name in (*folders, *files):
                path = os.path.join(folder, name)  # noqa: PTH118  folders may hold very many names
                if os.path.islink(path):  # noqa: PTH114  as above
                    self.check_file(path)
        return real + rest


EVERYWHERE = Sources()
"""No list is given, so everything is permitted."""


def _is_within(place: str, root: str) -> bool:
    if "::" in place or ".." in re.split(r"[/,{}]", place):
        return False
    scheme, found, rest = place.partition("://")
    if not found:
        if not root.startswith("/"):
            return root.rstrip("/") == "file:"
        return _lies_in(os.path.realpath(_fixed(place)[0]), root)
    store, _, below = root.partition(":")
    below = below.removeprefix("//").rstrip("/")
    if _SAME_STORE.get(scheme.lower(), scheme.lower()) != _SAME_STORE.get(store, store):
        return False
    # What a pattern can match begins like the part before it, up to the last whole folder.
    fixed = rest if (pattern := _PATTERN.search(rest)) is None else rest[: rest.rfind("/", 0, pattern.start()) + 1]
    return not below or fixed.rstrip("/") == below or fixed.startswith(below + "/")


def _lies_in(real: str, root: str) -> bool:
    base = os.path.realpath(root).rstrip("/")
    return real == base or real.startswith(base + "/")


def _fixed(path: str) -> tuple[str, str]:
    """A path up to the last whole folder before its first pattern, and what is behind that."""
    pattern = _PATTERN.search(path)
    if pattern is None:
        return path, ""
    place = path.rfind("/", 0, pattern.start())
    return path[:place] or "/", path[place:]
