"""CREATE: tables, streams, views, samples and schemas."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

from platform_plugin.language.statements.statements import (
    CreateHistory,
    CreateSample,
    CreateSchema,
    CreateStream,
    CreateTable,
    CreateView,
    Feed,
    Name,
    Statement,
    ViewColumn,
)
from platform_plugin.language.text import options as known
from platform_plugin.language.text.bodies import read_query
from platform_plugin.language.text.columns import read_columns
from platform_plugin.language.text.cursor import Cursor, refuse_twice
from platform_plugin.language.text.options import read_options
from platform_plugin.language.text.places import fault

if TYPE_CHECKING:
    from platform_plugin.language.statements.statements import Option


def read_create(cursor: Cursor) -> Statement:
    """The statement after CREATE."""
    replaced = cursor.accept("OR", "REPLACE")
    if cursor.accept("CONTINUOUS", "VIEW") or cursor.accept("MATERIALIZED", "VIEW"):
        return _read_view(cursor, continuous=True, replaced=replaced)
    if cursor.accept("VIEW"):
        return _read_view(cursor, continuous=False, replaced=replaced)
    if cursor.accept("TABLE"):
        return _read_table(cursor, replaced=replaced)
    if cursor.accept("STREAM"):
        return _read_stream(cursor, foreign=False, replaced=replaced)
    if cursor.accept("FOREIGN", "TABLE"):
        return _read_stream(cursor, foreign=True, replaced=replaced)
    if not replaced and cursor.accept("SAMPLE"):
        return _read_sample(cursor)
    if not replaced and cursor.accept("SCHEMA"):
        exists = _if_not_exists(cursor)
        return CreateSchema(name=cursor.identifier("a schema name"), if_not_exists=exists)
    raise cursor.fail()


def _if_not_exists(cursor: Cursor) -> bool:
    return cursor.accept("IF", "NOT", "EXISTS")


def _new_name(cursor: Cursor, what: str, *, replaced: bool) -> tuple[Name, bool]:
    exists = _if_not_exists(cursor)
    if exists and replaced:
        raise cursor.fail(message="OR REPLACE and IF NOT EXISTS exclude each other")
    return cursor.new_name(f"a {what} name"), exists


def _read_table(cursor: Cursor, *, replaced: bool) -> Statement:
    name, exists = _new_name(cursor, "table", replaced=replaced)
    if cursor.accept("AS", "HISTORY", "OF"):
        if replaced:
            raise fault(name.span, "a history can't be replaced", hint="drop it first")
        return CreateHistory(name=name, stream=cursor.name("a stream name"), if_not_exists=exists)
    table = CreateTable(name=name, if_not_exists=exists, or_replace=replaced)
    if cursor.at_words("("):
        columns, keys = read_columns(cursor)
        table = replace(table, columns=columns, primary_key=keys)
    comment, options = _read_trailer(cursor, known.TABLE, "a table")
    table = replace(table, comment=comment, options=options)
    if cursor.at_words("AS"):
        if table.columns:
            raise cursor.fail(
                message="a table takes its columns from the list or from the query, not from both", hint="name columns in the query with AS"
            )
        cursor.advance()
        return replace(table, query=read_query(cursor))
    if not table.columns:
        raise cursor.fail("a column list")
    return table


def _read_trailer(cursor: Cursor, options: dict[str, str | tuple[str, ...]], what: str) -> tuple[str | None, tuple[Option, ...]]:
    comment, found = None, None
    while True:
        if comment is None and cursor.accept("COMMENT"):
            comment = cursor.string("a comment")
        elif found is None and cursor.accept("WITH"):
            found = read_options(cursor, options, what)
        else:
            return comment, found or ()


def _read_stream(cursor: Cursor, *, foreign: bool, replaced: bool) -> Statement:
    name, exists = _new_name(cursor, "stream", replaced=replaced)
    columns, keys = read_columns(cursor) if foreign or cursor.at_words("(") else ((), ())
    if keys:
        raise fault(name.span, f'stream "{name}" can\'t have a primary key', hint="a stream keeps every row; declare the key on a table")
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
        or_replace=replaced,
        **limits,  # type: ignore[arg-type]
    )


def _read_feed(cursor: Cursor, *, has_columns: bool) -> Feed:
    kind = cast("Literal['FILES', 'KAFKA', 'TABLE']", cursor.expect_one("FILES", "KAFKA", "TABLE"))
    first = cursor.index
    relation = cursor.name("a table name") if kind == "TABLE" else None
    location = str(relation) if relation else cursor.string("a glob" if kind == "FILES" else "'brokers/topic'")
    span = cursor.span(first)
    options = read_options(cursor, known.FEEDS[kind], f"a feed from {kind.lower()}") if cursor.at_words("(") else ()
    if relation is not None and has_columns:
        raise fault(span, "a stream over a table has the table's columns", hint="leave out the column list")
    chosen = next((option for option in options if option.name == "format"), None)
    inferred = kind == "TABLE" or (kind == "FILES" and (chosen.value == "parquet" if chosen else _looks_like_parquet(location)))
    if not (has_columns or inferred):
        hint = "only the columns of Parquet files are read from them" if kind == "FILES" else "a topic does not say what its records hold"
        raise fault(
            span, f"the columns of a stream from {kind.lower()} are not named", hint=f"write CREATE STREAM name (column type, …): {hint}"
        )
    return Feed(kind=kind, location=location, relation=relation, options=options, span=span)


def _looks_like_parquet(location: str) -> bool:
    return location.lower().endswith((".parquet", ".pq"))


def _read_view(cursor: Cursor, *, continuous: bool, replaced: bool) -> Statement:
    name, exists = _new_name(cursor, "view", replaced=replaced)
    aliases: tuple[ViewColumn, ...] = ()
    if cursor.at_words("("):
        first = cursor.index
        aliases = cursor.listed(lambda: _read_alias(cursor))
        refuse_twice(cursor.span(first), [alias.name for alias in aliases])
    comment, options = _read_trailer(cursor, known.VIEW, "a view")
    cursor.expect("AS")
    query = read_query(cursor)
    return CreateView(
        name=name,
        aliases=aliases,
        comment=comment,
        options=options,
        query=query,
        continuous=continuous,
        if_not_exists=exists,
        or_replace=replaced,
    )


def _read_alias(cursor: Cursor) -> ViewColumn:
    name = cursor.new_identifier("a column name")
    return ViewColumn(name=name, comment=cursor.string("a comment") if cursor.accept("COMMENT") else None)


def _read_sample(cursor: Cursor) -> Statement:
    name, exists = _new_name(cursor, "sample", replaced=False)
    cursor.expect("ON")
    parts = _read_parts(cursor) if cursor.accept("SAMPLES", "(") else ()
    relation = parts[0] if parts else cursor.name("a relation")
    cursor.expect("SIZE")
    size = _read_size(cursor)
    if parts and (taken := cursor.accept_one("WHERE", "WEIGHTED", "STRATIFIED")):
        cursor.advance(-1)
        raise cursor.fail("WITH", message=f"a merged sample has no {taken}", hint="its rows are those of its samples: say it there")
    where, weight, each = None, None, None
    strata: tuple[str, ...] = ()
    if cursor.accept("WHERE"):
        where = cursor.until("a condition", "WEIGHTED", "STRATIFIED", "WITH")
    if cursor.accept("WEIGHTED", "BY"):
        bracketed = cursor.accept("(")
        weight = cursor.identifier("a column")
        if bracketed:
            cursor.expect(")")
    if cursor.accept("STRATIFIED", "BY"):
        strata = cursor.names("a column") if cursor.at_words("(") else (cursor.identifier("a column"),)
        if cursor.accept("SIZE"):
            each = _read_size(cursor)
            cursor.expect("PER", "STRATUM")
    options = read_options(cursor, known.SAMPLE, "a sample") if cursor.accept("WITH") else ()
    return CreateSample(
        name=name,
        relation=relation,
        size=size,
        parts=parts,
        where=where,
        strata=strata,
        size_per_stratum=each,
        weight=weight,
        options=options,
        if_not_exists=exists,
    )


def _read_parts(cursor: Cursor) -> tuple[Name, ...]:
    """The samples of a merged one, after `SAMPLES (`."""
    parts = [cursor.name("a sample")]
    while cursor.accept(","):
        parts.append(cursor.name("a sample"))
    if len(parts) < 2:
        raise cursor.fail(",", message="a merged sample needs two samples at least", hint="write ON SAMPLES (one, other)")
    cursor.expect(")")
    return tuple(parts)


def _read_size(cursor: Cursor) -> int:
    if cursor.upper() == "" and cursor.tokens.text(cursor.index) == "0":
        raise cursor.fail(message="a sample needs a size of at least one row")
    return cursor.integer("a number of rows")
