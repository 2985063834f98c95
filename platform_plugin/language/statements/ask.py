"""SHOW, DESCRIBE, EXPLAIN, REFRESH, SUSPEND and RESUME: the statements that ask about what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from platform_plugin.language.statements.statements import Describe, Explain, Refresh, ResumeQuery, Select, Show, Statement, SuspendQuery
from platform_plugin.language.text.bodies import at_query, read_query

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.language.text.cursor import Cursor

SUBJECTS = ("TABLES", "STREAMS", "VIEWS", "SAMPLES", "SCHEMAS", "SNAPSHOTS", "COLUMNS", "JOBS", "QUERIES")
_OF_SCHEMA = ("TABLES", "STREAMS", "VIEWS", "SAMPLES")


def read_show(cursor: Cursor) -> Statement:
    """The statement after SHOW."""
    if cursor.accept("CREATE"):
        cursor.accept_one("TABLE", "STREAM", "VIEW", "SAMPLE")
        return Show(subject="CREATE", name=cursor.name("a relation"))
    subject = cursor.expect_one(*SUBJECTS)
    name = schema = like = None
    if subject == "COLUMNS":
        cursor.expect_one("FROM", "IN")
        name = cursor.name("a relation")
    elif subject == "SNAPSHOTS" and cursor.accept_one("FROM", "OF"):
        name = cursor.name("a relation")
    elif subject in _OF_SCHEMA and cursor.accept_one("IN", "FROM"):
        schema = cursor.identifier("a schema")
    if subject not in ("SNAPSHOTS", "JOBS") and cursor.accept("LIKE"):
        like = cursor.string("'a pattern'")
    return Show(subject=subject, name=name, schema=schema, like=like)


def read_describe(cursor: Cursor) -> Statement:
    """The statement after DESCRIBE."""
    if cursor.upper() in ("TABLE", "STREAM", "VIEW", "SAMPLE") and cursor.upper(1) != "." and cursor.kind(1) != "end":
        cursor.advance()
    extended = cursor.upper() in ("EXTENDED", "FORMATTED") and cursor.kind(1) != "end" and cursor.upper(1) != "."
    internal = extended and cursor.upper() == "FORMATTED"
    if extended:
        cursor.advance()
    return Describe(name=cursor.name("a relation"), extended=extended, internal=internal)


def read_explain(cursor: Cursor, read: Callable[[Cursor], Statement]) -> Statement:
    """The statement after EXPLAIN, with what it explains."""
    mode: Literal["simple", "extended", "formatted", "cost", "codegen"] = "simple"
    match cursor.accept_one("EXTENDED", "FORMATTED", "COST", "CODEGEN"):
        case "EXTENDED":
            mode = "extended"
        case "FORMATTED":
            mode = "formatted"
        case "COST":
            mode = "cost"
        case "CODEGEN":
            mode = "codegen"
    first = cursor.index
    if at_query(cursor):
        return Explain(statement=Select(query=read_query(cursor), span=cursor.span(first)), mode=mode)
    if cursor.upper() not in ("CREATE", "INSERT", "DELETE", "UPDATE", "REFRESH"):
        cursor.advance(0)
        raise cursor.fail("a query, CREATE VIEW, INSERT, DELETE, UPDATE or REFRESH")
    return Explain(statement=read(cursor), mode=mode)


def read_refresh(cursor: Cursor, *, rebuild: bool) -> Statement:
    """The statement after REFRESH or REBUILD."""
    kind: Literal["VIEW", "SAMPLE"] = "VIEW"
    if cursor.upper() in ("CONTINUOUS", "MATERIALIZED") and cursor.upper(1) == "VIEW":
        cursor.advance()
    if rebuild:
        cursor.expect("VIEW")
    elif cursor.expect_one("VIEW", "SAMPLE") == "SAMPLE":
        kind = "SAMPLE"
    return Refresh(kind=kind, name=cursor.name(f"a {kind.lower()} name"), rebuild=rebuild)


def read_suspend(cursor: Cursor) -> Statement:
    """The statement after SUSPEND."""
    cursor.expect("QUERY")
    return SuspendQuery(id=_read_id(cursor))


def read_resume(cursor: Cursor) -> Statement:
    """The statement after RESUME."""
    cursor.expect("QUERY")
    return ResumeQuery(id=_read_id(cursor))


def _read_id(cursor: Cursor) -> str:
    first = cursor.index
    name = cursor.string("'the id of a query'")
    if not name.strip():
        cursor.index = first
        raise cursor.fail(message="an empty query id")
    return name
