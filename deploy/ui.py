"""The web interface on the reference platform, with live data: web server, daemon, a feed, and what has to be made first.

Run it with `make ui`; Ctrl-C ends all of it. `PLATFORM_URL` names another lake, which gets no data of ours.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.interrupt import SparkServer, heed_interrupts
from deploy.waiting import Ticker
from platform_plugin.language.text.counting import count_text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import IO

PROJECT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
FIRST_RUN = "not key:daily_sales and not key:campaign and not key:overview"
"""Days are built when somebody asks for them, and the campaign at night."""
GROUPS = ("marketing", "platform", "results", "samples", "streams", "tables", "views")
FIRST_PAGE = "/asset-groups/?expanded=" + ",".join(f"global@global:{group}" for group in GROUPS)
"""The asset graph with its groups open, which is small enough to be looked at whole."""
PAGES = {
    "/asset-groups": "the asset graph",
    "/assets/platform/overview": "streams, views and their lag",
    "/automation": "sensors, and why they asked for a run or did not",
}
PATIENCE_SECONDS = "600"
"""How long Dagster's processes wait for each other: on a busy machine a minute, their usual limit, is too short to start one."""


def main(arguments: Sequence[str]) -> int:
    """Start everything, open the browser at the asset graph, and wait for the end."""
    port = arguments[0] if arguments else "3000"
    if not _is_free(port):
        print(f"port {port} is taken; make ui ARGS={int(port) + 1} takes another", file=sys.stderr)
        return 1
    over = threading.Event()
    numbers: list[int] = []

    def heed(number: int) -> None:
        numbers.append(number)
        over.set()

    heed_interrupts(heed)
    home = PROJECT / ".platform" / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    shutil.copy(PROJECT / "deploy" / "dagster.yaml", home)
    environment = {
        "DAGSTER_GRPC_TIMEOUT_SECONDS": PATIENCE_SECONDS,
        # What Dagster calls beta is used behind one function each; its warnings say nothing to whoever looks at the page.
        "PYTHONWARNINGS": "ignore",
        **os.environ,
        "DAGSTER_HOME": str(home),
    }
    server = SparkServer()
    started: list[subprocess.Popen[bytes]] = []
    with Ticker("starting Python and Dagster"):
        from platform_plugin.orchestration.components.place import URL_VARIABLE, lake_url
    is_ours = URL_VARIABLE not in os.environ
    try:
        if is_ours:
            with Ticker("making a lake"):
                _found_lake(lake_url(PROJECT))
        workspace = ["-w", str(PROJECT / "deploy" / "workspace.yaml")]
        # Runs write their whole log to where Dagster's processes do, so that goes to a file.
        log = home / "dagster.log"
        command = ["dagster", "dev", *workspace, "--host", HOST, "--port", port, "--log-level", "warning"]
        if over.is_set():
            return _exit_code(numbers)
        with log.open("ab") as file:
            started.append(_start(command, environment, output=file))
        with Ticker("starting the web server and the daemon"):
            is_up = _wait_for(f"http://{HOST}:{port}/server_info", over, started[0])
        if is_up:
            if is_ours:
                started.append(_start([sys.executable, "-m", "deploy.feed", lake_url(PROJECT)], environment))
                _make_relations(home / "first-run.log", environment, over, started)
            _show(f"http://{HOST}:{port}", log)
        while not over.is_set() and started[0].poll() is None:
            over.wait(0.5)
        if not over.is_set():
            print(f"Dagster ended by itself; {log} says why", file=sys.stderr)
            return 1
    finally:
        over.set()
        if started:
            _stop(started, home, server)
    return _exit_code(numbers)


def _show(site: str, log: Path) -> None:
    """Say where everything is, and open the browser where there is one."""
    pages = "\n".join(f"  {site + path:<48} {what}" for path, what in PAGES.items())
    print(f"\nopen {site}, such as\n{pages}\nCtrl-C ends all of it; what Dagster and its runs say is in {log}", flush=True)
    if os.environ.get("DISPLAY") or sys.platform == "darwin":
        webbrowser.open(site + FIRST_PAGE)


