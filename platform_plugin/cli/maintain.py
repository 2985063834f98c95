"""`platform maintain`: lets continuous views and samples consume what has arrived, until the command is stopped."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from platform_plugin.cli.care import lake_url, read_written_name
from platform_plugin.cli.failure import failure_document, failure_lines, tell_retry
from platform_plugin.cli.gates import hold_to_suites
from platform_plugin.cli.ingest import handle_stop_signals
from platform_plugin.cli.output.amounts import seconds_text
from platform_plugin.cli.output.machine import print_document
from platform_plugin.cli.output.progress import ProgressLine
from platform_plugin.language.text.counting import count_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from platform_plugin.engine.option import EngineName
    from platform_plugin.errors import PlatformError
    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.maintenance.run import MaintenanceOutcome
    from platform_plugin.platform import Platform


def run_maintain_command(given: argparse.Namespace) -> int:
    """Maintain run after run; a first SIGTERM or Ctrl-C lets the present run finish, a second discards it."""
    url = lake_url(given)
    only = [read_written_name(view) for view in given.views] or None
    from platform_plugin.maintenance.service import Maintainer
    from platform_plugin.platform import Platform

    line = ProgressLine("maintaining")
    with Platform.open(url, watcher=line.watch, limits=dict(given.engine_limit)) as platform, hold_to_suites(platform.lake, given):
        if given.dry_run:
            return _show_due(platform, only, engine=given.engine, json_lines=given.json)
        maintainer = Maintainer(
            platform.work, only, interval_seconds=given.interval.total_seconds(), progress=line.advance, engine=given.engine
        )
        observer = _MaintainReport(json_lines=given.json)
        with handle_stop_signals(maintainer):
            if given.once:
                with line:
                    maintainer.run(observer, once=True)
                if not (observer.has_reported or given.json):
                    print(f"nothing to do for {', '.join(map(str, only)) if only else 'any continuous view or sample'}")
            else:
                maintainer.run(observer)
    return 1 if given.once and observer.troubled else 0


def _show_due(platform: Platform, only: Sequence[Name] | None, *, engine: EngineName | None, json_lines: bool) -> int:
    """Print what a run would do now; 1 if it would fail for a relation."""
    from platform_plugin.maintenance.due import describe_due
    from platform_plugin.maintenance.run import find_due
    from platform_plugin.maintenance.service import check_maintained
    from platform_plugin.relations.follow.maintained import Selection

    for name in only or ():
        check_maintained(platform.work, name)
    due, failed = find_due(platform.work, Selection(names=None if only is None else frozenset(only)), engine=engine)
    if json_lines:
        print_document(
            {
                "due": [{**asdict(each), "rows": each.row_count} for each in due],
                "failed": {name: failure_document(error) for name, error in failed.items()},
            }
        )
    else:
        print("\n".join(describe_due(due, failed) or ["nothing is due"]))
    return 1 if failed else 0


def _engines_text(done: MaintenanceOutcome) -> str:
    """The engines of a run, in the order in which they ran."""
    names = dict.fromkeys(run.engine for run in done.engine_runs)
    return f"by {' and '.join(names)}, " if names else ""


class _MaintainReport:
    """Prints runs on standard output and failures on standard error."""

    def __init__(self, *, json_lines: bool) -> None:
        self._json = json_lines
        self.troubled = False
        self.has_reported = False

    def maintained(self, done: MaintenanceOutcome) -> None:
        self.has_reported = True
        self.troubled = bool(done.failed)
        if self._json:
            print_document(
                {
                    "at": datetime.now(UTC),
                    "views": list(done.views),
                    "samples": list(done.samples),
                    "feeds": list(done.feeds),
                    "fed": done.fed,
                    "rows": done.rows,
                    "groups": done.groups,
                    "compacted": done.compacted,
                    "jobs": done.jobs,
                    "tasks": done.tasks,
                    "on_spark": done.on_spark,
                    "engines": [run.document() for run in done.engine_runs],
                    "seconds": done.seconds,
                    "snapshot": done.snapshot.id,
                    "failed": {name: failure_document(error) for name, error in done.failed.items()},
                }
            )
        else:
            if done.feeds:
                what = f"{count_text(done.fed, 'row')} from tables into {count_text(len(done.feeds), 'stream')}"
                print(f"{datetime.now(UTC).astimezone():%H:%M:%S}  {what}")
            if done.views:
                what = f"{count_text(done.rows, 'row')} into {count_text(done.groups, 'group')} of {count_text(len(done.views), 'view')}"
                cost = f"{_engines_text(done)}{count_text(done.jobs, 'job')}, snapshot {done.snapshot.id}, {seconds_text(done.seconds)}"
                print(f"{datetime.now(UTC).astimezone():%H:%M:%S}  {what}, {cost}")
            if done.samples:
                print(f"{datetime.now(UTC).astimezone():%H:%M:%S}  {count_text(len(done.samples), 'sample')} consumed what arrived")
            for name, error in done.failed.items():
                print("\n".join([f"          {name} was left behind:", *failure_lines(error)]), file=sys.stderr)
        sys.stdout.flush()

    def failed(self, error: PlatformError, pause_seconds: float) -> None:
        tell_retry(error, pause_seconds, json_lines=self._json)
