"""Adding to few of many groups gives what merging everything gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.engine.arrow.plans import run_plan
from platform_plugin.engine.arrow.values import NotSupportedByArrow
from platform_plugin.lake.values.types import from_arrow
from platform_plugin.relations.views.read import merge as merging
from platform_plugin.relations.views.read.merge import merge_rows
from tests.engine.arrow.test_plans import table
from tests.relations.views.admitted import ADMITTED
from tests.relations.views.composed import ROWS, bag, split

if TYPE_CHECKING:
    import pytest


def test_groups_that_get_nothing_stay_and_the_others_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_MANY_GROUPS", 1)
    monkeypatch.setattr(merging, "_FEW", 0)
    tried = set()
    for name, text in ADMITTED.items():
        plan = split(text)
        for part in plan.streams:
            state, stream = plan.state(part.state), part.stream.split(".")[-1]
            if part.statics or part.row_id or len(state.keys) != 1:
                continue
            try:
                before, after = (run_plan(part.query, {part.stream: table(stream, rows)}) for rows in (ROWS[stream][:6], ROWS[stream][6:]))
                whole = run_plan(state.merge, {"rows": pa.concat_tables([before, after])})
            except NotSupportedByArrow:
                continue
            found = merge_rows(state, before, [after], from_arrow(before.schema))
            assert bag([tuple(row.values()) for row in found.to_pylist()]) == bag([tuple(row.values()) for row in whole.to_pylist()]), name
            tried.add(name)
    assert len(tried) >= 15
