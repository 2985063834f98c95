"""All errors that users meet: one class for each kind of failure, each with a message, a detail and a hint."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from platform_plugin.redaction import redact_cause, redact_text

if TYPE_CHECKING:
    from collections.abc import Iterable


class PlatformError(Exception):
    """An error with a message that names the object, a detail and a hint at what to do next; it holds no secret of a URL.

    >>> error = PlatformError('stream "posts" does not exist', hint="run SHOW STREAMS")
    >>> print(error)
    stream "posts" does not exist
      hint: run SHOW STREAMS
    """

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(redact_text(str(message)))
        self.message = message
        self.detail = detail
        self.hint = hint
        # What is handled now is what this one will be raised from.
        redact_cause(sys.exc_info()[1])

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, redact_text(value) if name in ("message", "detail", "hint") and isinstance(value, str) else value)

    def __str__(self) -> str:
        lines = [self.message]
        if self.detail:
            lines += [f"  detail: {self.detail}"]
        if self.hint:
            lines += [f"  hint: {self.hint}"]
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.detail, self.hint, self.__dict__)


def _rebuild(kind: type[PlatformError], message: str, detail: str | None, hint: str | None, state: dict[str, object]) -> PlatformError:
    """Errors cross process borders (Dagster run workers, Spark tasks), so they must survive pickling."""
    error = kind.__new__(kind)
    PlatformError.__init__(error, message, detail=detail, hint=hint)
    error.__dict__.update(state)
    return error


class InvalidStatement(PlatformError):
    """A statement can't be parsed, or names something that can't be."""


class InvalidFiles(InvalidStatement):
    """Several files can't be loaded; `errors` has what is wrong with each, in their order.

    >>> print(InvalidFiles([UnknownObject('file "a.sql": no', hint="try b"), InvalidValue('file "b.yml": no', detail="line 3")]))
    2 errors in files
      detail: file "a.sql": no
          hint: try b
        file "b.yml": no
          line 3
      hint: correct each of them
    """

    def __init__(self, errors: Iterable[PlatformError]) -> None:
        self.errors = tuple(errors)
        told = "\n".join(_block(error) for error in self.errors)
        super().__init__(f"{len(self.errors)} errors in files", detail=told.lstrip(), hint="correct each of them")


def combine_errors(errors: Iterable[PlatformError]) -> PlatformError | None:
    """Several errors as one, without repetitions: a single one as it is, `InvalidFiles` for several, None for none."""
    found: dict[str, PlatformError] = {}
    for error in errors:
        for each in error.errors if isinstance(error, InvalidFiles) else (error,):
            found.setdefault(str(each), each)
    return InvalidFiles(found.values()) if len(found) > 1 else next(iter(found.values()), None)


def in_file(error: PlatformError, file: str) -> PlatformError:
    """The error of what a file holds, with the file's name; one that names a file already stays."""
    if error.message.startswith('file "'):
        return error
    return InvalidStatement(f'file "{file}": {error.message}', detail=error.detail, hint=error.hint)


def _block(error: PlatformError) -> str:
    lines = [*(error.detail or "").splitlines(), *([f"hint: {error.hint}"] if error.hint else [])]
    return "\n".join([f"    {error.message}", *(f"      {line}" for line in lines)])


class UnknownObject(PlatformError):
    """A schema, relation, column, snapshot or option that was named does not exist."""


class ObjectExists(PlatformError):
    """A schema, relation or column with that name exists already."""


class InvalidValue(PlatformError):
    """A value, an option or a row does not fit what was declared."""


class BufferFull(PlatformError):
    """Rows were refused because the buffer of appends that wait for their commit is full."""


class NullRefused(InvalidValue):
    """A row holds NULL in a column that takes none."""


class WrongArguments(InvalidValue):
    """The values given for a statement's parameters are too many, too few, or in the other form."""


class MissingArgument(UnknownObject):
    """A statement has a parameter that no value was given for; `parameter` is its name, where it has one."""

    parameter: str | None = None


class UnsupportedType(PlatformError):
    """A type that has no counterpart on the other side."""


class CommitConflict(PlatformError):
    """Another commit changed what this commit had read; the error names both."""


class SnapshotExpired(PlatformError):
    """The files of the snapshot are gone, so it can't be read."""


class StreamOverrun(SnapshotExpired):
    """A stream evicted rows before a reader had them, or could not evict them because readers held them for too long."""


class CatalogueError(PlatformError):
    """The catalogue can't be reached, is locked, is damaged, or is not a DuckLake catalogue."""


class NoLake(CatalogueError):
    """There is no lake at the place that was named."""


class CatalogueReadOnly(CatalogueError):
    """The catalogue can be read, but this user or connection may not write to it."""


class OutcomeUnknown(CatalogueError):
    """The connection to the catalogue was lost while a commit was sent, so it is not known whether the commit was made."""


class LakeMoved(CatalogueError):
    """The folder is not where the catalogue says its data is."""


class StorageError(PlatformError):
    """A file is missing, damaged, foreign, or can't be written."""


class PathOutsideLake(StorageError):
    """A path leads out of the lake's data folder."""


class ServerError(PlatformError):
    """The platform server can't be started, reached or trusted."""


class ServerStarting(ServerError):
    """The platform server was still starting when the waiting time of the caller was over; the start goes on."""


class ServerLost(ServerError):
    """The server went away while it was needed; attaching again brings up another."""


class QueryFailed(PlatformError):
    """Spark refused or failed a query."""


class ResultTooLarge(QueryFailed):
    """A result does not fit into the memory of the server that computes it."""


class QueryInterrupted(PlatformError):
    """A query was interrupted by its user, a time-out or the end of its client."""


class RefusedView(InvalidStatement):
    """A query can't be maintained as a continuous view; `rule` says which rule forbids it, and `operator` what breaks it.

    `line` and `column` (from 1) say where, and the hint what would be accepted instead. `is_plain` says that the query groups no stream:
    there is nothing to maintain, so that it can be a view that is computed when it is read.
    """

    rule: str = ""
    operator: str = ""
    is_plain: bool = False
    line: int = 0
    column: int = 0
