"""Sparks of others for tests: a standalone cluster and a plain Connect server, both from the wheel, as processes on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyspark

from platform_plugin.engine.spark.server.java import java_home

if TYPE_CHECKING:
    from collections.abc import Mapping

SPARK_HOME = Path(pyspark.__file__).parent
SHORT_LIVED = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""For Javas that end after a minute: what their better compiler would cost is never earned."""


def find_free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    """Whether somebody listens at a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class StandaloneCluster:
    """A master and workers of one core each, with their folders and logs in one folder; end it with `stop`, or use it in a `with`."""

    def __init__(self, folder: Path, *, workers: int = 2, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port = find_free_port()
        self.master_url = f"spark://127.0.0.1:{self.port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._environment = {
            **os.environ,
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
            **SHORT_LIVED,
            **(environment or {}),
        }
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._run("master", "Master", "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
            self._wait(lambda: listens(self.port))
            for number in range(workers):
                self.start_worker(f"worker-{number}")
            self._wait(lambda: self.read_log("master").count("Registering worker") >= workers)
        except BaseException:
            self.stop()
            raise

    def start_worker(self, name: str) -> None:
        """One more worker, of one core."""
        own = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(self.folder / name)]
        self._run(name, "Worker", "--host", "127.0.0.1", *own, self.master_url)

    def kill(self, name: str) -> None:
        """End a process of the cluster, and nothing of it gently; executors are processes of their own."""
        process = self.processes.pop(name)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    def read_log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _run(self, name: str, kind: str, *arguments: str) -> None:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments]
        with (self.folder / f"{name}.log").open("ab") as log:
            # Not in the folder of the tests, so that nothing is imported from there by chance.
            self.processes[name] = subprocess.Popen(
                command, env=self._environment, stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )

    def _wait(self, happened, seconds=90.0):
        until = time.monotonic() + seconds
        while not happened():
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            assert not ended, f"{ended[0]} ended: {self.read_log(ended[0])[-2000:]}"
            assert time.monotonic() < until, self.read_log("master")[-2000:]
            time.sleep(0.05)

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            finally:
                process.wait()
        self.processes.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class ConnectServer:
    """Spark's own Connect server, as its start script runs it, with none of the platform's settings."""

    def __init__(self, folder: Path, *, options: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None) -> None:
        self.port = find_free_port()
        self.url = f"sc://127.0.0.1:{self.port}"
        self.log = folder / "connect.log"
        folder.mkdir(parents=True, exist_ok=True)
        conf = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.host": "127.0.0.1",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            **(options or {}),
        }
        command = [str(SPARK_HOME / "sbin" / "start-connect-server.sh"), "--master", "local[2]", "--driver-memory", "1g"]
        for name, value in conf.items():
            command += ["--conf", f"{name}={value}"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                env={
                    **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
                    "JAVA_HOME": str(java_home()),
                    "SPARK_HOME": str(SPARK_HOME),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "SPARK_NO_DAEMONIZE": "1",
                    "SPARK_LOG_DIR": str(folder),
                    "PYSPARK_PYTHON": sys.executable,
                    **(environment or {}),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,
            )
        until = time.monotonic() + 120
        while not listens(self.port):
            assert self.process.poll() is None, self.log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < until, self.log.read_text(errors="replace")[-2000:]
            time.sleep(0.1)

    def stop(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        finally:
            self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
