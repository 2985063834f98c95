"""`describe_due`: what a run would do, as lines for people, for EXPLAIN REFRESH and `platform maintain --dry-run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.engine.figures import rough_time
from platform_plugin.language.text.counting import count_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from platform_plugin.errors import PlatformError
    from platform_plugin.relations.follow.maintained import DueRelation, WaitingInput


def describe_due(due: Iterable[DueRelation], failed: Mapping[str, PlatformError]) -> list[str]:
    """A line for each relation that would be maintained, with lines below it for its inputs, and one for each that can't be."""
    lines: list[str] = []
    for each in due:
        rows = f" consumes {_count(each)}" if each.inputs else " is stored again"
        lines.append(f"{each.kind} {each.name}{rows}")
        lines += [f"  from {waiting.relation}: {_range(waiting)}" for waiting in each.inputs if waiting.row_count]
        lines.append(f"  into {', '.join(each.writes)}")
        lines += [f"  with {', '.join(each.beside)}, which share it"] if each.beside else []
        seconds = "" if each.estimated_seconds is None else f", about {rough_time(each.estimated_seconds)}"
        lines.append(f"  engine {each.engine}{seconds}{'' if each.why is None else f': {each.why}'}")
    return lines + [f"{name} can't be maintained: {error.message}" for name, error in sorted(failed.items())]


def _range(waiting: WaitingInput) -> str:
    if waiting.changes is None:
        return f"rows {waiting.first} to {waiting.end - 1}"
    return f"changes after snapshot {waiting.first}, up to {waiting.end}"


def _count(due: DueRelation) -> str:
    if all(waiting.changes is None for waiting in due.inputs):
        return count_text(due.row_count, "row")
    # Before they are read only a bound is known.
    return f"up to {count_text(due.row_count, 'change')}"
