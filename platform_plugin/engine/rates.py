"""How long engines take: rates of the kernel, and what a job and a start of Spark cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.engine.engine import TaskInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.engine.engine import Bid, Inputs

# Measured by make bench NAME=fanout, on one core.
ROWS_SECONDS = 25e-9
"""To read a row of some columns."""
PLAN_SECONDS = 25e-9
"""To group it for one plan."""
JOB_SECONDS = 0.2
"""A job of file tasks without rows."""
START_SECONDS = 6.0
"""The start of a server and the first job of its workers."""
LOCAL_CORES = 1.5
"""How many cores the kernel keeps busy in one process of a machine with two."""


def estimate_seconds(bids: Sequence[Bid], inputs: Inputs, *, cores: float) -> float:
    """About how long so many cores take for all plans over the largest input."""
    rows = max((found.row_count for found in inputs.values() if isinstance(found, TaskInput)), default=0)
    plans = sum(len(bid.task.plans) for bid in bids)
    return rows * (ROWS_SECONDS + plans * PLAN_SECONDS) / max(1.0, cores)
