"""What `make ui` starts ends with it, also where it was started in the background."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Processes that wait take the places of Dagster's: the first obeys Ctrl-C if it may, and has started one of its own, as Dagster does.
CODE = """
import os, subprocess, sys, pathlib, types

# All that it needs of the package; importing Dagster takes seconds.
sys.modules["platform_plugin.orchestration.components.place"] = types.SimpleNamespace(URL_VARIABLE="PLATFORM_URL", lake_url=None)
from deploy import ui

WAIT = [sys.executable, "-c", "import time; time.sleep(600)"]
BOTH = "import subprocess, sys, time; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); time.sleep(600)"
start = ui._start
ui._start = lambda command, environment, output=None: start([sys.executable, "-c", BOTH, *WAIT], environment)
ui._wait_for = lambda *_: True
ui.PROJECT = pathlib.Path(sys.argv[1])
sys.exit(ui.main([]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_everything_it_started(tmp_path, number):
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "dagster.yaml").touch()
    environment = {**os.environ, "PLATFORM_URL": str(tmp_path / "lake"), "PYTHONPATH": str(ROOT), "DISPLAY": ""}
    command = ["sh", "-c", 'trap "" INT; exec "$0" "$@"', sys.executable, "-c", CODE, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        lines = iter(process.stdout.readline, "")
        grandchild = int(next(line for line in lines if line.strip().isdigit()))
        process.send_signal(number)
        try:
            # A child that does not obey is waited for, and then killed, after longer.
            assert process.wait(15) == 0
        finally:
            process.kill()
            with suppress(ProcessLookupError):
                os.killpg(os.getpgid(grandchild), signal.SIGKILL)
    until = time.monotonic() + 5
    with suppress(ProcessLookupError):
        while time.monotonic() < until:
            os.kill(grandchild, 0)
            time.sleep(0.05)
        pytest.fail(f"process {grandchild} goes on")
