"""`PlatformServer`: a Python driver that owns one SparkSession, serves Spark Connect, and answers the control socket.

`python -m platform_plugin.engine.spark.server.server FOLDER` runs until it is stopped, is idle for too long, or loses its JVM.
`spark-submit` takes a file: give it one that calls `main`, from outside this folder, whose module names would hide others.
"""

# ruff: noqa: SLF001 - the JVM's SparkContext is reached through `_jsc`, as all of PySpark does

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError

from platform_plugin.engine.spark.server.cluster import (
    ExecutorVersions,
    check_versions,
    explain_start,
    is_own_address,
    list_executor_hosts,
    read_versions,
)
from platform_plugin.engine.spark.server.control import Answer, ControlListener
from platform_plugin.engine.spark.server.launch import SHARED_TOKEN_VARIABLE
from platform_plugin.engine.spark.server.runtime import RuntimeFolder, open_runtime
from platform_plugin.engine.spark.server.settings import LOG_CONFIGURATION, POOLS, ServerSettings, plan_java_options, plan_options
from platform_plugin.engine.spark.server.unforked import compile_unforked
from platform_plugin.engine.spark.session.metrics import read_metrics, read_tasks
from platform_plugin.engine.spark.tasks.sending import read_fingerprint
from platform_plugin.errors import PlatformError
from platform_plugin.redaction import redact_text

TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - a name, not a token
_JVM_SECONDS = 30.0
_OPERATION_TAG = "SparkConnect_OperationTag"
_SERVICE = "org.apache.spark.sql.connect.service"
_BEFORE_JAVA = "starting Java"


class _StoppedEarly(BaseException):
    """The server was stopped before it was ready. It is no Exception, since Py4J replaces each Exception that passes through it."""


