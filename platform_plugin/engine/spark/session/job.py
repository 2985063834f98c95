"""`Job`: all that one `with session.job(...)` runs, under one tag, with its limits, progress and metrics."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from platform_plugin.engine.spark.session.metrics import JobMetrics, parse_metrics
from platform_plugin.errors import PlatformError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Runner(Protocol):
    """What a job needs of its session."""

    @property
    def closed(self) -> bool: ...

    def interrupt(self, tag: str) -> int: ...

    def insist(self, tag: str) -> None: ...

    def read_metrics(self, tag: str) -> dict[str, Any] | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a running query has come."""

    tasks: int
    tasks_done: int
    tasks_running: int
    bytes_read: int
    stages: int
    seconds: float


_TIMES = 10
_TIMES_APART_SECONDS = 0.3

ProgressHandler = Callable[[Progress], None]


class Insistence:
    """Repeats interrupts for some seconds, because Spark forgets one that comes while a query is being planned.

    One thread does so for a whole session, however many of its queries are abandoned at once, and ends when no interrupt is left.
    """

    def __init__(self, session: Runner) -> None:
        self._session = session
        self._left: dict[str, int] = {}
        self._lock = threading.Lock()
        self._at_work = False

    def add(self, tag: str) -> None:
        with self._lock:
            self._left[tag] = _TIMES
            if not self._at_work:
                self._at_work = True
                threading.Thread(target=self._tell, name="platform-interrupts", daemon=True).start()

    def _tell(self) -> None:
        while True:
            time.sleep(_TIMES_APART_SECONDS)
            with self._lock:
                self._left = {} if self._session.closed else {tag: left for tag, left in self._left.items() if left}
                self._at_work = bool(self._left)
                if not self._at_work:
                    return
                tags = list(self._left)
                self._left = {tag: left - 1 for tag, left in self._left.items()}
            with suppress(PlatformError):
                for tag in tags:
                    self._session.interrupt(tag)


class Job:
    """All that one `with session.job(...)` runs: its tag, its limits, and afterwards its metrics."""

    def __init__(self, session: Runner, tags: tuple[str, ...], handler: ProgressHandler | None) -> None:
        self.tag = f"job-{uuid.uuid4().hex}"
        self.tags = (self.tag, *tags)
        self.seconds = 0.0
        self.interrupted_by: str | None = None
        self._session = session
        self._handler = handler
        self._began = time.monotonic()
        self._seen = Progress(tasks=0, tasks_done=0, tasks_running=0, bytes_read=0, stages=0, seconds=0.0)

    def interrupt(self, reason: str = "its user") -> None:
        """Stop what the job runs; a job that runs nothing is left as it is."""
        self.interrupted_by = self.interrupted_by or reason
        self._session.interrupt(self.tag)
        self._session.insist(self.tag)

    @property
    def age_seconds(self) -> float:
        """The seconds since the job was planned; a second run of its query has only the rest of its time."""
        return time.monotonic() - self._began

    def end(self) -> None:
        self.seconds = self.age_seconds

    def metrics(self) -> JobMetrics:
        """Return the job's cost so far; on an endpoint without a control socket, only what progress reports."""
        seconds = self.seconds or time.monotonic() - self._began
        answer = self._session.read_metrics(self.tag)
        if answer is None:
            return JobMetrics(tasks=self._seen.tasks, stages=self._seen.stages, bytes_read=self._seen.bytes_read, seconds=seconds)
        return parse_metrics(answer, seconds=seconds)

    def advance(self, stages: Iterable[Any], running: int) -> None:
        known = list(stages)
        self._seen = Progress(
            tasks=sum(stage.num_tasks for stage in known),
            tasks_done=sum(stage.num_completed_tasks for stage in known),
            tasks_running=running,
            bytes_read=sum(stage.num_bytes_read for stage in known),
            stages=len(known),
            seconds=time.monotonic() - self._began,
        )
        if self._handler is not None:
            self._handler(self._seen)
