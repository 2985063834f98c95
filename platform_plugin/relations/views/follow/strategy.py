"""Maintenance strategies of views: `split`, `deferred`, `eager` and `batch`, and what each does when."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.relations.views.record import ViewRecord

SPLIT, DEFERRED, EAGER, BATCH = "split", "deferred", "eager", "batch"
BATCH_ROWS = 10_000


def strategy_of(record: ViewRecord) -> str:
    """How a view is maintained.

    * `split`: a run adds partial aggregates of what has arrived to the view's states; a read merges them and runs the upper part.
    * `deferred`: a run only stores the rows; a read runs everything over all of them.
    * `eager`: as split, and the result is stored again by every statement that adds rows.
    * `batch`: as eager, but only when `batch_rows` rows wait.
    """
    return str(record.options.get("maintenance", SPLIT))


def rows_wanted(record: ViewRecord) -> int:
    """How many rows must wait before a run consumes them without being asked to."""
    return int(record.options.get("batch_rows") or BATCH_ROWS) if strategy_of(record) == BATCH else 1


def keeps_result(record: ViewRecord) -> bool:
    """Whether each run also stores the view's result."""
    return strategy_of(record) in (EAGER, BATCH) or record.options.get("target_lag_seconds") is not None


def rows_parts(plan: SplitPlan) -> dict[str, str]:
    """The parts in which a deferred view stores the rows of each stream, by the stream's full name."""
    return {stream: f"rows_{number}" for number, stream in enumerate(plan.stream_names, 1)}


def hidden_columns(plan: SplitPlan, stream: str) -> frozenset[str]:
    """The hidden columns of a stream that any part reads."""
    return frozenset(name for part in plan.streams if part.stream == stream for name in part.hidden)
