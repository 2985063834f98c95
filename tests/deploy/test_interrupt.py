"""A command that is interrupted ends with all that it started, whoever got the signal and wherever it was started."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy import interrupt
from deploy.interrupt import SparkServer
from platform_plugin.engine.spark.server import attach, liveness

ROOT = Path(__file__).parents[2]

# Takes seconds over its imports, as it were, obeys no signal, and has started a process of its own.
MODULE = """
import pathlib, signal, subprocess, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path(sys.argv[1], "work").touch()
print(child.pid, sys.argv[1], flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def runtime(tmp_path, monkeypatch):
    """No server of this machine is looked at."""
    folder = tmp_path / "run"
    monkeypatch.setenv("PLATFORM_RUNTIME_DIR", str(folder))
    return folder


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start the module under deploy.interrupt, by some command before it; gives the process, its child and its folder."""
    (tmp_path / "stubborn.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(tmp_path)]))
    processes = []

    def run(command):
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # Whoever runs the tests with nohup has had it ignored.
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509  no thread runs here
        )
        processes.append(process)
        child, folder = next(line for line in process.stdout if line[0].isdigit()).split()
        return process, int(child), Path(folder)

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def is_running(process):
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False


def check_that_all_ended(child, folder):
    until = time.monotonic() + 5
    while is_running(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_running(child)
    assert not folder.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_module_and_what_it_started(start, number):
    # As a shell starts what is to be in the background.
    ignoring = ["sh", "-c", 'trap "" INT; exec "$0" "$@"', sys.executable, "-m", "deploy.interrupt", "stubborn"]
    process, child, folder = start(ignoring)
    assert (folder / "work").exists()
    process.send_signal(number)
    told, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert "Traceback" not in told
    assert f"ended by {'Ctrl-C' if number == signal.SIGINT else number.name}; nothing is left behind" in told
    check_that_all_ended(child, folder)


@pytest.mark.skipif(shutil.which("make") is None or not Path("/proc/self/status").exists(), reason="looks at make by /proc")
def test_make_passes_on_what_it_got_alone(start, tmp_path):
    (tmp_path / "Makefile").write_text(f"all:\n\t@{sys.executable} -m deploy.interrupt stubborn\n")
    process, child, folder = start(["make", "all"])
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT, "which is 130 to a shell"
    assert "Traceback" not in told
    check_that_all_ended(child, folder)


def test_a_module_that_ends_by_itself_passes_on_its_exit_code(tmp_path, monkeypatch):
    (tmp_path / "brief.py").write_text("import sys; sys.exit(7)")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(tmp_path)]))
    assert subprocess.run([sys.executable, "-m", "deploy.interrupt", "brief"], check=False, timeout=60).returncode == 7


def test_a_folder_that_no_server_can_use_is_told_by_who_needs_it(runtime):
    runtime.touch()
    assert not SparkServer().end()


@pytest.mark.parametrize(
    ("was_there", "clients", "goes_on"),
    [
        pytest.param(True, [], True, id="it ran before"),
        pytest.param(False, [], False, id="it is still starting"),
        pytest.param(False, [1, 0], False, id="the client that was killed is noticed"),
        pytest.param(False, [1] * 99, True, id="it serves others"),
    ],
)
def test_a_spark_server_ends_with_those_who_started_it(monkeypatch, was_there, clients, goes_on):
    waiting, running = list(clients), [True]

    def status():
        details = {"watched_sessions": waiting.pop(0)} if waiting else {}
        return attach.ServerStatus(running=running[0], phase="", runtime=Path(), log=Path(), details=details)

    monkeypatch.setattr(interrupt, "CLIENTS_GONE_SECONDS", 0.3)
    monkeypatch.setattr(liveness, "is_alive", lambda _: was_there)
    monkeypatch.setattr(attach, "status", status)
    monkeypatch.setattr(attach, "stop", lambda: running.append(running.pop() and False))
    assert SparkServer().end() is goes_on
    assert running[0] is goes_on
