"""CREATE STREAM and END STREAM: a relation with retention, filled by appends or by a feed, and the mark behind its last row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast
from typing import Literal as Choice

from platform_plugin.language.statements.statement import (
    DefinitionStatement,
    Statement,
    StatementOpening,
    create_text,
    read_new_name,
    trailer_text,
)
from platform_plugin.language.text import options as known
from platform_plugin.language.text.columns import read_columns
from platform_plugin.language.text.options import STREAM, Option, read_options
from platform_plugin.language.text.places import Span, syntax_error
from platform_plugin.language.text.writing import (
    columns_text,
    name_text,
    options_text,
    string_text,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.language.text.cursor import TokenCursor
    from platform_plugin.language.text.names import WrittenName


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """The source that a stream pulls rows from: FILES by a glob, KAFKA by brokers/topic, or the appends of the TABLE `relation`."""

    kind: Choice["FILES", "KAFKA", "TABLE"]
    location: str = field(repr=False)
    relation: WrittenName | None = None
    options: tuple[Option, ...] = ()
    span: Span = field(compare=False, repr=False, default=Span("", 0, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStream(DefinitionStatement):
    """A stream with its columns, retention and feed; a limit that is None does not apply."""

    name: WrittenName
    columns: tuple[Field, ...] = ()
    retention_rows: int | None = None
    retention: timedelta | None = None
    retention_bytes: int | None = None
    on_overrun: Choice["abort", "block"] = "abort"
    overrun_grace: timedelta | None = None
    on_unconsumed: Choice["keep", "drop"] = "keep"
    suite: str | None = None
    feed: Feed | None = None
    comment: str | None = None
    if_not_exists: bool = False
    or_replace: bool = False


def read_create_stream(cursor: TokenCursor, opening: StatementOpening) -> Statement:
    """The statement after CREATE STREAM, or after CREATE FOREIGN TABLE, PostgreSQL's words for it."""
    foreign = opening.words == "CREATE FOREIGN TABLE"
    name, exists = read_new_name(cursor, "stream", replaced=opening.replaced)
    columns, keys = read_columns(cursor) if foreign or cursor.at_words("(") else ((), ())
    if keys:
        raise syntax_error(
            name.span, f'stream "{name}" can\'t have a primary key', hint="a stream keeps every row; declare the key on a table"
        )
    feed, comment, options = None, None, None
    if foreign:
        cursor.expect("SERVER")
        if (server := cursor.identifier("a server")).lower() != "stream":
            cursor.advance(-1)
            raise cursor.fail("stream", message=f'server "{server}" does not exist', hint="the only server is stream")
    elif cursor.accept("FROM"):
        feed = _read_feed(cursor, has_columns=bool(columns))
    elif not columns:
        raise cursor.fail()
    while True:
        if comment is None and cursor.accept("COMMENT"):
            comment = cursor.string("a comment")
        elif options is None and cursor.accept("OPTIONS" if foreign else "WITH"):
            options = read_options(cursor, known.STREAM, "a stream")
        else:
            break
    limits = {option.name: option.value for option in options or ()}
    return CreateStream(
        name=name,
        columns=columns,
        feed=feed,
        comment=comment,
        if_not_exists=exists,
        or_replace=opening.replaced,
        **limits,  # type: ignore[arg-type]
    )


def _read_feed(cursor: TokenCursor, *, has_columns: bool) -> Feed:
    kind = cast("Choice['FILES', 'KAFKA', 'TABLE']", cursor.expect_one("FILES", "KAFKA", "TABLE"))
    first = cursor.index
    relation = cursor.name("a table name") if kind == "TABLE" else None
    location = str(relation) if relation else cursor.string("a glob" if kind == "FILES" else "'brokers/topic'")
    span = cursor.span(first)
    options = read_options(cursor, known.FEEDS[kind], f"a feed from {kind.lower()}") if cursor.at_words("(") else ()
    if relation is not None and has_columns:
        raise syntax_error(span, "a stream over a table has the table's columns", hint="leave out the column list")
    chosen = next((option for option in options if option.name == "format"), None)
    inferred = kind == "TABLE" or (kind == "FILES" and (chosen.value == "parquet" if chosen else _looks_like_parquet(location)))
    if not (has_columns or inferred):
        hint = "only the columns of Parquet files are read from them" if kind == "FILES" else "a topic does not say what its records hold"
        raise syntax_error(
            span, f"the columns of a stream from {kind.lower()} are not named", hint=f"write CREATE STREAM name (column type, …): {hint}"
        )
    return Feed(kind=kind, location=location, relation=relation, options=options, span=span)


def _looks_like_parquet(location: str) -> bool:
    return location.lower().endswith((".parquet", ".pq"))


def feed_text(feed: Feed) -> str:
    """A stream's feed as the text after FROM."""
    place = name_text(feed.relation) if feed.relation else string_text(feed.location)
    return f"{feed.kind} {place}{f' {options_text(feed.options)}' if feed.options else ''}"


def create_stream_text(statement: CreateStream) -> str:
    """The statement as text."""
    body = f" {columns_text(statement.columns)}" if statement.columns else ""
    if statement.feed is not None:
        body += f" FROM {feed_text(statement.feed)}"
    unsaid = {"on_overrun": "abort", "on_unconsumed": "keep"}
    limits = {name: getattr(statement, name) for name in STREAM}
    options = tuple(Option(name=name, value=value) for name, value in limits.items() if value is not None and value != unsaid.get(name))
    head = create_text("STREAM", statement.name, body, replaced=statement.or_replace, exists=statement.if_not_exists)
    return head + trailer_text(statement.comment, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndStream(Statement):
    """The stream whose producer has sent its last row."""

    name: WrittenName


def read_end_stream(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after END STREAM."""
    return EndStream(name=cursor.name("a stream name"))
