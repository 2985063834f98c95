"""The control socket: JSON lines between a platform server and its user's processes, with both ends of it."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
from typing import TYPE_CHECKING, Any, Self

from platform_plugin.errors import ServerError
from platform_plugin.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Answer = dict[str, Any]


class ControlCall:
    """An open connection to the server, which notices at once when this process closes it or dies."""

    def __init__(self, path: Path, *, seconds: float = 5.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(seconds)
        self._lock = threading.Lock()
        try:
            self._socket.connect(os.fspath(path))
        except OSError as error:
            self._socket.close()
            raise ServerError(f'control socket "{path}" does not answer', detail=str(error), hint="run `platform status`") from error
        self._lines = self._socket.makefile("rwb")
        self._path = path

    def ask(self, verb: str, **arguments: object) -> Answer:
        """Send one request and return its answer; an error of the server is raised here."""
        try:
            with self._lock:
                self._lines.write(json.dumps({"verb": verb, **arguments}).encode() + b"\n")
                self._lines.flush()
                line = self._lines.readline()
            answer = json.loads(line)
        except (OSError, ValueError) as error:
            raise ServerError(f'control socket "{self._path}" broke off', detail=str(error), hint="run `platform status`") from error
        if "error" in answer:
            raise ServerError(f'control call "{verb}" failed', detail=str(answer["error"]), hint="look into the server's log")
        return dict(answer)

    @property
    def is_broken(self) -> bool:
        """Whether the server has closed this connection; to be asked while no request is under way."""
        poll = select.poll()
        try:
            poll.register(self._socket, select.POLLIN)
            return bool(poll.poll(0))
        except (OSError, ValueError):
            return True

    def close(self) -> None:
        # The file object keeps the descriptor, so both must go.
        for part in (self._lines, self._socket):
            try:
                part.close()
            except OSError:
                continue

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ask(path: Path, verb: str, *, seconds: float = 5.0, **arguments: Any) -> Answer:
    """Send one request on a connection of its own."""
    with ControlCall(path, seconds=seconds) as call:
        return call.ask(verb, **arguments)


class ControlListener:
    """The server's end of the control socket: one thread for each connection, and a call when a connection or its process ends."""

    def __init__(self, path: Path, handle: Callable[[int, Answer], Answer], gone: Callable[[int], None]) -> None:
        self._handle = handle
        self._gone = gone
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(os.fspath(path))
        path.chmod(0o600)
        self._socket.listen(128)

    def start(self) -> None:
        threading.Thread(target=self._accept, name="control", daemon=True).start()

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            number += 1
            threading.Thread(target=self._converse, args=(number, connection), name=f"control-{number}", daemon=True).start()

    def _converse(self, number: int, connection: socket.socket) -> None:
        process = _open_process(connection)
        try:
            with connection, connection.makefile("rwb") as lines:
                while _readable(connection, process):
                    line = lines.readline(1 << 20)
                    if not line:
                        return
                    lines.write(json.dumps(self._answer(number, line)).encode() + b"\n")
                    lines.flush()
        except OSError:
            return
        finally:
            if process is not None:
                os.close(process)
            self._gone(number)

    def _answer(self, number: int, line: bytes) -> Answer:
        try:
            return self._handle(number, json.loads(line))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is the caller's to read; the listener must live on
            return {"error": redact_text(f"{type(error).__name__}: {error}")[:2000]}


def _open_process(connection: socket.socket) -> int | None:
    """Return a handle that becomes readable when the peer dies; a child it forked may keep the socket open."""
    if not hasattr(socket, "SO_PEERCRED") or not hasattr(os, "pidfd_open"):
        return None
    pid = int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], "little")
    try:
        return os.pidfd_open(pid) if pid > 0 else None
    except OSError:
        return None


def _readable(connection: socket.socket, process: int | None) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    if process is not None:
        poll.register(process, select.POLLIN)
    return all(handle != process for handle, _ in poll.poll())
