"""`PlatformDialect`: SQLAlchemy's dialect for URLs such as platform+local:///path/to/lake and platform://user@host/db.

All connections of an engine share one open platform a process, because attaching to Spark costs a second and a connection
holds nothing of its own. For the same reason there is no pool: a connection is made in microseconds, and none is kept
idle. Give `poolclass=QueuePool` where the number of statements at a time must be bounded. `engine.dispose()` closes the
platform once its last connection has been closed.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import default
from sqlalchemy.engine.cursor import _NO_CURSOR_DQL
from sqlalchemy.pool import NullPool
from sqlalchemy.sql import ddl, schema

from platform_plugin.dialect.compiler import PlatformCompiler
from platform_plugin.dialect.ddl import STREAM_OPTIONS, PlatformDDLCompiler
from platform_plugin.dialect.identifiers import PlatformIdentifierPreparer
from platform_plugin.dialect.reflection import PlatformReflection
from platform_plugin.dialect.shared import SharedPlatform
from platform_plugin.dialect.types import COLSPECS, PlatformTypeCompiler
from platform_plugin.redaction import redact_text

if TYPE_CHECKING:
    from types import ModuleType

    from sqlalchemy.engine import Connection, Engine, ExceptionContext
    from sqlalchemy.pool import Pool


class PlatformExecutionContext(default.DefaultExecutionContext):
    """Makes a definition return no rows even with `stream_results`, where SQLAlchemy would fetch the first."""

    def post_exec(self) -> None:
        if self.isddl:
            self.cursor_fetch_strategy = cast("Any", _NO_CURSOR_DQL)


def _redact_statement(context: ExceptionContext) -> None:
    """SQLAlchemy's errors show the statement and its parameters, where a COPY may name a place with a key in it."""
    error = context.sqlalchemy_exception
    if error is not None:
        if error.statement is not None:
            error.statement = redact_text(error.statement)
        if isinstance(error.params, dict):
            error.params = {name: redact_text(value) if isinstance(value, str) else value for name, value in error.params.items()}


class QuietURL(sa.URL):
    """A URL whose text shows neither its password nor the secrets in its options, unless `hide_password` is false."""

    __slots__ = ()

    def render_as_string(self, hide_password: bool = True) -> str:  # noqa: FBT001, FBT002  SQLAlchemy's own signature
        text = super().render_as_string(hide_password)
        return redact_text(text) if hide_password else text


class PlatformDialect(PlatformReflection):
    """The dialect for SQLAlchemy 2.1."""

    name = "platform"
    driver = "platform"
    default_paramstyle = "named"

    execution_ctx_cls = PlatformExecutionContext
    statement_compiler = PlatformCompiler
    ddl_compiler = PlatformDDLCompiler
    type_compiler_cls = PlatformTypeCompiler
    preparer = PlatformIdentifierPreparer  # type: ignore[assignment]
    colspecs = COLSPECS  # type: ignore[assignment]
    construct_arguments: Any = [  # noqa: RUF012  SQLAlchemy declares it so
        (schema.Table, {"stream": False} | dict.fromkeys(STREAM_OPTIONS)),
        (ddl.CreateView, {}),
    ]

    supports_statement_cache = True
    supports_alter = False
    supports_comments = True
    inline_comments = True
    supports_default_values = True
    supports_default_metavalue = True
    supports_empty_insert = False
    supports_multivalues_insert = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_uuid = True
    supports_native_enum = False
    supports_sequences = False
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = True
    supports_is_distinct_from = True
    div_is_floordiv = False
    postfetch_lastrowid = False
    cte_follows_insert = True
    requires_name_normalize = False
    max_identifier_length = 255
    default_schema_name = "main"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._shared: SharedPlatform | None = None
        self._lock = threading.Lock()

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        from platform_plugin.dialect import dbapi

        return dbapi

    @classmethod
    def get_pool_class(cls, url: sa.URL) -> type[Pool]:  # noqa: ARG003  one for every URL
        return NullPool

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        """Let `engine.dispose()` close the shared platform, and hide tokens where the engine is printed."""
        dialect = engine.dialect
        engine.url = QuietURL(*engine.url)
        if isinstance(dialect, PlatformDialect):
            event.listen(engine, "engine_disposed", lambda _: dialect.give_up())
            event.listen(engine, "handle_error", _redact_statement)

    # Connections

    def create_connect_args(self, url: sa.URL) -> Any:
        # A URL object does not show its password where arguments are logged or listed.
        return [], {"url": url}

    def connect(self, *cargs: Any, **cparams: Any) -> Any:
        from platform_plugin.dialect import dbapi

        if cargs or "shared" in cparams:
            return dbapi.connect(*cargs, **cparams)
        with self._lock:
            if self._shared is None:
                self._shared = SharedPlatform(dbapi.lake_url(cparams["url"]), cparams.get("limits"), cparams.get("engine"))
            return dbapi.connect(shared=self._shared)

    def give_up(self) -> None:
        """Close the shared platform when no connection uses it; the next connection opens another."""
        with self._lock:
            shared, self._shared = self._shared, None
        if shared is not None:
            shared.give_up()

    def do_ping(self, dbapi_connection: Any) -> bool:
        return bool(dbapi_connection.ping())

    # Transactions: there are none, since every statement commits by itself.

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Warn where the user asked for it; SQLAlchemy also rolls back each connection that it closes, committed or not."""
        if _is_asked_for():
            dbapi_connection.rollback()

    def get_isolation_level_values(self, dbapi_connection: Any) -> Any:
        return ["AUTOCOMMIT"]

    def get_default_isolation_level(self, dbapi_connection: Any) -> Any:
        return "AUTOCOMMIT"

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        return "AUTOCOMMIT"

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        """Do nothing: there is only one level."""

    def detect_autocommit_setting(self, dbapi_connection: Any) -> bool:
        return True

    # What the engine asks at its first connection

    def _get_default_schema_name(self, connection: Connection) -> str:
        return "main"

    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...]:
        from platform_plugin import __version__

        return tuple(int(part) for part in __version__.split(".")[:3])


def _is_asked_for() -> bool:
    """Whether a rollback comes from `rollback()` or from a block that failed, and not from the end of a connection."""
    frame, name = sys._getframe(2), ""  # noqa: SLF001  SQLAlchemy calls the same for both
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("sqlalchemy."):
        name = frame.f_code.co_name
        if name in ("_do_rollback", "_do_close"):
            return name == "_do_rollback"
        frame = frame.f_back
    return False
