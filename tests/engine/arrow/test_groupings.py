"""What many views make of the same rows together is what each makes of them alone, and what they have in common is made once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.algebra.plan.filters import add_filters
from platform_plugin.algebra.plan.nodes import Aggregate
from platform_plugin.engine.arrow.groupings import Groupings
from platform_plugin.engine.arrow.plans import ArrowTables, run_grouping, run_plan
from platform_plugin.engine.arrow.values import NotSupportedByArrow
from platform_plugin.operators.group.sharing import ViewParts, prepare_part
from tests.engine.arrow.test_plans import table
from tests.relations.views.admitted import ADMITTED
from tests.relations.views.composed import ROWS, bag, split
from tests.relations.views.queries import queries, rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    import pytest

    from platform_plugin.operators.group.parts import StreamPart
    from tests.relations.views.composed import Rows


def together_and_alone(texts: Sequence[str], found: Rows) -> int:
    """Check every stream part of these queries; how many could be made without an engine."""
    views = [ViewParts(view=f"v{number}", plan=split(text)) for number, text in enumerate(texts)]
    made = 0
    for stream in ("posts", "likes"):
        known = ArrowTables(tables={f"main.{stream}": table(stream, found[stream])})
        for view in views:
            for static in view.plan.statics:
                if static.feeds is None:
                    known.tables[f"{view.view}_{static.name}"] = run_plan(static.query, {"main.users": table("users", found["users"])})
        # Rows are not numbered for several parts at once: those that want it are made alone.
        plain = [view for view in views if not any(part.row_id for part in view.plan.streams)]
        parts = [(view, part) for view in plain for part in view.plan.streams if part.stream == f"main.{stream}"]
        with ThreadPoolExecutor(max_workers=2) as pool:
            shared = Groupings([comparable(view, part) for view, part in parts]).begin(known, pool)
        for place, (view, part) in enumerate(parts):
            named = {static: known.tables[f"{view.view}_{static}"] for static in part.statics}
            try:
                alone = run_plan(part.query, {f"main.{stream}": known.tables[f"main.{stream}"], **named})
            except NotSupportedByArrow:
                continue
            rows = shared.rows_of(place)
            assert rows.schema == alone.schema, part.sql()
            assert bag([tuple(row.values()) for row in rows.to_pylist()]) == bag([tuple(row.values()) for row in alone.to_pylist()])
            made += 1
    return made


def comparable(view: ViewParts, part: StreamPart) -> Aggregate:
    found = prepare_part(view, part)
    return Aggregate(source=add_filters(found.base, found.conditions), keys=found.keys, calls=found.calls)


def can_be_prepared(text: str) -> bool:
    try:
        for static in split(text).statics:
            run_plan(static.query, {"main.users": table("users", ROWS["users"])})
    except NotSupportedByArrow:
        return False
    return True


def test_all_admitted_queries_make_together_what_each_makes_alone() -> None:
    assert together_and_alone([text for text in ADMITTED.values() if can_be_prepared(text)], ROWS) >= 40


@settings(max_examples=40)
@given(texts=st.lists(queries(), min_size=2, max_size=6), found=rows())
def test_random_queries_make_together_what_each_makes_alone(texts: list[str], found: Rows) -> None:
    together_and_alone([text for text in texts if can_be_prepared(text)], found)


def test_parts_that_group_alike_are_grouped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(source: Any, keys: Any, calls: Any, known: ArrowTables) -> pa.Table:
        asked.append(len(calls))
        return run_grouping(source, keys, calls, known)

    monkeypatch.setattr("platform_plugin.engine.arrow.groupings.run_grouping", counted)
    made = together_and_alone(
        [
            "SELECT uid, sum(score) AS s FROM posts WHERE score > 1 GROUP BY uid",
            "SELECT p.uid, max(p.score) AS m, sum(p.score) AS s FROM posts AS p WHERE p.score > 1 GROUP BY p.uid",
            "SELECT uid, count(*) AS n FROM posts WHERE score > 1 AND content = 'a' GROUP BY uid",
        ],
        ROWS,
    )
    assert made == 3
    assert len(asked) == 2, "the first two are one grouping, whatever they call their source"


def test_a_part_that_is_left_to_spark_leaves_the_others_alone() -> None:
    texts = ["SELECT uid, sum(score) AS s FROM posts GROUP BY uid", "SELECT uid, sum(sqrt(score)) AS s FROM posts GROUP BY uid"]
    assert together_and_alone(texts, ROWS) == 1
