"""`Session`: a client's connection to a Spark server, which tags, times, follows and interrupts its queries."""

# ruff: noqa: SLF001 - a DataFrame's plan has no public name, and its Arrow iterator takes the plan

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

import pyspark
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.functions import lit
from pyspark.sql.connect.plan import SQL
from pyspark.sql.types import StructType

from platform_plugin.engine.limits import Limits
from platform_plugin.engine.spark.frames.file_access import find_file_access
from platform_plugin.engine.spark.server.channel import ConnectSession, EndpointChannel, LoopbackChannel
from platform_plugin.engine.spark.server.control import ControlCall, ask
from platform_plugin.engine.spark.session.batch_spool import BatchSpool
from platform_plugin.engine.spark.session.faults import raise_platform_errors
from platform_plugin.engine.spark.session.guard import limit_task_bytes
from platform_plugin.engine.spark.session.job import Insistence, Job, ProgressHandler
from platform_plugin.engine.spark.session.spool import Spool, SpoolFolder
from platform_plugin.engine.spark.session.streams import ArrowStream
from platform_plugin.engine.spark.session.temporary_settings import TemporarySettings
from platform_plugin.errors import InvalidValue, PlatformError, QueryInterrupted, ResultTooLarge, ServerError, ServerLost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from datetime import timedelta
    from pathlib import Path

    from pyspark.sql import DataFrame as AnyDataFrame

    from platform_plugin.engine.file_access_option import FileAccessOption
    from platform_plugin.engine.spark.tasks.sending import RowsProgram

# PySpark logs every failed query with its whole Java stack on the user's terminal; what matters is in the error itself.
logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)

_PROBE_SECONDS = 10.0
TASK_BYTES = 16 * 1024 * 1024
"""For servers whose memory is not known."""
_OPEN: weakref.WeakSet[Session] = weakref.WeakSet()


