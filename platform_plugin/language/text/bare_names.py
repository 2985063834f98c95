"""`find_names`: the words of a query that Spark reads as names where other parsers see keywords.

Spark reserves nearly nothing: `SELECT limit FROM values` names a column and a relation. What a word is follows from its place: where an
operand or a relation is due, a word that is followed by what ends one is a name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from platform_plugin.language.text.tokens import BINARY, DOUBLE, NUMBER, QUOTED, STRING, WORD, find_closing

if TYPE_CHECKING:
    from platform_plugin.language.text.tokens import Tokens

_KEYWORDS = """
    ALL ALTER AND ANTI ANY AS ASOF BETWEEN CASE COLLATE CREATE CROSS CUBE CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DESCRIBE
    DISTINCT DIV DROP ELSE END EXCEPT EXISTS FALSE FETCH FILTER FOR FROM FULL GRANT GROUP HAVING IF ILIKE IN INNER INSERT INTERSECT INTERVAL
    INTO IS JOIN LATERAL LEFT LIKE LIMIT LOCK MINUS NATURAL NOT NULL OFFSET ON OR ORDER OUTER OVER OVERLAPS PIVOT QUALIFY RECURSIVE REGEXP
    REVOKE RIGHT RLIKE ROLLBACK ROLLUP SELECT SEMI SERDEPROPERTIES SESSION_USER SET SORT TABLE TABLESAMPLE THEN TRUE UNCACHE UNION UNPIVOT
    USING VALUES WHEN WHERE WINDOW WITH CLUSTER DISTRIBUTE PARTITION
"""
KEYWORDS = frozenset(_KEYWORDS.split())
"""Words that are keywords of queries in some place, to Spark or to sqlglot."""
FOREIGN = frozenset(("GLOB", "NOTNULL", "PARTITIONED_BY", "RETURNING", "STRAIGHT_JOIN", "XOR"))
"""Keywords of other systems, which mean nothing to Spark."""
_LITERALS = frozenset(("NULL", "TRUE", "FALSE"))
# Words that can begin an operand, a relation or a query, so that only what follows tells whether they are names.
_BEGIN = """
    ALL ANY CASE CUBE DISTINCT EXISTS FROM IF INTERVAL LATERAL NOT RECURSIVE ROLLUP SELECT TABLE VALUES WHEN WITH WHERE ORDER PARTITION SET
    CLUSTER DISTRIBUTE SORT GROUP ON USING
"""
_BEGINS = frozenset(_BEGIN.split())
_AFTER = """
    AS FROM IS IN BETWEEN LIKE ILIKE RLIKE AND OR ASC DESC NULLS WHERE GROUP HAVING ORDER SORT LIMIT OFFSET UNION EXCEPT INTERSECT MINUS
    JOIN INNER LEFT RIGHT FULL CROSS NATURAL ON THEN ELSE END QUALIFY WINDOW
