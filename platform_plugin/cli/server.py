"""`platform up` and `platform down`, and the server's part of `platform status`."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platform_plugin.cli.output.amounts import byte_text, seconds_text
from platform_plugin.cli.output.machine import print_document
from platform_plugin.cli.output.progress import ProgressLine
from platform_plugin.language.text.counting import count_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from platform_plugin.engine.spark.server.attach import ServerStatus
    from platform_plugin.engine.spark.server.settings import ServerSettings

_MEBIBYTE = 1 << 20
_LOOK_SECONDS = 0.25
_AS_GIVEN = {
    "master": "master",
    "executor_cores": "executor_cores",
    "executor_python": "executor_python",
    "driver_host": "driver_host",
    "driver_bind": "driver_bind_address",
    "address": "address",
    "port": "port",
}


def plan_settings(given: argparse.Namespace) -> ServerSettings:
    """The server settings for the options of `up`; the defaults suit the machine."""
    from platform_plugin.engine.spark.server.settings import ServerSettings

    chosen: dict[str, Any] = {"options": dict(given.option or [])}
    if given.cores is not None:
        chosen["cores"] = given.cores
    if given.memory is not None:
        chosen["driver_memory_mib"] = max(1, given.memory // _MEBIBYTE)
    if given.idle is not None:
        chosen["idle_seconds"] = given.idle.total_seconds()
    if given.executor_memory is not None:
        chosen["executor_memory_mib"] = max(1, given.executor_memory // _MEBIBYTE)
    for option, setting in _AS_GIVEN.items():
        if getattr(given, option) is not None:
            chosen[setting] = getattr(given, option)
    return ServerSettings(**chosen)


def run_up(given: argparse.Namespace) -> int:
    """Start the platform server, unless it runs."""
    from platform_plugin.engine.spark.server.attach import start, status

    settings = plan_settings(given)
    before = status()
    with ending_server() if given.foreground else nullcontext(), ProgressLine("starting the server") as line:
        # A supervisor has nothing better to do than to wait for the cluster.
        after = start(settings, watcher=line.watch, timeout=timedelta(days=365) if given.foreground else None)
    fresh = not before.running or before.details.get("pid") != after.details.get("pid")
    if given.json:
        print_document({**server_document(after), "started": fresh})
    else:
        print(f"platform server {'started' if fresh else 'runs already'}: {server_text(after)}", flush=True)
        wanted = (given.cores, given.memory, given.idle, given.option, given.executor_memory, *(getattr(given, name) for name in _AS_GIVEN))
        if not fresh and any(option is not None for option in wanted):
            print("its settings were left as they are; to change them, run `platform down` first", flush=True)
    return follow_server(after) if given.foreground else 0


@contextmanager
def ending_server() -> Iterator[None]:
    """End the server with what ends the block early, such as SIGTERM."""
    from platform_plugin.engine.spark.server.attach import stop

    try:
        yield
    except BaseException:
        stop()
        raise


def follow_server(server: ServerStatus) -> int:
    """Print the server's log until it ends, and end it with this process; the exit code says whether somebody asked for the end."""
    from platform_plugin.engine.spark.server.liveness import is_alive
    from platform_plugin.engine.spark.server.runtime import RuntimeFolder

    runtime = RuntimeFolder(path=server.runtime)
    with ending_server(), server.log.open(errors="replace") as log:
        while is_alive(runtime):
            sys.stderr.write(log.read())
            sys.stderr.flush()
            time.sleep(_LOOK_SECONDS)
        sys.stderr.write(log.read())
    ends = [line for line in runtime.read_log().splitlines() if "platform server ended: " in line]
    return 0 if ends and ends[-1].partition("ended: ")[2].startswith(("told to stop", "idle")) else 1


def run_down(given: argparse.Namespace) -> int:
    """Stop the platform server, if it runs."""
    from platform_plugin.engine.spark.server.attach import stop

    with ProgressLine("ending the server"):
        stopped = stop()
    if given.json:
        print_document({"stopped": stopped})
    else:
        print("platform server ended" if stopped else "no platform server was running")
    return 0


def server_document(status: ServerStatus) -> dict[str, Any]:
    """The server's state as a JSON document."""
    details = status.details
    memory = {name: _resident_bytes(details.get(key)) for name, key in (("driver_bytes", "pid"), ("jvm_bytes", "jvm_pid"))}
    if not status.running:
        memory = {}
    return {"running": status.running, "phase": status.phase, "runtime": str(status.runtime), "log": str(status.log), **details, **memory}


def server_text(status: ServerStatus) -> str:
    """The server's state in one line."""
    if not status.running:
        return "not running (the first query starts it, or `platform up`)"
    known = server_document(status)
    memory = sum(known[name] or 0 for name in ("driver_bytes", "jvm_bytes"))
    phase = status.phase
    if status.phase not in ("ready", "not answering") and "started_at" in known:
        phase = f"{phase}, for {seconds_text(time.time() - float(known['started_at']))} so far"
    parts = [f"{phase}, process {known.get('pid', 'unknown')}"]
    if memory:
        parts.append(f"{byte_text(memory)} in memory")
    if "executors" in known:
        slots = count_text(known["task_slots"], "task slot")
        parts.append(f"{count_text(known['executors'], 'executor')} with {slots} of {known['master']}")
    elif "cores" in known:
        parts.append(count_text(known["cores"], "core"))
    if "sessions" in known:
        parts.append(f"{count_text(known['sessions'], 'session')}, {count_text(known['running_queries'], 'running statement')}")
    idle = known.get("idle_seconds")
    if idle is not None:
        parts.append(f"ends after {seconds_text(idle)} without a session" if idle else "never ends by itself")
    if status.phase == "not answering":
        parts.append("`platform down` ends it")
    return ", ".join(parts)


def _resident_bytes(pid: int | None) -> int | None:
    """The memory that a process holds now, where the system tells."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) if pid else None
    except (OSError, ValueError, IndexError):
        return None
    return None if pages is None else pages * os.sysconf("SC_PAGE_SIZE")
