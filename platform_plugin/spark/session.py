"""A session: one client's hold on a Spark server, through which its queries are tagged, followed, timed and interrupted."""

from __future__ import annotations

import atexit
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.functions import lit
from pyspark.sql.connect.plan import SQL
from pyspark.sql.types import StructType

from platform_plugin.errors import InvalidValue, PlatformError, QueryInterrupted, ServerError
from platform_plugin.spark.channel import ConnectSession, EndpointChannel, LoopbackChannel
from platform_plugin.spark.control import ControlCall, ask
from platform_plugin.spark.faults import ServerLost, told_as_platform_errors
from platform_plugin.spark.metrics import JobMetrics, parse_metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a running query is."""

    tasks: int
    tasks_done: int
    tasks_running: int
    bytes_read: int
    stages: int
    seconds: float


_PROBE_SECONDS = 10.0
_OPEN: weakref.WeakSet[Session] = weakref.WeakSet()

ProgressHandler = Callable[[Progress], None]


class Job:
    """Everything that runs inside one `with session.job(...)`: its tag, its limits, and afterwards what it cost."""

    def __init__(self, session: Session, tags: tuple[str, ...], handler: ProgressHandler | None) -> None:
        self.tag = f"job-{uuid.uuid4().hex}"
        self.tags = (self.tag, *tags)
        self.seconds = 0.0
        self.interrupted_by: str | None = None
        self._session = session
        self._handler = handler
        self._began = time.monotonic()
        self._seen = Progress(tasks=0, tasks_done=0, tasks_running=0, bytes_read=0, stages=0, seconds=0.0)

    def interrupt(self, reason: str = "its user") -> None:
        """Stop what this job runs; a job that runs nothing is left as it is."""
        self.interrupted_by = self.interrupted_by or reason
        self._session.interrupt(self.tag)
        threading.Thread(target=self._insist, name=f"interrupt-{self.tag}", daemon=True).start()

    def _insist(self) -> None:
        """Spark forgets an interrupt that comes while a query is being planned, so it is told again for some seconds."""
        with suppress(PlatformError):
            for _ in range(10):
                time.sleep(0.3)
                if self._session.closed:
                    return
                self._session.interrupt(self.tag)

    def metrics(self) -> JobMetrics:
        """Return what the job has cost so far; from an endpoint without a control socket, only what progress told."""
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


class ArrowStream:
    """The rows of one query as Arrow batches, fetched while they are read, so that memory holds a few batches and not the result."""

    def __init__(self, job: Job, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self.job = job
        self.schema = schema
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches

    def reader(self) -> pa.RecordBatchReader:
        """Return the rest as Arrow's own reader."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches)

    def read_all(self) -> pa.Table:
        """Return the rest as one table in memory."""
        return pa.Table.from_batches(list(self._batches), schema=self.schema)

    def metrics(self) -> JobMetrics:
        return self.job.metrics()

    def close(self) -> None:
        """Let go of the query; what it still runs is interrupted."""
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> ArrowStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Session:
    """One client's session; use it as a context manager, or close it.

    The server ends a session's queries and forgets the session when its process dies, however it dies.
    """

    def __init__(self, channel: LoopbackChannel | EndpointChannel, *, control: Path | None = None, log: Path | None = None) -> None:
        self.control = control
        self.log = log
        self.endpoint = channel.target
        self._jobs: dict[str, Job] = {}
        self._operations: dict[str, Job] = {}
        self._watch: ControlCall | None = None
        reference = weakref.ref(self)
        self._connect = ConnectSession(channel, [_Hook(reference)])
        self._connect.client.register_progress_handler(_follow(reference))
        try:
            with told_as_platform_errors(self.explain_loss):
                self._connect.probe(_PROBE_SECONDS)
            if control is not None:
                user, identity = self._connect.identity
                self._watch = ControlCall(control)
                self._watch.ask("watch", user=user, session=identity)
        except BaseException:
            self._connect.client.close()
            raise
        _OPEN.add(self)

    @property
    def spark(self) -> ConnectSession:
        """PySpark's own session; what runs through it outside a `job` has no tag, limit or metrics."""
        return self._connect

    @property
    def closed(self) -> bool:
        return bool(self._connect.client.is_closed)

    @contextmanager
    def job(self, *tags: str, timeout: timedelta | None = None, progress: ProgressHandler | None = None) -> Iterator[Job]:
        """Run what is inside as one job: tagged, interrupted on Ctrl-C, on any other way out and after `timeout`."""
        for tag in tags:
            if not tag or "," in tag:
                raise InvalidValue(f'tag "{tag}" is empty or holds a comma', hint="use letters, digits, dots and dashes")
        job = Job(self, tags, progress)
        clock = None
        if timeout is not None:
            clock = threading.Timer(timeout.total_seconds(), lambda: _interrupt_quietly(job, "its time-out"))
            clock.daemon = True
            clock.start()
        client = self._connect.client
        for tag in job.tags:
            client.add_tag(tag)
        self._jobs[job.tag] = job
        try:
            with told_as_platform_errors(self.explain_loss):
                yield job
        except QueryInterrupted as error:
            if job.interrupted_by == "its time-out" and timeout is not None:
                seconds = timeout.total_seconds()
                raise QueryInterrupted(
                    f"query was interrupted after {seconds:g} seconds", hint="allow it more time, or ask for less"
                ) from error
            raise
        except (KeyboardInterrupt, GeneratorExit):
            _interrupt_quietly(job, "its user")
            raise
        finally:
            if clock is not None:
                clock.cancel()
            job.seconds = time.monotonic() - job._began
            for tag in job.tags:
                client.remove_tag(tag)
            self._jobs.pop(job.tag, None)
            for operation in [operation for operation, owner in self._operations.items() if owner is job]:
                self._operations.pop(operation, None)

    def query(self, query: str, parameters: Mapping[str, Any] | None = None) -> DataFrame:
        """Return a SELECT as a DataFrame without asking the server yet, which saves a round trip against `spark.sql`."""
        named = {name: lit(value) for name, value in (parameters or {}).items()}
        return DataFrame(SQL(query, named_args=named), self._connect)

    def arrow(
        self,
        query: str | DataFrame,
        *tags: str,
        parameters: Mapping[str, Any] | None = None,
        timeout: timedelta | None = None,
        progress: ProgressHandler | None = None,
    ) -> ArrowStream:
        """Run a query and return its rows as a stream of Arrow batches; the first answer of the server has arrived."""
        parts = self._fetch(query, parameters, self.job(*tags, timeout=timeout, progress=progress))
        job = next(parts)
        schema = next(parts)
        assert isinstance(job, Job) and isinstance(schema, pa.Schema)
        return ArrowStream(job, schema, parts)  # type: ignore[arg-type]

    def _fetch(self, query: Any, parameters: Mapping[str, Any] | None, opened: Any) -> Iterator[Job | pa.Schema | pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        with opened as job:
            yield job
            frame = self.query(query, parameters) if isinstance(query, str) else query
            plan = frame._plan.to_proto(self._connect.client)
            told = None
            for part in self._connect.client.to_table_as_iterator(plan, frame._plan.observations):
                if isinstance(part, StructType):
                    continue
                if told is None:
                    told = part.schema
                    yield told
                yield from part.to_batches()
            if told is None:
                yield to_arrow_schema(frame.schema)

    def interrupt(self, tag: str) -> int:
        """Stop this session's running queries under `tag`, and return how many there were."""
        if self.control is not None:
            _, identity = self._connect.identity
            return int(self._ask("interrupt", session=identity, tag=tag)["interrupted"])
        with told_as_platform_errors(self.explain_loss):
            return len(self._connect.client.interrupt_tag(tag) or [])

    def read_metrics(self, tag: str) -> dict[str, Any] | None:
        if self.control is None:
            return None
        user, identity = self._connect.identity
        return self._ask("metrics", user=user, session=identity, tag=tag)

    def _ask(self, verb: str, **arguments: object) -> dict[str, Any]:
        assert self.control is not None
        try:
            return ask(self.control, verb, **arguments)
        except ServerError as error:
            raise self.explain_loss() from error

    def close(self) -> None:
        """Release the session on the server and every thread and descriptor here; a second call does nothing."""
        if not self.closed:
            self._connect.client.clear_progress_handlers()
            self._connect.stop()
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def explain_loss(self) -> ServerLost:
        """Return the error that says that the server is gone, and where to read why."""
        if self.log is None:
            return ServerLost(
                f'Spark endpoint "{self.endpoint}" does not answer',
                hint="check that it runs, and that its address and port are reachable from here",
            )
        return ServerLost(
            f'platform server at "{self.endpoint}" stopped answering',
            detail=_last_words(self.log),
            hint=f'read "{self.log}", then run the statement again: it starts a new server',
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Session({self.endpoint!r}{', closed' if self.closed else ''})"


class _Hook(ConnectSession.Hook):
    """Notes which operation belongs to which job, because progress names only the operation."""

    def __init__(self, session: weakref.ref[Session]) -> None:
        self._session = session

    def on_execute_plan(self, request: Any) -> Any:
        session = self._session()
        if session is not None:
            for tag in request.tags:
                if tag in session._jobs:
                    session._operations[request.operation_id] = session._jobs[tag]
        return request


def _follow(reference: weakref.ref[Session]) -> Callable[..., None]:
    def follow(*, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        session = reference()
        job = None if session is None else session._operations.get(operation_id or "")
        if job is not None and stages and not done:
            job.advance(stages, inflight_tasks)

    return follow


def _interrupt_quietly(job: Job, reason: str) -> None:
    """Called where another error is on its way already, or nobody waits: a dead server runs nothing any more."""
    with suppress(PlatformError):
        job.interrupt(reason)


@atexit.register
def _close_all() -> None:
    """A call that is still open, after a Ctrl-C for example, would keep the process from ending."""
    for session in list(_OPEN):
        with suppress(PlatformError):
            session.close()


def _last_words(log: Path) -> str | None:
    try:
        lines = log.read_text(errors="replace").splitlines()[-40:]
    except OSError:
        return None
    telling = [line for line in lines if "OutOfMemoryError" in line or "platform server" in line or "No space left" in line]
    return telling[-1] if telling else None
