"""What `make ui` starts ends with it, also where it was started in the background."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from deploy import ui

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
ui._is_free = lambda _: True
ui._cancel_runs = lambda *_, **__: {"one", "two"}
ui.SparkServer = lambda: types.SimpleNamespace(end=lambda: True)
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
            assert process.wait(60) == (130 if number == signal.SIGINT else 0)
            told = process.stdout.read()
            assert "stopping, 2 runs are cancelled" in told
            assert "the Spark server goes on" in told
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


def test_a_port_that_is_taken_is_told_before_anything_starts(capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert ui.main([str(port)]) == 1
    assert f"port {port} is taken; make ui ARGS={port + 1} takes another" in capsys.readouterr().err


def test_runs_under_way_are_cancelled_and_not_failed(tmp_path):
    status = dg.DagsterRunStatus
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        runs = {each: create_run_for_test(instance, status=each).run_id for each in (status.NOT_STARTED, status.STARTED, status.SUCCESS)}
        cancelled = ui._cancel_runs(tmp_path)
        assert cancelled == {runs[status.NOT_STARTED], runs[status.STARTED]}
        now = {each: instance.get_run_by_id(run_id).status for each, run_id in runs.items()}
        assert now == {status.NOT_STARTED: status.CANCELED, status.STARTED: status.CANCELING, status.SUCCESS: status.SUCCESS}
        # What Dagster says of a process that the signal met before it had begun.
        instance.report_run_failed(instance.get_run_by_id(runs[status.NOT_STARTED]))
        assert ui._cancel_runs(tmp_path, before=cancelled, ended=True) == cancelled
        assert {instance.get_run_by_id(run_id).status for run_id in cancelled} == {status.CANCELED}
