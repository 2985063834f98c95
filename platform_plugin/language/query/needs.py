"""Column needs: which columns of each source a SELECT can use, and which sources WHERE may filter before joins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.language.query.scopes import Node, children

if TYPE_CHECKING:
    from collections.abc import Callable, Container


@dataclass(slots=True)
class MentionedNames:
    """Every column name that a SELECT and its sub-queries mention, in lower case."""

    loose: set[str] = field(default_factory=set)
    dotted: set[tuple[str, ...]] = field(default_factory=set)
    starred: set[tuple[str, ...]] = field(default_factory=set)
    everything: bool = False
    """A bare star of the SELECT itself, a natural join or a pivot: every column of every source."""


def find_mentions(select: exp.Select, text_of: Callable[[Node], str]) -> MentionedNames:
    """The column names that a SELECT's subtree mentions."""
    mentions = MentionedNames()
    stack: list[tuple[Node, bool]] = [(select, True)]
    while stack:
        node, own = stack.pop()
        if isinstance(node, exp.Column):
            parts = tuple(text_of(part).lower() for part in node.parts if isinstance(part, exp.Identifier))
            if isinstance(node.this, exp.Star):
                mentions.starred.add(parts)
            elif len(parts) == 1:
                mentions.loose.add(parts[0])
            else:
                mentions.dotted.add(parts)
            stack.extend((child, own) for child in children(node) if not isinstance(child, (exp.Identifier, exp.Star)))
            continue
        if isinstance(node, exp.TableAlias):
            continue
        if isinstance(node, exp.Identifier):
            mentions.loose.add(text_of(node).lower())
        elif isinstance(node, exp.Star):
            mentions.everything |= own and not _counts(node.parent)
        elif isinstance(node, exp.Pivot) or (isinstance(node, exp.Join) and node.method.upper() == "NATURAL"):
            mentions.everything = True
        inner = own and (node is select or not isinstance(node, exp.Query))
        # The names of relations and of results are no columns.
        named = isinstance(node, (exp.Table, exp.Alias))
        stack.extend((child, inner) for child in children(node) if not (named and isinstance(child, exp.Identifier)))
    return mentions


def _counts(node: Node | None) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this) == "count"


def needed_columns(mentions: MentionedNames, visible: str, schema: str | None, others: Container[str]) -> frozenset[str] | None:
    """The columns that a source with this visible name may need, at least all that it does need; None for all."""
    own = {(visible,)} | ({(schema, visible)} if schema else set())
    if mentions.everything or any(star in own or len(star) == 0 for star in mentions.starred):
        return None
    names = set(mentions.loose)
    for star in mentions.starred:
        # `address.*` spreads a struct column.
        names.update(star)
    for parts in mentions.dotted:
        # A first part that names another source may still be a struct column of this one.
        names.update(parts[:1] if parts[0] in others and parts[0] != visible else parts)
    return frozenset(names)


def find_preserved_sources(select: exp.Select) -> set[int]:
    """The ids of the source nodes whose rows WHERE may filter before any join."""
    first = select.args.get("from_")
    if first is None:
        return set()
    kept = [first.this]
    for join in select.args.get("joins") or []:
        side, kind, method = join.side.upper(), join.kind.upper(), join.method.upper()
        if method not in ("", "NATURAL"):
            return set()
        if side in ("RIGHT", "FULL"):
            kept = []
        if side not in ("FULL", "LEFT") and kind not in ("SEMI", "ANTI"):
            kept.append(join.this)
    sources = [first.this, *(join.this for join in select.args.get("joins") or [])]
    if any(source.args.get("joins") or source.args.get("pivots") for source in sources):
        return set()
    return {id(source) for source in kept if not source.args.get("sample")}


def has_single_source(select: exp.Select) -> bool:
    """Whether the SELECT has only one source; then a bare column name in its WHERE is that source's column, if the source has it."""
    return not select.args.get("joins") and not select.args.get("laterals") and select.args.get("from_") is not None
