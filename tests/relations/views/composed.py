"""One query for each side of the promise: a view's own text over all rows, and its parts over ranges of them, put together as runs do.

Both are plain Spark SQL over rows written out in it, so that any engine that runs one can run the other.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from platform_plugin.algebra.plan.relations import RelationFacts
from platform_plugin.algebra.types.data_types import Field
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.operators.group.split import plan_split

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from platform_plugin.operators.group.parts import SplitPlan, State

COLUMNS = {
    "posts": {
        "uid": "INT",
        "score": "INT",
        "amount": "DECIMAL(9,2)",
        "ratio": "DOUBLE",
        "at": "TIMESTAMP_NTZ",
        "content": "STRING",
        "tags": "ARRAY<STRING>",
    },
    "likes": {"uid": "INT", "weight": "BIGINT", "day": "DATE", "liked": "BOOLEAN"},
    "users": {"id": "INT", "region": "STRING", "rate": "DECIMAL(9,2)"},
}
KINDS = {"posts": "stream", "likes": "stream", "users": "table"}


def relation(name: str, kind: str, columns: dict[str, str]) -> RelationFacts:
    fields = tuple(Field(name=column, type=parse_type(text)) for column, text in columns.items())
    return RelationFacts(name=("main", name), kind=kind, fields=fields)  # type: ignore[arg-type]


RELATIONS = {name: relation(name, KINDS[name], columns) for name, columns in COLUMNS.items()}
RELATIONS |= {f"main.{name}": found for name, found in RELATIONS.items()}

Rows = dict[str, list[tuple[Any, ...]]]

ROWS: Rows = {
    "posts": [
        (1, 5, "1.25", 0.5, "2026-01-01 10:00:00", "a", ("x", "y")),
        (1, 3, "2.50", 1.5, "2026-01-01 10:30:00", "b", ("x",)),
        (2, 4, None, None, "2026-01-01 11:00:00", "c", ()),
        (None, 7, "0.01", 2.25, "2026-01-02 00:00:00", None, None),
        (3, None, None, None, "2026-01-02 01:00:00", "a", ("z",)),
        (2, 4, "9.99", -3.0, "2026-01-02 01:59:59", "a", ("y", "y")),
        (3, None, "3.33", 1e6, "2026-01-02 02:00:00", "d", ("x",)),
        (None, 1, "3.34", 1e6, None, "e", ("z",)),
        (1, 9, "100.00", 0.125, "2026-01-03 10:00:00", "b", None),
        (5, 2, "0.02", 7.0, "2026-01-03 10:00:01", "f", ("x",)),
    ],
    "likes": [
        (1, 10, "2026-01-01", True),
        (2, 20, "2026-01-01", False),
        (2, None, "2026-01-02", None),
        (None, 5, "2026-01-02", True),
        (4, 1, None, True),
        (1, 10, "2026-01-03", False),
        (5, 7, "2026-01-03", None),
    ],
    "users": [(1, "north", "1.10"), (2, "south", "2.20"), (3, "north", None), (4, None, "4.40"), (1, "west", "0.05")],
}


@dataclass(frozen=True, slots=True)
class Cut:
    """Where each stream is cut, and how many of the additions are merged before the rest comes."""

    places: dict[str, tuple[int, ...]]
    merged_before: int = 0

    def ranges(self, stream: str, length: int) -> list[tuple[int, int]]:
        edges = [0, *sorted(min(place, length) for place in self.places.get(stream, ())), length]
        return list(itertools.pairwise(edges))


def literal(value: Any, kind: str) -> str:
    if value is None:
        return f"CAST(NULL AS {kind})"
    if isinstance(value, tuple):
        return f"CAST(array({', '.join(repr(item) for item in value)}) AS {kind})"
    return f"CAST('{value}' AS {kind})"


def written_rows(name: str, rows: Sequence[tuple[Any, ...]], columns: dict[str, str], first: int = 0) -> str:
    """A SELECT that gives these rows, with the number of each.

    They are one list of values: of unions of single rows Spark makes plans that its own tasks can't always read.
    """
    kinds = [*columns.values(), "BIGINT"]
    names = ", ".join([*columns, "_row_id"])
    listed = [
        ", ".join(literal(value, kind) for value, kind in zip((*row, number), kinds, strict=True)) for number, row in enumerate(rows, first)
    ]
    nothing = ", ".join(f"CAST(NULL AS {kind})" for kind in kinds)
    made = "), (".join(listed or [nothing])
    # In one partition, where the first row is the first of the list.
    return f"SELECT /*+ COALESCE(1) */ {names} FROM (VALUES ({made})) AS {name}_values ({names})" + ("" if listed else " WHERE 1 = 0")


def written(rows: Rows) -> list[str]:
    """The relations as CTEs of rows that are written out."""
    return [f"{name} AS (SELECT {', '.join(kinds)} FROM ({written_rows(name, rows[name], kinds)}) AS t)" for name, kinds in COLUMNS.items()]


def whole(query: str, rows: Rows) -> str:
    """The view's own text over all rows."""
    return f"WITH {', '.join(written(rows))} SELECT * FROM ({query}) AS answer"


