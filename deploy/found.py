"""Makes what a new deployment lacks: the bucket of the lake's files, and the lake. It may run any number of times.

python -m deploy.found
"""

from __future__ import annotations

import os
import sys

import fsspec

from platform_plugin import Lake
from platform_plugin.lake.catalogue.location import Location


def found(url: str) -> str:
    """Make the bucket and the lake of a URL, unless they are there; the lake's name without secrets."""
    location = Location.parse(url)
    scheme, separator, place = location.data_path.partition("://")
    if separator:
        fsspec.filesystem(scheme).makedirs(place.partition("/")[0], exist_ok=True)
    with Lake.create(location, exist_ok=True) as lake:
        return str(lake.location)


if __name__ == "__main__":
    sys.stdout.write(f"lake {found(os.environ['PLATFORM_URL'])}\n")
