"""`find_nearby_lake`: the lake in or above a folder, which a user who named that folder may have meant."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from platform_plugin.lake.catalogue.location import CATALOGUE_FILE

_PROJECT_LAKE = Path(".platform") / "lake"
_LEVELS_UP = 3


def find_nearby_lake(folder: Path) -> Path | None:
    """The folder of a lake in or above a folder, as in a project or after a path that is one step wrong; nothing is opened.

    >>> find_nearby_lake(Path("/nowhere/at/all")) is None
    True
    """
    folder = folder.absolute()
    above = list(folder.parents)[:_LEVELS_UP]
    for candidate in (folder / _PROJECT_LAKE, folder / "lake", *above, *(each / _PROJECT_LAKE for each in above)):
        file = candidate / CATALOGUE_FILE
        with suppress(OSError):
            if file.is_file() and file.stat().st_size:
                return candidate
    return None
