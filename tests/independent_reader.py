"""DuckDB with its own DuckLake extension: a reader and writer of the lake that shares no code and no process with us.

It must be another process. DuckDB's SQLite and Python's `sqlite3` are two copies of one library, and POSIX locks belong to a
process, not to a copy: when one copy closes the catalogue file, the locks of the other are gone, and each overlooks what the
other has locked. In one process that shows as stale reads and lost commits that no real deployment would ever see.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb
    import pyarrow as pa

EXTENSIONS = ("ducklake", "sqlite_scanner", "postgres_scanner")
OPTIONAL = ("httpfs",)
"""Loaded where the wheel is installed, for tests that skip without it."""


class ReaderError(Exception):
    """DuckDB refused; `kind` is the name of its error class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind

    def __str__(self) -> str:
        return f"{self.kind}: {self.args[1]}"


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of one statement."""

    rows: list[tuple[Any, ...]]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self.rows[0] if self.rows else None


class Duck:
    """A lake that DuckDB has attached as `lake` and made current; it stays attached until `close`, as in a real client."""

    def __init__(self, process: DuckProcess, handle: int) -> None:
        self._process = process
        self._handle: int | None = handle

    def execute(self, sql: str, parameters: list[Any] | None = None) -> Result:
        return Result(self._process.ask("execute", self._handle, sql, parameters))

    def rows(self, sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        return self.execute(sql, parameters).rows

    def arrow(self, sql: str) -> pa.Table:
        """The rows as Arrow, for values that Python has no type for."""
        import pyarrow as pa

        with pa.ipc.open_stream(self._process.ask("arrow", self._handle, sql)) as reader:
            return reader.read_all()

    def close(self) -> None:
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self._process.ask("close", handle)

    def end(self) -> None:
        """Close and forget all that DuckDB keeps in memory of the lake, which outlives a mere detaching."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self._process.ask("end", handle)


class DuckProcess:
    """A child process with DuckDB in it, alive until `stop`."""

    def __init__(self) -> None:
        self._child = subprocess.Popen([sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def attach(self, lake_url: str, *, data: Path | None = None, **options: object) -> Duck:
        """Attach the lake that a URL names; options are ATTACH's own. Give `data` when DuckDB itself is to create the lake."""
        words = {name.upper(): value for name, value in options.items()}
        if data is not None:
            words["DATA_PATH"] = f"{data}/"
        rendered = ", ".join(f"{name} {_literal(value)}" for name, value in words.items())
        sql = f"ATTACH {_literal(attach_target(lake_url))} AS lake" + (f" ({rendered})" if rendered else "")
        return Duck(self, self.ask("attach", sql))

    def ask(self, *request: Any) -> Any:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        pickle.dump(request, self._child.stdin)
        self._child.stdin.flush()
        error, answer = pickle.load(self._child.stdout)
        if error is not None:
            raise ReaderError(error, answer)
        return answer

    def stop(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def attach_target(lake_url: str) -> str:
    """What DuckDB's ATTACH calls the lake that a platform URL names.

    >>> attach_target("platform+local:///srv/lake")
    'ducklake:sqlite:/srv/lake/lake.sqlite'
    >>> attach_target("platform://me@127.0.0.1:5433/db?data=/srv/data")
    'ducklake:postgres:dbname=db host=127.0.0.1 port=5433 user=me'
    """
    url = urlsplit(lake_url)
    if url.scheme == "platform+local":
        return f"ducklake:sqlite:{url.path}/lake.sqlite"
    parts = {"dbname": url.path.lstrip("/"), "host": url.hostname, "port": url.port, "user": url.username, "password": url.password}
    return "ducklake:postgres:" + " ".join(f"{key}={value}" for key, value in parts.items() if value is not None)


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"


class _Served:
    """The child's side: connections by handle; one whose lake was detached serves again, since loading extensions takes long."""

    def __init__(self) -> None:
        self.connections: list[duckdb.DuckDBPyConnection] = []
        self.idle: list[int] = []

    def answer(self, verb: str, *request: Any) -> Any:
        match verb, request:
            case "attach", (sql,):
                return self.attach(sql)
            case "execute", (handle, sql, parameters):
                return self.connections[handle].execute(sql, parameters).fetchall()
            case "arrow", (handle, sql):
                return self.arrow(handle, sql)
            case "close", (handle,):
                self.close(handle)
            case "end", (handle,):
                self.connections[handle].close()
        return None

    def attach(self, sql: str) -> int:
        if not self.idle:
            self.connections.append(_connect())
            self.idle.append(len(self.connections) - 1)
        handle = self.idle.pop()
        try:
            self.connections[handle].execute(sql)
        except BaseException:
            self.idle.append(handle)
            raise
        self.connections[handle].execute("USE lake")
        return handle

    def close(self, handle: int) -> None:
        import duckdb

        try:
            self.connections[handle].execute("USE memory; DETACH lake")
        except duckdb.Error:
            # A transaction was left open, or DuckDB gave up on itself.
            self.connections[handle].close()
        else:
            self.idle.append(handle)

    def arrow(self, handle: int, sql: str) -> bytes:
        import pyarrow as pa

        table = self.connections[handle].execute(sql).to_arrow_table()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()


def _connect() -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect()
    # Loaded straight from the wheels: installing first would write into the user's home, and two processes would race there.
    for name in (*EXTENSIONS, *OPTIONAL):
        if name in OPTIONAL and find_spec(f"duckdb_extension_{name}") is None:
            continue
        folder = files(f"duckdb_extension_{name}") / "extensions" / f"v{version('duckdb')}"
        connection.execute(f"LOAD {_literal(folder / f'{name}.duckdb_extension')}")
    connection.execute("SET TimeZone = 'UTC'")
    # With several threads DuckDB 1.5.5 sometimes gives a deleted row of its change feed a wrong row id: 6 of 8 000, never with one.
    connection.execute("SET threads = 1")
    connection.execute("SET arrow_lossless_conversion = false")
    return connection


def _serve() -> None:
    served = _Served()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            request = pickle.load(source)
        except EOFError:
            return
        try:
            reply = (None, served.answer(*request))
            body = pickle.dumps(reply)
        except Exception as error:  # noqa: BLE001  whatever went wrong is the caller's to see
            body = pickle.dumps((type(error).__name__, str(error)))
        sink.write(body)
        sink.flush()


if __name__ == "__main__":
    _serve()
