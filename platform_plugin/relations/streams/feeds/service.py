"""`Ingester`: the service that ingests batch after batch until it is stopped, with growing pauses after failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from platform_plugin.engine.spark.session.repeated_work import RepeatedWork
from platform_plugin.errors import PlatformError, UnknownObject
from platform_plugin.relations.streams.feeds.ingest import BatchLimits, IngestReport, find_feed, run_ingest

if TYPE_CHECKING:
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Name


class IngestObserver(Protocol):
    """Receives the events of the service."""

    def report(self, report: IngestReport) -> None:
        """A batch did something."""

    def failed(self, error: PlatformError, pause_seconds: float) -> None:
        """A batch failed; the next attempt follows after the pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The totals of a run of the service."""

    batches: int = 0
    rows: int = 0
    files: int = 0
    quarantined: int = 0
    failures: int = 0

    def with_report(self, report: IngestReport) -> Totals:
        """The totals with one more batch."""
        return Totals(
            batches=self.batches + (report.snapshot is not None),
            rows=self.rows + report.rows,
            files=self.files + report.files,
            quarantined=self.quarantined + report.quarantined,
            failures=self.failures,
        )

    def with_failure(self) -> Totals:
        """The totals with one more failed batch."""
        return Totals(batches=self.batches, rows=self.rows, files=self.files, quarantined=self.quarantined, failures=self.failures + 1)


class Ingester:
    """Ingests one stream. All its state is in the lake, so that it can be stopped and started again at any time."""

    def __init__(
        self,
        work: Workspace,
        stream: str | Name,
        *,
        limits: BatchLimits | None = None,
        interval_seconds: float = 1.0,
        past_gate: bool = False,
        progress: ProgressHandler | None = None,
    ) -> None:
        self._work = work
        self._stream = stream
        self._limits = limits
        self._interval = interval_seconds
        self._past_gate = past_gate
        self._progress = progress
        self._repeating = RepeatedWork(work)

    def stop(self) -> None:
        """End after the present batch; may be called from a signal handler."""
        self._repeating.stop()

    def run(self, observer: IngestObserver, *, once: bool = False) -> Totals:
        """Ingest until `stop`; with `once`, until everything is read that was there, and then a failure is raised."""
        find_feed(self._work, self._stream)
        totals = Totals()

        def attempt() -> IngestReport:
            return run_ingest(self._work, self._stream, limits=self._limits, past_gate=self._past_gate, progress=self._progress)

        def succeeded(report: IngestReport) -> float | None:
            nonlocal totals
            totals = totals.with_report(report)
            if report.snapshot is not None or report.unsteady:
                observer.report(report)
            if not report.caught_up and report.snapshot is not None:
                return 0.0
            # A folder of very many files takes long to look at; looking must not take more than a fifth of a core.
            return None if once else max(self._interval, 4 * report.seconds)

        def failed(error: PlatformError, pause_seconds: float) -> None:
            nonlocal totals
            totals = totals.with_failure()
            observer.failed(error, pause_seconds)

        self._repeating.run(attempt, succeeded, failed, fatal=PlatformError if once else UnknownObject)
        return totals
