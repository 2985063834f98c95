"""`platform ingest`: ingests a stream's feed, batch after batch, until the command is stopped."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from platform_plugin.cli.care import lake_url, read_written_name
from platform_plugin.cli.failure import printable_text, tell_retry
from platform_plugin.cli.gates import hold_to_suites
from platform_plugin.cli.output.amounts import byte_text, seconds_text
from platform_plugin.cli.output.machine import print_document
from platform_plugin.cli.output.progress import ProgressLine
from platform_plugin.language.text.counting import count_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from platform_plugin.errors import PlatformError
    from platform_plugin.relations.streams.feeds.ingest import IngestReport


def run_ingest_command(given: argparse.Namespace) -> int:
    """Ingest batch after batch; a first SIGTERM or Ctrl-C lets the present batch finish, a second discards it."""
    url, name = lake_url(given), read_written_name(given.stream)
    from platform_plugin.platform import Platform
    from platform_plugin.relations.streams.feeds.ingest import BatchLimits
    from platform_plugin.relations.streams.feeds.service import Ingester

    limits = BatchLimits(max_files=given.max_files, max_bytes=given.max_bytes, max_rows=given.max_rows)
    line = ProgressLine(f"ingesting into {given.stream}")
    with Platform.open(url, watcher=line.watch, limits=dict(given.engine_limit)) as platform, hold_to_suites(platform.lake, given):
        interval = given.interval.total_seconds()
        ingester = Ingester(platform.work, name, limits=limits, interval_seconds=interval, past_gate=given.past_gate, progress=line.advance)
        observer = _IngestReport(json_lines=given.json)
        with handle_stop_signals(ingester):
            if given.once:
                with line:
                    totals = ingester.run(observer, once=True)
            else:
                totals = ingester.run(observer)
    if given.json:
        print_document({"stopped": True, **asdict(totals)})
    else:
        print(f"{count_text(totals.rows, 'row')} in {totals.batches:,} {'batch' if totals.batches == 1 else 'batches'}{_more(totals)}")
    return 0


def _more(totals: Any) -> str:
    said = f", {count_text(totals.quarantined, 'record')} in quarantine" if totals.quarantined else ""
    return said + (f", {count_text(totals.failures, 'failure')} on the way" if totals.failures else "")


class Service(Protocol):
    """Work that goes on until it is stopped."""

    def stop(self) -> None:
        """End after the present piece of work."""


@contextmanager
def handle_stop_signals(service: Service) -> Iterator[None]:
    """Let a first SIGTERM or Ctrl-C end a service after its present work, and a second one end it at once."""
    asked: list[int] = []

    def stop(number: int, _frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        service.stop()
        print("stopping once the present work is done; once more interrupts it", file=sys.stderr, flush=True)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _IngestReport:
    """Prints batches on standard output and failures on standard error."""

    def __init__(self, *, json_lines: bool) -> None:
        self._json = json_lines

    def report(self, report: IngestReport) -> None:
        if self._json:
            print_document({"at": datetime.now(UTC), **report.as_dict()})
        else:
            print("\n".join(report_lines(report, datetime.now(UTC).astimezone())))
        sys.stdout.flush()

    def failed(self, error: PlatformError, pause_seconds: float) -> None:
        tell_retry(error, pause_seconds, json_lines=self._json)


def report_lines(report: IngestReport, at: datetime) -> list[str]:
    """A batch as lines for people.

    >>> from platform_plugin.relations.streams.feeds.ingest import IngestReport
    >>> report = IngestReport(stream="main.posts", rows=10, files=2, quarantined=1, waiting=3, seconds=0.5, snapshot=7)
    >>> report_lines(report, datetime(2026, 1, 31, 12, tzinfo=UTC))
    ['12:00:00  10 rows from 2 files, 1 in quarantine, 3 waiting, snapshot 7, 0.50 s']
    """
    parts = [count_text(report.rows, "row") + (f" from {count_text(report.files, 'file')}" if report.files else "")]
    parts += [f"{report.quarantined:,} in quarantine"] if report.quarantined else []
    parts += [f"{count_text(report.skipped, 'record')} skipped"] if report.skipped else []
    parts += (
        [f"{report.waiting:,} waiting" + (f" ({byte_text(report.waiting_bytes)})" if report.waiting_bytes else "")]
        if report.waiting
        else []
    )
    parts += [f"snapshot {report.snapshot}"] if report.snapshot is not None else []
    lines = [f"{at:%H:%M:%S}  {', '.join(parts)}, {seconds_text(report.seconds)}"]
    told = (
        ("refused", report.refused),
        ("changed after it was read", report.changed),
        ("came late and is not read", report.late),
        ("changed while it was read", report.unsteady),
    )
    lines += [f"          {what}: {printable_text(uri)}" for what, uris in told for uri in uris]
    return lines
