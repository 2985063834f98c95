"""`Workspace`: an open lake and the Spark session that statements on it use."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from platform_plugin.engine.file_access_option import read_file_access
from platform_plugin.engine.limits import read_limits
from platform_plugin.engine.option import EngineOption, check_engine, narrow_engine, read_engine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from platform_plugin.engine.choose import RunEngines
    from platform_plugin.engine.distance import FileDistances
    from platform_plugin.engine.engine import Engine
    from platform_plugin.engine.figures import EngineRun
    from platform_plugin.engine.limits import Limits
    from platform_plugin.engine.option import EngineName
    from platform_plugin.engine.spark.server.liveness import Watcher
    from platform_plugin.engine.spark.server.settings import ServerSettings
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.lake.lake import Lake


# What answers depend on, on whatever server: exact arithmetic, one time zone, columns by field id, and all of our types.
_OPTIONS: dict[str, str | int | bool] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.timeType.enabled": "true",
    # Otherwise ${x} in a text is replaced by what a setting x holds.
    "spark.sql.variable.substitute": "false",
    # No answer depends on this one: maps of constants are searched from end to end up to a thousand entries, of files for instance.
    "spark.sql.optimizer.mapLookupHashThreshold": "16",
}


class RuleSwitches:
    """The rules on plans that one session has switched off."""

    def __init__(self) -> None:
        self.off: frozenset[str] = frozenset()

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Let them hold for what runs inside, whichever workspace it runs on."""
        before = _OF_CONNECTION.set(self)
        try:
            yield
        finally:
            _OF_CONNECTION.reset(before)


class TaskSlots(NamedTuple):
    """How many tasks executors run at once, how many of these places are taken, and the seconds until a session is open."""

    slots: int
    busy: int
    start_seconds: float


# Threads may share a workspace, and each run may ask for an engine of its own.
_OF_RUN: ContextVar[EngineName | None] = ContextVar("the engine that the run asks for", default=None)
# What lies deep below a step of maintenance tells here what engines did for it.
_NOTED: ContextVar[list[EngineRun] | None] = ContextVar("the engines' runs of a step", default=None)
# Connections may share a workspace, and each has switches of its own.
_OF_CONNECTION: ContextVar[RuleSwitches | None] = ContextVar("the switches of the connection whose statement runs", default=None)


