"""PEP 249's `Connection`: a light handle on a platform, which other connections of the process may share."""

from __future__ import annotations

import sys
import warnings
import weakref
from typing import TYPE_CHECKING, Self

from platform_plugin.dialect import faults
from platform_plugin.dialect.cursor import Cursor
from platform_plugin.dialect.faults import InterfaceError, NotSupportedError, raise_dbapi_errors
from platform_plugin.engine.workspace import RuleSwitches

if TYPE_CHECKING:
    from platform_plugin.dialect.shared import SharedPlatform
    from platform_plugin.platform import Platform


class Connection:
    """PEP 249's connection. Every statement is a commit of its own, so there is nothing to commit and nothing to roll back."""

    Warning = faults.Warning
    Error = faults.Error
    InterfaceError = faults.InterfaceError
    DatabaseError = faults.DatabaseError
    DataError = faults.DataError
    OperationalError = faults.OperationalError
    IntegrityError = faults.IntegrityError
    InternalError = faults.InternalError
    ProgrammingError = faults.ProgrammingError
    NotSupportedError = faults.NotSupportedError

    def __init__(self, shared: SharedPlatform) -> None:
        with raise_dbapi_errors():
            shared.join()
        self._shared = shared
        self._cursors: weakref.WeakSet[Cursor] = weakref.WeakSet()
        self._leave = weakref.finalize(self, shared.leave)
        self._done = 0
        self.rules = RuleSwitches()
        """What SET RULE has switched off for this connection."""

    @property
    def platform(self) -> Platform:
        """The platform that statements run on."""
        self.check_open()
        with raise_dbapi_errors():
            return self._shared.get()

    def cursor(self) -> Cursor:
        """A new cursor; several may be read at once."""
        self.check_open()
        cursor = Cursor(self)
        self._cursors.add(cursor)
        return cursor

    def commit(self) -> None:
        """Do nothing: every statement has committed already."""
        self.check_open()
        self._done = 0

    def rollback(self) -> None:
        """Undo nothing, and warn if a statement has changed something, since it is committed."""
        self.check_open()
        done, self._done = self._done, 0
        if done:
            what = "a statement that has" if done == 1 else f"{done} statements that have"
            warnings.warn(f"rollback() can't undo {what} run: every statement commits by itself", RuntimeWarning, stacklevel=_levels_up())

    def note_done(self) -> None:
        """Record that a statement has changed something, which no rollback undoes."""
        self._done += 1

    @property
    def autocommit(self) -> bool:
        """True, always."""
        return True

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if not value:
            raise NotSupportedError("every statement commits by itself", hint="put changes that belong together into one statement")

    def ping(self) -> bool:
        """Whether the catalogue answers; Spark is not asked, since the next statement starts it if it is gone."""
        with raise_dbapi_errors():
            self.platform.lake.snapshot()
        return True

    def check_open(self) -> None:
        """Raise an error if the connection is closed."""
        if not self._leave.alive:
            raise InterfaceError("the connection is closed", hint="open another")

    def close(self) -> None:
        """Close its cursors and leave the shared platform; a second call does nothing."""
        for cursor in list(self._cursors):
            cursor.close()
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _levels_up() -> int:
    """How many calls above the caller that code is which asked for it, be it through SQLAlchemy or not."""
    level, frame = 2, sys._getframe(2)  # noqa: SLF001  the way that Python documents
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(
        ("sqlalchemy.", "platform_plugin.dialect.", "contextlib")
    ):
        level, frame = level + 1, frame.f_back
    return level