class Session:
    """One client's session; use it as a context manager, or close it.

    When the client's process dies, the server ends the session's queries and forgets the session.
    """

    def __init__(
        self,
        channel: LoopbackChannel | EndpointChannel,
        *,
        control: Path | None = None,
        log: Path | None = None,
        task_bytes: int = TASK_BYTES,
    ) -> None:
        self.control = control
        self.log = log
        self.spool: SpoolFolder | None = None
        """Where results go that are too large for the server's memory; without one they are refused."""
        self.executors_here = True
        """Whether the executors of the platform's own server are on this machine; of an endpoint its address tells."""
        self.task_bytes = task_bytes
        """How much of a result a task may gather in the server's memory."""
        self.limits = Limits()
        """Those of the workspace that the session belongs to."""
        self.file_access: FileAccessOption = "auto"
        """Who reads and writes files: Spark's own readers and writers, or tasks in Python; `auto` asks which of them can."""
        self.missing_stores: dict[str, PlatformError | None] = {}
        """For each scheme that was asked for, the error if the server has no file system for it."""
        self.has_package = False
        """Whether the executors are known to have this version of the package."""
        self.endpoint = channel.target
        self._jobs: dict[str, Job] = {}
        self._operations: dict[str, Job] = {}
        self._insistence = Insistence(self)
        self._task_slots: int | None = None
        self._watch: ControlCall | None = None
        self._process = os.getpid()
        # Weak, because PySpark keeps its hooks and handlers for as long as its client lives.
        self._connect = ConnectSession(channel, [_Hook(weakref.WeakMethod(self._claim))])
        self._settings = TemporarySettings(self._connect.conf)
        self._connect.client.register_progress_handler(_follower(weakref.WeakMethod(self._follow)))
        try:
            with raise_platform_errors(self.explain_loss):
                version = self._connect.probe(_PROBE_SECONDS)
            if control is None:
                check_endpoint_version(self.endpoint, version)
            else:
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

    @property
    def lost(self) -> bool:
        """Whether the server is known to be gone; this asks nobody, and is never known of an endpoint."""
        return self._watch is not None and self._watch.is_broken

    def use_settings(self, values: Mapping[str, str]) -> AbstractContextManager[None]:
        """Let Spark work with other settings inside the block; when nobody needs them any more they are as the server gave them."""
        return self._settings.use(values)

    @contextmanager
    def job(self, *tags: str, timeout: timedelta | None = None, progress: ProgressHandler | None = None) -> Iterator[Job]:
        """Run what this thread does inside as one job: tagged, and interrupted on Ctrl-C and after `timeout`."""
        job = self._plan_job(tags, progress)
        with self._guarded(job, timeout), self._tagged(job):
            yield job

    def _plan_job(self, tags: tuple[str, ...], progress: ProgressHandler | None) -> Job:
        for tag in tags:
            if not tag or "," in tag:
                raise InvalidValue(f'tag "{tag}" is empty or holds a comma', hint="use letters, digits, dots and dashes")
        return Job(self, tags, progress)

    @contextmanager
    def _tagged(self, job: Job) -> Iterator[None]:
        """Give the job's tags to what this thread sends to the server."""
        client = self._connect.client
        before = set(client.get_tags())
        for tag in job.tags:
            client.add_tag(tag)
        try:
            yield
        finally:
            for tag in set(job.tags) - before:
                client.remove_tag(tag)

    @contextmanager
    def _guarded(self, job: Job, timeout: timedelta | None) -> Iterator[None]:
        """Interrupt the job when its time is up or its user gives up, and tell faults as the platform's errors."""
        clock = None
        if timeout is not None:
            left = max(0.0, timeout.total_seconds() - job.age_seconds)
            clock = threading.Timer(left, _interrupt_quietly, (job, "its time-out"))
            clock.daemon = True
            clock.start()
        self._jobs[job.tag] = job
        try:
            with raise_platform_errors(self.explain_loss):
                yield
        except QueryInterrupted as error:
            if job.interrupted_by == "its time-out" and timeout is not None:
                raise QueryInterrupted(
                    f"query was interrupted after {timeout.total_seconds():g} seconds", hint="allow it more time, or ask for less"
                ) from error
            raise
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            _interrupt_quietly(job, "its user")
            raise
        finally:
            if clock is not None:
                clock.cancel()
            job.end()
            self._jobs.pop(job.tag, None)
            for operation in [operation for operation, owner in self._operations.items() if owner is job]:
                self._operations.pop(operation, None)

    def query(self, query: str, parameters: Mapping[str, Any] | None = None) -> DataFrame:
        """Return a SELECT as a DataFrame without a call to the server, which saves a round trip against `spark.sql`."""
        named = {name: lit(value) for name, value in (parameters or {}).items()}
        return DataFrame(SQL(query, named_args=named), self._connect)

    def arrow(
        self,
        query: str | AnyDataFrame,
        *tags: str,
        parameters: Mapping[str, Any] | None = None,
        timeout: timedelta | None = None,
        progress: ProgressHandler | None = None,
        limit: int | None = None,
        is_small: bool = False,
    ) -> ArrowStream:
        """Run a query and return its rows as a stream of Arrow batches.

        A result that fits into the server's memory is complete when this returns. A larger one is computed again into files, and read while
        they are written. `is_small` promises that it fits, which saves some milliseconds. `limit` is put on top of the query; it is cheaper
        there than inside, since Spark stops early for it.
        """
        frame = self.query(query, parameters) if isinstance(query, str) else query
        job = self._plan_job(tags, progress)
        received = BatchSpool(memory=self.limits.result_memory_bytes)
        try:
            with self._guarded(job, timeout), raise_platform_errors(self.explain_loss):
                self._receive(frame if is_small else limit_task_bytes(frame, task_bytes=self.task_bytes), limit, job, received)
        except ResultTooLarge:
            received.close()
            if self.spool is None:
                raise
        except BaseException:
            received.close()
            raise
        else:
            return ArrowStream(job, received.schema, received.batches(), is_complete=True, on_close=received.close)
        batches = self._spool(frame if limit is None else frame.limit(limit), job, timeout)
        schema = next(batches)
        return ArrowStream(job, schema, batches)

    def _receive(self, frame: AnyDataFrame, limit: int | None, job: Job, received: BatchSpool) -> None:
        """Take the rows of a result off the server."""
        if limit is not None:
            frame = frame.limit(limit)
        with self._tagged(job):
            plan = cast("DataFrame", frame)._plan
            for part in self._connect.client.to_table_as_iterator(plan.to_proto(self._connect.client), plan.observations):
                if isinstance(part, StructType):
                    continue
                received.expect(part.schema)
                for batch in part.to_batches():
                    received.add(batch)

    def _spool(self, frame: AnyDataFrame, job: Job, timeout: timedelta | None) -> Iterator[Any]:
        """Yield the schema, then the batches."""
        with self._guarded(job, timeout):
            # No rows are computed for it, and the columns are as Spark sends them.
            empty = BatchSpool(memory=self.limits.result_memory_bytes)
            self._receive(frame, 0, job, empty)
            if self.spool is None:
                raise ResultTooLarge("result is too large", hint="give the session a spool")
            interrupt = partial(_interrupt_quietly, job, "its user")
            by_tasks = find_file_access(self, self.spool.storage).by_tasks
            write = self._run_rows if by_tasks else None
            with Spool(self.spool, frame, empty.schema, within=self._tagged(job), interrupt=interrupt, write_by_tasks=write) as spool:
                batches = spool.batches()
                first = next(batches, None)
                yield empty.schema
                if first is not None:
                    yield first
                    del first
                    yield from batches

    def _run_rows(self, frame: AnyDataFrame, program: RowsProgram) -> None:
        """Let the tasks that compute rows run a program over them."""
        from platform_plugin.engine.spark.tasks.job import RowsPart, run_job

        run_job(self, [], [RowsPart(frame, program)])

    def interrupt(self, tag: str) -> int:
        """Stop this session's running queries under `tag`, and return how many there were."""
        if self.control is not None:
            _, identity = self._connect.identity
            return int(self._ask("interrupt", session=identity, tag=tag)["interrupted"])
        with raise_platform_errors(self.explain_loss):
            return len(self._connect.client.interrupt_tag(tag) or [])

    def insist(self, tag: str) -> None:
        """Interrupt, from another thread, what runs under `tag` now and in the next seconds."""
        self._insistence.add(tag)

    def read_metrics(self, tag: str) -> dict[str, Any] | None:
        if self.control is None:
            return None
        user, identity = self._connect.identity
        return self._ask("metrics", user=user, session=identity, tag=tag)

    def read_page(self) -> str | None:
        """The address of Spark's own web page, if the server has one."""
        return None if self.control is None else self._ask("ping").get("ui")

    def read_task_slots(self) -> int:
        """How many tasks the executors run at once; an endpoint without a control socket is asked by a small job, once for a session."""
        if self.control is not None:
            return max(1, int(self._ask("ping").get("task_slots") or 1))
        if self._task_slots is None:
            with self.job():
                # Spark divides a range into as many parts as it has places for; it takes no such call inside of an aggregate.
                row = self._connect.range(1 << 16).selectExpr("spark_partition_id() AS part").selectExpr("max(part) + 1 AS slots").first()
            self._task_slots = max(1, int(row["slots"])) if row is not None else 1
        return self._task_slots

    def read_busy_slots(self) -> tuple[int, int]:
        """How many tasks the executors run at once, and how many run now, as far as a control socket tells."""
        if self.control is None:
            return self.read_task_slots(), 0
        answer = self._ask("ping")
        return max(1, int(answer.get("task_slots") or 1)), int(answer.get("running_tasks") or 0)

    def read_tasks(self, tag: str) -> list[dict[str, Any]]:
        """The tasks of the stage that worked longest under `tag`; none from an endpoint without a control socket."""
        if self.control is None:
            return []
        user, identity = self._connect.identity
        return list(self._ask("tasks", user=user, session=identity, tag=tag)["tasks"])

    def _ask(self, verb: str, **arguments: Any) -> dict[str, Any]:
        if self.control is None:
            raise ServerError(f'Spark endpoint "{self.endpoint}" has no control socket', hint="use the platform server of this machine")
        try:
            return ask(self.control, verb, **arguments)
        except ServerError as error:
            raise self.explain_loss() from error

    def _claim(self, operation: str, tags: Iterable[str]) -> None:
        for tag in tags:
            if tag in self._jobs:
                self._operations[operation] = self._jobs[tag]

    def _follow(self, operation: str, stages: Iterable[Any], running: int) -> None:
        job = self._operations.get(operation)
        if job is not None:
            job.advance(stages, running)

    def close(self) -> None:
        """Release the session on the server and all threads and descriptors here; a second call does nothing."""
        if not self.closed:
            self._connect.client.clear_progress_handlers()
            self._connect.stop()
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def close_at_exit(self) -> None:
        """Close the session, unless this process is a fork of the one that opened it."""
        if os.getpid() == self._process:
            with suppress(PlatformError):
                self.close()

    def explain_loss(self) -> ServerLost:
        """Return the error for a server that is gone, with the place of its log."""
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Session({self.endpoint!r}{', closed' if self.closed else ''})"


