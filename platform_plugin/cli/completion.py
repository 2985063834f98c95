"""Completion in the shell: keywords, relations and columns at the cursor, from the newest snapshot."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion

from platform_plugin.errors import PlatformError
from platform_plugin.language.text.words import AFTER_RELATION, BEFORE_OPERAND, RESERVED
from platform_plugin.relations.kinds import every_kind, is_hidden, kind_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prompt_toolkit.document import Document

    from platform_plugin.lake.lake import Lake

_HEADS = "COPY SHOW SCHEMAS SNAPSHOTS COLUMNS REFRESH CONTINUOUS FORMAT HEADER count sum avg min max"
_LISTS = frozenset(kind.plural for kind in every_kind() if not kind.is_hidden)
KEYWORDS = tuple(sorted(RESERVED | AFTER_RELATION | BEFORE_OPERAND | _LISTS | frozenset(_HEADS.split())))
_RELATION_FOLLOWS = frozenset(("FROM", "JOIN", "INTO", "UPDATE", "TABLE", "STREAM", "VIEW", "DESCRIBE", "DESC", "COPY", "\\d"))
_SHELL = ("\\d", "\\q", "\\timing", "\\?")
_TYPED = re.compile(r"[\w.]*$")


class SqlCompleter(Completer):
    """Offers completions at the cursor; names are read again when the lake has a new snapshot."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._snapshot = -1
        self._names: dict[str, tuple[str, ...]] = {}

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor
        if re.fullmatch(r"\s*\\\w*", before):
            yield from (Completion(word, start_position=-len(before.lstrip())) for word in _SHELL if word.startswith(before.strip()))
            return
        found = _TYPED.search(before)
        typed = found.group() if found else ""
        words = before[: len(before) - len(typed)].split()
        for candidate, kind in list_candidates(typed, words[-1] if words else "", self._read(), document.text):
            yield Completion(candidate, start_position=-len(typed), display_meta=kind)

    def _read(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of every relation, by `relation` or `schema.relation`."""
        try:
            snapshot = self._lake.snapshot()
            if snapshot.id != self._snapshot:
                self._names = {
                    table.name.relation if table.name.schema == "main" else f"{table.name.schema}.{table.name.relation}": tuple(
                        field.name for field in table.fields
                    )
                    for table in self._lake.tables(snapshot)
                    if not is_hidden(kind_name(self._lake, table, snapshot))
                }
                self._names |= {
                    view.name.relation if view.name.schema == "main" else f"{view.name.schema}.{view.name.relation}": view.columns
                    for view in self._lake.views(snapshot)
                }
                self._snapshot = snapshot.id
        except PlatformError:
            # No completion is better than an error in the middle of typing; the statement itself will tell.
            return self._names
        return self._names


def list_candidates(typed: str, previous: str, relations: Mapping[str, Iterable[str]], text: str) -> list[tuple[str, str]]:
    """The completions of `typed` after the word `previous`, best first, each with its kind.

    >>> list_candidates("us", "FROM", {"users": ["id"], "posts": ["uid"]}, "SELECT * FROM us")
    [('users', 'relation')]
    >>> list_candidates("users.i", "SELECT", {"users": ["id", "name"]}, "SELECT users.i FROM users")
    [('users.id', 'column')]
    """
    after_relation = previous.upper().rstrip("(") in _RELATION_FOLLOWS or previous == "\\d"
    names = [(name, "relation") for name in sorted(relations)]
    owner, dot, _ = typed.rpartition(".")
    if dot and owner in relations:
        return _starting([(f"{owner}.{column}", "column") for column in relations[owner]], typed)
    if after_relation:
        return _starting(names, typed)
    mentioned = set(re.findall(r"[\w.]+", text))
    columns = [(column, "column") for name in sorted(relations) if name in mentioned for column in relations[name]]
    columns = columns or [(column, "column") for name in sorted(relations) for column in relations[name]]
    keywords = [(word, "keyword") for word in KEYWORDS] if typed else []
    return _starting(list(dict.fromkeys([*columns, *names, *keywords])), typed)


def _starting(offered: list[tuple[str, str]], typed: str) -> list[tuple[str, str]]:
    return [(word, kind) for word, kind in offered if word.lower().startswith(typed.lower())]
