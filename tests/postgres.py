"""A private PostgreSQL server for the tests: its own folder, a free loopback port, durable as in production."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

OLDEST = 15

# Stops the server and removes its folder when the process that owns it is gone, however it went.
GUARD = """
import os, shutil, signal, sys, time
owner, folder = int(sys.argv[1]), sys.argv[2]
pid_file = os.path.join(folder, "data", "postmaster.pid")
def alive(pid):
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
while alive(owner) and os.path.exists(folder):
    time.sleep(0.5)
try:
    server = int(open(pid_file).readline())
    os.kill(server, signal.SIGINT)
    for _ in range(50):
        if not alive(server):
            break
        time.sleep(0.1)
except (OSError, ValueError):
    pass
shutil.rmtree(folder, ignore_errors=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """One database of a running server."""

    host: str
    port: int
    user: str
    name: str

    @property
    def sqlalchemy_url(self) -> str:
        return f"postgresql+psycopg://{self.user}@{self.host}:{self.port}/{self.name}"

    @property
    def dsn(self) -> str:
        return f"host={self.host} port={self.port} user={self.user} dbname={self.name}"

    def lake_url(self, data: Path) -> str:
        return f"platform://{self.user}@{self.host}:{self.port}/{self.name}?data={data}"


def find_binaries() -> Path | None:
    """The folder of a PostgreSQL 15 or newer, Debian's place before PATH."""
    debian = [folder for folder in Path("/usr/lib/postgresql").glob("*/bin") if folder.parent.name.isdigit()]
    for folder in sorted(debian, key=lambda folder: int(folder.parent.name)):
        if int(folder.parent.name) >= OLDEST and (folder / "initdb").exists():
            return folder
    found = shutil.which("initdb")
    if found is None:
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout.split()
    major = said[2].partition(".")[0] if len(said) > 2 else ""
    return Path(found).resolve().parent if major.isdigit() and int(major) >= OLDEST else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresServer:
    """A cluster in a folder of its own, which can be stopped, killed and started again."""

    folder: Path
    port: int
    user: str
    binaries: Path

    @classmethod
    def create(cls, *, owner: int) -> PostgresServer:
        """A running server that ends with the process `owner` at the latest."""
        binaries = find_binaries()
        assert binaries is not None
        # PostgreSQL refuses to run as root, and pytest's own folders are closed to everybody else.
        user = _server_user()
        folder = Path(tempfile.mkdtemp(prefix="platform-postgres-"))
        if os.getuid() == 0:
            shutil.chown(folder, user)
        server = cls(folder=folder, port=_free_port(), user=user, binaries=binaries)
        subprocess.Popen(
            [sys.executable, "-c", GUARD, str(owner), str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        server._run(
            "initdb", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "--username=postgres", f"--pgdata={folder}/data"
        )
        # fsync and synchronous_commit stay on: the crash tests would prove nothing without them.
        settings = {
            "listen_addresses": "'127.0.0.1'",
            "port": server.port,
            "unix_socket_directories": f"'{folder}'",
            "max_connections": 200,
            "shared_buffers": "'64MB'",
            "autovacuum_naptime": "'5min'",
            "log_min_messages": "warning",
        }
        with (folder / "data" / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        server.start()
        return server

    def start(self) -> None:
        self._run("pg_ctl", "start", "--wait", "--timeout=60", f"--pgdata={self.folder}/data", f"--log={self.folder}/log")

    def stop(self, mode: str = "fast") -> None:
        """An orderly stop; with `immediate`, what a power cut leaves."""
        self._run("pg_ctl", "stop", "--wait", f"--mode={mode}", f"--pgdata={self.folder}/data")

    def kill(self) -> None:
        """Ends the server's processes at once; the next start recovers."""
        process = int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        children = [child for child, parent in _running().items() if parent == process]
        os.kill(process, signal.SIGKILL)
        deadline = time.monotonic() + 20
        # The children notice by themselves that their parent is gone; until then the folder counts as in use.
        while time.monotonic() < deadline and not _running().keys().isdisjoint(children):
            time.sleep(0.05)
        # Where process 1 is slow to reap, the dead server still has a process id, and the next start would refuse these files.
        for lock in (self.folder / "data" / "postmaster.pid", self.folder / f".s.PGSQL.{self.port}.lock"):
            lock.unlink(missing_ok=True)

    def remove(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def database(self, name: str) -> Database:
        return Database(host="127.0.0.1", port=self.port, user="postgres", name=name)

    def execute(self, statement: str) -> None:
        """One statement outside a transaction, as the administrator."""
        import psycopg

        with psycopg.connect(self.database("postgres").dsn, autocommit=True) as connection:
            connection.execute(statement.encode())

    def _run(self, program: str, *arguments: str) -> None:
        # pg_ctl hands its output to the server it starts, so a pipe would never end.
        with tempfile.TemporaryFile("w+") as output:
            try:
                subprocess.run(
                    [str(self.binaries / program), *arguments],
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    check=True,
                    timeout=90,
                    **({"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []} if os.getuid() == 0 else {}),
                )
            except subprocess.CalledProcessError as error:
                output.seek(0)
                error.add_note(output.read())
                raise


def _running() -> dict[int, int]:
    """Every living process and its parent."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                found[int(entry.parent.name)] = int(parent)
    return found


def _server_user() -> str:
    if os.getuid() != 0:
        return pwd.getpwuid(os.getuid()).pw_name
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres").pw_name
    return "nobody"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
