"""The compiler of SQLAlchemy's definitions to the platform's SQL: tables, streams, views, schemas and comments."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.sql import schema
from sqlalchemy.sql.compiler import DDLCompiler
from sqlalchemy.util import warn

from platform_plugin.language.text.options import STREAM
from platform_plugin.language.text.writing import duration_text, string_text

if TYPE_CHECKING:
    from sqlalchemy import Column, Table

STREAM_OPTIONS = tuple(STREAM)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")


class PlatformDDLCompiler(DDLCompiler):
    """A `Table` is a history table, or with `platform_stream=True` a stream."""

    def visit_create_table(self, create: Any, **kw: Any) -> str:
        text: str = super().visit_create_table(create, **kw)  # type: ignore[no-untyped-call]
        return text.replace("CREATE TABLE", "CREATE STREAM", 1) if is_stream(create.element) else text

    def visit_drop_table(self, drop: Any, **kw: Any) -> str:
        text: str = super().visit_drop_table(drop, **kw)  # type: ignore[no-untyped-call]
        return text.replace("DROP TABLE", "DROP STREAM", 1) if is_stream(drop.element) else text

    def visit_drop_view(self, drop: Any, **kw: Any) -> str:
        return f"\nDROP VIEW {'IF EXISTS ' if drop.if_exists else ''}{self.preparer.format_table(drop.element)}"

    def post_create_table(self, table: Table) -> str:
        text = f" COMMENT {string_text(table.comment)}" if table.comment is not None else ""
        options = {name: table.dialect_options["platform"][name] for name in STREAM_OPTIONS}
        given = {name: value for name, value in options.items() if value is not None}
        if not given:
            return text
        if not is_stream(table):
            raise exc.CompileError(f'{next(iter(given))} is an option of streams: add platform_stream=True to table "{table.name}"')
        return f"{text} WITH ({', '.join(f'{name} = {_option_text(value)}' for name, value in given.items())})"

    def get_column_specification(self, column: Column[Any], **kw: Any) -> str:
        if column.computed is not None or column.identity is not None:
            raise exc.CompileError("computed and identity columns are not offered: compute the value when inserting")
        text = super().get_column_specification(column, **kw)
        return text if column.comment is None else f"{text} COMMENT {string_text(column.comment)}"

    def get_column_default_string(self, column: Column[Any]) -> str | None:
        default = column.server_default
        if isinstance(default, schema.DefaultClause) and isinstance(default.arg, str):
            # A default is written as a literal of its column's type; SQLAlchemy's users write every one as a string.
            plain = default.arg.strip()
            if isinstance(column.type, sa.Integer | sa.Numeric | sa.Float) and _NUMBER.fullmatch(plain):
                return plain
            if isinstance(column.type, sa.Boolean) and plain.lower() in ("true", "false", "0", "1"):
                return "true" if plain.lower() in ("true", "1") else "false"
        return super().get_column_default_string(column)

    # What is not kept

    def visit_primary_key_constraint(self, constraint: Any, **kw: Any) -> str:
        columns = ", ".join(self.preparer.quote(column.name) for column in constraint)
        return f"PRIMARY KEY ({columns})" if columns else ""

    def visit_foreign_key_constraint(self, constraint: Any, **kw: Any) -> Any:
        warn(f'the foreign key of table "{constraint.table.name}" is not kept by the platform: joins may use it, nothing checks it')

    def visit_unique_constraint(self, constraint: Any, **kw: Any) -> str:
        raise exc.CompileError(f'the UNIQUE constraint of table "{constraint.table.name}" can\'t be kept: check uniqueness when loading')

    def visit_check_constraint(self, constraint: Any, **kw: Any) -> str:
        raise exc.CompileError("a CHECK constraint can't be kept: declare it as an asset check")

    visit_column_check_constraint = visit_check_constraint

    def visit_create_index(self, create: Any, *args: Any, **kw: Any) -> str:
        if create.element.unique:
            raise exc.CompileError(f'unique index "{create.element.name}" can\'t be kept: check uniqueness when loading')
        return "-- no index is needed: files that can't match are left out by their column statistics"

    def visit_drop_index(self, drop: Any, **kw: Any) -> str:
        return "-- no index was made"

    # Comments

    def visit_set_table_comment(self, create: Any, **kw: Any) -> str:
        return self._comment(create.element, string_text(create.element.comment))

    def visit_drop_table_comment(self, drop: Any, **kw: Any) -> str:
        return self._comment(drop.element, "NULL")

    def _comment(self, table: Table, text: str) -> str:
        return f"COMMENT ON {'STREAM' if is_stream(table) else 'TABLE'} {self.preparer.format_table(table)} IS {text}"

    def visit_set_column_comment(self, create: Any, **kw: Any) -> str:
        column = create.element
        name = f"{self.preparer.format_table(column.table)}.{self.preparer.format_column(column)}"
        return f"COMMENT ON COLUMN {name} IS {'NULL' if column.comment is None else string_text(column.comment)}"

    def visit_drop_column_comment(self, drop: Any, **kw: Any) -> str:
        column = drop.element
        return f"COMMENT ON COLUMN {self.preparer.format_table(column.table)}.{self.preparer.format_column(column)} IS NULL"


def is_stream(table: Table) -> bool:
    """Whether a table was declared as a stream."""
    return bool(table.dialect_options["platform"]["stream"])


def _option_text(value: Any) -> str:
    if isinstance(value, timedelta):
        return string_text(duration_text(value))
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else string_text(str(value))
