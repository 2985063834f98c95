"""`read_body`: a query as sqlglot's tree whose leaves have exactly the user's text.

sqlglot rewrites what it recognises (functions, types, intervals, strings), each time a little differently from Spark. So it sees only
placeholders that hold the index of a token, and the tree gets the tokens back afterwards: calls as plain calls, literals and types as their
own text. `meta["at"]` of a leaf is its place in the text, and `meta["type"]` of a literal or a cast its type, where that is known.
"""

from __future__ import annotations

import re

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from platform_plugin.algebra.types.data_types import DataType, Decimal, Primitive
from platform_plugin.errors import PlatformError
from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.text.bare_names import find_names
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.language.text.places import Span, syntax_error
from platform_plugin.language.text.tokens import BINARY, DOUBLE, NUMBER, QUOTED, SIGN, STRING, WORD, Tokens, find_closing, tokenize
from platform_plugin.language.text.values import number_value
from platform_plugin.operators.group.admission import Refuser

_OURS = re.compile(r"__([fqwlt])(\d+)__")
_TEXTS = (STRING, DOUBLE)
_MOMENTS = {"DATE": "date", "TIMESTAMP": "timestamptz", "TIMESTAMP_LTZ": "timestamptz", "TIMESTAMP_NTZ": "timestamp", "TIME": "time"}
# Words that stand before a bracket and are no calls.
_NO_CALL_WORDS = """
    ALL AND ANTI ANY AS BETWEEN BY CASE CAST CROSS CUBE DISTINCT DIV ELSE ESCAPE EXCEPT EXISTS EXTRACT FILTER FROM FULL GROUP HAVING
    ILIKE IN INNER INTERSECT INTERVAL IS JOIN LATERAL LIKE LIMIT MINUS NATURAL NOT OFFSET ON OR ORDER OUTER OVER PIVOT QUALIFY RLIKE
    REGEXP ROLLUP SELECT SEMI SETS SOME STREAM TABLE TABLESAMPLE THEN TRY_CAST UNION UNPIVOT USING VALUES WHEN WHERE WITH
    RECURSIVE
"""
_NO_CALL = frozenset(_NO_CALL_WORDS.split())
# Calls whose arguments are written with words between them, and those words.
_WORDY = {"TRIM": ("FROM",), "SUBSTRING": ("FROM",), "SUBSTR": ("FROM",), "POSITION": ("IN",), "OVERLAY": ("PLACING",)}
_AFTER_FROM = frozenset(("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "MINUS", "WINDOW", "SELECT", "SORT"))
_BITS = (exp.DPipe, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift, exp.BitwiseRightShift)


def read_body(text: str | Span) -> exp.Expr:
    """The tree of a query that the platform accepts, or an error at the place that can't be parsed.

    >>> read_body("SELECT weekday(at) AS day FROM posts WHERE score > 1.50BD").sql("spark", normalize_functions=False)
    'SELECT weekday(at) AS day FROM posts WHERE score > 1.50BD'
    """
    query = analyse_query(text)
    refuse = Refuser(source=query.span.source)
    if query.parameters:
        span = query.parameters[0].span
        hint = "write the value, or compare with it when reading the view"
        raise refuse("R10", "parameter", "a view has no parameters", (span.start, span.end), hint)
    for reference in query.relations:
        if reference.travel is not None:
            span = reference.travel.span
            hint = "leave it out: a view is read at the snapshot of its reader; not the same as long as the table changes"
            raise refuse("R10", "snapshot", "a view names no snapshot", (span.start, span.end), hint)
    span = query.span
    tokens = find_names(tokenize(span.source, span.start, span.end))
    _refuse_mixed_joins(tokens)
    pieces, runs = _mask(tokens)
    try:
        tree = sqlglot.parse_one(" ".join(pieces), dialect="spark")
    except SqlglotError as error:
        raise syntax_error(span, "this query can't be read", hint="simplify it until it can, for instance with WITH … AS (…)") from error
    return _restore(tree, tokens, runs, pieces)


def _mask(tokens: Tokens) -> tuple[list[str], dict[int, int]]:
    """The pieces that sqlglot sees, one for each token or run of tokens, and the end of each run by its first token."""
    runs = _runs(tokens)
    dropped = _stream_words(tokens)
    pieces: list[str] = []
    index = 0
    while index < len(tokens):
        after = runs.get(index, index + 1)
        if index in dropped:
            pass
        elif index in runs:
            pieces.append(f"STRUCT<__t{index}__: INT>" if _is_type_run(tokens, index) else f"'__l{index}__'")
        else:
            pieces.append(_piece(tokens, index))
        index = after
    return pieces, runs


def _piece(tokens: Tokens, index: int) -> str:
    kind, text, word = tokens.kind(index), tokens.text(index), tokens.upper(index)
    if kind == NUMBER:
        return str(index)
    if kind in (*_TEXTS, BINARY):
        return f"'__l{index}__'"
    if kind == SIGN:
        return text
    if tokens.upper(index + 1) == "(" and _is_call(tokens, index, word):
        return f"__f{index}__"
    if word == "TABLE" and tokens.kind(index + 1) in (WORD, QUOTED) and tokens.upper(index - 1) in ("", "(", ")", "ALL", "UNION", "AS"):
        return "SELECT * FROM"
    if kind == QUOTED:
        return f"`__q{index}__`"
    plain = text.isascii() and not text[0].isdigit() and not _OURS.fullmatch(text) and index not in tokens.names
    return text if plain else f"`__w{index}__`"


def _is_call(tokens: Tokens, index: int, word: str) -> bool:
    before = tokens.upper(index - 1)
    if word in ("ANY", "SOME", "ALL"):
        return word != "ALL" and not (tokens.kind(index - 1) == SIGN and before not in ("(", ",")) and before not in ("LIKE", "ILIKE")
    if word == "EXISTS":
        return tokens.upper(index + 2) not in ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
    if word in _WORDY:
        inside = range(index + 2, find_closing(tokens, index + 1))
        return not any(tokens.upper(place) in _WORDY[word] and _depth(tokens, index + 2, place) == 0 for place in inside)
    return word not in _NO_CALL


def _depth(tokens: Tokens, first: int, last: int) -> int:
    signs = [tokens.upper(place) for place in range(first, last)]
    return sum(sign in ("(", "[") for sign in signs) - sum(sign in (")", "]") for sign in signs)


def _runs(tokens: Tokens) -> dict[int, int]:
    """Runs of tokens that are one literal or one type."""
    runs: dict[int, int] = {}
    for index in range(len(tokens)):
        word = tokens.upper(index)
        if word in ("CAST", "TRY_CAST") and tokens.upper(index + 1) == "(":
            after = find_closing(tokens, index + 1)
            places = [place for place in range(index + 2, after) if tokens.upper(place) == "AS" and _depth(tokens, index + 2, place) == 0]
            if places:
                runs[places[-1] + 1] = after
        elif word == "::":
            runs[index + 1] = _type_end(tokens, index + 1)
        elif word in _MOMENTS and tokens.kind(index + 1) in _TEXTS:
            runs[index] = index + 2
        elif word == "INTERVAL" and (end := _interval_end(tokens, index)) is not None:
            runs[index] = end
        elif tokens.kind(index) in _TEXTS and tokens.kind(index + 1) in _TEXTS and tokens.kind(index - 1) not in _TEXTS:
            after = index + 1
            while tokens.kind(after) in _TEXTS:
                after += 1
            runs[index] = after
    return runs


def _type_end(tokens: Tokens, index: int) -> int:
    after = index + 1
    if tokens.upper(after) == "(":
        return find_closing(tokens, after) + 1
    if tokens.upper(after) == "<":
        depth = 0
        while after < len(tokens):
            depth += {"<": 1, ">": -1}.get(tokens.upper(after), 0)
            after += 1
            if depth == 0:
                break
    return after


def _interval_end(tokens: Tokens, index: int) -> int | None:
    """The end of an interval made of constants, or None where it holds an expression."""
    after = index + 1
    if tokens.upper(after) in ("-", "+"):
        after += 1
    if tokens.kind(after) in _TEXTS and any(character.isalpha() for character in tokens.text(after)):
        return after + 1
    found = None
    while tokens.kind(after) in (*_TEXTS, NUMBER) and tokens.kind(after + 1) == WORD:
        after += 2
        if tokens.upper(after) == "TO" and tokens.kind(after + 1) == WORD:
            after += 2
        found = after
    return found


def _is_type_run(tokens: Tokens, index: int) -> bool:
    return tokens.upper(index - 1) in ("AS", "::") and tokens.kind(index) not in _TEXTS


def _stream_words(tokens: Tokens) -> set[int]:
    """`FROM STREAM posts` and `FROM STREAM(posts)` are the relation posts."""
    dropped: set[int] = set()
    for index in range(1, len(tokens)):
        if tokens.upper(index) != "STREAM" or tokens.upper(index - 1) not in ("FROM", "JOIN", ","):
            continue
        if tokens.upper(index + 1) == "(" and tokens.kind(index + 2) in (WORD, QUOTED):
            dropped |= {index, index + 1, find_closing(tokens, index + 1)}
        elif tokens.kind(index + 1) == QUOTED or (tokens.kind(index + 1) == WORD and tokens.upper(index + 1) not in _NO_CALL | _AFTER_FROM):
            dropped.add(index)
    return dropped


def _refuse_mixed_joins(tokens: Tokens) -> None:
    """A comma in FROM binds more loosely than JOIN in Spark and not in sqlglot, which matters for these joins only."""
    for start in (index for index in range(len(tokens)) if tokens.upper(index) == "FROM"):
        depth, comma = 0, False
        for index in range(start + 1, len(tokens)):
            word = tokens.upper(index)
            depth += {"(": 1, ")": -1}.get(word, 0)
            if depth < 0 or (depth == 0 and (word in _AFTER_FROM or (word == "LATERAL" and tokens.upper(index + 1) == "VIEW"))):
                break
            if depth == 0 and word == ",":
                comma = True
            elif comma and depth == 0 and word in ("RIGHT", "FULL", "NATURAL", "USING"):
                raise syntax_error(
                    tokens.span(index, index + 1), f"{word} after a comma in FROM", hint="write CROSS JOIN for the comma, and put it last"
                )


def _restore(tree: exp.Expr, tokens: Tokens, runs: dict[int, int], pieces: list[str]) -> exp.Expr:
    """Every placeholder gives way to its tokens, in place."""
    places = _places(tokens, runs, pieces)

    def text(index: int) -> str:
        return tokens.source[tokens.starts[index] : tokens.ends[runs.get(index, index + 1) - 1]]

    def place(index: int) -> tuple[int, int]:
        return tokens.starts[index], tokens.ends[runs.get(index, index + 1) - 1]

    for node in list(tree.walk()):
        node.comments = None
        if isinstance(node, exp.Identifier):
            _restore_identifier(node, tokens, places)
        elif isinstance(node, exp.Anonymous) and (found := _OURS.fullmatch(str(node.this))):
            node.set("this", tokens.text(int(found[2])).strip("`").lower())
            node.meta["at"] = place(int(found[2]))
        elif isinstance(node, exp.Literal):
            found = _OURS.fullmatch(str(node.this)) if node.is_string else None
            index = int(found[2]) if found else int(node.this)
            node.set("this", text(index))
            node.args["is_string"] = False
            node.meta.update(at=place(index), type=_literal_type(tokens, index))
        elif isinstance(node, exp.Cast) and (found := _OURS.fullmatch(str(node.to.expressions[0].this.this))):
            written = text(int(found[2]))
            node.set("to", exp.DataType(this=exp.DType.USERDEFINED, kind=written))
            node.meta.update(at=place(int(found[2])), type=_cast_type(written))
            node._type = None  # noqa: SLF001  sqlglot keeps the placeholder's type here
    for node in tree.find_all(*_BITS):
        _refuse_unclear(node, tokens)
    return tree


def _places(tokens: Tokens, runs: dict[int, int], pieces: list[str]) -> dict[int, int]:
    """Offset in the masked text -> index of the token there."""
    dropped = _stream_words(tokens)
    places: dict[int, int] = {}
    offset, index = 0, 0
    for piece in pieces:
        while index in dropped:
            index += 1
        places[offset] = index
        offset += len(piece) + 1
        index = runs.get(index, index + 1)
    return places


def _restore_identifier(node: exp.Identifier, tokens: Tokens, places: dict[int, int]) -> None:
    found = _OURS.fullmatch(str(node.this))
    index = int(found[2]) if found else places.get(node.meta.get("start", -1))
    if index is None:
        return
    node.meta["at"] = (tokens.starts[index], tokens.ends[index])
    if found and found[1] in "qwf":
        written = tokens.text(index)
        node.set("this", written[1:-1].replace("``", "`") if tokens.kind(index) == QUOTED else written)
        # Bare words may be calls without brackets.
        node.args["quoted"] = tokens.kind(index) == QUOTED
    elif found and found[1] == "l":
        raise syntax_error(tokens.span(index, index + 1), "a string where a name belongs", hint="names go between back-ticks")


def _literal_type(tokens: Tokens, index: int) -> DataType | None:
    kind, word = tokens.kind(index), tokens.upper(index)
    if kind in _TEXTS:
        return Primitive("varchar")
    if kind == BINARY:
        return Primitive("blob")
    if word in _MOMENTS:
        return Primitive(_MOMENTS[word])
    if kind != NUMBER:
        return None
    return _number_type(tokens.text(index))


def _number_type(text: str) -> DataType | None:
    suffix = re.search(r"(?i)(BD|[LSYFD])$", text)
    if suffix and suffix[0].upper() != "BD":
        return Primitive({"L": "int64", "S": "int16", "Y": "int8", "F": "float32", "D": "float64"}[suffix[0].upper()])
    kind, value = number_value(text)
    if kind == "integer":
        whole = int(str(value))
        return (
            Primitive("int32")
            if whole < 1 << 31
            else Primitive("int64")
            if whole < 1 << 63
            else Decimal(precision=len(str(whole)), scale=0)
        )
    if kind == "decimal":
        digits = text[:-2] if suffix else text
        before, _, after = digits.partition(".")
        scale = len(after)
        return Decimal(precision=max(len(before.lstrip("0")) + scale, scale, 1), scale=scale) if scale + len(before) <= 38 else None
    return Primitive("float64")


def _cast_type(text: str) -> DataType | None:
    try:
        return parse_type(text)
    except PlatformError:
        return None


def _refuse_unclear(node: exp.Expr, tokens: Tokens) -> None:
    """Spark and sqlglot rank these operators differently, so that only brackets say which operand belongs to which."""
    for side in (node.this, node.args.get("expression")):
        if isinstance(side, exp.Binary) and not isinstance(side, (type(node), exp.Dot)):
            leaf = next((inner for inner in side.walk() if "at" in inner.meta), None)
            start, end = leaf.meta["at"] if leaf is not None else (tokens.starts[0], tokens.starts[0])
            raise syntax_error(
                Span(tokens.source, start, end), "unclear which operator comes first", hint="put brackets round the inner operation"
            )