def _stop(started: Sequence[subprocess.Popen[bytes]], home: Path, server: SparkServer) -> None:
    """End the processes, the runs that they leave behind, and a Spark server that they have started."""
    print("stopping", end="", flush=True)
    cancelled = _cancel_runs(home)
    said = count_text(len(cancelled), "run is", "runs are")
    print(f", {said} cancelled; this takes up to half a minute", flush=True)
    _end(started)
    _cancel_runs(home, before=cancelled, ended=True)
    if server.end():
        print("the Spark server goes on: it ran before, or serves others", flush=True)


def _exit_code(numbers: Sequence[int]) -> int:
    """As a shell has it for Ctrl-C; a service that is told to end has ended as it should."""
    return 130 if numbers[0] == signal.SIGINT else 0


def _is_free(port: str) -> bool:
    """Whether nobody listens at a port of this machine."""
    try:
        with socket.create_connection((HOST, int(port)), timeout=2):
            return False
    except (OSError, OverflowError):
        return True


def _cancel_runs(home: Path, *, before: Collection[str] = (), ended: bool = False) -> set[str]:
    """Note that the runs under way are to be cancelled, so that the signal that follows is no failure; `ended` ones are cancelled.

    So are those of `before` that have failed since: of a process that had not begun to work only that it ended was told.
    """
    import dagster as dg

    status = dg.DagsterRunStatus
    waiting = (status.QUEUED, status.NOT_STARTED)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        statuses = [*waiting, status.STARTING, status.STARTED, status.CANCELING]
        under_way = list(instance.get_runs(filters=dg.RunsFilter(statuses=statuses)))
        if before:
            under_way += instance.get_runs(filters=dg.RunsFilter(run_ids=list(before), statuses=[status.FAILURE]))
        for run in under_way:
            # What has no process yet, or none any more, can't say itself that it ends.
            if ended or run.status in waiting:
                instance.report_run_canceled(run)
            elif run.status is not status.CANCELING:
                instance.report_run_canceling(run)
    return {run.run_id for run in under_way}


def _found_lake(url: str) -> None:
    """Make the lake where there is none, so that nothing has to be said of its absence."""
    from platform_plugin.platform import Platform

    Platform.create(url, exist_ok=True).close()


def _make_relations(log: Path, environment: dict[str, str], over: threading.Event, started: list[subprocess.Popen[bytes]]) -> None:
    """Materialize what is declared, as the button in the interface does; how that went is in a file, and only its failure is told."""
    command = ["dagster", "asset", "materialize", "--select", FIRST_RUN, "-m", "deploy.code_location"]
    with log.open("wb") as file:
        started.append(_start(command, environment, output=file))
    with Ticker("making streams, tables, views and samples; the first run starts Spark"):
        while not over.is_set() and started[-1].poll() is None:
            over.wait(0.5)
    if started[-1].poll() not in (0, None):
        print(f"the first run failed; {log} says why, and the page of runs shows it", file=sys.stderr)


def _start(command: list[str], environment: dict[str, str], output: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    # In a session of its own, so that Ctrl-C reaches it once and from here.
    return subprocess.Popen(command, cwd=PROJECT, env=environment, start_new_session=True, stdout=output, stderr=output)


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes and what they started, which is in their sessions and would go on without them."""
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
    for process in started:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
        with suppress(ProcessLookupError):
            for _ in range(50):
                os.killpg(process.pid, 0)
                time.sleep(0.1)
            os.killpg(process.pid, signal.SIGKILL)


def _wait_for(url: str, over: threading.Event, process: subprocess.Popen[bytes]) -> bool:
    while not over.is_set() and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310  our own web server
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
