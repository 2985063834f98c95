"""`WarmProcess`: runs the `platform` command in forks of a process that has imported what commands need.

To import pyspark, pyarrow and the package takes longer than most commands; here it is paid once for a test process. A fork is a process of
its own in all else: it has the standard files, the variables and the folder that it is given, and it ends as an interpreter ends.
"""

from __future__ import annotations

import array
import atexit
import gc
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[1]
NOT_OF_COMMANDS = ("platform_plugin.orchestration", "platform_plugin.dialect", "platform_plugin.templates", "platform_plugin.cli.__main__")
"""The modules that no command imports."""


class WarmProcess:
    """The process that forks, and what it is asked by."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.warm", str(theirs.fileno())], cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
        self._answers = self._socket.makefile()

    def run(
        self, arguments: Sequence[str], *, stdin: str, env: Mapping[str, str], cwd: Path, seconds: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as `subprocess.run` does with captured output; TimeoutExpired after so many seconds."""
        pipes = [os.pipe() for _ in range(3)]
        (their_in, our_in), (our_out, their_out), (our_err, their_err) = pipes
        request = json.dumps({"arguments": list(arguments), "env": dict(env), "cwd": str(cwd)}).encode()
        given = array.array("i", [their_in, their_out, their_err])
        header = len(request).to_bytes(4, "big")
        self._socket.sendmsg([header], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, given)])
        self._socket.sendall(request)
        for file in given:
            os.close(file)
        pid = int(self._answers.readline())
        ending = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
        ending.start()
        said: dict[int, str] = {}

        def read(file: int) -> None:
            with open(file, encoding="utf-8") as opened:
                said[file] = opened.read()

        readers = [threading.Thread(target=read, args=(file,)) for file in (our_out, our_err)]
        for reader in readers:
            reader.start()
        with os.fdopen(our_in, "wb") as file:
            try:
                file.write(stdin.encode())
                file.flush()
            except BrokenPipeError:
                pass  # it does not read what it is given
        code = int(self._answers.readline())
        in_time = ending.is_alive()
        ending.cancel()
        for reader in readers:
            reader.join()
        if not in_time:
            raise subprocess.TimeoutExpired(list(arguments), seconds, said[our_out], said[our_err])
        return subprocess.CompletedProcess(list(arguments), code, said[our_out], said[our_err])

    def stop(self) -> None:
        with closing(self._socket):
            self._answers.close()
        self._process.wait(timeout=30)


def serve(connection: socket.socket) -> None:
    """Fork for each request, and tell the fork's number and then its exit code."""
    while header := connection.recvmsg(4, socket.CMSG_SPACE(12)):
        head, ancillary, _, _ = header
        if not head:
            return
        files = array.array("i")
        files.frombytes(ancillary[0][2])
        request = b""
        while len(request) < int.from_bytes(head, "big"):
            request += connection.recv(65536)
        child = os.fork()
        if child == 0:
            connection.close()
            be_command(json.loads(request), list(files))
        for file in files:
            os.close(file)
        connection.sendall(f"{child}\n".encode())
        connection.sendall(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n".encode())


def be_command(request: dict[str, Any], files: list[int]) -> NoReturn:
    """In the fork: what `python -m platform_plugin.cli` does; does not return."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w", closefd=False)), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv = ["platform", *request["arguments"]]
    from platform_plugin.cli import main

    code = main()
    # As an interpreter ends, but that it would take apart every imported module.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def import_all(package: str, *, but: tuple[str, ...] = ()) -> None:
    """Import a package with all that is in it, except what begins with these names."""
    for module in walk_packages(import_module(package).__path__, f"{package}."):
        if not module.name.startswith(but):
            import_module(module.name)


if __name__ == "__main__":
    import_all("platform_plugin", but=NOT_OF_COMMANDS)
    for name in ("pyspark.sql.connect.session", "grpc", "pandas", "sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql"):
        import_module(name)
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
