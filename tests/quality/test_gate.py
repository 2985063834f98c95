"""A gate of quality holds what is committed to the critical expectations of its suite, and to no others."""

from __future__ import annotations

import pyarrow as pa
import pytest

from platform_plugin import Lake
from platform_plugin.quality.gate import RowsRefused, hold_to_gate
from platform_plugin.quality.suite import parse_suite

pytest.importorskip("great_expectations")
SUITE = {
    "gate": True,
    "most_rows": 3,
    "expectations": [
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}},
        {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}, "severity": "warning"},
    ],
}


def append(lake, table, ids):
    file = lake.write(table, pa.table({"id": pa.array(ids, pa.int32())}))
    with lake.commit("append") as commit:
        commit.append(table, [file] if file.record_count else [])


def test_only_what_is_critical_keeps_rows_out(tmp_path):
    with Lake.create(tmp_path / "lake") as lake:
        with lake.commit("make") as commit:
            table = commit.create_table("t", lake.columns_of(pa.schema([("id", pa.int32())])))
        suite = parse_suite(SUITE, file="t.expectations.yml")
        with hold_to_gate(lake, table.name, suite, batches=True):
            append(lake, table, [7, 7])
            append(lake, table, [])
            with pytest.raises(RowsRefused, match=r'nothing was published in "main\.t": 1 of 1 critical') as refused:
                append(lake, table, [8, None])
            assert refused.value.detail == "expect_column_values_to_not_be_null__id: not met\n  id None"
            with pytest.raises(RowsRefused) as refused:
                append(lake, table, [1, 2, 3, 4])
            assert refused.value.detail == "4 rows are to be judged, 3 may be"
        with hold_to_gate(lake, table.name, None, batches=True):
            append(lake, table, [None])
        assert lake.read("t")["id"].to_pylist() == [7, 7, None]
