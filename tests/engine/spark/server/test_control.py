import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from platform_plugin.engine.spark.server.control import Answer, ControlCall, ControlListener, ask
from platform_plugin.errors import ServerError


class Recorder:
    def __init__(self) -> None:
        self.gone = threading.Event()
        self.over = threading.Event()

    def handle(self, number: int, request: Answer) -> Answer:
        if request["verb"] == "fail":
            raise RuntimeError("on purpose")
        if request["verb"] == "sleep":
            self.over.wait(30)
        return {"number": number, **request}


@pytest.fixture
def listening(tmp_path: Path) -> tuple[Path, Recorder]:
    recorder = Recorder()
    ControlListener(tmp_path / "c.sock", recorder.handle, lambda _: recorder.gone.set()).start()
    return tmp_path / "c.sock", recorder


def test_one_connection_carries_many_questions(listening: tuple[Path, Recorder]) -> None:
    with ControlCall(listening[0]) as call:
        first, second = call.ask("a", x=1), call.ask("b")
    assert (first["x"], first["number"]) == (1, second["number"])
    assert listening[1].gone.wait(30)


def test_socket_is_for_its_owner_only(listening: tuple[Path, Recorder]) -> None:
    assert listening[0].stat().st_mode & 0o777 == 0o600


def test_error_of_the_server_is_raised_and_the_connection_lives(listening: tuple[Path, Recorder]) -> None:
    with ControlCall(listening[0]) as call:
        with pytest.raises(ServerError, match='"fail" failed') as caught:
            call.ask("fail")
        assert "on purpose" in str(caught.value.detail)
        assert call.ask("fine")["verb"] == "fine"


def test_rubbish_is_answered_with_an_error(listening: tuple[Path, Recorder]) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(str(listening[0]))
        raw.sendall(b"\xff not json\n")
        assert b"error" in raw.recv(4096)


def test_silent_server_is_given_up_on(listening: tuple[Path, Recorder]) -> None:
    began = time.monotonic()
    with pytest.raises(ServerError, match="broke off"):
        ask(listening[0], "sleep", seconds=0.2)
    assert time.monotonic() - began < 25
    listening[1].over.set()


def test_nobody_listening_is_a_server_error(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="does not answer"):
        ask(tmp_path / "none.sock", "ping")


def test_death_of_the_caller_is_noticed_though_a_child_keeps_the_socket(listening: tuple[Path, Recorder]) -> None:
    path, recorder = listening
    code = (
        "import os, sys, time; from pathlib import Path; from platform_plugin.engine.spark.server.control import ControlCall\n"
        f"call = ControlCall(Path({str(path)!r})); call.ask('watch')\n"
        "child = os.fork()\n"
        "if child == 0: time.sleep(20); os._exit(0)\n"
        "print(child, flush=True); time.sleep(20)\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    child = int(caller.stdout.readline())
    try:
        assert not recorder.gone.is_set()
        caller.kill()
        assert recorder.gone.wait(30)
    finally:
        os.kill(child, signal.SIGKILL)
        caller.wait()
        caller.stdout.close()
