"""A gate sees the rows of a commit before anybody else does, and may keep them out."""

from __future__ import annotations

import pyarrow as pa
import pytest

from platform_plugin import Lake
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.commit.gates import read_written

ROWS = pa.table({"id": pa.array([1, 2], pa.int32())})


def append(lake, message, *additions):
    with lake.commit(message) as commit:
        for table, files in additions:
            commit.append(table, files)


def test_rows_that_a_gate_refuses_are_never_visible(lake_url):
    seen = []
    with Lake.create(lake_url) as lake:
        with lake.commit("make") as commit:
            guarded, free = (commit.create_table(name, lake.columns_of(ROWS)) for name in ("guarded", "free"))
        append(lake, "first", (guarded, [lake.write(guarded, ROWS)]))

        def gate(table, files):
            seen.append(read_written(lake, table, files).to_pydict())
            if len(seen) > 1:
                raise InvalidValue("no more")

        before = lake.snapshot().id
        with lake.gates.guarding(guarded.name, gate):
            append(lake, "passes", (guarded, [lake.write(guarded, ROWS), lake.write(guarded, ROWS)]))
            refused = [lake.write(guarded, ROWS)]
            with pytest.raises(InvalidValue, match="no more"):
                append(lake, "refused", (free, [lake.write(free, ROWS)]), (guarded, refused))
        assert seen == [{"id": [1, 2, 1, 2]}, {"id": [1, 2]}]
        assert (lake.snapshot().id, lake.read("guarded").num_rows, lake.read("free").num_rows) == (before + 1, 6, 0)
        append(lake, "unguarded", (guarded, refused))
        assert (len(seen), lake.read("guarded").num_rows) == (2, 8)


def test_a_gate_sees_the_empty_table_that_nothing_is_written_to(lake_url):
    with Lake.create(lake_url) as lake, lake.commit("make") as commit:
        assert read_written(lake, commit.create_table("t", lake.columns_of(ROWS)), []).schema.names == ["id"]
