"""A stream's options: from CREATE and ALTER STREAM to the form that the lake stores, and back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from platform_plugin.language.statements import CreateStream
from platform_plugin.language.text.options import STREAM, Option
from platform_plugin.language.text.writing import duration_text
from platform_plugin.relations.declarations import DeclaredRelation
from platform_plugin.relations.differences import column_differences, option_differences
from platform_plugin.relations.options import read_options, stored_option
from platform_plugin.relations.streams.feeds.declaration import altered_feed, feed_statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.relations import Declaration
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.language.statements.statement import Statement
    from platform_plugin.language.text.names import WrittenName


def stored_limits(statement: CreateStream) -> dict[str, Any]:
    """The options of a CREATE STREAM, in the form that the lake stores.

    >>> from platform_plugin.language.text.names import WrittenName
    >>> stored_limits(CreateStream(name=WrittenName(parts=("posts",)), retention=timedelta(hours=1)))
    {'retention_seconds': 3600.0, 'on_overrun': 'abort'}
    """
    given = {name: getattr(statement, name) for name in STREAM}
    return dict(
        stored_option(Option(name=name, value=value))
        for name, value in given.items()
        if value is not None and (name, value) != ("on_unconsumed", "keep")
    )


def read_limits(declaration: Declaration) -> dict[str, Any]:
    """The options of a stream under the names and in the types of its statement; undeclared ones are left out."""
    return read_options(declaration.options, STREAM)


def stream_statement(name: WrittenName, stream: Table, declaration: Declaration) -> CreateStream:
    """The statement that creates a stream like this one."""
    kept = declaration.options.get("feed")
    feed = None if kept is None else feed_statement(kept)
    columns = () if feed is not None and feed.kind == "TABLE" else stream.fields
    return CreateStream(name=name, columns=columns, feed=feed, comment=stream.comment, **read_limits(declaration))


def altered_options(declaration: Declaration, options: Sequence[Option], columns: Sequence[Field]) -> dict[str, Any]:
    """The stored options that ALTER STREAM … SET changes."""
    fed = altered_feed(declaration, options, columns)
    return dict(stored_option(option) for option in options if not fed or option.name in STREAM) | fed


def reflected_limits(declaration: Declaration) -> dict[str, Any]:
    """The limits of a stream as options of an SQLAlchemy table, with durations as text."""
    return {name: duration_text(value) if isinstance(value, timedelta) else value for name, value in read_limits(declaration).items()}


def read_declared(statement: Statement) -> DeclaredRelation | None:
    """The definition in a CREATE STREAM."""
    if not isinstance(statement, CreateStream):
        return None
    return DeclaredRelation(name=statement.name, columns=statement.columns, comment=statement.comment, takes_in=statement.feed is not None)


def stream_differences(declared: Statement, stored: Statement) -> Iterator[str]:
    """The differences between a file's definition of a stream and the lake's."""
    if isinstance(declared, CreateStream) and isinstance(stored, CreateStream):
        yield from column_differences(declared.columns, stored.columns)
        ours, theirs = ({name: getattr(each, name) for name in STREAM} for each in (declared, stored))
        yield from option_differences(ours, theirs)
