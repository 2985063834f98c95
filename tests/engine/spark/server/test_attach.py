import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from platform_plugin.engine.spark.server import launch as module
from platform_plugin.engine.spark.server.attach import attach, connect, start, status, stop
from platform_plugin.engine.spark.server.runtime import RuntimeFolder, hold_lock, open_runtime
from platform_plugin.engine.spark.server.settings import ServerSettings
from platform_plugin.errors import ServerError

SETTINGS = ServerSettings(cores=2, driver_memory_mib=1024, idle_seconds=120)
ENDLESS = "SELECT count(*) FROM range(0, 4000000000000, 1, 64) WHERE hash(id, 'x') = 7"


def wait_until(true, seconds=60.0):
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds, f"not true after {seconds} seconds"
        time.sleep(0.05)


@pytest.fixture
def private(tmp_path: Path) -> Iterator[RuntimeFolder]:
    """A runtime folder whose server this test may harm."""
    runtime = open_runtime(tmp_path / "run")
    yield runtime
    stop(runtime=runtime)


def test_nothing_runs_until_asked(tmp_path: Path) -> None:
    runtime = open_runtime(tmp_path / "run")
    assert not status(runtime=runtime).running
    assert not stop(runtime=runtime)


def test_no_java_is_said_before_anything_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = open_runtime(tmp_path / "run")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ServerError, match="holds no Java"):
        start(SETTINGS, runtime=runtime)
    assert not runtime.log.exists()


def test_full_disk_is_said_before_anything_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = open_runtime(tmp_path / "run")
    monkeypatch.setattr(module, "_LEAST_FREE_BYTES", 1 << 62)
    with pytest.raises(ServerError, match="is full") as caught:
        start(SETTINGS, runtime=runtime)
    assert "PLATFORM_RUNTIME_DIR" in str(caught.value.hint)


def test_taken_port_is_said_before_anything_is_started(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServerError, match=f'port "{port}"'):
            start(replace(SETTINGS, port=port), runtime=open_runtime(tmp_path / "run"))


def test_server_that_fails_to_start_shows_its_log(tmp_path: Path) -> None:
    runtime = open_runtime(tmp_path / "run")
    runtime.settings.write_text("{}")
    began = time.monotonic()
    with pytest.raises(ServerError, match="ended with code") as caught:
        start(replace(SETTINGS, options={"spark.driver.maxResultSize": "nonsense"}), runtime=runtime)
    assert time.monotonic() - began < 100
    assert "nonsense" in str(caught.value.detail)
    assert str(runtime.log) in str(caught.value.hint)
    assert not status(runtime=runtime).running


def test_unreachable_endpoint_is_refused_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(ServerError, match=r'"127\.0\.0\.1:1" can\'t be reached'):
        connect("sc://127.0.0.1:1")
    assert time.monotonic() - began < 20


def test_url_that_is_none_is_refused() -> None:
    with pytest.raises(ServerError, match="URL"):
        connect("http://localhost")


def test_endpoint_that_speaks_something_else_is_refused_in_seconds() -> None:
    import socket

    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        began = time.monotonic()
        with pytest.raises(ServerError, match="does not answer"):
            connect(f"sc://127.0.0.1:{mute.getsockname()[1]}")
        assert time.monotonic() - began < 60


@pytest.mark.spark
def test_wrong_and_missing_tokens_are_refused_at_once(spark_server: RuntimeFolder) -> None:
    from platform_plugin.engine.spark.server.channel import LoopbackChannel
    from platform_plugin.engine.spark.session.session import Session

    port = status(runtime=spark_server).details["port"]
    for token in ("wrong", "", spark_server.token.read_text() + "x"):
        began = time.monotonic()
        with pytest.raises(ServerError, match="refuses this client's token"):
            Session(LoopbackChannel(port=port, token=token))
        assert time.monotonic() - began < 20
    with pytest.raises(ServerError, match="refuses this client's token"):
        connect(f"sc://127.0.0.1:{port}")
    with Session(LoopbackChannel(port=port, token=spark_server.token.read_text())) as session:
        assert session.arrow("SELECT 1").read_all().num_rows == 1


@pytest.mark.spark
def test_an_endpoint_by_url_with_the_token_of_its_owner(spark_server: RuntimeFolder) -> None:
    port = status(runtime=spark_server).details["port"]
    with connect(f"sc://127.0.0.1:{port}/;use_ssl=false;token={spark_server.token.read_text()}") as session:
        stream = session.arrow("SELECT 1 AS one")
        assert stream.read_all().to_pylist() == [{"one": 1}]
        assert stream.metrics().jobs is None
        assert spark_server.token.read_text() not in repr(session)