"""
_AFTER_OPERAND = frozenset(_AFTER.split())
_ENDS = frozenset((",", ")", "]", "=", "==", "<>", "!=", "<", ">", "<=", ">=", "<=>", ";"))
_SETS = frozenset(("UNION", "EXCEPT", "INTERSECT", "MINUS"))
_JOINS = frozenset(("CROSS", "LEFT", "RIGHT", "FULL", "INNER", "NATURAL", "OUTER", "SEMI", "ANTI", "ASOF", "JOIN"))
_INFIX = frozenset(("IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP"))
_BY = frozenset(("GROUP", "ORDER", "SORT", "PARTITION", "CLUSTER", "DISTRIBUTE"))
_OPERANDS = frozenset((QUOTED, STRING, DOUBLE, BINARY, NUMBER))


def find_names(tokens: Tokens) -> Tokens:
    """The tokens of a query, in which words that are names there are marked as names.

    >>> from platform_plugin.language.text.tokens import tokenize
    >>> found = find_names(tokenize("SELECT limit, a FROM values WHERE window > 1 LIMIT 3"))
    >>> [found.text(index) for index in sorted(found.names)]
    ['limit', 'values', 'window']
    """
    names = _NameReader(tokens).run()
    return replace(tokens, names=frozenset(names)) if names else tokens


class _NameReader:
    """One pass over a query that knows at each place whether an operand is due."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.names: set[int] = set()
        self.previous = ""
        self.due = True
        self.cases: list[int] = [0]
        self.listing: list[bool] = [False]
        self.opened: list[int] = []

    def run(self) -> set[int]:
        tokens, index = self.tokens, 0
        while index < len(tokens):
            index = self._step(index, tokens.kind(index))
        return self.names

    def _step(self, index: int, kind: str) -> int:
        tokens = self.tokens
        if kind in _OPERANDS:
            self.previous, self.due = "", False
            return index + 1
        word = tokens.upper(index)
        if kind != WORD:
            return self._sign(index, word)
        if word == "AS" and not self.due and (end := self._type_end()) is not None:
            self.previous, self.due = "", False
            return end
        if self._is_name(index, word):
            self.names.add(index)
            self.previous, self.due = "", False
        elif word in _BY and tokens.upper(index + 1) == "BY":
            self.previous, self.due = "BY", True
            return index + 2
        elif word in KEYWORDS and not self._is_operand(index, word):
            self.cases[-1] += {"CASE": 1, "END": -1}.get(word, 0)
            self.listing[-1] = word == "SELECT" or (self.listing[-1] and word != "FROM")
            self.previous, self.due = word, word != "END"
        else:
            self.previous, self.due = "", False
        return index + 1

    def _sign(self, index: int, sign: str) -> int:
        if sign in ("(", "["):
            self.cases.append(0)
            self.listing.append(False)
            self.opened.append(index)
            self.previous, self.due = sign, True
        elif sign in (")", "]"):
            if len(self.cases) > 1:
                self.cases.pop()
                self.listing.pop()
                self.opened.pop()
            self.previous, self.due = "", False
        elif (sign == "*" and self.due) or sign == "?":
            self.previous, self.due = "", False
        elif sign == ":" and self.tokens.kind(index + 1) == WORD:
            # A parameter, or a part of a value.
            self.previous, self.due = "", False
            return index + 2
        else:
            self.previous, self.due = sign, True
        return index + 1

    def _is_operand(self, index: int, word: str) -> bool:
        """Calls, and values that are written as words."""
        following = self.tokens.upper(index + 1)
        if word in _LITERALS or word.startswith("CURRENT_") or word == "SESSION_USER":
            return True
        return following == "(" and word in ("LEFT", "RIGHT", "IF", "LIKE", "ILIKE") and self.due

    def _is_name(self, index: int, word: str) -> bool:
        if word not in KEYWORDS and word not in FOREIGN:
            return False
        following = self.tokens.upper(index + 1)
        if self.previous == "." or (following == "." and (self.tokens.kind(index + 2) in (WORD, QUOTED) or self._is_sign(index + 2, "*"))):
            return True
        if following == "(" or (word in _BY and following == "BY") or (index == 0 and not self._ends(1)):
            return False
        if word in FOREIGN:
            return True
        if self.previous == "AS":
            return word != "OF"
        if not self.due:
            return self._is_alias(index, word, following)
        if self.previous in ("FROM", "JOIN") and (word not in _BEGINS or self._ends(index + 1)):
            return True
        if word in _LITERALS:
            return False
        if word not in _BEGINS:
            return not (
                (word == "END" and self.cases[-1])
                or (word in _JOINS and self.previous in _JOINS)
                or (word in _INFIX and self.previous == "NOT")
            )
        return self._is_operand_alone(index, word) and not self._is_phrase(word, following)

    def _is_sign(self, index: int, sign: str) -> bool:
        return self.tokens.upper(index) == sign

    def _is_alias(self, index: int, word: str, following: str) -> bool:
        """A word behind an operand or a relation that nothing follows is its alias, unless it ends something itself."""
        if word == "AS" or (word == "END" and self.cases[-1]):
            return False
        if word in _LITERALS or word.startswith("CURRENT_"):
            return True
        return index + 1 >= len(self.tokens) or following in (",", ")") or (following == "FROM" and self.listing[-1] and word != "FROM")

    def _is_operand_alone(self, index: int, word: str) -> bool:
        """A word that could begin something, and does not, since what follows can't go on with it."""
        if not self._ends(index + 1):
            return False
        if self.tokens.kind(index + 1) != WORD:
            return True
        if word in ("SELECT", "WHERE", "WITH") and self.previous in ("", "(", "ALL", *_SETS):
            return False
        # Unless that is an operand itself, as in CASE limit WHEN 3 …
        return self.tokens.upper(index + 1) in ("ASC", "DESC", "END") or not self._ends(index + 2)

    def _is_phrase(self, word: str, following: str) -> bool:
        """Keywords that stand before what could also end a name."""
        before = self.previous
        return (
            (word in ("ROLLUP", "CUBE") and before == "WITH")
            or (word == "ALL" and before in ("BY", "LIMIT", "SELECT", *_SETS))
            or (word == "DISTINCT" and (before in ("IS", "NOT", "SELECT", *_SETS)))
            or (word == "NOT" and (before in ("IS", "SELECT") or following in _INFIX))
        )

    def _ends(self, index: int) -> bool:
        """Whether what stands there can only follow an operand or a relation."""
        if index >= len(self.tokens):
            return True
        found = self.tokens.upper(index)
        if self.tokens.kind(index) == WORD:
            return found in _AFTER_OPERAND and not (self._is_sign(index + 1, "(") and found in ("LEFT", "RIGHT", "LIKE", "ILIKE"))
        return found in _ENDS

    def _type_end(self) -> int | None:
        """The end of a type behind AS in a CAST."""
        opened = self.opened[-1] if self.opened else 0
        return find_closing(self.tokens, opened) if opened and self.tokens.upper(opened - 1) in ("CAST", "TRY_CAST") else None
