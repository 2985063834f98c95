"""Types: SQLAlchemy's types in the platform's SQL, and the conversion of their values in both directions."""

# ruff: noqa: N802, N815 - SQLAlchemy finds these methods by the names of its types
from __future__ import annotations

import uuid
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.sql.compiler import GenericTypeCompiler

from platform_plugin.language.text.writing import string_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.engine import Dialect
    from sqlalchemy.types import TypeEngine


_MOST_DIGITS = 38
_UNSAID_SCALE = 10


class PlatformTypeCompiler(GenericTypeCompiler):
    """Types in the platform's SQL. In a query (`in_query`) UUIDs and JSON documents are text, as in Spark."""

    def visit_INTEGER(self, type_: Any, **kw: Any) -> str:
        return "INT"

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:
        return "FLOAT" if type_.precision is not None and type_.precision <= 24 else "DOUBLE"

    def visit_REAL(self, type_: Any, **kw: Any) -> str:
        return "FLOAT"

    def visit_DOUBLE(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE"

    def visit_DOUBLE_PRECISION(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE"

    def visit_NUMERIC(self, type_: Any, **kw: Any) -> str:
        scale = (_UNSAID_SCALE if type_.precision is None else 0) if type_.scale is None else type_.scale
        precision = _MOST_DIGITS if type_.precision is None else type_.precision
        if not 0 <= scale <= precision <= _MOST_DIGITS:
            raise exc.CompileError(f"a decimal has at most {_MOST_DIGITS} digits, not ({precision},{scale})")
        return f"DECIMAL({precision},{scale})"

    def visit_DECIMAL(self, type_: Any, **kw: Any) -> str:
        return self.visit_NUMERIC(type_, **kw)

    def _text(self, type_: Any, **kw: Any) -> str:
        if getattr(type_, "collation", None):
            raise exc.CompileError(f'collation "{type_.collation}" is not kept by a column')
        return "STRING"

    visit_CHAR = visit_NCHAR = visit_VARCHAR = visit_NVARCHAR = visit_TEXT = visit_CLOB = visit_NCLOB = _text

    def visit_BLOB(self, type_: Any, **kw: Any) -> str:
        return "BINARY"

    visit_BINARY = visit_VARBINARY = visit_BLOB

    def visit_DATETIME(self, type_: Any, **kw: Any) -> str:
        return "TIMESTAMP" if type_.timezone else "TIMESTAMP_NTZ"

    visit_TIMESTAMP = visit_DATETIME

    def visit_TIME(self, type_: Any, **kw: Any) -> str:
        if type_.timezone:
            raise exc.CompileError("a time of day with a zone can't be read by Spark: leave out timezone=True")
        return "TIME"

    def visit_JSON(self, type_: Any, **kw: Any) -> str:
        if isinstance(type_, Document):
            return type_.declared
        return "STRING" if kw.get("in_query") else "JSON"

    def visit_UUID(self, type_: Any, **kw: Any) -> str:
        return "STRING" if kw.get("in_query") else "UUID"

    def visit_uuid(self, type_: Any, **kw: Any) -> str:
        return self.visit_UUID(type_, **kw)

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:
        dimensions = type_.dimensions or 1
        return "ARRAY<" * dimensions + self.process(type_.item_type, **kw) + ">" * dimensions


class Document(sa.JSON):
    """A struct or map column, whose values are dicts. `declared` is its type in SQL."""

    def __init__(self, declared: str = "STRING") -> None:
        super().__init__()
        self.declared = declared

    def bind_processor(self, dialect: Dialect) -> Any:
        if not self.declared.startswith("MAP"):
            return None
        return lambda value: list(value.items()) if isinstance(value, dict) else value

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        return None

    def __repr__(self) -> str:
        return f"Document({self.declared!r})"


class IntervalColumn(sa.types.UserDefinedType[Any]):
    """A column of intervals of a view's result: `timedelta`, or Arrow's value for months. `declared` is its type in SQL."""

    cache_ok = True

    def __init__(self, declared: str = "INTERVAL DAY TO SECOND") -> None:
        self.declared = declared

    def get_col_spec(self, **kw: Any) -> str:
        return self.declared

    def __repr__(self) -> str:
        return f"IntervalColumn({self.declared!r})"


class PlatformJSON(sa.JSON):
    """JSON columns hold text; structs and maps of a query's result are documents already."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        read = cast("Any", super().result_processor(dialect, coltype))
        return lambda value: value if value is not None and not isinstance(value, str | bytes) else read(value)


class PlatformUuid(sa.Uuid[Any]):
    """UUIDs are text with dashes in queries."""

    def bind_processor(self, dialect: Dialect) -> Any:
        return lambda value: None if value is None else str(value if isinstance(value, uuid.UUID) else uuid.UUID(value))

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        def read(value: Any) -> Any:
            if value is None:
                return None
            found = value if isinstance(value, uuid.UUID) else uuid.UUID(value)
            return found if self.as_uuid else str(found)

        return read

    def literal_processor(self, dialect: Dialect) -> Any:
        return lambda value: string_text(str(value if isinstance(value, uuid.UUID) else uuid.UUID(value)))


class PlatformDateTime(sa.DateTime):
    """Timestamps in UTC with `timezone=True`, otherwise without a zone. A value without a zone is read as UTC."""

    def bind_processor(self, dialect: Dialect) -> Any:
        return lambda value: value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        if self.timezone:
            return lambda value: value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value
        return lambda value: value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value

    def literal_processor(self, dialect: Dialect) -> Any:
        def write(value: datetime) -> str:
            if self.timezone:
                return f"TIMESTAMP'{(value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat(' ')}'"
            return f"TIMESTAMP_NTZ'{(value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat(' ')}'"

        return write


class PlatformDate(sa.Date):
    """Dates."""

    def literal_processor(self, dialect: Dialect) -> Any:
        return lambda value: f"DATE'{value.isoformat()}'"


class PlatformTime(sa.Time):
    """Times of day."""

    def literal_processor(self, dialect: Dialect) -> Any:
        return lambda value: f"TIME'{value.isoformat()}'" if isinstance(value, time) else string_text(str(value))


class PlatformNumeric(sa.Numeric[Any]):
    """Exact numbers, even where an expression returned another type."""

    def bind_processor(self, dialect: Dialect) -> Any:
        return None

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        if self.asdecimal:
            return lambda value: Decimal(str(value)) if isinstance(value, int | float) else value
        return lambda value: float(value) if isinstance(value, int | Decimal) else value


class PlatformBinary(sa.LargeBinary):
    """Bytes."""

    def bind_processor(self, dialect: Dialect) -> Any:
        return None

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        return None

    def literal_processor(self, dialect: Dialect) -> Any:
        return lambda value: f"X'{bytes(value).hex()}'"


class PlatformString(sa.String):
    """Text; in a literal, quotes and back-slashes are escaped as Spark reads them."""

    def literal_processor(self, dialect: Dialect) -> Any:
        return string_text


COLSPECS: Mapping[type[TypeEngine[Any]], type[TypeEngine[Any]]] = {
    Document: Document,
    sa.JSON: PlatformJSON,
    sa.Uuid: PlatformUuid,
    sa.DateTime: PlatformDateTime,
    sa.Date: PlatformDate,
    sa.Time: PlatformTime,
    sa.Float: sa.Float,
    sa.Numeric: PlatformNumeric,
    sa.LargeBinary: PlatformBinary,
    sa.Enum: sa.Enum,
    sa.String: PlatformString,
}