class PlatformServer:
    """One live server: its Spark, the sessions on it, and when it was last used."""

    def __init__(self, runtime: RuntimeFolder, settings: ServerSettings) -> None:
        self.runtime = runtime
        self.settings = settings
        self.started_at = time.time()
        self.phase = _BEFORE_JAVA
        self._watched: dict[int, tuple[str, str]] = {}
        # The executors of a cluster don't see this machine's disks.
        self._results = _results(runtime, settings) if settings.master is None and not _is_submitted() else None
        self._lock = threading.Lock()
        self._used_at = time.monotonic()
        self._ending = threading.Event()
        self._reason = "told to stop"
        self._executors: list[ExecutorVersions] = []
        self._executors_here = True
        self._hosts: dict[str, bool] = {}
        self._gateway: Any = None
        self._spark: Any = None
        # A Python thread that talks to the JVM gets a thread there, so the talking is left to few that stay.
        self._talkers = ThreadPoolExecutor(max_workers=3, thread_name_prefix="jvm")

    def run(self) -> str:
        """Serve until the end and return the reason for it."""
        listener = ControlListener(self.runtime.control, self._answer, self._forget)
        with suppress(_StoppedEarly):
            listener.start()
            self._say(_BEFORE_JAVA)
            self._start_spark()
            self._used_at = time.monotonic()
            self._say("ready")
        while not self._ending.wait(0.25):
            self._reason = self._find_reason() or self._reason
            if self._reason != "told to stop":
                break
        self.runtime.state.unlink(missing_ok=True)
        self.runtime.control.unlink(missing_ok=True)
        return self._reason

    def end(self, *_: object) -> None:
        """The handler of SIGTERM: it also ends a start, which may wait for a cluster."""
        is_first = not self._ending.is_set()
        self._ending.set()
        # Until Java is known it could not be ended; it is there in a second or two, whatever Spark waits for then.
        if is_first and self.phase not in (_BEFORE_JAVA, "ready"):
            raise _StoppedEarly

    def heed_signals(self) -> None:
        """Let SIGTERM end the server. A user's Ctrl-C does not, since others share it, unless that user submitted it to a cluster."""
        signal.signal(signal.SIGTERM, self.end)
        signal.signal(signal.SIGINT, self.end if _is_submitted() else signal.SIG_IGN)

    def _start_spark(self) -> None:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        submitted = _is_submitted()
        flags = ["--driver-memory", f"{self.settings.memory_mib}m", "--driver-java-options"]
        flags.append(shlex.join(plan_java_options(self.settings, self.runtime.path)))
        classes = self.runtime.path / "classes"
        flags += ["--driver-class-path", str(classes)]
        # Only these reach a command line, which others can read; options and the token don't.
        os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*flags, "pyspark-shell"])
        self._gateway = launch_gateway()  # type: ignore[no-untyped-call]
        self._say("starting Spark")
        if self._ending.is_set():
            raise _StoppedEarly
        conf = SparkConf(loadDefaults=True, _jvm=self._gateway.jvm)
        if self.settings.master is None and not submitted:
            conf.set("spark.hadoop.fs.file.impl", compile_unforked(self._gateway, classes))
        conf.setAll(list(plan_options(self.settings, self.runtime.path, submitted=submitted).items()))
        if submitted:
            conf.set("spark.connect.authenticate.token", os.environ[TOKEN_VARIABLE])
        context = SparkContext(conf=conf, gateway=self._gateway)
        # It has made Ctrl-C cancel all jobs, of everybody.
        self.heed_signals()
        self._spark = SparkSession(context)
        if self._has_executors():
            self._look_at_executors()
        self._say("warming up")
        self._spark.range(0, 1000, numPartitions=1).selectExpr("sum(id)").collect()

    def _has_executors(self) -> bool:
        """Whether tasks run in other processes than this server's JVM."""
        return not str(self._spark.sparkContext.master).startswith("local[") and self._spark.sparkContext.master != "local"

    def _look_at_executors(self) -> None:
        """Wait for the first executors and look once at what they have."""
        import pyarrow as pa
        import pyspark

        spark = self._spark.sparkContext
        self._say("waiting for executors of the cluster")
        while not list_executor_hosts(spark._jsc.sc()):
            if self._ending.wait(0.2):
                raise _StoppedEarly
            if spark._jsc.sc().isStopped():
                raise RuntimeError("All masters are unresponsive, or have removed the server")
        self._say("looking at executors")
        own = ExecutorVersions("", sys.version.split()[0], pyspark.__version__, pa.__version__, read_fingerprint())
        self._executors = read_versions(spark)
        check_versions(self._executors, own)
        for each in self._executors:
            if each.package != own.package:
                _note(
                    f'the package is sent to executors on "{each.machine}": {"they lack it" if each.package is None else "theirs differs"}'
                )

    def _say(self, phase: str) -> None:
        self.phase = phase
        self.runtime.write(self.runtime.state, json.dumps(self._describe()))

    def _describe(self) -> Answer:
        process = getattr(self._gateway, "proc", None)
        described: Answer = {
            "phase": self.phase,
            "pid": os.getpid(),
            "jvm_pid": None if process is None else process.pid,
            "started_at": self.started_at,
            "cores": self.settings.core_count,
            "driver_memory_mib": self.settings.memory_mib,
            "master": self._spark.sparkContext.master if self._spark is not None else self.settings.master_url,
            "idle_seconds": self.settings.idle_seconds,
            "task_bytes": self.settings.task_bytes(),
            "results": None if self._results is None else str(self._results),
        }
        if self.phase in ("warming up", "ready"):
            service = self._object("SparkConnectService")
            described |= {"address": self.settings.address, "port": service.localPort()}
            described["spark_version"] = self._spark.version
            # Of a cluster that grows and shrinks it is the number at the moment.
            described["task_slots"] = slots = int(self._spark.sparkContext.defaultParallelism)
            described["task_bytes"] = self.settings.task_bytes(slots)
            described["ui"] = self._spark.sparkContext.uiWebUrl
            if self._has_executors():
                hosts = list_executor_hosts(self._spark.sparkContext._jsc.sc())
                described["executors"] = len(hosts)
                # Where there are none at the moment, they will come from where the others were.
                if hosts:
                    for host in {*hosts} - self._hosts.keys():
                        self._hosts[host] = is_own_address(host)
                    self._executors_here = all(self._hosts[host] for host in hosts)
                described["executors_here"] = self._executors_here
                described["executor_python"] = sorted({each.python for each in self._executors})
        return described

    def _object(self, name: str) -> Any:
        return getattr(getattr(self._gateway.jvm, f"{_SERVICE}.{name}$"), "MODULE$")

    def _answer(self, number: int, request: Answer) -> Answer:
        match request.get("verb"):
            case "ping":
                return self._talkers.submit(self._ping).result(timeout=10)
            case "status":
                return self._talkers.submit(self._status).result(timeout=10)
            case "watch":
                with self._lock:
                    self._watched[number] = (str(request["user"]), str(request["session"]))
                return {"watching": True}
            case "metrics":
                return self._talkers.submit(self._metrics, request).result(timeout=10)
            case "tasks":
                return self._talkers.submit(self._tasks, request).result(timeout=10)
            case "interrupt":
                return self._talkers.submit(self._interrupt, request).result(timeout=10)
            case "stop":
                if self.phase == "ready":
                    self._ending.set()
                else:
                    os.kill(os.getpid(), signal.SIGTERM)
                return {"stopping": True, "pid": os.getpid()}
            case verb:
                return {"error": f"unknown verb {verb!r}"}

    def _ping(self) -> Answer:
        if self.phase != "ready":
            return self._describe()
        executors = self._spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
        return self._describe() | {"running_tasks": sum(int(executor.numRunningTasks()) for executor in executors)}

    def _status(self) -> Answer:
        described = self._ping()
        if self.phase == "ready":
            sessions = self._object("SparkConnectService").sessionManager().listActiveSessions()
            runtime = self._gateway.jvm.Runtime.getRuntime()
            described |= {
                "sessions": int(sessions.size()),
                "watched_sessions": len(self._watched),
                "running_queries": len(self._running()),
                "running_jobs": len(list(self._spark.sparkContext._jsc.sc().statusTracker().getActiveJobIds())),
                "heap_bytes": int(runtime.totalMemory() - runtime.freeMemory()),
            }
        return described

    def _running(self) -> list[Any]:
        holders = self._object("SparkConnectService").executionManager().listExecuteHolders()
        listed = [holders.apply(place) for place in range(holders.size())]
        return [holder for holder in listed if holder.isExecuteThreadRunnerAlive()]

    def _metrics(self, request: Answer) -> Answer:
        tag = self._object("ExecuteSessionTag").apply(request["user"], request["session"], request["tag"])
        return read_metrics(self._gateway, self._spark.sparkContext._jsc.sc(), tag)

    def _tasks(self, request: Answer) -> Answer:
        tag = self._object("ExecuteSessionTag").apply(request["user"], request["session"], request["tag"])
        return {"tasks": read_tasks(self._spark.sparkContext._jsc.sc(), tag)}

    def _interrupt(self, request: Answer) -> Answer:
        """Interrupt every query under a tag, in one session or in all, and the jobs that an early interrupt has missed."""
        tag = str(request["tag"])
        context = self._spark.sparkContext._jsc.sc()
        manager = self._object("SparkConnectService").sessionManager()
        sessions = manager.listActiveSessions()
        keys = [sessions.apply(place).key() for place in range(sessions.size())]
        interrupted = 0
        for key in keys:
            holder = manager.getIsolatedSessionIfPresent(key)
            if holder.isDefined() and request.get("session") in (None, key.sessionId()):
                interrupted += int(holder.get().interruptTag(tag).size())
                context.cancelJobsWithTag(self._object("ExecuteSessionTag").apply(key.userId(), key.sessionId(), tag))
        return {"interrupted": interrupted}

    def _forget(self, number: int) -> None:
        """A connection is gone; if it was a session's, nobody waits for what that session still runs."""
        with self._lock:
            key = self._watched.pop(number, None)
            if key is not None:
                self._used_at = time.monotonic()
        if key is not None and self.phase == "ready":
            self._talkers.submit(self._close_session, *key)

    def _close_session(self, user: str, session: str) -> None:
        manager = self._object("SparkConnectService").sessionManager()
        key = getattr(self._gateway.jvm, f"{_SERVICE}.SessionKey")(user, session)
        holder = manager.getIsolatedSessionIfPresent(key)
        if holder.isDefined():
            holder.get().interruptAll()
            manager.closeSession(key, False)  # noqa: FBT003 - py4j knows no keywords
        if self._results is not None:
            shutil.rmtree(self._results / session, ignore_errors=True)

    def _find_reason(self) -> str | None:
        try:
            if self._talkers.submit(self._stopped).result(timeout=_JVM_SECONDS):
                return self._find_death() or "its SparkContext was stopped"
            if self.settings.idle_seconds and self._idle_seconds() > self.settings.idle_seconds:
                return f"idle for {self.settings.idle_seconds:g} seconds"
        except TimeoutError:
            return f"its JVM did not answer for {_JVM_SECONDS:g} seconds"
        except (Py4JError, OSError) as error:
            return self._find_death() or f"its JVM can't be talked to: {error}"
        return None

    def _find_death(self) -> str | None:
        process = getattr(self._gateway, "proc", None)
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                return f"its JVM ended with code {process.wait(2)}"
        return None

    def _stopped(self) -> bool:
        context = self._spark.sparkContext._jsc.sc()
        if context.isStopped():
            return True
        self._cancel_orphans(context)
        return False

    def _cancel_orphans(self, context: Any) -> None:
        """Cancel the jobs of operations that are over: an interrupt that comes just before a job starts misses it."""
        numbers = list(context.statusTracker().getActiveJobIds())
        if not numbers:
            return
        jobs = [context.statusStore().job(number) for number in numbers]
        tags = {holder.jobTag() for holder in self._running()}
        for job in jobs:
            own = [tag for tag in job.jobTags().mkString(",").split(",") if tag.startswith(_OPERATION_TAG)]
            # A streaming query outlives the operation that started it; its jobs have a group.
            if own and not tags.intersection(own) and job.jobGroup().isEmpty():
                context.cancelJobsWithTag(own[0])

    def close(self) -> None:
        """End Spark and its JVM, gently at first and by force after some seconds."""
        # Py4J logs a call that the end cuts off with its traceback; the log's last lines are for the reason of the end.
        logging.disable()
        process = getattr(self._gateway, "proc", None)
        if self._spark is not None and (process is None or process.poll() is None):
            with suppress(TimeoutError, Exception):
                self._talkers.submit(self._spark.stop).result(timeout=5)
        if process is not None:
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(3)
            process.kill()

    def _idle_seconds(self) -> float:
        """Sessions of other clients (plain PySpark) count by their last access; ours by being open."""
        with self._lock:
            if self._watched:
                return 0.0
        return self._talkers.submit(self._quiet_seconds).result(timeout=_JVM_SECONDS)

    def _quiet_seconds(self) -> float:
        quiet = time.monotonic() - self._used_at
        if quiet <= self.settings.idle_seconds:
            return quiet
        if self._running():
            return 0.0
        sessions = self._object("SparkConnectService").sessionManager().listActiveSessions()
        accessed = [sessions.apply(place).lastAccessTimeMs() for place in range(sessions.size())]
        return float(min([quiet, *(time.time() - moment / 1000 for moment in accessed)]))


