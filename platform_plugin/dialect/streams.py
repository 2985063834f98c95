"""`CreateStream` and `DropStream`: SQLAlchemy constructs for streams, which are a `Table` with options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.sql.ddl import CreateTable, DropTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta


def CreateStream(  # noqa: N802  a construct, spelt like SQLAlchemy's own
    stream: sa.Table | str,
    columns: Sequence[sa.Column[Any]] = (),
    *,
    schema: str | None = None,
    retention_rows: int | None = None,
    retention: timedelta | str | None = None,
    retention_bytes: int | None = None,
    on_overrun: str | None = None,
    overrun_grace: timedelta | str | None = None,
    on_unconsumed: str | None = None,
    comment: str | None = None,
    if_not_exists: bool = False,
) -> CreateTable:
    """The statement that creates a stream, from a name and columns or from a `Table`; limits that are None are not written.

    >>> from platform_plugin.dialect import PlatformDialect
    >>> made = CreateStream("posts", [sa.Column("uid", sa.Integer)], retention_rows=1000, retention="1 hour")
    >>> " ".join(str(made.compile(dialect=PlatformDialect())).split())
    "CREATE STREAM posts ( uid INT ) WITH (retention_rows = 1000, retention = '1 hour')"
    """
    limits = {
        "retention_rows": retention_rows,
        "retention": retention,
        "retention_bytes": retention_bytes,
        "on_overrun": on_overrun,
        "overrun_grace": overrun_grace,
        "on_unconsumed": on_unconsumed,
    }
    table = (
        sa.Table(stream, sa.MetaData(), *columns, schema=schema, comment=comment)
        if isinstance(stream, str)
        else stream.to_metadata(sa.MetaData())
    )
    options = table.dialect_options["platform"]
    options["stream"] = True
    for name, value in limits.items():
        if value is not None:
            options[name] = value
    return CreateTable(table, if_not_exists=if_not_exists)


def DropStream(stream: sa.Table | str, *, schema: str | None = None, if_exists: bool = False) -> DropTable:  # noqa: N802  as above
    """The statement that drops a stream.

    >>> from platform_plugin.dialect import PlatformDialect
    >>> str(DropStream("posts", if_exists=True).compile(dialect=PlatformDialect())).strip()
    'DROP STREAM IF EXISTS posts'
    """
    named = stream if isinstance(stream, str) else stream.name
    table = sa.Table(named, sa.MetaData(), schema=schema if isinstance(stream, str) else stream.schema, platform_stream=True)
    return DropTable(table, if_exists=if_exists)
