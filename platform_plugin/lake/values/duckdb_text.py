"""`parse_nested`: DuckDB's text form of nested values, in which it inlines rows into SQLite and PostgreSQL catalogues."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from platform_plugin.algebra.types.data_types import List, Map, Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.algebra.types.data_types import Field


def parse_nested(text: str, field: Field, scalar: Callable[[str, Field], Any]) -> Any:
    r"""The value of a list, struct or map column; `scalar` reads the innermost texts.

    >>> from platform_plugin.algebra.types.data_types import Field, Primitive, list_of
    >>> parse_nested("['a, b', NULL, 'it\\'s', c]", Field(name="x", type=list_of(Primitive("varchar"))), lambda text, _: text)
    ['a, b', None, "it's", 'c']
    """
    reader = _LiteralReader(text, scalar) if _is_flat(field) else _TextReader(text, scalar)
    value = reader.value(field)
    reader.skip_blanks()
    if reader.position != len(text):
        raise ValueError(f"text after the end of a value at {reader.position}")
    return value


def _is_flat(field: Field) -> bool:
    """Whether a struct holds no list and no map at any depth: DuckDB writes such a one as an SQL literal, any other as its own text."""
    return all(isinstance(part.type, Struct) or not part.children for part in field.walk())


class _TextReader:
    def __init__(self, text: str, scalar: Callable[[str, Field], Any]) -> None:
        self.text = text
        self.position = 0
        self.scalar = scalar

    def skip_blanks(self) -> None:
        while self.position < len(self.text) and self.text[self.position] == " ":
            self.position += 1

    def peek(self) -> str:
        self.skip_blanks()
        return self.text[self.position : self.position + 1]

    def take(self, char: str) -> None:
        if self.peek() != char:
            raise ValueError(f"expected {char} at {self.position}")
        self.position += 1

    def word(self, stops: str) -> tuple[str, bool]:
        """The next quoted or bare text and whether it was quoted."""
        if self.peek() == "'":
            self.position += 1
            out = []
            while (char := self.text[self.position]) != "'":
                if char == "\\":
                    self.position += 1
                    char = self.text[self.position]
                out.append(char)
                self.position += 1
            self.position += 1
            return "".join(out), True
        start = self.position
        while self.position < len(self.text) and self.text[self.position] not in stops:
            self.position += 1
        return self.text[start : self.position].strip(), False

    def value(self, field: Field, stops: str = ",]}") -> Any:
        match field.type:
            case List(element=element) if self.peek() == "[":
                return self._sequence("[", "]", lambda: self.value(element))
            case Map(key=key, value=value) if self.peek() == "{":
                return self._sequence("{", "}", lambda: self._pair(key, value))
            case Struct(fields=fields) if self.peek() == "{":
                by_name = {part.name: part for part in fields}
                return dict(self._sequence("{", "}", lambda: self._member(by_name)))
        text, was_quoted = self.word(stops)
        if not was_quoted and text == "NULL":
            return None
        return self.scalar(text, field)

    def _pair(self, key: Field, value: Field) -> tuple[Any, Any]:
        first = self.value(key, stops="=")
        self.take("=")
        return first, self.value(value)

    def _member(self, fields: dict[str, Field]) -> tuple[str, Any]:
        name, _ = self.word(":")
        self.take(":")
        return name, self.value(fields[name])

    def _sequence(self, opening: str, closing: str, item: Callable[[], Any]) -> list[Any]:
        self.take(opening)
        items: list[Any] = []
        while self.peek() != closing:
            if items:
                self.take(",")
            items.append(item())
        self.take(closing)
        return items


_LITERAL = re.compile(
    r"(?P<text>'(?:[^']|'')*')(?:::\w+)?"
    r"|CAST\((?P<cast>'(?:[^']|'')*') AS [^)]*(?:\(\d+(?:,\s*\d+)?\))?[^)]*\)"
    r"|(?P<concat>CONCAT\((?:'(?:[^']|'')*'(?:, chr\(0\), )?)+\))"
    r"|(?P<bare>[^,}]+)"
)
_QUOTED = re.compile(r"'((?:[^']|'')*)'")


class _LiteralReader(_TextReader):
    """Reads SQL literals: a quote is doubled, a backslash is itself, and some values stand in casts."""

    def word(self, stops: str) -> tuple[str, bool]:
        self.skip_blanks()
        found = _LITERAL.match(self.text, self.position)
        if stops == ":":
            found = _QUOTED.match(self.text, self.position)
        if found is None:
            raise ValueError(f"expected a value at {self.position}")
        self.position = found.end()
        if found.re is _LITERAL and found["bare"] is not None:
            return found["bare"].strip(), False
        parts = [part.replace("''", "'") for part in _QUOTED.findall(found[0])]
        return "\0".join(parts), True
