"""The `platform maintain` command: continuous views and samples take up what has arrived until the command is told to stop."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from platform_plugin.cli.amounts import counted, said_seconds
from platform_plugin.cli.care import lake_url, written_name
from platform_plugin.cli.failure import failure_document, failure_lines
from platform_plugin.cli.ingest import stopping_gracefully
from platform_plugin.cli.machine import print_document
from platform_plugin.cli.progress import ProgressLine

if TYPE_CHECKING:
    import argparse

    from platform_plugin.errors import PlatformError
    from platform_plugin.relations.views.follow.maintain import Maintained


def run_maintain_command(given: argparse.Namespace) -> int:
    """Maintain run after run; a first SIGTERM or Ctrl-C lets the run at hand finish, a second drops it whole."""
    url = lake_url(given)
    only = [written_name(view) for view in given.views] or None
    from platform_plugin.maintenance.service import Maintainer
    from platform_plugin.platform import Platform

    line = ProgressLine("maintaining")
    with Platform.open(url, watcher=line.watch) as platform:
        maintainer = Maintainer(platform.work, only, interval_seconds=given.interval.total_seconds(), progress=line.advance)
        observer = _Telling(json_lines=given.json)
        with stopping_gracefully(maintainer):
            if given.once:
                with line:
                    maintainer.run(observer, once=True)
            else:
                maintainer.run(observer)
    return 1 if given.once and observer.troubled else 0


class _Telling:
    """Tells of runs on standard output and of failures on standard error."""

    def __init__(self, *, json_lines: bool) -> None:
        self._json = json_lines
        self.troubled = False

    def maintained(self, done: Maintained) -> None:
        self.troubled = bool(done.failed)
        if self._json:
            print_document(
                {
                    "at": datetime.now(UTC),
                    "views": list(done.views),
                    "samples": list(done.samples),
                    "rows": done.rows,
                    "groups": done.groups,
                    "compacted": done.compacted,
                    "jobs": done.jobs,
                    "seconds": done.seconds,
                    "snapshot": done.snapshot.id,
                    "failed": {name: failure_document(error) for name, error in done.failed.items()},
                }
            )
        else:
            if done.views:
                what = f"{counted(done.rows, 'row')} into {counted(done.groups, 'group')} of {counted(len(done.views), 'view')}"
                cost = f"{counted(done.jobs, 'job')}, snapshot {done.snapshot.id}, {said_seconds(done.seconds)}"
                print(f"{datetime.now(UTC).astimezone():%H:%M:%S}  {what}, {cost}")
            if done.samples:
                print(f"{datetime.now(UTC).astimezone():%H:%M:%S}  {counted(len(done.samples), 'sample')} took up what arrived")
            for name, error in done.failed.items():
                print("\n".join([f"          {name} was left behind:", *failure_lines(error)]), file=sys.stderr)
        sys.stdout.flush()

    def failed(self, error: PlatformError, pause_seconds: float) -> None:
        if self._json:
            said = json.dumps({"error": failure_document(error), "retry_seconds": pause_seconds}, ensure_ascii=False)
        else:
            said = "\n".join([*failure_lines(error), f"  trying again in {said_seconds(pause_seconds)}"])
        print(said, file=sys.stderr, flush=True)