@pytest.mark.spark
def test_token_is_in_no_command_line_log_or_open_file(spark_server: RuntimeFolder) -> None:
    token = spark_server.token.read_text()
    details = status(runtime=spark_server).details
    lines = [Path(f"/proc/{details[name]}/cmdline").read_bytes().decode() for name in ("pid", "jvm_pid")]
    assert not any(token in line for line in lines)
    holders = [path for path in spark_server.path.rglob("*") if path.is_file() and token in path.read_text(errors="replace")]
    assert holders == [spark_server.token]
    # Spark makes folders of its own in there, which the folder itself keeps from others.
    assert spark_server.path.stat().st_mode & 0o777 == 0o700
    ours = ("token", "state.json", "settings.json", "control.sock", "server.lock", "logs")
    assert [name for name in ours if (spark_server.path / name).stat().st_mode & 0o077] == []


@pytest.mark.spark
@pytest.mark.slow
def test_ten_first_users_start_one_server(private: RuntimeFolder) -> None:
    code = (
        "from platform_plugin.engine.spark.server.attach import attach\n"
        "from platform_plugin.engine.spark.server.settings import ServerSettings\n"
        "session = attach(ServerSettings(cores=2, driver_memory_mib=1024, idle_seconds=120))\n"
        "print(session.arrow('SELECT 6 * 7 AS answer').read_all().to_pylist()[0]['answer'], session.endpoint)\n"
    )
    environment = {**os.environ, "PLATFORM_RUNTIME_DIR": str(private.path)}
    users = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) for _ in range(10)]
    said = {user.communicate(timeout=100)[0].strip() for user in users}
    assert len(said) == 1, said
    assert next(iter(said)).startswith("42 127.0.0.1:")


@pytest.mark.spark
def test_killed_server_fails_the_running_query_in_seconds_and_is_replaced_by_one_that_ends_when_idle(private: RuntimeFolder) -> None:
    session = attach(SETTINGS, runtime=private)
    first = status(runtime=private).details
    threading.Timer(1.5, os.kill, (first["jvm_pid"], signal.SIGKILL)).start()
    began = time.monotonic()
    with pytest.raises(ServerError, match="stopped answering") as caught:
        session.arrow(ENDLESS).read_all()
    assert time.monotonic() - began < 60
    assert str(private.log) in str(caught.value.hint)
    session.close()
    wait_until(lambda: "its JVM ended with code -9" in private.read_log())
    with attach(replace(SETTINGS, idle_seconds=2), runtime=private) as session:
        assert session.arrow("SELECT 1").read_all().num_rows == 1
        assert status(runtime=private).details["pid"] != first["pid"]
        # It is in use, though nothing runs.
        time.sleep(4)
        assert status(runtime=private).phase == "ready"
    wait_until(lambda: not status(runtime=private).running)
    assert "idle for 2 seconds" in private.read_log()
    assert not private.state.exists()


@pytest.mark.spark
@pytest.mark.slow
def test_a_killed_driver_takes_its_jvm_along_and_is_replaced(private: RuntimeFolder) -> None:
    with attach(SETTINGS, runtime=private):
        first = status(runtime=private).details
    os.kill(first["pid"], signal.SIGKILL)
    with attach(SETTINGS, runtime=private) as session:
        assert session.arrow("SELECT 1").read_all().num_rows == 1
        wait_until(lambda: not Path(f"/proc/{first['jvm_pid']}").exists())
    assert status(runtime=private).details["pid"] != first["pid"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("part", ["pid", "jvm_pid"])
def test_wedged_server_is_replaced(private: RuntimeFolder, part: str) -> None:
    start(SETTINGS, runtime=private)
    first = status(runtime=private).details
    os.kill(first[part], signal.SIGSTOP)
    told: list[str] = []
    with attach(SETTINGS, runtime=private, watcher=lambda phase, _: told.append(phase)) as session:
        assert session.arrow("SELECT 1").read_all().num_rows == 1
    assert any("replacing" in phase for phase in told)
    assert not Path(f"/proc/{first['jvm_pid']}").exists() or "Z" in Path(f"/proc/{first['jvm_pid']}/stat").read_text().split()[2]


def test_waiting_for_another_starter_has_an_end(tmp_path: Path) -> None:
    runtime = open_runtime(tmp_path / "run")
    with hold_lock(runtime.start_lock) as held:
        assert held
        with pytest.raises(ServerError, match="for too long"):
            start(SETTINGS, runtime=runtime, timeout=timedelta(seconds=0.3))
