"""Two small relations with a column of each type, random and fixed rows of them, and a query run by the kernel, DuckDB and Spark."""

from __future__ import annotations

import math
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlglot
from hypothesis import strategies as st

from platform_plugin.algebra.plan.relations import RelationFacts
from platform_plugin.algebra.types.data_types import Field
from platform_plugin.engine.arrow.plans import run_plan
from platform_plugin.lake.values.types import to_arrow
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.operators.group.split import read_plan
from tests.relations.views.composed import bag

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

COLUMNS = {
    "k": "INT",
    "g": "BIGINT",
    "s": "STRING",
    "b": "BOOLEAN",
    "d": "DATE",
    "t": "TIMESTAMP",
    "n": "TIMESTAMP_NTZ",
    "m": "DECIMAL(9,2)",
    "w": "DECIMAL(20,4)",
    "x": "DOUBLE",
}
FIELDS = tuple(Field(name=name, type=parse_type(kind)) for name, kind in COLUMNS.items())
RELATIONS = {name: RelationFacts(name=("main", name), kind="table", fields=FIELDS) for name in ("a", "b")}
KINDS = {field.name: to_arrow(field.type, column=field.name) for field in FIELDS}

VALUES: dict[str, list[Any]] = {
    "k": [-1, 0, 1, 2, None],
    "g": [0, 1, 2, 1 << 40, None],
    "s": ["", "a", "B", "ü🎉", None],
    "b": [True, False, None],
    "d": [date(1969, 12, 31), date(2024, 2, 29), date(2026, 1, 1), None],
    "t": [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(2026, 3, 29, 1, 30, tzinfo=UTC), None],
    "n": [datetime(1970, 1, 1), datetime(2026, 3, 29, 2, 30), None],  # noqa: DTZ001  a time without a zone
    "m": [Decimal("-0.01"), Decimal("0.00"), Decimal("1.25"), Decimal("9999999.99"), None],
    "w": [Decimal("-0.0001"), Decimal("1.2500"), Decimal("9999999999999999.9999"), None],
    "x": [0.0, -0.0, 0.5, -2.25, 1e300, None],
}
Rows = dict[str, list[tuple[Any, ...]]]
_ROW = st.tuples(*(st.sampled_from(values) for values in VALUES.values()))
rows = st.fixed_dictionaries({name: st.lists(_ROW, max_size=7) for name in RELATIONS})
# Each value of each column stands beside others of the same and of other columns, in both relations.
FIXED: Rows = {
    name: [tuple(values[(place * step + shift) % len(values)] for values in VALUES.values()) for place in range(12)]
    for name, step, shift in (("a", 1, 0), ("b", 3, 1))
}


def tables(found: Rows) -> dict[str, pa.Table]:
    """The relations as the lake would read them."""
    return {
        name: pa.table({column: pa.array([row[place] for row in found[name]], kind) for place, (column, kind) in enumerate(KINDS.items())})
        for name in RELATIONS
    }


def answer(query: str, found: Rows) -> pa.Table:
    """The kernel's answer; `NotSupportedByArrow` where it leaves the query to Spark."""
    return run_plan(read_plan(query, RELATIONS), {f"main.{name}": table for name, table in tables(found).items()})


def values_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return bag([tuple(_comparable(value) for value in row.values()) for row in table.to_pylist()])


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(_comparable(part) for part in value.values())
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        # DuckDB sums whole numbers in a wider type.
        return f"{Decimal(value).normalize():f}"
    return value if not isinstance(value, float) or math.isnan(value) else float(f"{value:.9g}") + 0.0


@contextmanager
def open_engine() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with both relations as empty tables."""
    import duckdb as library

    # In memory, so that no lock on any lake is touched.
    with library.connect(":memory:", config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def ask(engine: duckdb.DuckDBPyConnection, query: str, found: Rows) -> list[tuple[Any, ...]]:
    """DuckDB's answer."""
    for name, table in tables(found).items():
        engine.register(name, table)
    return values_of(engine.execute(sqlglot.transpile(query, read="spark", write="duckdb")[0]).to_arrow_table())
