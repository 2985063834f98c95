"""Sources: the files beyond a lake that a statement reads, as one absolute place that means the same from everywhere."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from platform_plugin.errors import InvalidValue
from platform_plugin.redaction import holds_credentials


def split_place(place: str) -> SplitResult:
    """The parts of a URL or path; one that no library could read is refused here rather than by whichever comes first.

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


def absolute_place(place: str) -> str:
    """A URL as it is, or a path without a scheme as one of this machine, relative to where the statement was given.

    Credentials are refused: what is read is kept in statements, messages and logs.
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
