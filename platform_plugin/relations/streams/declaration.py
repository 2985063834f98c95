"""A stream's declared options, as its statement has them and as the lake keeps them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from platform_plugin.language.statements.create_stream import CreateStream
from platform_plugin.language.text.options import STREAM, Option
from platform_plugin.relations.streams.feeds.declaration import written_feed

if TYPE_CHECKING:
    from platform_plugin.lake.catalogue.relations import Declaration
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.language.text.names import Name

_SECONDS = "_seconds"  # what the name of a stored duration ends in


def stored_limits(statement: CreateStream) -> dict[str, Any]:
    """The options that a CREATE STREAM gives, for the lake.

    >>> from platform_plugin.language.text.names import Name
    >>> stored_limits(CreateStream(name=Name(parts=("posts",)), retention=timedelta(hours=1)))
    {'retention_seconds': 3600.0, 'on_overrun': 'abort'}
    """
    given = {name: getattr(statement, name) for name in STREAM}
    return dict(
        stored_option(Option(name=name, value=value))
        for name, value in given.items()
        if value is not None and (name, value) != ("on_unconsumed", "keep")
    )


def stored_option(option: Option) -> tuple[str, Any]:
    """The name and value under which the lake keeps an option."""
    if isinstance(option.value, timedelta):
        return option.name + _SECONDS, option.value.total_seconds()
    return option.name, option.value


def read_limits(declaration: Declaration) -> dict[str, Any]:
    """The options of a stream by the names and in the types of its statement; what was not declared is left out."""
    kept = declaration.options
    durations = {name: timedelta(seconds=kept[name + _SECONDS]) for name in STREAM if kept.get(name + _SECONDS) is not None}
    return {name: durations.get(name, kept.get(name)) for name in STREAM if name in durations or kept.get(name) is not None}


def stream_statement(name: Name, stream: Table, declaration: Declaration) -> CreateStream:
    """The statement that makes a stream like this one."""
    kept = declaration.options.get("feed")
    feed = None if kept is None else written_feed(kept)
    columns = () if feed is not None and feed.kind == "TABLE" else stream.fields
    return CreateStream(name=name, columns=columns, feed=feed, comment=stream.comment, **read_limits(declaration))
