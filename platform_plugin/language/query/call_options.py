"""Options and schemas in calls such as `from_json`: only literals from a list are allowed.

Spark hands a call's options to the reader of that format, and some of those name files, addresses or classes: a schema for XML is
fetched from anywhere, a schema in JSON makes an object of any class. So options and schemas are literals, and options come from a list.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from platform_plugin.language.text.places import refusal_error, suggest_word
from platform_plugin.language.text.tokens import DOUBLE, QUOTED, STRING, WORD, find_closing
from platform_plugin.language.text.values import read_cell

if TYPE_CHECKING:
    from platform_plugin.language.text.tokens import Tokens
    from platform_plugin.language.text.values import Literal

_RULE = "what a function is told stands in the query, and names no file, address or class"
_TEXT = """
    charset columnNameOfCorruptRecord compression dateFormat enableDateTimeParsingFallback encoding lineSep locale mode multiLine preferDate
    samplingRatio singleVariantColumn timeFormat timeZone timestampFormat timestampNTZFormat
"""
_CSV = """
    charToEscapeQuoteEscaping columnPruning comment delimiter emptyValue enforceSchema escape escapeQuotes header ignoreLeadingWhiteSpace
    ignoreTrailingWhiteSpace inferSchema inputBufferSize maxCharsPerColumn maxColumns nanValue negativeInf nullValue positiveInf quote
    quoteAll sep unescapedQuoteHandling
"""
_JSON = """
    allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers allowNumericLeadingZeros allowSingleQuotes
    allowUnquotedControlChars allowUnquotedFieldNames dropFieldIfAllNull ignoreNullFields inferTimestamp prefersDecimal pretty
    primitivesAsString sortKeys writeNonAsciiCharacterAsCodePoint
"""
_XML = """
    arrayElementName attributePrefix declaration excludeAttribute ignoreNamespace ignoreSurroundingSpaces indent inferSchema nullValue
    prefersDecimal rootTag rowTag useLegacyXMLParser validateName valueTag wildcardColName
"""
_AVRO = """
    compression datetimeRebaseMode enableStableIdentifiersForUnionType mode recursiveFieldMaxDepth stableIdentifierPrefixForUnionType
"""
CALL_OPTIONS = {
    "csv": frozenset((_TEXT + _CSV).split()),
    "json": frozenset((_TEXT + _JSON).split()),
    "xml": frozenset((_TEXT + _XML).split()),
    "avro": frozenset(_AVRO.split()),
}
"""The options that calls may set for each format."""


@dataclass(frozen=True, slots=True)
class OptionArguments:
    """The argument of a function, from 0, that is a schema in Spark's words, and the first argument that holds options."""

    format: str
    options: int
    schema: int | None = None


TAKES_OPTIONS = {
    name: taking
    for kind in CALL_OPTIONS
    for name, taking in {
        f"from_{kind}": OptionArguments(kind, 2, None if kind == "avro" else 1),
        f"schema_of_{kind}": OptionArguments(kind, 1),
        f"to_{kind}": OptionArguments(kind, 2 if kind == "avro" else 1),
    }.items()
}
"""The functions of Spark that take options."""


def refuse_call_options(tokens: Tokens, index: int, name: str) -> None:
    """Refuse a call, by the token of its name, whose options or schema are not literals of an allowed kind."""
    taking = TAKES_OPTIONS[name]
    arguments = _arguments(tokens, index + 1)
    if taking.schema is not None and len(arguments) > taking.schema:
        _check_schema(tokens, *arguments[taking.schema], name)
    for first, last in arguments[taking.options :]:
        _check_options(tokens, first, last, name, CALL_OPTIONS[taking.format])


def _arguments(tokens: Tokens, opening: int) -> list[tuple[int, int]]:
    """The first token of each argument and the one after its last; a comma inside `<…>` parts too, which refuses at worst too much."""
    end = find_closing(tokens, opening)
    found, first, inner = [], opening + 1, opening + 1
    while inner < end:
        if tokens.upper(inner) in ("(", "["):
            inner = find_closing(tokens, inner)
        elif tokens.upper(inner) == ",":
            found.append((first, inner))
            first = inner + 1
        inner += 1
    return [*found, (first, end)]


def _check_schema(tokens: Tokens, first: int, last: int, name: str) -> None:
    text = _text(tokens, first, last)
    if text is None:
        call = next((place for place in range(first, last) if tokens.upper(place) == "("), None)
        inner = tokens.text(call - 1).strip("`").lower() if call is not None and call > first else ""
        named = call is not None and all(tokens.kind(place) in (WORD, QUOTED) or tokens.upper(place) == "." for place in range(first, call))
        if not (inner.startswith("schema_of_") and named and find_closing(tokens, call or first) == last - 1):
            hint = "write it as a string: 'a INT, b STRING'"
            raise refusal_error(tokens.span(first, last), _RULE, f"the schema of {name} is not a literal", hint=hint)
    elif text.lstrip("\ufeff \t\r\n").startswith("{") and not _is_plain(text):
        hint = "write it as in CREATE TABLE: 'a INT, b STRING'"
        raise refusal_error(tokens.span(first, last), _RULE, f"the schema of {name} names a class, or can't be read", hint=hint)


def _check_options(tokens: Tokens, first: int, last: int, name: str, known: frozenset[str]) -> None:
    span = tokens.span(first, max(last, first + 1))
    if not (tokens.upper(first) == "MAP" and tokens.upper(first + 1) == "(" and find_closing(tokens, first + 1) == last - 1):
        raise refusal_error(span, _RULE, f"the options of {name} are not a map of literals", hint="write map('option', 'value')")
    pairs = _arguments(tokens, first + 1)
    allowed = {option.lower() for option in known}
    for place, (begin, end) in enumerate(pairs):
        text = _text(tokens, begin, end)
        if text is None:
            hint = "write map('option', 'value')"
            raise refusal_error(tokens.span(begin, max(end, begin + 1)), _RULE, f"the options of {name} are not literals", hint=hint)
        if place % 2 == 0 and text.lower() not in allowed:
            hint = suggest_word(text, known) or f"it takes {', '.join(sorted(known))}"
            raise refusal_error(tokens.span(begin, end), _RULE, f'option "{text[:40]}" of {name} is refused', hint=hint)


def _text(tokens: Tokens, first: int, last: int) -> str | None:
    """The string that some tokens are, or None."""
    if first >= last or tokens.kind(first) not in (STRING, DOUBLE):
        return None
    cell = read_cell(tokens, first, {})
    if cell is None or cell[1] != last:
        return None
    literal: Literal = cell[0]  # type: ignore[assignment]  # a string is never a parameter
    return str(literal.value)


def _is_plain(text: str) -> bool:
    """Whether a schema in JSON is made of Spark's own types alone."""
    plain = True

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal plain
        plain = plain and not any(key in ("class", "pyClass", "serializedClass") or (key, value) == ("type", "udt") for key, value in pairs)

    try:
        json.loads(text.strip("\ufeff \t\r\n"), object_pairs_hook=look)
    except (ValueError, RecursionError):
        return False
    return plain
