"""`upstream_changed`: when Dagster should materialize what is downstream of streams and views."""

from __future__ import annotations

from typing import Any

import dagster as dg


def upstream_changed() -> dg.AutomationCondition[Any]:
    """True when an input of the asset has another data version than at the last request; a view counts as its own inputs.

    `eager()` also fires when a stream reports a version that it had before, and never through a view, which nobody materializes.

    >>> import dagster as dg
    >>> @dg.asset(deps=["impact"], automation_condition=upstream_changed())
    ... def campaign() -> None: ...
    """
    changed = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed())
    return changed.resolve_through_virtual().since_last_handled() & ~dg.AutomationCondition.in_progress()
