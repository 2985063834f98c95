"""`tokenize`: the tokens of Spark SQL text by Spark's own lexical rules, with exact positions."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field

from platform_plugin.cache import Cache
from platform_plugin.language.text.places import Span, syntax_error

# Deeper brackets than this are refused, so that no parser behind us ever runs out of stack.
DEEPEST = 250

WORD, QUOTED, STRING, DOUBLE, BINARY, NUMBER, SIGN, END = "word", "quoted", "string", "double", "binary", "number", "sign", "end"

# Spark's lexer: a doubled quote and a back-slash both escape inside strings; a line comment goes on after back-slash newline.
_LEX = re.compile(
    r"""
    (?P<space>\s+)
    |(?P<line>--(?:\\\n|[^\r\n])*)
    |(?P<block>/\*(?!\+))
    |(?P<hint>/\*\+)
    |(?P<binary>[xX](?:'[^']*'|"[^"]*"))
    |(?P<string>'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'|[rR]'[^']*')
    |(?P<double>"[^"\\]*(?:(?:\\.|"")[^"\\]*)*"|[rR]"[^"]*")
    |(?P<quoted>`[^`]*(?:``[^`]*)*`)
    |(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?:BD|bd|[lLsSyYfFdD])?(?!\w))
    |(?P<word>\w+)
    |(?P<sign><=>|<>|!=|!<|!>|<=|>=|==|\|\||\|>|->|=>|::|\*/|[-+*/%~&|^=<>!()\[\].,;:?@])
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")
_OPENERS = {"(": ")", "[": "]"}
_PREFIXES = frozenset(("NOT", "-", "+", "~", "!"))


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The tokens of a text as parallel lists, without comments and hints; `end` is the index after the last.

    `names` are bare words that are names where they stand, even if they are keywords elsewhere.
    """

    source: str
    kinds: list[str]
    starts: list[int]
    ends: list[int]
    names: frozenset[int] = frozenset()
    _uppers: list[str] = field(default_factory=list, init=False, repr=False)

    @property
    def uppers(self) -> list[str]:
        """What `upper` gives for each token."""
        if len(self._uppers) < len(self.kinds):
            source = self.source
            self._uppers[:] = [
                source[start:end].upper() if kind in (WORD, SIGN) else ""
                for kind, start, end in zip(self.kinds, self.starts, self.ends, strict=True)
            ]
            for index in self.names:
                self._uppers[index] = ""
        return self._uppers

    def __len__(self) -> int:
        return len(self.kinds)

    def text(self, index: int) -> str:
        """The token in its original spelling, empty past the end."""
        return self.source[self.starts[index] : self.ends[index]] if index < len(self.kinds) else ""

    def upper(self, index: int) -> str:
        """The token in upper case if it is a bare word or a sign, else an empty text, so that quoted text is never a keyword."""
        if not 0 <= index < len(self.kinds):
            return ""
        return (self._uppers or self.uppers)[index]

    def kind(self, index: int) -> str:
        """The token's kind; END past the last."""
        return self.kinds[index] if 0 <= index < len(self.kinds) else END

    def cut(self, start: int, end: int) -> Tokens | None:
        """The tokens between two offsets of the source; None if one of them lies inside a token."""
        first, last = bisect_left(self.starts, start), bisect_left(self.starts, end)
        if (first and self.ends[first - 1] > start) or (last and self.ends[last - 1] > end):
            return None
        return Tokens(self.source, self.kinds[first:last], self.starts[first:last], self.ends[first:last])

    def span(self, first: int, last: int) -> Span:
        """The text from token `first` to just before token `last`, without the blanks around it."""
        if last <= first:
            start = self.starts[first] if first < len(self) else len(self.source)
            return Span(self.source, start, start)
        return Span(self.source, self.starts[first], self.ends[last - 1])


# Statements and the queries in them are read one after the other. A longer text is rarely read again.
_LONGEST = 100_000
_TOKENS: Cache[str, Tokens] = Cache("tokens of texts", weigh=lambda tokens: 2 * len(tokens.source) + 150 * len(tokens))


def tokenize(source: str, start: int = 0, end: int | None = None) -> Tokens:
    """All tokens of a text or of a part of it, or an error at the first character that can't begin one.

    What a part has is cut out of the text's tokens if these were read before.

    >>> tokens = tokenize("SELECT 'a;b' -- done")
    >>> [tokens.text(index) for index in range(len(tokens))]
    ['SELECT', "'a;b'"]
    """
    if len(source) > _LONGEST:
        return _tokenize(source, start, end)
    if start == 0 and end in (None, len(source)):
        return _TOKENS.find(source, lambda: _tokenize(source, 0, None))
    whole = _TOKENS.get(source)
    part = None if whole is None else whole.cut(start, len(source) if end is None else end)
    return _tokenize(source, start, end) if part is None else part


def _tokenize(source: str, start: int, end: int | None) -> Tokens:
    kinds: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    match = _LEX.match
    last = len(source) if end is None else end
    position = 1 if start == 0 and source.startswith("\ufeff") else start
    hint_at, brackets = -1, 0
    while position < last:
        found = match(source, position, last)
        if found is None:
            raise _lexical_fault(source, position)
        kind, after = found.lastgroup or "", found.end()
        if kind in ("space", "line"):
            pass
        elif kind == "block":
            after = _comment_end(source, position, last)
        elif kind == "hint":
            if hint_at >= 0:
                raise syntax_error(source, "a hint inside a hint", position, end=after)
            hint_at, brackets = position, 0
        elif kind == SIGN and source[position:after] == "*/":
            if hint_at < 0:
                raise syntax_error(source, "a comment ends that never began", position, end=after)
            hint_at = -1
        elif hint_at >= 0:
            brackets = _hint_brackets(source, position, after, brackets)
        else:
            kinds.append(kind)
            starts.append(position)
            ends.append(after)
        position = after
    if hint_at >= 0:
        raise syntax_error(source, "a hint is never closed", hint_at, expected="*/")
    tokens = Tokens(source, kinds, starts, ends)
    _refuse_deep(tokens)
    return tokens


def _hint_brackets(source: str, position: int, after: int, depth: int) -> int:
    """The depth behind a token of a hint: Spark looks up what calls and sub-queries there name, although no hint takes any."""
    text = source[position:after]
    if text in "([" and (depth or text == "["):
        raise syntax_error(
            source, "an expression inside a hint", position, end=after, hint="hints take names and numbers: /*+ BROADCAST(posts) */"
        )
    return depth + 1 if text == "(" else depth - 1 if text == ")" else depth


def _comment_end(source: str, start: int, last: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(source, start, last):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise syntax_error(source, "a comment is never closed", start, end=start + 2, expected="*/ (comments nest)")


def _lexical_fault(source: str, position: int) -> Exception:
    character = source[position]
    if character in "'\"`":
        what = "quoted name" if character == "`" else "string"
        return syntax_error(
            source, f"a {what} is never closed", position, expected=f"a closing {character}", hint=f"write {character} inside it twice"
        )
    if source.startswith("/*", position):
        return syntax_error(source, "a comment is never closed", position, expected="*/")
    shown = character if character.isprintable() else f"U+{ord(character):04X}"
    return syntax_error(source, f"unexpected character {shown}", position, hint="put names with other characters between back-ticks")


def _refuse_deep(tokens: Tokens) -> None:
    """No brackets, CASEs, nested types or prefix operators deeper than DEEPEST."""
    depth = run = cases = angles = 0
    source, kinds, starts, ends = tokens.source, tokens.kinds, tokens.starts, tokens.ends
    for index, kind in enumerate(kinds):
        if kind not in (SIGN, WORD) or ends[index] - starts[index] > 4:
            run = 0
            continue
        text = source[starts[index] : ends[index]].upper()
        run = run + 1 if text in _PREFIXES else 0
        if text in _OPENERS:
            depth += 1
        elif text in (")", "]"):
            depth -= 1
        elif text == "CASE":
            cases += 1
        elif text == "END":
            cases = max(0, cases - 1)
        elif text == "<" and tokens.upper(index - 1) in ("ARRAY", "MAP", "STRUCT", "LIST"):
            angles += 1
        elif text == ">":
            angles = max(0, angles - 1)
        elif text == ";":
            depth = cases = angles = 0
        if depth + cases + angles > DEEPEST or run > DEEPEST:
            raise syntax_error(
                source,
                f"a statement is nested more than {DEEPEST} levels deep",
                starts[index],
                hint="name inner parts with WITH … AS (…)",
            )


def check_brackets(tokens: Tokens, first: int, last: int) -> None:
    """Refuse brackets between two tokens that have no partner there."""
    opened: list[int] = []
    source, kinds, starts, ends = tokens.source, tokens.kinds, tokens.starts, tokens.ends
    for index in range(first, last):
        if kinds[index] != SIGN or ends[index] - starts[index] != 1:
            continue
        text = source[starts[index]]
        if text in "([":
            opened.append(index)
        elif text in ")]":
            if not opened:
                raise syntax_error(source, f"{text} has no partner", starts[index], end=ends[index])
            partner = source[starts[opened.pop()]]
            if _OPENERS[partner] != text:
                raise syntax_error(source, f"{partner} is closed by {text}", starts[index], end=ends[index], expected=_OPENERS[partner])
    if opened:
        text = source[starts[opened[-1]]]
        raise syntax_error(source, f"{text} is never closed", starts[opened[-1]], end=ends[opened[-1]], expected=_OPENERS[text])


def find_closing(tokens: Tokens, index: int) -> int:
    """The index of the bracket that closes the one at `index`, or the number of tokens if there is none."""
    depth = 0
    for inner in range(index, len(tokens)):
        text = tokens.upper(inner)
        if text in ("(", "["):
            depth += 1
        elif text in (")", "]"):
            depth -= 1
            if depth == 0:
                return inner
    return len(tokens)


def find_token(tokens: Tokens, start: int) -> int | None:
    """The index of the token that starts at an offset of the source."""
    index = bisect_left(tokens.starts, start)
    return index if index < len(tokens) and tokens.starts[index] == start else None
