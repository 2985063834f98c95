"""`TokenCursor`: reads the tokens of one statement, and tells in its errors what it expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.language.text.names import WrittenName
from platform_plugin.language.text.places import InvalidSyntax, Span, suggest_word, syntax_error
from platform_plugin.language.text.tokens import DOUBLE, END, NUMBER, QUOTED, STRING, WORD, Tokens
from platform_plugin.language.text.values import string_value
from platform_plugin.language.text.words import NOT_COLUMNS, NOT_RELATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    _Item = TypeVar("_Item")

_LONGEST_NAME = 255


class TokenCursor:
    """Reads tokens `first` to `last` forwards; every error shows the place and all words that would be right there."""

    def __init__(self, tokens: Tokens, first: int, last: int, where: str) -> None:
        self.tokens = tokens
        self.index = first
        self.last = last
        self.where = where
        self._tried: dict[str, None] = {}

    def upper(self, ahead: int = 0) -> str:
        """The keyword or sign at the cursor, or empty."""
        return self.tokens.upper(self.index + ahead) if self.index + ahead < self.last else ""

    def kind(self, ahead: int = 0) -> str:
        """The kind of the token at the cursor, END after the last."""
        return self.tokens.kind(self.index + ahead) if self.index + ahead < self.last else END

    def advance(self, count: int = 1) -> int:
        """Step over tokens; returns the index of the first."""
        self._tried.clear()
        self.index += count
        return self.index - count

    def at_words(self, *words: str) -> bool:
        """Whether these keywords and signs come next; they count as expected if not."""
        if all(self.upper(ahead) == word for ahead, word in enumerate(words)):
            return True
        self._tried[" ".join(words)] = None
        return False

    def accept(self, *words: str) -> bool:
        """Step over these words if they come next."""
        if self.at_words(*words):
            self.advance(len(words))
            return True
        return False

    def accept_one(self, *words: str) -> str | None:
        """Step over the one of these words that comes next, if one does."""
        return next((word for word in words if self.accept(word)), None)

    def expect(self, *words: str) -> None:
        """Step over these words, or fail."""
        for ahead, word in enumerate(words):
            if self.upper() != word:
                self._tried[" ".join(words[ahead:])] = None
                raise self.fail()
            if ahead < len(words) - 1:
                self.advance()
        self.advance()

    def expect_one(self, *words: str) -> str:
        """Step over the one of these words that comes next, or fail."""
        found = self.accept_one(*words)
        if found is None:
            raise self.fail()
        return found

    def finish(self) -> None:
        """Fail if anything follows."""
        if self.index < self.last:
            self._tried["the end of the statement"] = None
            raise self.fail()

    def fail(self, expected: str | None = None, message: str | None = None, hint: str | None = None) -> InvalidSyntax:
        """A syntax error at the cursor, to raise."""
        wanted = list(self._tried) + ([expected] if expected else [])
        ended = self.index >= self.last
        if ended:
            position = end = self.tokens.ends[self.last - 1] if self.last else 0
            found = "the end"
        else:
            position, end = self.tokens.starts[self.index], self.tokens.ends[self.index]
            found = _shortened(self.tokens.text(self.index))
        if hint is None and self.kind() == WORD:
            hint = suggest_word(found, (word.split()[0] for word in self._tried if word[:1].isalpha() and word[:1].isupper()))
        said = " or ".join(filter(None, (", ".join(wanted[:-1]), wanted[-1]))) if wanted else None
        return syntax_error(
            self.tokens.source, message or f"unexpected {found} in {self.where}", position, end=end, expected=said, hint=hint
        )

    def span(self, first: int, last: int | None = None) -> Span:
        """The source from one token to another, or to the cursor."""
        return self.tokens.span(first, self.index if last is None else last)

    def rest(self, what: str) -> Span:
        """The rest of the statement; fails if it is empty."""
        if self.index >= self.last:
            raise self.fail(what)
        first = self.index
        self.advance(self.last - first)
        return self.span(first)

    def until(self, what: str, *words: str) -> Span:
        """The expression up to the first of these words or signs outside brackets; fails if it is empty."""
        first, depth = self.index, 0
        while self.index < self.last:
            text = self.upper()
            if depth == 0 and text in words:
                break
            depth += (text in ("(", "[")) - (text in (")", "]"))
            self.index += 1
        if self.index == first:
            raise self.fail(what)
        self._tried.clear()
        return self.span(first)

    def identifier(self, what: str = "a name") -> str:
        """One name, bare or between back-ticks or double quotes."""
        kind = self.kind()
        if kind not in (WORD, QUOTED, DOUBLE):
            hint = "names are written bare, between back-ticks or between double quotes" if kind in (STRING, NUMBER) else None
            raise self.fail(what, hint=hint)
        text = self.tokens.text(self.index)
        if kind == DOUBLE and "\\" in text:
            raise self.fail(message="a back-slash in a double-quoted name", hint="write the name between back-ticks")
        name = text if kind == WORD else text[1:-1].replace(text[-1] * 2, text[-1])
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise self.fail(message=f"a name has 1 to {_LONGEST_NAME} printable characters")
        self.advance()
        return name

    def new_identifier(self, what: str, unreadable: frozenset[str] = NOT_COLUMNS) -> str:
        """A name for something new; one that no query could read without back-ticks must have them."""
        if self.upper() in unreadable:
            text = self.tokens.text(self.index)
            raise self.fail(message=f"queries read {text} as a keyword, not as a name", hint=f"write `{text}`, here and in queries")
        return self.identifier(what)

    def new_name(self, what: str) -> WrittenName:
        """The name of a new relation."""
        if self.upper() in NOT_RELATIONS:
            self.new_identifier(what, NOT_RELATIONS)
        return self.name(what)

    def alias(self, *stops: str) -> str | None:
        """The alias of what was named last, if one comes before these words."""
        if self.accept("AS"):
            return self.identifier("an alias")
        return self.identifier() if self.kind() in (WORD, QUOTED) and self.upper() not in stops else None

    def name(self, what: str) -> WrittenName:
        """A relation's name of one or two parts."""
        first = self.index
        parts = [self.identifier(what)]
        while self.upper() == ".":
            self.advance()
            parts.append(self.identifier(what))
        if len(parts) > 2:
            at = self.span(first)
            raise syntax_error(
                at,
                f"a name of {len(parts)} parts",
                expected="relation or schema.relation",
                hint="put names that hold dots between back-ticks",
            )
        return WrittenName(parts=tuple(parts), span=self.span(first))

    def string(self, what: str) -> str:
        """A string literal's value."""
        if self.kind() != STRING:
            hint = "strings go between single quotes" if self.kind() == DOUBLE else None
            raise self.fail(what, hint=hint)
        return string_value(self.tokens.text(self.advance()))

    def integer(self, what: str) -> int:
        """A whole number that is not negative."""
        text = self.tokens.text(self.index) if self.kind() == NUMBER else ""
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise self.fail(what)
        self.advance()
        return int(text)

    def listed(self, read: Callable[[], _Item]) -> tuple[_Item, ...]:
        """One or more items in parentheses, separated by commas."""
        self.expect("(")
        items = [read()]
        while self.accept(","):
            items.append(read())
        self.expect(")")
        return tuple(items)

    def names(self, what: str) -> tuple[str, ...]:
        """Column names in parentheses; two equal names are an error."""
        first = self.index
        names = self.listed(lambda: self.identifier(what))
        refuse_twice(self.span(first), names)
        return names


def refuse_twice(span: Span, names: Sequence[str]) -> None:
    """Refuse two names that differ at most in case, since Spark could not tell them apart."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise syntax_error(span, f'column "{name}" is named twice')
        seen.add(name.lower())


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "…"
