"""The web interface on the reference platform, with live data: web server, daemon, a feed, and what has to be made first.

Run it with `make ui`; Ctrl-C ends all of it. `PLATFORM_URL` names another lake, which gets no data of ours.
"""

from __future__ import annotations

import os
import shutil
import signal
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

from platform_plugin.orchestration.place import URL_VARIABLE, lake_url

if TYPE_CHECKING:
    from collections.abc import Sequence

PROJECT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
FIRST_PAGE = "/asset-groups"


def main(arguments: Sequence[str]) -> int:
    """Start everything, open the browser at the asset graph, and wait for the end."""
    port = arguments[0] if arguments else "3000"
    home = PROJECT / ".platform" / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    shutil.copy(PROJECT / "deploy" / "dagster.yaml", home)
    environment = {**os.environ, "DAGSTER_HOME": str(home)}
    is_ours = URL_VARIABLE not in os.environ
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    # A shell that starts things in the background lets them ignore Ctrl-C, and what they start as well; what is handled is not inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    started: list[subprocess.Popen[bytes]] = []
    try:
        workspace = ["-w", str(PROJECT / "deploy" / "workspace.yaml")]
        started.append(_start(["dagster", "dev", *workspace, "--host", HOST, "--port", port], environment))
        page = f"http://{HOST}:{port}{FIRST_PAGE}"
        if _wait_for(f"http://{HOST}:{port}/server_info", over, started[0]):
            print(f"\nopen {page}", flush=True)
            if os.environ.get("DISPLAY") or sys.platform == "darwin":
                webbrowser.open(page)
            if is_ours:
                started.append(_start([sys.executable, "-m", "deploy.feed", lake_url(PROJECT)], environment))
                # Streams and views are made by the first run, which is the first thing to look at.
                started.append(_start(["dagster", "asset", "materialize", "--select", "*", "-m", "deploy.code_location"], environment))
        while not over.is_set() and started[0].poll() is None:
            over.wait(0.5)
    except KeyboardInterrupt:
        pass
    finally:
        over.set()
        _end(started)
    return 0


def _start(command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    # In a session of its own, so that Ctrl-C reaches it once and from here.
    return subprocess.Popen(command, cwd=PROJECT, env=environment, start_new_session=True)


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
