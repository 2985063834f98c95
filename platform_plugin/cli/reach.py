"""`check_reach`: tests within moments whether the database of a lake answers, before a command waits for it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from platform_plugin.errors import CatalogueError

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 2.5
# A PostgreSQL server answers this with one letter before it wants to know who is asking.
_SSL_REQUEST = (8).to_bytes(4) + (80877103).to_bytes(4)


def check_reach(url: str | Path, *, seconds: float = SECONDS) -> None:
    """Raise an error if the lake's catalogue is a PostgreSQL server that can't be reached, or that accepts a connection and is silent."""
    if not str(url).startswith("platform:"):
        return
    from platform_plugin.lake.catalogue.location import Location

    catalogue = Location.parse(url).catalogue
    host, port = catalogue.host, catalogue.port or 5432
    if not host or "," in host or host.startswith("/"):
        return
    said = b""
    try:
        with socket.create_connection((host, port), timeout=seconds) as connection:
            connection.sendall(_SSL_REQUEST)
            said = connection.recv(1)
    except (OSError, OverflowError, UnicodeError) as error:
        detail = "no answer" if isinstance(error, TimeoutError) else str(error)
        raise CatalogueError(
            f'PostgreSQL at "{host}:{port}" can\'t be reached',
            detail=f"{detail} within {seconds:g} seconds" if isinstance(error, TimeoutError) else detail,
            hint="check that it runs, and the host and port of the lake's URL",
        ) from error
    if said not in (b"S", b"N", b"E"):
        raise CatalogueError(f'what answers at "{host}:{port}" is not PostgreSQL', hint="check the host and port of the lake's URL")
