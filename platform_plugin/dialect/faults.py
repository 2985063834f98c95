"""PEP 249's exceptions, and the one that each error of the platform becomes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from platform_plugin import errors as e

if TYPE_CHECKING:
    from collections.abc import Iterator


class Warning(Exception):  # noqa: A001  PEP 249 names it so
    """A warning, which PEP 249 asks for; never raised."""


class Error(Exception):
    """Any error; `message`, `detail` and `hint` are the platform's, `line` and `column` its place if known."""

    def __init__(self, text: str, *, message: str | None = None, detail: str | None = None, hint: str | None = None) -> None:
        own = message is None
        said = [text, *([f"  detail: {detail}"] if own and detail else []), *([f"  hint: {hint}"] if own and hint else [])]
        super().__init__("\n".join(said))
        self.message = message or text
        self.detail = detail
        self.hint = hint
        self.line: int | None = None
        self.column: int | None = None


class InterfaceError(Error):
    """The connection or cursor was used in a way that it does not allow."""


class DatabaseError(Error):
    """The platform refused or failed to run something."""


class DataError(DatabaseError):
    """A value does not fit: out of range, of another type, a division by zero."""


class OperationalError(DatabaseError):
    """The server, the catalogue or the storage failed, or a query was interrupted."""


class IntegrityError(DatabaseError):
    """A rule of the data would be broken: NULL in a NOT NULL column, or a conflict with another commit."""


class InternalError(DatabaseError):
    """The engine failed by its own fault."""


class ProgrammingError(DatabaseError):
    """The statement is wrong: its grammar, its names or its parameters."""


class NotSupportedError(DatabaseError):
    """The platform does not offer what was asked for."""


_KINDS: tuple[tuple[type[e.PlatformError], type[DatabaseError]], ...] = (
    (e.InvalidStatement, ProgrammingError),
    (e.UnknownObject, ProgrammingError),
    (e.ObjectExists, ProgrammingError),
    (e.NullRefused, IntegrityError),
    (e.WrongArguments, ProgrammingError),
    (e.InvalidValue, DataError),
    (e.UnsupportedType, NotSupportedError),
    (e.CommitConflict, IntegrityError),
    (e.SnapshotExpired, OperationalError),
    (e.CatalogueError, OperationalError),
    (e.StorageError, OperationalError),
    (e.ServerError, OperationalError),
    (e.QueryInterrupted, OperationalError),
    (e.ResultTooLarge, OperationalError),
)
# The classes of SQLSTATE, by which Spark sorts its own errors.
_STATES = {
    "0A": NotSupportedError,
    "21": DataError,
    "22": DataError,
    "23": IntegrityError,
    "42": ProgrammingError,
    "46": ProgrammingError,
    "53": OperationalError,
    "54": OperationalError,
    "58": OperationalError,
    "HY": OperationalError,
    "KD": OperationalError,
    "XX": InternalError,
}


def to_dbapi_error(error: e.PlatformError) -> DatabaseError:
    r"""The PEP 249 exception for a platform error; it says the same, caret and hint included.

    >>> to_dbapi_error(e.UnknownObject('table "main.t" does not exist', hint="run SHOW TABLES"))
    ProgrammingError('table "main.t" does not exist\n  hint: run SHOW TABLES')
    """
    told = _kind(error)(str(error), message=error.message, detail=error.detail, hint=error.hint)
    told.line = getattr(error, "line", None)
    told.column = getattr(error, "column", None)
    return told


def _kind(error: e.PlatformError) -> type[DatabaseError]:
    if isinstance(error, e.QueryFailed) and not isinstance(error, e.ResultTooLarge):
        state = getattr(error.__cause__, "getSqlState", lambda: None)() or ""
        return _STATES.get(state[:2], DatabaseError)
    return next((told for kind, told in _KINDS if isinstance(error, kind)), DatabaseError)


@contextmanager
def raise_dbapi_errors() -> Iterator[None]:
    """Raise errors of the platform as PEP 249's."""
    try:
        yield
    except e.PlatformError as error:
        raise to_dbapi_error(error) from error


@contextmanager
def raise_data_errors() -> Iterator[None]:
    """Raise errors about values that neither Arrow nor Spark accepts as PEP 249's DataError."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        said = str(error).splitlines()
        raise DataError(
            "a parameter can't be bound", detail=said[0] if said else None, hint="give a value of a plain Python type"
        ) from error
