"""Numbers of many different values are written as differences, all others by dictionary, and every reader finds the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from platform_plugin.lake.encodings import plan_encodings
from platform_plugin.lake.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.independent_reader import Duck

COUNT = 10_000
ROWS = pa.table(
    {
        "spread": pa.array([None if i % 10 == 0 else (i * 7_919_000_000_000_000_003) % 2**63 for i in range(COUNT)], pa.int64()),
        "rising": pa.array(range(COUNT), pa.int32()),
        "few": pa.array([i % 7 for i in range(COUNT)], pa.int64()),
        "a.b": pa.array(["x", "y"] * (COUNT // 2)),
    }
)


def test_only_numbers_that_are_mostly_different_are_differences() -> None:
    wanted = plan_encodings(ROWS.schema, ROWS)
    assert wanted == {
        "use_dictionary": ["few", "a.b"],
        "column_encoding": {"spread": "DELTA_BINARY_PACKED", "rising": "DELTA_BINARY_PACKED"},
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
