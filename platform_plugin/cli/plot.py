"""`platform plot`: writes a picture of a sample beside its population and its older versions, as SVG."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from platform_plugin.cli.care import lake_url, read_written_name
from platform_plugin.cli.output.machine import print_document
from platform_plugin.errors import InvalidValue, StorageError

if TYPE_CHECKING:
    import argparse


def run_plot(given: argparse.Namespace) -> int:
    """Draw a sample. Spark is started only if the sample needs it."""
    url, name = lake_url(given), read_written_name(given.sample)
    path = Path(given.output or f"{name.relation}.svg")
    if given.output != "-" and path.suffix.lower() not in ("", ".svg"):
        raise InvalidValue(
            f'a picture is SVG, which "{path}" is not named as',
            hint=f'write it to "{path.with_suffix(".svg")}"; browsers show and print it',
        )
    from platform_plugin.platform import Platform

    with Platform.open(url, limits=dict(given.engine_limit)) as platform:
        image = platform.plot((name.schema, name.relation), versions=given.against)
    if given.output == "-":
        sys.stdout.buffer.write(image)
        return 0
    try:
        path.write_bytes(image)
    except OSError as error:
        raise StorageError(f'file "{path}" can\'t be written', detail=str(error), hint="name another with --output") from error
    if given.json:
        print_document({"file": str(path), "bytes": len(image)})
    else:
        print(f"{path}: {len(image)} bytes")
    return 0
