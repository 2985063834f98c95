"""`platform up` and `platform down`, and the server's part of `platform status`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platform_plugin.cli.output.amounts import byte_text, seconds_text
from platform_plugin.cli.output.machine import print_document
from platform_plugin.cli.output.progress import ProgressLine
from platform_plugin.language.text.counting import count_text

if TYPE_CHECKING:
    import argparse

    from platform_plugin.engine.spark.server.attach import ServerStatus
    from platform_plugin.engine.spark.server.settings import ServerSettings

_MEBIBYTE = 1 << 20


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
    return ServerSettings(**chosen)


def run_up(given: argparse.Namespace) -> int:
    """Start the platform server, unless it runs."""
    from platform_plugin.engine.spark.server.attach import start, status

    settings = plan_settings(given)
    before = status()
    with ProgressLine("starting the server") as line:
        after = start(settings, watcher=line.watch)
    fresh = not before.running or before.details.get("pid") != after.details.get("pid")
    if given.json:
        print_document({**server_document(after), "started": fresh})
        return 0
    print(f"platform server {'started' if fresh else 'runs already'}: {server_text(after)}")
    wanted = (given.cores, given.memory, given.idle, given.option)
    if not fresh and any(option is not None for option in wanted):
        print("its settings were left as they are; to change them, run `platform down` first")
    return 0


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
    if "cores" in known:
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
