"""A server whose start takes long: the start goes on, and whoever waits is told and may give up. No Java is started here."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from pathlib import Path

import pytest

from platform_plugin.cli.server import server_text
from platform_plugin.engine.spark.server import launch as module
from platform_plugin.engine.spark.server import readiness
from platform_plugin.engine.spark.server.attach import start, status, stop
from platform_plugin.engine.spark.server.readiness import start_limit
from platform_plugin.engine.spark.server.runtime import open_runtime
from platform_plugin.errors import InvalidValue, ServerError, ServerStarting

# A server in everything but Spark, for which it waits until a file says that it is there.
SLOW = """
import sys, time
from platform_plugin.engine.spark.server import server

class Slow(server.PlatformServer):
    def _start_spark(self):
        self._say("starting Spark")
        while not (self.runtime.path / "go").exists():
            time.sleep(0.01)
        if (self.runtime.path / "go").read_text():
            raise RuntimeError("Exception: no cluster")

    def _describe(self):
        return {"phase": self.phase, "pid": server.os.getpid(), "jvm_pid": None, "started_at": self.started_at - 1000, "port": 0}

    _ping = _status = _describe

    def _find_reason(self):
        return None

server.PlatformServer = Slow
sys.exit(server.main(sys.argv[1:]))
"""
# A server in whose place a process that only waits is Java, which needs a second until it is known.
BEFORE_JAVA = """
import subprocess, sys, time, types
import pyspark.java_gateway
from platform_plugin.engine.spark.server import server

def launch_gateway():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdin=subprocess.PIPE)
    with open("java-pid", "w") as file:
        file.write(str(process.pid))
    time.sleep(1)
    return types.SimpleNamespace(proc=process)

pyspark.java_gateway.launch_gateway = launch_gateway
server.PlatformServer._describe = lambda self: {"phase": self.phase, "pid": server.os.getpid(), "jvm_pid": None, "port": 0}
sys.exit(server.main(sys.argv[1:]))
"""
BRIEFLY = timedelta(seconds=0.01)


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SERVER", ("-c", SLOW))
    made = open_runtime(tmp_path / "run")
    yield made
    stop(runtime=made)


def wait_for(true, seconds=60.0):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_start_goes_on_without_those_who_gave_up(runtime, caplog):
    with pytest.raises(ServerStarting, match="still starting after"):
        start(runtime=runtime, timeout=BRIEFLY)
    wait_for(lambda: runtime.read_state().get("phase") == "starting Spark")
    first = runtime.read_state()["pid"]
    told = []
    with pytest.raises(ServerStarting, match=r"still starting after 10\d\d seconds: starting Spark") as caught:
        start(runtime=runtime, timeout=timedelta(seconds=0.1), watcher=lambda phase, seconds: told.append((phase, seconds)))
    assert "PLATFORM_START_SECONDS" in caught.value.hint
    assert {phase for phase, _ in told} == {"starting Spark"}
    assert min(seconds for _, seconds in told) >= 1000, "it is told how long the start has taken, whoever began it"
    with caplog.at_level(logging.WARNING, readiness.__name__), pytest.raises(ServerStarting):
        start(runtime=runtime, timeout=timedelta(seconds=0.1))
    assert "waiting for the platform server: starting Spark, for 1" in caplog.text
    found = status(runtime=runtime)
    assert (found.running, found.phase) == (True, "starting Spark")
    assert server_text(found).startswith("starting Spark, for 1")
    (runtime.path / "go").touch()
    assert (start(runtime=runtime).phase, status(runtime=runtime).details["pid"]) == ("ready", first)


def test_a_start_can_be_ended_at_once(runtime):
    with pytest.raises(ServerStarting):
        start(runtime=runtime, timeout=BRIEFLY)
    wait_for(lambda: runtime.read_state().get("phase") == "starting Spark")
    assert stop(runtime=runtime)
    assert not status(runtime=runtime).running
    assert "platform server ended: told to stop" in runtime.read_log(), "it was killed"


def test_a_start_that_is_ended_leaves_no_java_behind(runtime, monkeypatch):
    monkeypatch.setattr(module, "_SERVER", ("-c", BEFORE_JAVA))
    with pytest.raises(ServerStarting):
        start(runtime=runtime, timeout=BRIEFLY)
    noted = runtime.path / "java-pid"
    wait_for(lambda: noted.exists() and noted.read_text())
    java = int(noted.read_text())
    assert stop(runtime=runtime)
    assert not status(runtime=runtime).running
    # Nobody may be there to bury it.
    wait_for(lambda: " Z " in (Path("/proc") / str(java) / "stat").read_text() if Path(f"/proc/{java}").exists() else True)


def test_those_who_wait_are_told_why_a_start_failed(runtime):
    def fail(phase, seconds):
        (runtime.path / "go").write_text("no")

    with pytest.raises(ServerStarting):
        start(runtime=runtime, timeout=BRIEFLY)
    wait_for(lambda: runtime.read_state().get("phase") == "starting Spark")
    with pytest.raises(ServerError, match="ended while it started") as caught:
        start(runtime=runtime, watcher=fail)
    assert caught.value.detail == "Exception: no cluster"
    Path(runtime.path / "go").write_text("")
    assert start(runtime=runtime).phase == "ready"


@pytest.mark.parametrize("said", ["0", "-1", "soon", "nan", "inf"])
def test_a_limit_that_is_none_is_refused(said):
    assert start_limit({}) == timedelta(minutes=5)
    with pytest.raises(InvalidValue, match="PLATFORM_START_SECONDS is"):
        start_limit({"PLATFORM_START_SECONDS": said})
