"""`platform metrics`: the figures of a lake and of the platform server as OpenMetrics text; reads the catalogue and starts nothing."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from platform_plugin import __version__
from platform_plugin.cli.output.machine import print_document
from platform_plugin.errors import StorageError

if TYPE_CHECKING:
    import argparse

_ANSWER = timedelta(seconds=2)


def run_metrics(given: argparse.Namespace) -> int:
    """Print the metrics, or write them to a file as a whole."""
    from platform_plugin.cli.care import URL_VARIABLE
    from platform_plugin.cli.reach import check_reach
    from platform_plugin.cli.server import server_document
    from platform_plugin.engine.spark.server.attach import status
    from platform_plugin.select.openmetrics import MetricSources, list_metrics, render_metrics
    from platform_plugin.select.overview import read_overview

    url = given.url or os.environ.get(URL_VARIABLE)
    if url:
        check_reach(url)
    overview = read_overview(url) if url else None
    sources = MetricSources(overview, server_document(status(timeout=_ANSWER)), datetime.now(UTC), __version__)
    if given.json:
        print_document({"metrics": list_metrics(sources)})
    elif given.output not in (None, "-"):
        write_whole(Path(given.output), render_metrics(sources))
    else:
        print(render_metrics(sources), end="")
    return 0


def write_whole(path: Path, text: str) -> None:
    """Put a text into a file, of which a collector that reads it at any moment sees the old or the new one."""
    try:
        handle, draft = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(text)
            Path(draft).chmod(0o644)
            Path(draft).replace(path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StorageError(f'file "{path}" can\'t be written', detail=str(error), hint="name another with --output") from error
