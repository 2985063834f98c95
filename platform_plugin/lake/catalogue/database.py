"""Connections to catalogue databases: transactions and errors that are alike on SQLite and PostgreSQL."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import event, exc

from platform_plugin.distribution import install_line
from platform_plugin.errors import CatalogueError, CatalogueReadOnly, CommitConflict, InvalidValue, PlatformError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Connection, Engine

BUSY_TIMEOUT_SECONDS = 30.0
CONNECT_TIMEOUT_SECONDS = 5
_SHARED, _EXCLUSIVE = "shared", "exclusive"


class LostRace(CommitConflict):
    """Another client's transaction was committed first; the same work may succeed when it is tried again."""


def create_engine(url: sa.URL, *, founding: bool = False) -> Engine:
    """An SQLAlchemy engine with explicit transactions: readers see one state, and writers queue instead of failing half-way.

    Only with `founding`, when a lake is created in a database, the database's log mode is changed.
    """
    if url.get_backend_name() == "sqlite":
        engine = sa.create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_SECONDS, "check_same_thread": False})
        event.listen(engine, "connect", _prepare_sqlite)
        if founding:
            event.listen(engine, "connect", _let_readers_pass)
        event.listen(engine, "begin", _begin_sqlite)
    else:
        if url.get_driver_name() == "psycopg" and find_spec("psycopg") is None:
            raise CatalogueError("the PostgreSQL client is not installed", hint=install_line("postgres"))
        options = f"{url.query.get('options', '')} -clock_timeout={int(BUSY_TIMEOUT_SECONDS * 1000)}"
        engine = sa.create_engine(
            url.update_query_dict({"options": options}), pool_pre_ping=True, connect_args={"connect_timeout": CONNECT_TIMEOUT_SECONDS}
        )
    return engine


def _let_readers_pass(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA journal_mode = WAL").close()


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver's own transaction handling commits before DDL; ours must hold DDL and rows in one transaction.
    connection.isolation_level = None
    # FULL: the commit outlives a power cut, as the data files do that it names.
    connection.execute("PRAGMA synchronous = FULL").close()


def _begin_sqlite(connection: Connection) -> None:
    writing = connection.get_execution_options().get("platform_writing")
    if writing:
        # Readers' notes need not outlive a power cut, since the readers do not: they are spared the wait for the disk.
        connection.exec_driver_sql(f"PRAGMA synchronous = {'NORMAL' if writing == _SHARED else 'FULL'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


@contextmanager
def read_transaction(engine: Engine) -> Iterator[Connection]:
    """A read transaction that sees one state of the catalogue from its first statement to its last."""
    options = {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with _explained(engine), engine.connect() as connection, connection.execution_options(**options).begin():
        yield connection


@contextmanager
def write_transaction(engine: Engine, *, shared: bool = False) -> Iterator[Connection]:
    """A write transaction; those of our own processes queue for it. A `shared` one, for notes of a reader, waits only for exclusive ones.

    On PostgreSQL the queue is an advisory lock on the catalogue's schema. Other DuckLake clients do not take it: against them the primary
    key of the snapshot table decides, here as everywhere.
    """
    kind = _SHARED if shared else _EXCLUSIVE
    with _explained(engine), engine.connect() as connection, connection.execution_options(platform_writing=kind).begin():
        if engine.dialect.name == "postgresql":
            suffix = "_shared" if shared else ""
            # While a lake is being founded its schema may not be there yet.
            key = "hashtextextended('platform lake ' || coalesce(current_schema(), ''), 0)"
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock{suffix}({key})"))
        yield connection


@contextmanager
def _explained(engine: Engine) -> Iterator[None]:
    """Failures of the database, said in terms of the catalogue; the driver's words become the detail."""
    try:
        yield
    except exc.DBAPIError as error:
        raise explain_database_error(engine.url, error) from error
    except exc.TimeoutError as error:
        detail = str(error).split(" (", maxsplit=1)[0]
        raise CatalogueError(f"{_where(engine.url)} has no free connection", detail=detail, hint="use fewer threads at once") from error


def explain_database_error(url: sa.URL, error: exc.DBAPIError) -> PlatformError:
    """The platform's error for a failure of the database."""
    detail = str(error.orig).strip().splitlines()[0] if error.orig else type(error).__name__
    where = _where(url)
    if getattr(error.orig, "sqlstate", None) in _RETRYABLE:
        return LostRace(f"{where} let another client go first", detail=detail, hint="try again")
    if isinstance(error, exc.IntegrityError | exc.DataError):
        return InvalidValue(f"{where} refused a row", detail=detail, hint="correct the values; nothing was changed")
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
    ("readonly database", "can't be written", "check the permissions of the lake's folder", CatalogueReadOnly),
    ("unable to open database file", "can't be opened", "check that the folder exists and its permissions", CatalogueError),
    ("disk i/o error", "can't be read or written", "check the disk; nothing was changed", StorageError),
    ("lock timeout", "is locked by another process", "find the session that keeps it locked, or try again later", CatalogueError),
    ("no password supplied", "wants a password", "put it into PGPASSWORD or the URL", CatalogueError),
    ("password authentication failed", "refused the password", "check the user and the password in the URL or PGPASSWORD", CatalogueError),
    ("permission denied", "refused the user", "grant the user the right to read and write the catalogue's schema", CatalogueReadOnly),
    ("read-only transaction", "can't be written", "connect to the primary server, as a user who may write", CatalogueReadOnly),
    ("does not exist", "lacks something the lake needs", "check the database name, or create the lake first", CatalogueError),
    ("no such table", "is not a lake's catalogue", "check the path of the lake, or create one with `platform init`", CatalogueError),
    ("resolve host", "can't be reached", "check the name of the host", CatalogueError),
    ("connection", "can't be reached", "check that PostgreSQL runs and that host and port are right", CatalogueError),
)


# Serialization failure and deadlock, as the SQL standard numbers them.
_RETRYABLE = ("40001", "40P01")


def _where(url: sa.URL) -> str:
    return f'catalogue "{url.difference_update_query(["options"]).render_as_string(hide_password=True)}"'