class Workspace:
    """A lake and a Spark session. The first statement that needs Spark attaches to it; after a loss the next one attaches again."""

    def __init__(
        self,
        lake: Lake,
        *,
        settings: ServerSettings | None = None,
        watcher: Watcher | None = None,
        limits: Limits | None = None,
        engine: EngineOption | None = None,
    ) -> None:
        self.lake = lake
        self.limits = read_limits(url=dict(lake.location.limits)) if limits is None else limits
        self.engine_option = read_engine(url=lake.location.engine) if engine is None else engine
        """The engine that maintains relations without an option of their own, and who asks for it."""
        self.file_access = read_file_access(url=lake.location.file_access)
        """Who reads and writes files where statements go to Spark."""
        self._settings = settings
        self._watcher = watcher
        self._session: Session | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._rules = RuleSwitches()

    @property
    def rules_off(self) -> frozenset[str]:
        """The rules on plans of queries that are switched off, by the connection whose statement runs, or else by the platform."""
        return (_OF_CONNECTION.get() or self._rules).off

    @rules_off.setter
    def rules_off(self, off: frozenset[str]) -> None:
        (_OF_CONNECTION.get() or self._rules).off = off

    @property
    def session(self) -> Session:
        """The open session; the platform server is started if none runs."""
        self._heed_fork()
        with self._lock:
            if self._session is not None and self._session.lost:
                # It ended since the last statement, which this one has nothing to do with.
                self._session.close()
            if self._session is None or self._session.closed:
                self._session = self._attach()
            self._session.limits, self._session.file_access = self.limits, self.file_access
            return self._session

    @property
    def engines(self) -> tuple[Engine, ...]:
        """The engines besides Spark SQL, in the order in which they are asked."""
        # The kernel is loaded with the first task, not with the lake.
        from platform_plugin.engine.local import LocalEngine

        return (LocalEngine(self.lake, self.limits),)

    @property
    def engine(self) -> EngineName:
        """The engine of relations without an option of their own in the present run; `auto` chooses it for each input."""
        return self.find_engine(None)

    @engine.setter
    def engine(self, name: str) -> None:
        self.engine_option = EngineOption(check_engine(name), "option engine")

    def find_engine(self, relation: str | None) -> EngineName:
        """The engine of a relation with this option in the present run."""
        return self.find_option(relation).name

    def find_option(self, relation: str | None) -> EngineOption:
        """The same, with who asks for it."""
        return narrow_engine(self.engine_option, relation=relation, run=_OF_RUN.get())

    @contextmanager
    def noting_engines(self) -> Iterator[list[EngineRun]]:
        """The runs of engines that are noted inside the block; a block around it has them, too, in the end."""
        noted: list[EngineRun] = []
        before = _NOTED.set(noted)
        try:
            yield noted
        finally:
            _NOTED.reset(before)
            outer = _NOTED.get()
            if outer is not None:
                outer.extend(noted)

    def note_engine(self, run: EngineRun) -> None:
        """Note what an engine did, if anybody asks."""
        noted = _NOTED.get()
        if noted is not None:
            noted.append(run)

    @contextmanager
    def asking(self, engine: EngineName | None) -> Iterator[None]:
        """Let a run ask for an engine inside the block; None leaves it to relations and lake."""
        before = _OF_RUN.set(engine)
        try:
            yield
        finally:
            _OF_RUN.reset(before)

    def run_engines(
        self, engine: EngineName | None = None, *, timeout: timedelta | None = None, progress: ProgressHandler | None = None
    ) -> RunEngines:
        """The engines for tasks whose rows become files; `engine` is the one that a run asks for."""
        from platform_plugin.engine.choose import RunEngines
        from platform_plugin.engine.executors import ExecutorEngine
        from platform_plugin.engine.local import LocalEngine

        return RunEngines(
            local=LocalEngine(self.lake, self.limits),
            forced_local=LocalEngine(self.lake, self.limits, is_forced=True),
            executors=ExecutorEngine(self, timeout=timeout, progress=progress),
            lake=self.engine_option,
            run=engine or _OF_RUN.get(),
        )

    @property
    def distances(self) -> FileDistances:
        """How far the lake's files are from here and from the executors."""
        from platform_plugin.engine.distance import find_distances

        return find_distances(self.lake.storage.root, self.lake.location.spark, executors_here=self._are_executors_here())

    def _are_executors_here(self) -> bool:
        from platform_plugin.engine.spark.server.runtime import are_executors_here

        session = self._session
        return are_executors_here() if session is None or session.closed else session.executors_here

    def find_task_slots(self) -> TaskSlots:
        """The cores of the executors, and the seconds until Spark can use them; where no session is open, nobody is asked."""
        from platform_plugin.engine.rates import CONNECT_SECONDS, START_SECONDS

        if self.is_attached:
            slots, busy = self.session.read_busy_slots()
            return TaskSlots(slots, busy, 0.0)
        if self.lake.location.spark is not None:
            return TaskSlots(2, 0, CONNECT_SECONDS)
        return TaskSlots(os.cpu_count() or 1, 0, START_SECONDS)

    @property
    def is_attached(self) -> bool:
        """Whether a session is open."""
        return self._session is not None and not self._session.closed

    def _attach(self) -> Session:
        from platform_plugin.engine.spark.server.attach import attach, connect
        from platform_plugin.engine.spark.session.spool import SpoolFolder

        endpoint = self.lake.location.spark
        session = connect(endpoint) if endpoint else attach(self._settings, watcher=self._watcher)
        if session.spool is None:
            # Spark reads and writes the lake's own files, wherever it runs; what a killed client leaves there, a vacuum removes.
            session.spool = SpoolFolder(storage=self.lake.storage, path="_results/")
        try:
            with session.job():
                session.spark.conf._set_all(_OPTIONS, silent=False)  # noqa: SLF001  one call, not one an option
        except BaseException:
            session.close()
            raise
        return session

    def forget_session(self) -> None:
        """Drop the session of a server that is gone, so that the next use attaches again."""
        self._heed_fork()
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()

    def _heed_fork(self) -> None:
        """A forked child must not speak over its parent's connection, nor close it, nor wait for its threads."""
        if self._process != os.getpid():
            self._process, self._session, self._lock = os.getpid(), None, threading.Lock()

    def close(self) -> None:
        """Close the session, if there is one, and the lake."""
        self.forget_session()
        self.lake.close()
