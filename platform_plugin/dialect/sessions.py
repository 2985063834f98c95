"""`session`: the rows of a stream that arrive until none has come for a while, as something to select from."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from platform_plugin.errors import InvalidValue

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler
    from sqlalchemy.sql.selectable import TableValuedAlias


class SessionFunction(FunctionElement[Any]):
    """SESSION(stream, idle, start) in FROM."""

    inherit_cache = False
    name = "session"

    def __init__(self, stream: sa.Table, idle: timedelta, start: str) -> None:
        super().__init__()
        self.stream, self.idle, self.start = stream, idle, start


def session(stream: sa.Table, idle: timedelta, *, start: Literal["now", "earliest"] = "now", name: str | None = None) -> TableValuedAlias:
    """A session over a stream, with the stream's columns: rows that arrive until none has come for `idle`, or its producer ends the stream.

    It begins when the query does, or with `start="earliest"` at the oldest row. A query that reads it waits for its end.

    >>> from platform_plugin.dialect import PlatformDialect
    >>> posts = sa.Table("posts", sa.MetaData(), sa.Column("uid", sa.Integer))
    >>> arriving = session(posts, timedelta(seconds=2))
    >>> " ".join(str(sa.select(arriving.c.uid).compile(dialect=PlatformDialect())).split())
    "SELECT posts_session.uid FROM SESSION(posts, '2000000 microseconds', 'now') AS posts_session"
    """
    if idle <= timedelta(0):
        raise InvalidValue(f"a session can't be idle for {idle!r}", hint="give a timedelta of more than 0, such as timedelta(seconds=2)")
    if start not in ("now", "earliest"):
        raise InvalidValue(f"a session can't start at {start!r}", hint='give "now" or "earliest"')
    columns = [sa.column(column.name, column.type) for column in stream.columns]
    return SessionFunction(stream, idle, start).table_valued(*columns, name=name or f"{stream.name}_session")


@compiles(SessionFunction, "platform")
def write_session(element: SessionFunction, compiler: SQLCompiler, **_: Any) -> str:
    """The call as text."""
    stream = compiler.preparer.format_table(element.stream)
    return f"SESSION({stream}, '{element.idle // timedelta(microseconds=1)} microseconds', '{element.start}')"