def main(arguments: list[str]) -> int:
    """Take the runtime folder's server lock, serve, and remove at the end what could mislead a client."""
    os.umask(0o077)
    runtime = open_runtime(Path(arguments[0]) if arguments else None)
    lock = _take_lock(runtime)
    if lock is None:
        _note(f'runtime folder "{runtime.path}" has a server already')
        return 3
    os.truncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    settings = ServerSettings(**json.loads(runtime.settings.read_text())) if runtime.settings.exists() else ServerSettings()
    os.environ[TOKEN_VARIABLE] = os.environ.pop(SHARED_TOKEN_VARIABLE, "") or secrets.token_urlsafe(32)
    runtime.write(runtime.token, os.environ[TOKEN_VARIABLE])
    runtime.write(runtime.path / "log4j2.properties", LOG_CONFIGURATION)
    runtime.write(runtime.path / "pools.xml", POOLS)
    shutil.rmtree(_results(runtime, settings), ignore_errors=True)
    for folder in (runtime.scratch, runtime.path / "classes", *([Path(settings.scratch)] if settings.scratch else [])):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    server = PlatformServer(runtime, settings)
    server.heed_signals()
    try:
        reason = server.run()
    except Exception as error:  # noqa: BLE001 - the log is where the starter looks for the cause
        reason = next((line for line in str(error).splitlines() if "Exception" in line or "Error" in line), str(error))
        known = error if isinstance(error, PlatformError) else explain_start(error)
        told = {} if known is None else {"message": known.message, "detail": known.detail, "hint": known.hint}
        runtime.write(runtime.state, json.dumps({"phase": "failed", "reason": redact_text(reason)[:2000], **told}))
        _note(f"platform server failed: {type(error).__name__}: {error}")
        code = 1
    else:
        _note(f"platform server ended: {reason}")
        code = 0
    server.close()
    # Threads that wait for a JVM which is gone would keep the process, and with it the lock.
    os._exit(code)


def _is_submitted() -> bool:
    """Whether spark-submit runs this process, which has started its Java then."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _results(runtime: RuntimeFolder, settings: ServerSettings) -> Path:
    """The folder for results that are too large to be sent from memory, a folder for each session in it."""
    return (Path(settings.scratch) if settings.scratch else runtime.scratch) / "platform-results"


def _note(line: str) -> None:
    """Write a line to the log, which is where this process's errors go."""
    moment = time.strftime("%Y-%m-%d %H:%M:%S")
    sys.stderr.write(f"{moment} {redact_text(line)}\n")
    sys.stderr.flush()


def _take_lock(runtime: RuntimeFolder) -> int | None:
    """Take the lock for the life of this process; those who only look hold it for moments, so it is tried more than once."""
    lock = os.open(runtime.server_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for _ in range(40):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return lock
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
