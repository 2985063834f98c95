"""`describe_due`: what a run would do, as lines for people, for EXPLAIN REFRESH and `platform maintain --dry-run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.language.text.counting import count_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from platform_plugin.errors import PlatformError
    from platform_plugin.relations.follow.maintained import DueRelation


def describe_due(due: Iterable[DueRelation], failed: Mapping[str, PlatformError]) -> list[str]:
    """A line for each relation that would be maintained, with lines below it for its inputs, and one for each that can't be."""
    lines: list[str] = []
    for each in due:
        rows = f" consumes {count_text(each.row_count, 'row')}" if each.inputs else " is stored again"
        lines.append(f"{each.kind} {each.name}{rows}")
        lines += [f"  from {waiting.relation}: rows {waiting.first} to {waiting.end - 1}" for waiting in each.inputs if waiting.row_count]
        lines.append(f"  into {', '.join(each.writes)}")
        lines += [f"  with {', '.join(each.beside)}, which share it"] if each.beside else []
        lines.append(f"  engine {each.engine}")
    return lines + [f"{name} can't be maintained: {error.message}" for name, error in sorted(failed.items())]