class _Hook(ConnectSession.Hook):
    """Tells the session which operation has which tags, because progress names only the operation."""

    def __init__(self, claim: weakref.WeakMethod[Callable[[str, Iterable[str]], None]]) -> None:
        self._claim = claim

    def on_execute_plan(self, request: Any) -> Any:
        claim = self._claim()
        if claim is not None:
            claim(request.operation_id, request.tags)
        return request


def check_endpoint_version(endpoint: str, version: str) -> None:
    """Refuse an endpoint of another Spark: what it sends and understands differs from version to version."""
    own = pyspark.__version__.split(".")[:2]
    if version.split(".")[:2] != own:
        raise ServerError(
            f'Spark endpoint "{endpoint}" has Spark {version}, and this package works with {".".join(own)}',
            hint="name an endpoint of that version, or leave `spark=` out of the URL, for the platform server of this machine",
        )


def _follower(method: weakref.WeakMethod[Callable[[str, Iterable[Any], int], None]]) -> Any:
    def follow(*, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        advance = method()
        if advance is not None and stages and operation_id and not done:
            advance(operation_id, stages, inflight_tasks)

    return follow


def _interrupt_quietly(job: Job, reason: str) -> None:
    """Called where another error is on its way already, or nobody waits: a dead server runs nothing any more."""
    with suppress(PlatformError):
        job.interrupt(reason)


@atexit.register
def _close_all() -> None:
    """A call that is still open, after a Ctrl-C for example, would keep the process from ending."""
    for session in list(_OPEN):
        session.close_at_exit()


def _last_words(log: Path) -> str | None:
    try:
        lines = log.read_text(errors="replace").splitlines()[-40:]
    except OSError:
        return None
    telling = [line for line in lines if "OutOfMemoryError" in line or "platform server" in line or "No space left" in line]
    return telling[-1] if telling else None
