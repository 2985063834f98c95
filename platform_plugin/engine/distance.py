"""`find_distances`: how far the files of a lake are from the client, and from the executors."""

from __future__ import annotations

import re
import socket
from typing import Literal, NamedTuple

from platform_plugin.lake.files.sources import split_place

Distance = Literal["near", "far", "unseen"]
"""On the same machine or in the same network; elsewhere; or in a folder of another machine, which may be shared or not."""
_HERE = ("", "localhost", "127.0.0.1", "::1", "[::1]")


class FileDistances(NamedTuple):
    """The distance of a lake's files from the process that asks, and from the executors that it asks."""

    client: Distance
    executors: Distance


def is_here(endpoint: str | None, *, machine: str | None = None) -> bool:
    """Whether a Spark endpoint is on this machine, as the platform's own server is.

    >>> is_here("sc://localhost:15002"), is_here("sc://cluster:15002/;token=x"), is_here(None)
    (True, False, True)
    """
    if endpoint is None:
        return True
    found = re.match(r"sc://(\[[^\]]*\]|[^:/;]*)", endpoint)
    host = found[1].lower() if found is not None else ""
    return host in (*_HERE, (machine or socket.gethostname()).lower())


def find_distances(root: str, endpoint: str | None, *, executors_here: bool = True, machine: str | None = None) -> FileDistances:
    """The distances for a data folder and a Spark endpoint; None is the platform's own server, whose executors may be elsewhere.

    >>> [find_distances(root, "sc://cluster:15002") for root in ("/srv/lake/data/", "s3://bucket/lake/")]
    [FileDistances(client='near', executors='unseen'), FileDistances(client='far', executors='near')]
    >>> find_distances("s3://bucket/lake/", None)
    FileDistances(client='far', executors='far')
    >>> find_distances("s3://bucket/lake/", None, executors_here=False)
    FileDistances(client='far', executors='near')
    """
    client: Distance = "near" if split_place(root).scheme in ("", "file") else "far"
    if executors_here if endpoint is None else is_here(endpoint, machine=machine):
        return FileDistances(client, client)
    return FileDistances(client, "unseen" if client == "near" else "near")