def composed(
    plan: SplitPlan,
    rows: Rows,
    cut: Cut,
    range_of: Callable[[str, int, int], str] | None = None,
    columns: dict[str, dict[str, str]] = COLUMNS,
) -> str:
    """The parts over ranges, some additions merged before the others come, under the upper query.

    `range_of` gives the SELECT of a stream's rows from one number to before another, where an engine has the relations as tables.
    """
    ctes = [] if range_of else written(rows)
    names: dict[str, str | tuple[str, ...]] = {f"main.{name}": name for name in columns}
    additions: dict[str, list[str]] = {state.name: [] for state in plan.states}
    for static in plan.statics:
        ctes.append(f"{static.name} AS ({static.sql(names)})")
        names[static.name] = static.name
        if static.feeds:
            additions[static.feeds].append(static.name)
    for part in plan.streams:
        stream = part.stream.split(".")[-1]
        for number, (first, last) in enumerate(cut.ranges(stream, len(rows[stream]))):
            span = f"{part.name}_range_{number}"
            chosen = range_of(stream, first, last) if range_of else written_rows(stream, rows[stream][first:last], columns[stream], first)
            ctes += [f"{span} AS ({chosen})", f"{span}_made AS ({part.sql({**names, part.stream: span})})"]
            additions[part.state].append(f"{span}_made")
    for state in plan.states:
        ctes += merged(state, additions[state.name], cut.merged_before)
        names[state.name] = f"{state.name}_merged"
    return f"WITH {', '.join(ctes)} {plan.upper_sql(names)}" if ctes else plan.upper_sql(names)


def merged(state: State, made: list[str], before: int) -> list[str]:
    """CTEs that merge additions, the first of them by themselves."""
    ctes = []
    if before:
        ctes.append(f"{state.name}_early AS ({_all_of(made[:before])})")
        ctes.append(f"{state.name}_compact AS ({state.merge_sql(f'{state.name}_early')})")
        made = [f"{state.name}_compact", *made[before:]]
    ctes.append(f"{state.name}_rows AS ({_all_of(made)})")
    ctes.append(f"{state.name}_merged AS ({state.merge_sql(f'{state.name}_rows')})")
    return ctes


def _all_of(relations: list[str]) -> str:
    return " UNION ALL ".join(f"SELECT * FROM {name}" for name in relations)


def bag(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows without order, each value in a form that sorts beside all others."""
    return sorted((tuple(_plain(value) for value in row) for row in rows), key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else float(f"{value:.9g}") + 0.0
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        # Spark's own client hands out the same moment without a zone.
        return value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, (list, set)):
        return tuple(sorted((_plain(item) for item in value), key=repr))
    return value


def split(query: str) -> SplitPlan:
    return plan_split(query, RELATIONS)
