"""Literals and parameters in statements: their values, read without an engine."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from struct import pack, unpack
from typing import TYPE_CHECKING
from typing import Literal as Choice

from platform_plugin.language.text.places import InvalidSyntax, Span, syntax_error
from platform_plugin.language.text.tokens import BINARY, DOUBLE, NUMBER, QUOTED, SIGN, STRING, WORD, Tokens
from platform_plugin.language.text.words import BEFORE_OPERAND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Kind = Choice["null", "default", "boolean", "integer", "decimal", "double", "string", "binary", "date", "timestamp", "timestamp_ntz"]


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal of a statement; `kind` is its type to Spark, and the kind `default` asks for the column's default.

    A `timestamp` without a zone is in the session's zone. `offset` is its place in the source.
    """

    kind: Kind
    value: object
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A value that the caller binds: `:name`, or `?` by position from 0."""

    name: str | None = None
    index: int | None = None
    span: Span = field(compare=False, repr=False)


Cell = Literal | Parameter

_NAMED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_TYPED = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")


def string_value(text: str) -> str:
    r"""The value of a Spark string literal, without quotes and escapes.

    >>> string_value(r"'it''s\n\u0041'")
    "it's\nA"
    """
    if text[0] in "rR":
        return text[2:-1]
    quote, inner = text[0], text[1:-1]
    if "\\" not in inner:
        return inner.replace(quote * 2, quote)
    pieces: list[str] = []
    position = 0
    while position < len(inner):
        character = inner[position]
        if character == "\\" and position + 1 < len(inner):
            value, position = _escaped(inner, position + 1)
            pieces.append(value)
        else:
            pieces.append(character)
            position += 2 if character == quote else 1
    value = "".join(pieces)
    if value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value):
        return value
    # Two escaped halves make one character, and a half alone becomes what Java's encoder makes of it.
    paired = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return paired.encode("utf-8", "replace").decode()


_CODE = re.compile(r"u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})")


def _escaped(inner: str, position: int) -> tuple[str, int]:
    code = _CODE.match(inner, position)
    if code:
        number = int(code[3], 8) if code[3] else int(code[1] or code[2], 16)
        if number <= 0x10FFFF:
            return chr(number), code.end()
    character = inner[position]
    # Spark keeps the back-slash of \% and \_ so that LIKE can see it.
    return ("\\" + character if character in "%_" else _NAMED.get(character, character)), position + 1


def number_value(text: str) -> tuple[Kind, object]:
    """The kind and the value of a Spark number.

    A number with an exponent or the suffix D is a double, with F one of single precision, another one with a point a decimal, and a whole
    number an integer.
    """
    body = text.rstrip("bBdDlLsSyYfF")
    suffix = text[len(body) :].upper()
    if suffix == "F":
        return "double", _single(float(body))
    if suffix == "D" or ("e" in body.lower() and suffix != "BD"):
        return "double", float(body)
    if "." in body or "e" in body.lower() or suffix == "BD":
        return "decimal", Decimal(body)
    if len(body) > 4000:
        return "decimal", Decimal(body)
    return "integer", int(body)


def _single(value: float) -> float:
    """The number of single precision that is nearest; what it has none for is an error to Spark."""
    try:
        return float(unpack("<f", pack("<f", value))[0])
    except OverflowError:
        return value


def read_cell(tokens: Tokens, index: int, parameters: Mapping[int, Parameter]) -> tuple[Cell, int] | None:
    """The literal or parameter that begins at a token, and the index after it; None for anything else."""
    kind, start = tokens.kind(index), tokens.starts[index]
    if kind == NUMBER:
        return Literal(*number_value(tokens.text(index)), start), index + 1
    if kind in (STRING, DOUBLE):
        pieces = []
        while tokens.kind(index) in (STRING, DOUBLE):
            pieces.append(string_value(tokens.text(index)))
            index += 1
        return Literal("string", "".join(pieces), start), index
    if kind == BINARY:
        content = _bytes(tokens.text(index)[2:-1])
        return None if content is None else (Literal("binary", content, start), index + 1)
    if index in parameters:
        return parameters[index], index + (1 if parameters[index].name is None else 2)
    word = tokens.upper(index)
    if word in ("-", "+") and tokens.kind(index + 1) == NUMBER:
        number, value = number_value(tokens.text(index + 1))
        return Literal(number, -value if word == "-" else value, start), index + 2  # type: ignore[operator]
    if kind == WORD:
        return _read_word(tokens, index, word, start)
    return None


def _read_word(tokens: Tokens, index: int, word: str, start: int) -> tuple[Cell, int] | None:
    if word == "NULL":
        return Literal("null", None, start), index + 1
    if word in ("TRUE", "FALSE"):
        return Literal("boolean", word == "TRUE", start), index + 1
    if word == "DEFAULT":
        return Literal("default", None, start), index + 1
    if word in _TYPED and tokens.kind(index + 1) == STRING:
        text = string_value(tokens.text(index + 1)).strip()
        moment = moment_value(word, text)
        return None if moment is None else (Literal(*moment, start), index + 2)
    return None


def moment_value(word: str, text: str) -> tuple[Kind, object] | None:
    """The kind and value of a typed date or time literal, or None if only Spark can tell.

    >>> moment_value("DATE", "2026-11-18")
    ('date', datetime.date(2026, 11, 18))
    """
    try:
        if word == "DATE":
            return ("date", date.fromisoformat(text)) if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else None
        if not re.fullmatch(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?(Z|[+-]\d\d:\d\d)?", text):
            return None
        whole = re.sub(r"\.(\d+)", lambda found: "." + found[1].ljust(6, "0"), text.replace("Z", "+00:00"))
        value = datetime.fromisoformat(whole)
    except ValueError:
        return None
    if word == "TIMESTAMP_NTZ":
        return None if value.tzinfo else ("timestamp_ntz", value)
    return "timestamp", value


def _bytes(digits: str) -> bytes | None:
    try:
        return bytes.fromhex("0" * (len(digits) % 2) + digits) if digits.isalnum() or not digits else None
    except ValueError:
        return None


def find_parameters(tokens: Tokens, first: int, last: int) -> dict[int, Parameter]:
    """Every `:name` and `?` between two tokens, by the index of its first token; a statement may use one style only, as in Spark."""
    return dict(_parameters(tokens, first, last))


def _parameters(tokens: Tokens, first: int, last: int) -> Iterator[tuple[int, Parameter]]:
    positions, named, angles = 0, False, 0
    source, kinds, starts, ends = tokens.source, tokens.kinds, tokens.starts, tokens.ends
    for index in range(first, last):
        if kinds[index] != SIGN or ends[index] - starts[index] != 1:
            continue
        sign = source[starts[index]]
        if sign == "<" and (angles or tokens.upper(index - 1) in ("STRUCT", "ARRAY", "MAP")):
            angles += 1
        elif sign == ">":
            angles = max(0, angles - 1)
        elif sign == "?":
            if named:
                raise _mixed(tokens, index)
            yield index, Parameter(index=positions, span=tokens.span(index, index + 1))
            positions += 1
        elif (
            sign == ":"
            and not angles
            and index + 1 < last
            and kinds[index + 1] == WORD
            and not (index > first and ends_operand(tokens, index - 1))
        ):
            if positions:
                raise _mixed(tokens, index)
            named = True
            yield index, Parameter(name=tokens.text(index + 1), span=tokens.span(index, index + 2))


def _mixed(tokens: Tokens, index: int) -> InvalidSyntax:
    return syntax_error(tokens.span(index, index + 1), "? and :name in one statement", hint="use one style of parameter")


def ends_operand(tokens: Tokens, index: int) -> bool:
    """Whether a colon after this token extracts a part of a value (`v:name`), as opposed to starting a parameter."""
    kind = tokens.kind(index)
    if kind == WORD:
        return tokens.upper(index) not in BEFORE_OPERAND
    return kind == QUOTED or tokens.upper(index) in (")", "]")
