"""A lake with one table of a hundred rows, for tests of what machines do to it."""

from __future__ import annotations

import pyarrow as pa

from platform_plugin.lake.lake import Lake

ROWS = pa.table({"id": pa.array(range(100), pa.int64())})


def create_lake(place) -> Lake:
    lake = Lake.create(place)
    with lake.commit("create") as commit:
        table = commit.create_table("t", lake.columns_of(ROWS))
        commit.append(table, [lake.write(table, ROWS)])
    return lake


def append_rows(lake, rows=ROWS):
    table = lake.table("t")
    with lake.commit("append") as commit:
        commit.append(table, [lake.write(table, rows)])
