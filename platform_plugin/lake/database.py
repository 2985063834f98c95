"""Engines for catalogue databases: one transaction discipline and one vocabulary of failures on SQLite and PostgreSQL."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import event, exc

from platform_plugin.errors import CatalogueError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Connection, Engine, ExceptionContext

if sys.platform != "win32":
    import fcntl

BUSY_TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.001


def create_engine(url: sa.URL, *, busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS) -> Engine:
    """An engine whose transactions are explicit: readers see one state, writers queue instead of failing half-way."""
    if url.get_backend_name() == "sqlite":
        engine = sa.create_engine(url, connect_args={"timeout": busy_timeout_seconds, "check_same_thread": False})
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    else:
        engine = sa.create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": int(busy_timeout_seconds)})
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver's own transaction handling commits before DDL; ours must hold DDL and rows in one transaction.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    # FULL: a commit that was acknowledged outlives a power cut, not only a killed process.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writing = connection.get_execution_options().get("platform_writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A read transaction that sees one state of the catalogue from its first statement to its last."""
    options = {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with _explained(engine), engine.connect() as connection, connection.execution_options(**options).begin():
        yield connection


@contextmanager
def writing(engine: Engine, *, shared: bool = False) -> Iterator[Connection]:
    """A write transaction; those of our own processes queue for it, a `shared` one only behind exclusive ones.

    On PostgreSQL the queue is an advisory lock on the catalogue's schema. Other DuckLake clients do not take it: against
    them the primary key of the snapshot table decides, here as everywhere.
    """
    with _explained(engine), engine.connect() as connection, connection.execution_options(platform_writing=True).begin():
        if engine.dialect.name == "postgresql":
            suffix = "_shared" if shared else ""
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock{suffix}(hashtextextended('platform lake ' || current_schema(), 0))"))
        yield connection


@contextmanager
def _turn(engine: Engine) -> Iterator[None]:
    """Wait for this process' turn to write to an SQLite catalogue.

    SQLite's own waiting sleeps longer the longer it has waited, so that under eight writers some starve for seconds. Here
    whoever is next holds a second lock while it waits for the first: a writer that comes back at once can't overtake it.
    The locks are on files beside the catalogue and go with the process that held them.
    """
    if engine.dialect.name != "sqlite" or not engine.url.database or sys.platform == "win32":
        yield
        return
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    with ExitStack() as held, ExitStack() as next_in_line:
        try:
            next_in_line.enter_context(_locked(f"{engine.url.database}-next", deadline, _POLL_SECONDS))
            held.enter_context(_locked(f"{engine.url.database}-writer", deadline, _POLL_SECONDS / 10))
        except OSError:
            pass  # a folder that can't be written, or a holder that hangs: SQLite itself decides, and says so best
        next_in_line.close()
        yield


@contextmanager
def _locked(path: str, deadline: float, pause_seconds: float) -> Iterator[None]:
    with Path(path).open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(pause_seconds)
        yield


@contextmanager
def _explained(engine: Engine) -> Iterator[None]:
    """Failures of the database, said in terms of the catalogue; the driver's words become the detail."""
    try:
        yield
    except exc.IntegrityError:
        raise  # a lost race for a snapshot id: the commit knows what to do
    except exc.DBAPIError as error:
        raise explain(engine.url, error) from error


def explain(url: sa.URL, error: exc.DBAPIError) -> CatalogueError | StorageError:
    """The error a user can act on for a failure of the database."""
    detail = str(error.orig).strip().splitlines()[0] if error.orig else type(error).__name__
    where = f'catalogue "{url.render_as_string(hide_password=True)}"'
    for clue, message, hint, kind in _CLUES:
        if clue in detail.lower():
            return kind(f"{where} {message}", detail=detail, hint=hint)
    return CatalogueError(f"{where} failed", detail=detail, hint="see the detail; nothing was changed")


_CLUES: tuple[tuple[str, str, str, type[CatalogueError | StorageError]], ...] = (
    ("database is locked", "is locked by another process", "find the process that keeps it open, or try again later", CatalogueError),
    ("file is not a database", "is not a lake's catalogue", "check the path of the lake", CatalogueError),
    ("malformed", "is damaged", "restore it from a copy; the data files are untouched", CatalogueError),
    ("disk is full", "can't grow: the disk is full", "make room and try again; nothing was changed", StorageError),
    ("no space left", "can't grow: the disk is full", "make room and try again; nothing was changed", StorageError),
    ("readonly database", "can't be written", "check the permissions of the lake's folder", CatalogueError),
    ("unable to open database file", "can't be opened", "check that the folder exists and its permissions", CatalogueError),
    ("disk i/o error", "can't be read or written", "check the disk; nothing was changed", StorageError),
    ("password authentication failed", "refused the password", "check the user and the password in the URL or PGPASSWORD", CatalogueError),
    ("permission denied", "refused the user", "grant the user the right to read and write the catalogue's schema", CatalogueError),
    ("does not exist", "lacks something the lake needs", "check the database name, or create the lake first", CatalogueError),
    ("no such table", "is not a lake's catalogue", "check the path of the lake, or create one with `platform init`", CatalogueError),
    ("connection", "can't be reached", "check that PostgreSQL runs and that host and port are right", CatalogueError),
)


def is_disconnect(context: ExceptionContext | exc.DBAPIError) -> bool:
    """Whether the connection was lost, so that the outcome of a transaction may be unknown."""
    return isinstance(context, exc.DBAPIError) and bool(context.connection_invalidated)
