"""The runtime folder: where a platform server keeps its state, locks and logs, closed to other users."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RUNTIME_VARIABLE = "PLATFORM_RUNTIME_DIR"
_HINT = f"set {RUNTIME_VARIABLE} to a folder that you own, on a local disk with free space"
_LONGEST_SOCKET_PATH = 103
"""Bytes that every Unix allows in the address of a local socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFolder:
    """A folder of one user and at most one live server."""

    path: Path

    @property
    def control(self) -> Path:
        return self.path / "control.sock"

    @property
    def token(self) -> Path:
        return self.path / "token"

    @property
    def settings(self) -> Path:
        return self.path / "settings.json"

    @property
    def state(self) -> Path:
        return self.path / "state.json"

    @property
    def scratch(self) -> Path:
        """Where Spark spills, shuffles and spools, unless the settings name another folder; it is emptied before a server starts."""
        return self.path / "scratch"

    @property
    def log(self) -> Path:
        return self.path / "logs" / "server.log"

    @property
    def server_lock(self) -> Path:
        """The lock that the server holds while it lives: the kernel frees it at its death, so no reused pid can be mistaken for it."""
        return self.path / "server.lock"

    @property
    def start_lock(self) -> Path:
        """The lock that a client holds while it starts or replaces the server, so that of several first clients only one starts it."""
        return self.path / "start.lock"

    def write(self, path: Path, content: str) -> None:
        """Write `content` to `path` as a whole or not at all, readable by the owner only."""
        handle, draft = tempfile.mkstemp(dir=self.path, prefix=path.name)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(content)
            Path(draft).replace(path)
        except OSError as error:
            Path(draft).unlink(missing_ok=True)
            raise ServerError(f'runtime folder "{self.path}" can\'t be written', detail=str(error), hint=_HINT) from error

    def read_state(self) -> dict[str, Any]:
        """Return the server's own last report, or an empty one."""
        try:
            state = json.loads(self.state.read_text())
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def read_log(self, lines: int = 12) -> str:
        """Return the end of the server's log."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 16_384))
                return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""


def open_runtime(path: Path | None = None, environment: Mapping[str, str] | None = None) -> RuntimeFolder:
    """Return the runtime folder, created if necessary, after a check that no other user can read or replace it."""
    folder = locate_runtime(os.environ if environment is None else environment) if path is None else path
    folder = folder.absolute()
    if len(os.fsencode(folder / "control.sock")) > _LONGEST_SOCKET_PATH:
        raise ServerError(f'runtime folder "{folder}" has too long a path for a local socket', hint=_HINT)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise ServerError(f'runtime folder "{folder}" can\'t be made', detail=str(error), hint=_HINT) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ServerError(f'runtime folder "{folder}" is a link, or belongs to somebody else', hint=_HINT)
    if found.st_mode & 0o077:
        raise ServerError(f'runtime folder "{folder}" is open to other users', hint=f"run `chmod 700 {folder}`, or {_HINT}")
    runtime = RuntimeFolder(path=folder)
    try:
        runtime.log.parent.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ServerError(f'runtime folder "{folder}" can\'t be written', detail=str(error), hint=_HINT) from error
    return runtime


def are_executors_here(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the executors of the user's platform server are on this machine, by its last report; those of one that will start are."""
    return bool(RuntimeFolder(path=locate_runtime(environment)).read_state().get("executors_here", True))


def locate_runtime(environment: Mapping[str, str]) -> Path:
    """Return the place of the runtime folder: PLATFORM_RUNTIME_DIR, else the session's runtime folder, else the temporary folder.

    >>> str(locate_runtime({"PLATFORM_RUNTIME_DIR": "/srv/platform"}))
    '/srv/platform'
    """
    named = environment.get(RUNTIME_VARIABLE)
    if named:
        return Path(named)
    for candidate in (environment.get("XDG_RUNTIME_DIR"), f"/run/user/{os.getuid()}"):
        if candidate and os.access(candidate, os.W_OK | os.X_OK) and Path(candidate).stat().st_uid == os.getuid():
            return Path(candidate) / "platform"
    return Path(tempfile.gettempdir()) / f"platform-{os.getuid()}"


@contextmanager
def hold_lock(path: Path, *, shared: bool = False) -> Iterator[bool]:
    """Try to take the lock `path` without waiting; yield whether it was taken, and free it at the end.

    A `shared` hold is for looking only: two processes that look do not mistake each other for the owner.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ServerError(f'runtime folder "{path.parent}" can\'t be written', detail=str(error), hint=_HINT) from error
    try:
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)
