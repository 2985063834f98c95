"""The registry of statements: one entry for each, by which it is parsed, written, run and explained."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from platform_plugin.language.statements import (
    alter,
    comment,
    copy,
    create_sample,
    create_schema,
    create_stream,
    create_table,
    create_view,
    delete,
    describe,
    drop,
    explain,
    insert,
    refresh,
    select,
    show,
    suspend,
    update,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.language.statements.statement import Statement, StatementOpening
    from platform_plugin.language.text.cursor import TokenCursor


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementKind:
    """One kind of statement: the words it begins with, its value class, the function that runs it, and its page."""

    words: tuple[str, ...]
    """The beginnings of the statement; a kind without words is made by the reader of another kind."""
    value: type[Statement]
    page: str
    """Its page in `docs/sql`."""
    read: Callable[[TokenCursor, StatementOpening], Statement] | None = None
    text: Callable[[Any], str] | None = None
    """Writes the value as a statement again; without it the original text is used."""
    run: str | None = None
    """The "module:function" that runs it: called with the workspace, the statement, and what it `takes`."""
    run_together: str | None = None
    """The "module:function" that runs several of them in one commit: called with the workspace and the statements."""
    takes: tuple[str, ...] = ()
    """Which of the caller's `arguments`, `timeout`, `progress` and `batch_id` the runner takes."""
    explain: str | None = None
    """The "module:function" by which EXPLAIN describes it: called with the workspace, the EXPLAIN and the arguments."""
    planned: str | None = None
    """A description of the statement, while nothing runs it yet."""
    reads_rows: bool = True
    """Whether the statement waits first until everything that this platform has appended to streams is committed."""
    replaces: bool = True
    """Whether OR REPLACE may follow its CREATE."""


_LIMITS = ("timeout", "progress")
_RUN = "platform_plugin.relations"

