"""Numbers of many different values are written as differences, all others by dictionary, and every reader finds the same."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from platform_plugin.lake.files.encodings import plan_encodings
from platform_plugin.lake.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from platform_plugin.engine.spark.session.session import Session
    from tests.independent_reader import Duck

COUNT = 10_000
ROWS = pa.table(
    {
        "spread": pa.array([None if i % 10 == 0 else (i * 7_919_000_000_000_000_003) % 2**63 for i in range(COUNT)], pa.int64()),
        "rising": pa.array(range(COUNT), pa.int32()),
        "few": pa.array([i % 7 for i in range(COUNT)], pa.int64()),
        "order": pa.array([None if i % 1000 == 0 else i // 10 for i in range(COUNT)], pa.int64()),
        "in turn": pa.array([i % 100 for i in range(COUNT)], pa.int64()),
        "price": pa.array([Decimal(i * 7919 % 90_001) / 100 for i in range(COUNT)], pa.decimal128(15, 2)),
        "small": pa.array([Decimal(-i) / 10 for i in range(COUNT)], pa.decimal128(7, 1)),
        "long": pa.array([Decimal(i) / 10 for i in range(COUNT)], pa.decimal128(30, 1)),
        "a.b": pa.array(["x", "y"] * (COUNT // 2)),
    }
)


def test_only_numbers_that_are_mostly_different_are_differences() -> None:
    wanted = plan_encodings(ROWS.schema, ROWS)
    assert wanted == {
        "use_dictionary": ["few", "in turn", "long", "a.b"],
        "column_encoding": dict.fromkeys(["spread", "rising", "order", "price", "small"], "DELTA_BINARY_PACKED"),
    }
    assert plan_encodings(ROWS.schema, ROWS.slice(0, 10)) == {}
    assert plan_encodings(ROWS.schema, None) == {}
    only = ROWS.select(["rising"])
    assert plan_encodings(only.schema, only)["use_dictionary"] is False
    nested = ROWS.append_column("list", pa.array([[1]] * COUNT))
    assert plan_encodings(nested.schema, nested) == {}


@pytest.mark.parametrize("names", [ROWS.column_names, ["rising"]])
def test_every_reader_finds_what_was_written(tmp_path: Path, duck: Callable[..., Duck], names: list[str]) -> None:
    rows = ROWS.select(names)
    with Lake.create(tmp_path / "lake") as lake, lake.commit("load") as commit:
        table = commit.create_table("t", lake.columns_of(rows))
        file = lake.write(table, rows)
        commit.append(table, [file])
    found = pq.ParquetFile(lake.storage.absolute(file.path)).metadata.row_group(0)
    encodings = {found.column(place).path_in_schema: found.column(place).encodings for place in range(found.num_columns)}
    assert "DELTA_BINARY_PACKED" in encodings["rising"]
    assert lake.read("t").equals(rows.cast(lake.read("t").schema))
    assert duck(str(lake.location)).rows("SELECT * FROM t ORDER BY rising") == [tuple(row.values()) for row in rows.to_pylist()]


@pytest.mark.spark
def test_spark_finds_what_was_written(tmp_path: Path, spark_session: Session) -> None:
    with Lake.create(tmp_path / "lake") as lake, lake.commit("load") as commit:
        table = commit.create_table("t", lake.columns_of(ROWS))
        file = lake.write(table, ROWS)
        commit.append(table, [file])
    found = spark_session.spark.read.parquet(lake.storage.absolute(file.path)).toArrow().sort_by("rising")
    assert found.to_pylist() == ROWS.to_pylist()
