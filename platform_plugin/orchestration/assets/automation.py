"""Automation: the conditions under which Dagster should materialize what stands downstream of streams and views."""

from __future__ import annotations

from typing import Any

import dagster as dg


def upstream_changed() -> dg.AutomationCondition[Any]:
    """Something that the asset reads has another data version than when it was last asked for; views are looked through.

    `eager()` also fires when a stream reports a version that it had before, and never through a view, which nobody materializes.

    >>> import dagster as dg
    >>> @dg.asset(deps=["impact"], automation_condition=upstream_changed())
    ... def campaign() -> None: ...
    """
    changed = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed())
    return changed.resolve_through_virtual().since_last_handled() & ~dg.AutomationCondition.in_progress()
