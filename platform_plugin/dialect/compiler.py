"""The compiler of SQLAlchemy's queries and changes of rows to the platform's SQL."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import exc
from sqlalchemy.sql import sqltypes
from sqlalchemy.sql.compiler import SQLCompiler

from platform_plugin.language.text.words import RESERVED

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_ESCAPED = "x_"
_NO_VALUES = " DEFAULT VALUES"


class PlatformCompiler(SQLCompiler):
    """Spark SQL for queries; values are bound, never written into the text."""

    def bindparam_string(self, name: str, *, escaped_from: str | None = None, **kw: Any) -> str:  # type: ignore[override]
        # Names come from columns, which may be called anything; the escape is one to one, so no two meet.
        if escaped_from is None and (not _PLAIN.fullmatch(name) or name.upper() in RESERVED or name.startswith(_ESCAPED)):
            escaped_from, name = name, _ESCAPED + name.encode("utf-8", "surrogatepass").hex()
        return super().bindparam_string(name, escaped_from=escaped_from, **kw)

    # Rows

    def limit_clause(self, select: Any, **kw: Any) -> str:
        text = ""
        if select._limit_clause is not None:  # noqa: SLF001  SQLAlchemy's own name for it
            text += "\n LIMIT " + self.process(select._limit_clause, **kw)  # noqa: SLF001
        if select._offset_clause is not None:  # noqa: SLF001
            text += "\n OFFSET " + self.process(select._offset_clause, **kw)  # noqa: SLF001
        return text

    def fetch_clause(self, select: Any, fetch_clause: Any = None, *_: Any, **kw: Any) -> str:
        kw = {name: value for name, value in kw.items() if name not in ("require_offset", "use_literal_execute_for_simple_int")}
        options = select._fetch_clause_options  # noqa: SLF001
        if options and (options["with_ties"] or options["percent"]):
            raise exc.CompileError("FETCH … WITH TIES and PERCENT can't be run: use rank() or a window")
        text = "\n LIMIT " + self.process(fetch_clause if fetch_clause is not None else select._fetch_clause, **kw)  # noqa: SLF001
        if select._offset_clause is not None:  # noqa: SLF001
            text += "\n OFFSET " + self.process(select._offset_clause, **kw)  # noqa: SLF001
        return text

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        raise exc.CompileError("rows can't be locked: every read is of one snapshot, and a lost race is an error at the commit")

    def visit_empty_set_expr(self, element_types: Any, **kw: Any) -> str:
        columns = ", ".join(self._typed_null(kind) for kind in element_types or [sqltypes.NULLTYPE])
        return f"SELECT {columns} WHERE 1 != 1"

    def _typed_null(self, kind: Any) -> str:
        if isinstance(kind, sqltypes.NullType):
            return "NULL"
        return f"CAST(NULL AS {self.dialect.type_compiler_instance.process(kind, in_query=True)})"

    def visit_typeclause(self, typeclause: Any, **kw: Any) -> str:
        text: str = super().visit_typeclause(typeclause, **kw | {"in_query": True})  # type: ignore[no-untyped-call]
        return text

    def visit_savepoint(self, savepoint_stmt: Any, **kw: Any) -> str:
        raise exc.CompileError("there are no savepoints: every statement commits by itself")

    # Operators and functions

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._regexp(binary, "RLIKE", kw)

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._regexp(binary, "NOT RLIKE", kw)

    def _regexp(self, binary: Any, word: str, kw: dict[str, Any]) -> str:
        pattern = self.process(binary.right, **kw)
        if flags := binary.modifiers.get("flags"):
            pattern = f"concat({self.render_literal_value(f'(?{flags})', sqltypes.STRINGTYPE)}, {pattern})"
        return f"{self.process(binary.left, **kw)} {word} {pattern}"

    def visit_regexp_replace_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        if binary.modifiers.get("flags"):
            raise exc.CompileError("regexp_replace takes no flags: write them into the pattern, as (?i)")
        return f"regexp_replace({self.process(binary.left, **kw)}, {self.process(binary.right, **kw)})"

    def visit_now_func(self, fn: Any, **kw: Any) -> str:
        return "current_timestamp()"

    def visit_localtimestamp_func(self, fn: Any, **kw: Any) -> str:
        return "localtimestamp()"

    def visit_random_func(self, fn: Any, **kw: Any) -> str:
        return f"rand{self.function_argspec(fn, **kw)}"

    def visit_aggregate_strings_func(self, fn: Any, **kw: Any) -> str:
        return f"listagg{self.function_argspec(fn, **kw)}"

    # Changes

    def visit_insert(self, insert_stmt: Any, *args: Any, **kw: Any) -> str:
        text: str = super().visit_insert(insert_stmt, *args, **kw)  # type: ignore[no-untyped-call]
        if text.endswith(_NO_VALUES):
            first = self.preparer.format_column(next(iter(insert_stmt.table.c)))
            return f"{text.removesuffix(_NO_VALUES)} ({first}) VALUES (DEFAULT)"
        return text

    def update_from_clause(self, *_: Any, **__: Any) -> str:
        raise exc.CompileError("UPDATE reads other tables in subqueries only: write SET … = (SELECT …)")

    def delete_extra_from_clause(self, *_: Any, **__: Any) -> str:
        raise exc.CompileError("DELETE reads other tables in subqueries only: write WHERE … IN (SELECT …)")
