"""Column types as users write them, in the words of Spark, DuckDB or PostgreSQL."""

from __future__ import annotations

from platform_plugin.algebra.types.data_types import (
    INTERVAL_UNITS,
    SQL_WORDS,
    DataType,
    Decimal,
    Field,
    IntervalType,
    Primitive,
    Struct,
    list_of,
    map_of,
)
from platform_plugin.language.text.cursor import TokenCursor, refuse_twice
from platform_plugin.language.text.places import suggest_word, syntax_error
from platform_plugin.language.text.tokens import NUMBER, WORD, check_brackets, tokenize

_SYNONYMS = {
    "BOOL": "boolean",
    "BYTE": "int8",
    "INT1": "int8",
    "SHORT": "int16",
    "INT2": "int16",
    "INTEGER": "int32",
    "INT4": "int32",
    "SIGNED": "int32",
    "LONG": "int64",
    "INT8": "int64",
    "REAL": "float32",
    "FLOAT4": "float32",
    "FLOAT8": "float64",
    "TEXT": "varchar",
    "VARCHAR": "varchar",
    "CHAR": "varchar",
    "CHARACTER": "varchar",
    "BPCHAR": "varchar",
    "BLOB": "blob",
    "BYTEA": "blob",
    "VARBINARY": "blob",
    "DATETIME": "timestamp",
    "TIMESTAMP_LTZ": "timestamptz",
    "TIMESTAMPTZ": "timestamptz",
    "JSONB": "json",
    "UINT": "uint32",
    "ULONG": "uint64",
}
PRIMITIVES = {word: name for name, word in SQL_WORDS.items()} | _SYNONYMS
_NESTED = ("ARRAY", "LIST", "MAP", "STRUCT", "ROW")
_EXACT = ("DECIMAL", "NUMERIC", "DEC")
_SIZED = ("VARCHAR", "CHAR", "CHARACTER", "BPCHAR", "STRING", "TEXT", "TIME", "TIMESTAMP", "VARBINARY")
_MOST_DIGITS = 38
_UNITS = frozenset(unit for units in INTERVAL_UNITS for unit in units)


def parse_type(text: str) -> DataType:
    """The type that a text stands for.

    >>> str(parse_type("numeric(9, 2)[]")), str(parse_type("struct<a: text, b: map<int, real>>"))
    ('ARRAY<DECIMAL(9,2)>', 'STRUCT<`a`: STRING, `b`: MAP<INT, FLOAT>>')
    """
    tokens = tokenize(text)
    check_brackets(tokens, 0, len(tokens))
    cursor = TokenCursor(tokens, 0, len(tokens), "a type")
    kind = read_type(cursor)
    cursor.finish()
    return kind


def read_type(cursor: TokenCursor) -> DataType:
    """The type at a cursor, with any `[]` after it."""
    kind = _read_plain(cursor)
    while cursor.upper() == "[":
        cursor.advance()
        cursor.expect("]")
        kind = list_of(kind)
    return kind


def _read_plain(cursor: TokenCursor) -> DataType:
    word = cursor.upper()
    if cursor.kind() != WORD:
        raise cursor.fail("a type")
    if word in _NESTED:
        cursor.advance()
        return _read_nested(cursor, word)
    if word in _EXACT:
        cursor.advance()
        return _read_decimal(cursor)
    if word not in PRIMITIVES:
        raise cursor.fail(
            message=f"unknown type {cursor.tokens.text(cursor.index)[:40]}",
            hint=suggest_word(word, [*PRIMITIVES, *_NESTED, *_EXACT])
            or "types are those of Spark SQL: INT, BIGINT, STRING, DECIMAL(p,s), TIMESTAMP, ARRAY<…>, …",
        )
    cursor.advance()
    name = PRIMITIVES[word]
    if name == "interval" and cursor.upper() in _UNITS:
        return _read_interval(cursor)
    if word == "DOUBLE":
        cursor.accept("PRECISION")
    if word == "CHARACTER":
        cursor.accept("VARYING")
    if word in _SIZED and cursor.accept("("):
        cursor.integer("a length")
        cursor.expect(")")
    if word in ("TIMESTAMP", "TIME"):
        if cursor.accept("WITHOUT", "TIME", "ZONE"):
            name = word.lower()
        elif cursor.accept("WITH", "TIME", "ZONE"):
            name = word.lower() + "tz"
    return Primitive(name)


def _read_interval(cursor: TokenCursor) -> IntervalType:
    first = cursor.index
    begin = end = cursor.upper()
    cursor.advance()
    if cursor.accept("TO"):
        end = cursor.upper()
        cursor.advance()
    try:
        return IntervalType(begin, end)
    except ValueError as error:
        raise syntax_error(cursor.span(first), str(error), hint="write INTERVAL DAY TO SECOND or INTERVAL YEAR TO MONTH") from error


def _read_decimal(cursor: TokenCursor) -> Decimal:
    precision, scale = 10, 0
    if cursor.accept("("):
        if cursor.kind() != NUMBER or not 1 <= (precision := cursor.integer("a number of digits")) <= _MOST_DIGITS:
            raise cursor.fail(message=f"a decimal has 1 to {_MOST_DIGITS} digits")
        if cursor.accept(",") and (scale := cursor.integer("a number of digits after the point")) > precision:
            raise cursor.fail(message=f"a decimal of {precision} digits can't have {scale} after the point")
        cursor.expect(")")
    return Decimal(precision=precision, scale=scale)


def _read_nested(cursor: TokenCursor, word: str) -> DataType:
    close = ">" if cursor.expect_one("<", "(") == "<" else ")"
    if word in ("ARRAY", "LIST"):
        kind: DataType = list_of(read_type(cursor))
    elif word == "MAP":
        key = read_type(cursor)
        cursor.expect(",")
        kind = map_of(key, read_type(cursor))
    else:
        first = cursor.index
        fields = [_read_part(cursor)]
        while cursor.accept(","):
            fields.append(_read_part(cursor))
        refuse_twice(cursor.span(first), [part.name for part in fields])
        kind = Struct(fields=tuple(fields))
    cursor.expect(close)
    return kind


def _read_part(cursor: TokenCursor) -> Field:
    name = cursor.identifier("a field name")
    cursor.accept(":")
    kind = read_type(cursor)
    nullable = not cursor.accept("NOT", "NULL")
    comment = cursor.string("a comment") if cursor.accept("COMMENT") else None
    return Field(name=name, type=kind, nullable=nullable, comment=comment)