STATEMENTS: list[StatementKind] = [
    StatementKind(
        words=("CREATE CONTINUOUS VIEW", "CREATE MATERIALIZED VIEW", "CREATE VIEW"),
        value=create_view.CreateView,
        read=create_view.read_create_view,
        text=create_view.create_view_text,
        run=f"{_RUN}.views.define:run_create_view",
        run_together=f"{_RUN}.views.define:run_create_views",
        explain=f"{_RUN}.views.define:explain_create_view",
        page="create-view",
    ),
    StatementKind(
        words=("CREATE TABLE",),
        value=create_table.CreateTable,
        read=create_table.read_create_table,
        text=create_table.create_table_text,
        run=f"{_RUN}.tables.define:run_create_table",
        takes=("arguments", *_LIMITS),
        page="create-table",
    ),
    StatementKind(
        words=(),
        value=create_table.CreateHistory,
        text=create_table.create_history_text,
        run=f"{_RUN}.tables.history:run_create_history",
        page="create-table",
    ),
    StatementKind(
        words=("CREATE STREAM", "CREATE FOREIGN TABLE"),
        value=create_stream.CreateStream,
        read=create_stream.read_create_stream,
        text=create_stream.create_stream_text,
        run=f"{_RUN}.streams.define:run_create_stream",
        reads_rows=False,
        page="create-stream",
    ),
    StatementKind(
        words=("CREATE SAMPLE",),
        value=create_sample.CreateSample,
        read=create_sample.read_create_sample,
        text=create_sample.create_sample_text,
        run=f"{_RUN}.samples.define:run_create_sample",
        replaces=False,
        page="create-sample",
    ),
    StatementKind(
        words=("CREATE SCHEMA",),
        value=create_schema.CreateSchema,
        read=create_schema.read_create_schema,
        text=create_schema.create_schema_text,
        run=f"{_RUN}.schemas:run_create_schema",
        reads_rows=False,
        replaces=False,
        page="create-schema",
    ),
    StatementKind(
        words=("DROP",),
        value=drop.Drop,
        read=drop.read_drop,
        text=drop.drop_text,
        run=f"{_RUN}.drop:run_drop",
        reads_rows=False,
        page="drop",
    ),
    StatementKind(
        words=("ALTER",),
        value=alter.Alter,
        read=alter.read_alter,
        text=alter.alter_text,
        run=f"{_RUN}.alter:run_alter",
        reads_rows=False,
        page="alter",
    ),
    StatementKind(
        words=("COMMENT",),
        value=comment.Comment,
        read=comment.read_comment,
        text=comment.comment_on_text,
        run=f"{_RUN}.alter:run_comment",
        reads_rows=False,
        page="comment",
    ),
    StatementKind(
        words=("INSERT",),
        value=insert.Insert,
        read=insert.read_insert,
        run=f"{_RUN}.tables.insert:run_insert",
        takes=("arguments", *_LIMITS, "batch_id"),
        page="insert",
    ),
    StatementKind(
        words=("DELETE",),
        value=delete.Delete,
        read=delete.read_delete,
        run=f"{_RUN}.tables.change:run_delete",
        takes=("arguments", *_LIMITS),
        page="delete",
    ),
    StatementKind(
        words=("UPDATE",),
        value=update.Update,
        read=update.read_update,
        run=f"{_RUN}.tables.change:run_update",
        takes=("arguments", *_LIMITS),
        page="update",
    ),
    StatementKind(
        words=("COPY",),
        value=copy.Copy,
        read=copy.read_copy,
        run=f"{_RUN}.tables.copy:run_copy",
        takes=("arguments", *_LIMITS, "batch_id"),
        page="copy",
    ),
    StatementKind(
        words=("SHOW",),
        value=show.Show,
        read=show.read_show,
        run="platform_plugin.select.shows:run_show",
        page="show",
    ),
    StatementKind(
        words=("DESCRIBE", "DESC"),
        value=describe.Describe,
        read=describe.read_describe,
        run="platform_plugin.select.shows:run_describe",
        page="describe",
    ),
    StatementKind(
        words=("REFRESH VIEW", "REFRESH CONTINUOUS VIEW", "REFRESH MATERIALIZED VIEW"),
        value=refresh.RefreshView,
        read=refresh.read_refresh_view,
        run="platform_plugin.maintenance.refresh:run_refresh_view",
        explain="platform_plugin.maintenance.refresh:explain_refresh",
        takes=_LIMITS,
        page="refresh",
    ),
    StatementKind(
        words=("REFRESH SAMPLE",),
        value=refresh.RefreshSample,
        read=refresh.read_refresh_sample,
        run="platform_plugin.maintenance.refresh:run_refresh_sample",
        explain="platform_plugin.maintenance.refresh:explain_refresh",
        takes=_LIMITS,
        page="refresh",
    ),
    StatementKind(
        words=("REFRESH STREAM",),
        value=refresh.RefreshStream,
        read=refresh.read_refresh_stream,
        run="platform_plugin.maintenance.refresh:run_refresh_stream",
        explain="platform_plugin.maintenance.refresh:explain_refresh",
        takes=_LIMITS,
        page="refresh",
    ),
    StatementKind(
        words=("END STREAM",),
        value=create_stream.EndStream,
        read=create_stream.read_end_stream,
        run=f"{_RUN}.streams.end:run_end_stream",
        page="end-stream",
    ),
    StatementKind(
        words=("REBUILD VIEW", "REBUILD CONTINUOUS VIEW", "REBUILD MATERIALIZED VIEW"),
        value=refresh.RebuildView,
        read=refresh.read_rebuild_view,
        run=f"{_RUN}.views.rebuild:run_rebuild",
        takes=_LIMITS,
        page="refresh",
    ),
    StatementKind(
        words=("SUSPEND QUERY",), value=suspend.SuspendQuery, read=suspend.read_suspend, planned="suspended queries", page="suspend"
    ),
    StatementKind(
        words=("RESUME QUERY",), value=suspend.ResumeQuery, read=suspend.read_resume, planned="suspended queries", page="suspend"
    ),
    StatementKind(
        words=("SET RULE",),
        value=explain.SetRule,
        read=explain.read_set_rule,
        run="platform_plugin.select.rules:run_set_rule",
        reads_rows=False,
        page="set-rule",
    ),
    StatementKind(
        words=("EXPLAIN",),
        value=explain.Explain,
        read=explain.read_explain,
        run="platform_plugin.select.select:run_explain",
        takes=("arguments",),
        page="explain",
    ),
    StatementKind(
        words=(),
        value=select.Select,
        run="platform_plugin.select.select:run_select",
        takes=("arguments", *_LIMITS),
        explain="platform_plugin.select.select:explain_select",
        page="select",
    ),
]
"""The one list of statements; for each verb the longer beginnings stand before the shorter ones."""


def load(place: str) -> Callable[..., Any]:
    """The function at "module:function"; its module is imported when a statement first needs it."""
    module, _, name = place.partition(":")
    # A look at what is imported costs a tenth of asking the import system, which each statement would do.
    function: Callable[..., Any] = getattr(sys.modules.get(module) or import_module(module), name)
    return function


_BY_VALUE = {kind.value: kind for kind in STATEMENTS}


def find_statement_kind(statement: Statement) -> StatementKind:
    """The entry of a statement."""
    kind = _BY_VALUE.get(type(statement))
    if kind is None:
        # One that a kind of relation has registered.
        kind = next(kind for kind in STATEMENTS if kind.value is type(statement))
    return kind


def find_statement_kinds(verb: str) -> list[StatementKind]:
    """The entries whose statements may begin with a word."""
    return [kind for kind in STATEMENTS if any(words.split()[0] == verb for words in kind.words)]


def list_verbs() -> tuple[str, ...]:
    """The words that statements begin with."""
    return tuple(dict.fromkeys(words.split()[0] for kind in STATEMENTS for words in kind.words))


def statement_text(statement: Statement) -> str:
    """The text of a definition, written from its value; other statements keep their original text.

    >>> from platform_plugin.language.script import parse_statement
    >>> print(statement_text(parse_statement("create table t(id int primary key, `a b` text)")))
    CREATE TABLE t (
        id INT NOT NULL,
        `a b` STRING,
        PRIMARY KEY (id)
    )
    """
    write = find_statement_kind(statement).text
    return statement.span.text if write is None else write(statement)
