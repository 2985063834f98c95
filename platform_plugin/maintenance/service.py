"""`Maintainer`: the service that maintains views, samples and streams of tables, run after run, until it is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from platform_plugin.engine.spark.session.repeated_work import RepeatedWork
from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.catalogue.relations import find_declared
from platform_plugin.lake.catalogue.tables import Table
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.relations.missing import name_missing_relations
from platform_plugin.relations.samples.record import find_sample
from platform_plugin.relations.streams.feeds.declaration import TABLE_FEED
from platform_plugin.relations.views.record import read_records

if TYPE_CHECKING:
    from collections.abc import Collection

    from platform_plugin.engine.option import EngineName
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.maintenance.run import MaintenanceOutcome


class Observer(Protocol):
    """Receives the events of the service."""

    def maintained(self, done: MaintenanceOutcome) -> None:
        """A run did something."""

    def failed(self, error: PlatformError, pause_seconds: float) -> None:
        """A run failed; the next one follows after the pause."""


class Maintainer:
    """Maintains what is due. All its state is in the lake, so that it can be stopped, started, or run twice at any time."""

    def __init__(
        self,
        work: Workspace,
        only: Collection[Name] | None = None,
        *,
        interval_seconds: float = 1.0,
        progress: ProgressHandler | None = None,
        engine: EngineName | None = None,
    ) -> None:
        self._work = work
        self._only = only
        self._interval = interval_seconds
        self._progress = progress
        self._engine = engine
        self._repeating = RepeatedWork(work)

    def stop(self) -> None:
        """End after the present run; may be called from a signal handler."""
        self._repeating.stop()

    def run(self, observer: Observer, *, once: bool = False) -> None:
        """Maintain until `stop`; with `once`, one time, and then a failure is raised. Another relation's name is an error at the start."""
        for name in self._only or ():
            check_maintained(self._work, name)

        def succeeded(done: MaintenanceOutcome) -> float | None:
            if done.did_anything:
                observer.maintained(done)
            return None if once else self._interval

        self._repeating.run(self._maintain, succeeded, observer.failed, fatal=PlatformError if once else ())

    def _maintain(self) -> MaintenanceOutcome:
        return run_maintenance(self._work, self._only, progress=self._progress, engine=self._engine)


def check_maintained(work: Workspace, name: Name) -> None:
    """A name is that of a continuous view, of a sample that grows with a stream, or of a stream that follows a table."""
    snapshot = work.lake.snapshot()
    with name_missing_relations(work.lake, name, snapshot, "view", "sample", "stream"), work.lake.reading() as connection:
        relation = work.lake.find_relation(connection, name, snapshot)
        views, feeds = read_records(connection), find_declared(connection, "stream", TABLE_FEED)
    sample = find_sample(work.lake, relation, snapshot) if isinstance(relation, Table) else None
    if relation.uuid in views or relation.uuid in feeds or (sample is not None and sample.definition.source == "stream"):
        return
    if sample is None:
        message = f'"{name}" is neither a continuous view nor a sample, nor a stream that follows a table'
        hint = "SHOW VIEWS, SHOW SAMPLES and SHOW STREAMS list them"
    else:
        message = f'sample "{name}" is not of a stream: it is drawn when it is read'
        hint = f"REFRESH SAMPLE {name.relation} stores what is drawn"
    raise InvalidValue(message, hint=hint)
