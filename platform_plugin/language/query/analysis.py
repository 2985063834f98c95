"""`analyse`: the references to relations in a query's tokens, what each needs, and the edits that redirect them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlglot import exp

from platform_plugin.algebra.sessions import SESSION_WINDOW, gap_text
from platform_plugin.algebra.types.data_types import quote_identifier
from platform_plugin.language.query.references import Reference, TimeTravel
from platform_plugin.language.query.refusals import (
    find_source_words,
    refuse_file,
    refuse_root,
    refuse_strings,
    refuse_table_function,
    refuse_tokens,
)
from platform_plugin.language.query.rendering import ALWAYS, Edit
from platform_plugin.language.query.scopes import Node, QueryScope, find_scope
from platform_plugin.language.text.names import WrittenName
from platform_plugin.language.text.places import syntax_error
from platform_plugin.language.text.tokens import DOUBLE, QUOTED, STRING, WORD, find_closing, find_token
from platform_plugin.language.text.tree import parse_tree

if TYPE_CHECKING:
    from platform_plugin.language.text.tokens import Tokens
    from platform_plugin.language.text.tree import ParsedQuery
    from platform_plugin.language.text.values import Parameter


# The name of an expression's own relation in the masked text, where every quoted name of the user's is a letter and a number.
_TARGET = "target!"


class Analysis(NamedTuple):
    """The references of a query in the order of their places, all edits, and the tree that they were read from."""

    relations: tuple[Reference, ...]
    edits: tuple[Edit, ...]
    parsed: ParsedQuery


def analyse(tokens: Tokens, parameters: dict[int, Parameter], target: tuple[WrittenName, str | None] | None = None) -> Analysis:
    """The analysis of a query; of an expression, whose own relation comes first, with index -1."""
    refuse_tokens(tokens)
    refuse_strings(tokens)
    around = ("", "") if target is None else (f"SELECT NULL FROM `{_TARGET}` WHERE (", ")")
    parsed = parse_tree(tokens, parameters, *around)
    if not isinstance(parsed.tree, (exp.Query, exp.Values)):
        raise refuse_root(parsed.tree.key, tokens.span(0, len(tokens)))
    return _Analysis(tokens, parsed, target).run()


class _Analysis:
    def __init__(
        self,
        tokens: Tokens,
        parsed: ParsedQuery,
        target: tuple[WrittenName, str | None] | None,
    ) -> None:
        self.tokens = tokens
        self.target = target
        self.parsed = parsed
        self.masked = parsed.masked
        self.scope: QueryScope = find_scope(parsed.tree, self.text_of)
        self.edits: list[Edit] = []
        self.claimed: set[int] = set()

    def text_of(self, identifier: Node) -> str:
        """The name that an identifier stands for; of an expression's own relation the one it goes by."""
        name = str(identifier.this)
        return self.target[1] or self.target[0].relation if name == _TARGET and self.target is not None else name

    def _name(self, index: int) -> str:
        text = self.tokens.text(index)
        return text[1:-1].replace("``", "`") if self.tokens.kind(index) == QUOTED else text

    def token_of(self, identifier: Node) -> int | None:
        """The token that an identifier stands for."""
        at = identifier.meta.get("at")
        return None if at is None else find_token(self.tokens, at[0])

    def run(self) -> Analysis:
        own = [(table, select) for table, select in self.scope.relations if table.name == _TARGET]
        self.scope.relations = [pair for pair in self.scope.relations if pair[0].name != _TARGET]
        targets = tuple(self._target() for _ in own)
        tables = sorted(((self._first(table), table, select) for table, select in self.scope.relations), key=lambda item: item[0])
        known = {first for first, _, _ in tables} | {self._first(table) for table in self.scope.mentions}
        references = tuple(self._reference(index, first, table) for index, (first, table, _) in enumerate(tables))
        self._check_sources(known)
        self._check_travels()
        self._check_functions()
        self._check_twins([(reference, select) for reference, (_, _, select) in zip(references, tables, strict=True)])
        self._shorten_qualifiers((*targets, *references))
        self._write_gaps()
        return Analysis((*targets, *references), tuple(self.edits), self.parsed)

    def _write_gaps(self) -> None:
        """Gaps of sessions that are written as INTERVAL, as the texts that Spark takes."""
        if SESSION_WINDOW not in self.tokens.source.lower():
            return
        for call in self.parsed.tree.find_all(exp.Anonymous):
            gap = gap_text(call)
            if gap is not None:
                start, end = call.expressions[1].meta["at"]
                self.edits.append(Edit(start=start, end=end, index=ALWAYS, text=gap))

    def _target(self) -> Reference:
        name, alias = self.target or (WrittenName(parts=(_TARGET,)), None)
        return Reference(index=-1, name=name, alias=alias, span=name.span)

    def _first(self, table: exp.Table) -> int:
        index = self.token_of(table.parts[0])
        if index is None:
            raise syntax_error(self.tokens.span(0, len(self.tokens)), f"can't tell where {table.name[:40]} stands in the query")
        return index

    def _reference(self, index: int, first: int, table: exp.Table) -> Reference:
        tokens = self.tokens
        after = first + 1
        while tokens.upper(after) == "." and tokens.kind(after + 1) in (WORD, QUOTED):
            after += 2
        span = tokens.span(first, after)
        if (after - first + 1) // 2 > 2:
            raise syntax_error(span, f"a name of {(after - first + 1) // 2} parts", expected="relation or schema.relation")
        if tokens.upper(after) == "(" and first not in self.masked.streams:
            refuse_table_function(span.text, span)
        name = WrittenName(parts=tuple(self._name(part) for part in range(first, after, 2)), span=span)
        refuse_file(name)
        begin, after = self.masked.streams.get(first, (first, after))
        travel, after = self._travel_at(after)
        alias = self._alias(table)
        if alias is not None:
            travel = self._travel_after_alias(index, table, travel)
        self._edit_name(index, first, begin, after, None if alias is not None else name.relation)
        session, changes = self.masked.sessions.get(first), self.masked.changes.get(first)
        return Reference(index=index, name=name, alias=alias, travel=travel, session=session, changes=changes, span=span)

    def _alias(self, table: exp.Table) -> str | None:
        alias = table.args.get("alias")
        return None if alias is None or alias.this is None else self.text_of(alias.this)

    def _travel_at(self, index: int) -> tuple[TimeTravel | None, int]:
        found = self.masked.travels.get(index)
        if found is None:
            return None, index
        self.claimed.add(index)
        return found[1], found[0]

    def _travel_after_alias(self, index: int, table: exp.Table, travel: TimeTravel | None) -> TimeTravel | None:
        place = self.token_of(table.args["alias"].this)
        if place is None:
            return travel
        late, end = self._travel_at(place + 1)
        if late is None:
            return travel
        if travel is not None:
            raise syntax_error(late.span, "two snapshots for one relation")
        self.edits.append(Edit(start=self.tokens.ends[place], end=self.tokens.ends[end - 1], index=index))
        return late

    def _edit_name(self, index: int, first: int, begin: int, after: int, keep: str | None) -> None:
        """The name gives way to the view's; an unaliased relation keeps its own name as alias, after any TABLESAMPLE."""
        tokens = self.tokens
        place = after
        while True:
            if tokens.upper(place) == "TABLESAMPLE" and tokens.upper(place + 1) == "(":
                place = find_closing(tokens, place + 1) + 1
                if tokens.upper(place) == "REPEATABLE" and tokens.upper(place + 1) == "(":
                    place = find_closing(tokens, place + 1) + 1
            elif tokens.upper(place) == "WITH" and tokens.upper(place + 1) == "(":
                place = find_closing(tokens, place + 1) + 1
            else:
                break
        alias = f" AS {quote_identifier(keep)}" if keep is not None and first not in self.masked.tables else ""
        inline = place == after
        self.edits.append(
            Edit(start=tokens.starts[begin], end=tokens.ends[after - 1], index=index, view=True, text=alias if inline else "")
        )
        if alias and not inline:
            self.edits.append(Edit(start=tokens.ends[place - 1], end=tokens.ends[place - 1], index=index, text=alias))

    def _check_sources(self, known: set[int]) -> None:
        """Every FROM and JOIN of the text must lead to a relation in the tree: what sqlglot misreads is refused."""
        for index in find_source_words(self.tokens):
            following = self.tokens.upper(index + 1)
            kind = self.tokens.kind(index + 1)
            if kind not in (WORD, QUOTED) or following in ("LATERAL", "VALUES", "TABLE") or self.tokens.upper(index + 2) == "(":
                continue
            if following == "STREAM" and any(stream == index + 1 for stream, _ in self.masked.streams.values()):
                continue
            if index + 1 not in known:
                raise syntax_error(
                    self.tokens.span(index + 1, index + 2), "can't tell which relation is meant", expected="a relation or a subquery"
                )
        for table in (*self.scope.mentions, *(table for table, _ in self.scope.relations)):
            self._check_stream_word(table)

    def _check_stream_word(self, table: exp.Table) -> None:
        index = self.token_of(table.parts[0])
        alias = table.args.get("alias")
        if index is not None and alias is not None and alias.this is not None and self.tokens.upper(index) == "STREAM":
            following = self.token_of(alias.this)
            if following == index + 1:
                span = self.tokens.span(index, index + 2)
                raise syntax_error(span, "STREAM before a relation after a comma", hint=f"write STREAM({self.tokens.text(following)})")

    def _check_travels(self) -> None:
        for first, (_, travel) in self.masked.travels.items():
            if first not in self.claimed:
                raise syntax_error(
                    travel.span, "a snapshot is named where no relation of the lake stands", expected="it right after a relation's name"
                )

    def _check_functions(self) -> None:
        for table in self.scope.functions:
            function = table.this
            name = _function_name(function)
            at = function.meta.get("at") if function is not None else None
            index = 0 if at is None else find_token(self.tokens, at[0]) or 0
            refuse_table_function(name, self.tokens.span(index, index + 1))

    def _check_twins(self, references: list[tuple[Reference, exp.Select | None]]) -> None:
        """Two relations of one name from two schemas can't both keep that name as their qualifier."""
        seen: dict[tuple[int, str], Reference] = {}
        for reference, select in references:
            if reference.alias is not None or select is None:
                continue
            key = (id(select), reference.name.relation.lower())
            twin = seen.setdefault(key, reference)
            if (twin.name.schema or "").lower() != (reference.name.schema or "").lower():
                raise syntax_error(
                    reference.span, f'two relations are called "{reference.name.relation}"', hint="give them aliases with AS"
                )

    def _shorten_qualifiers(self, references: tuple[Reference, ...]) -> None:
        """`schema.relation.column` loses its schema where the relation is replaced, since a view has none."""
        whole = {
            (reference.name.schema.lower(), reference.name.relation.lower()): reference.index
            for reference in references
            if reference.name.schema is not None and reference.alias is None
        }
        hidden = {reference.alias.lower() for reference in references if reference.alias} | {
            self.text_of(alias).lower() for alias in self.scope.aliases
        }
        for column in self.scope.dotted if whole else ():
            first = self.token_of(column.parts[0])
            if first is None or self.tokens.kind(first) in (STRING, DOUBLE):
                continue
            key = (self._name(first).lower(), self._name(first + 2).lower() if first + 2 < len(self.tokens) else "")
            if key in whole and key[0] not in hidden:
                self.edits.append(Edit(start=self.tokens.starts[first], end=self.tokens.starts[first + 2], index=whole[key]))


def _function_name(function: Node) -> str:
    if isinstance(function, exp.Func) and not isinstance(function, exp.Anonymous):
        return function.sql_name()
    return function.name or function.key
