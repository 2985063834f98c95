"""TPC-H Q1, 3, 6, 15 and 20 with `lineitem` as a stream: what each strategy costs when rows arrive, when somebody reads, and in bytes."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from platform_plugin.lake.values.types import from_arrow
from platform_plugin.language.text.writing import column_text
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from tests.benchmarks.report import clock
from tests.benchmarks.views import rounded
from tests.relations.streams import tpch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from tests.benchmarks.report import Report

WAYS = ("split", "deferred", "eager", "batch")
NUMBERS = (1, 3, 6, 15, 20)
_PIECES = 3


def create_tables(platform: Platform, folder: Path) -> pa.Table:
    """All tables of TPC-H, filled, but for `lineitem`, which is an empty stream; its rows."""
    lake = platform.lake
    for name in tpch.TABLES:
        rows = tpch.read(folder, name)
        if name == "lineitem":
            platform.execute(f"CREATE STREAM lineitem ({', '.join(column_text(field) for field in from_arrow(rows.schema))})")
            continue
        with lake.commit(f"load {name}") as commit:
            table = commit.create_table(name, from_arrow(rows.schema))
            commit.append(table, [lake.write(table, rows)])
    return tpch.read(folder, "lineitem")


def create_views(platform: Platform, ways: tuple[str, ...] = WAYS) -> list[str]:
    """The five queries as views of each strategy; their names."""
    names = []
    for number in NUMBERS:
        for way in ways:
            names.append(f"q{number}_{way}")
            platform.execute(f"CREATE CONTINUOUS VIEW {names[-1]} WITH (maintenance = '{way}') AS {tpch.QUERIES[number]}")
    return names


def pieces(rows: pa.Table, number: int) -> Iterator[pa.Table]:
    """Rows in so many pieces of nearly one size."""
    size = -(-rows.num_rows // number)
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size)


def append(platform: Platform, rows: pa.Table) -> None:
    """Let rows of `lineitem` arrive."""
    lake = platform.lake
    table = lake.table("lineitem")
    with lake.commit("lineitem") as commit:
        commit.append(table, [lake.write(table, rows)])


def bytes_stored(platform: Platform, view: str) -> int:
    """The bytes of all that is kept for a view."""
    lake, snapshot = platform.lake, platform.lake.snapshot()
    parts = [table for table in lake.tables(snapshot) if table.name.relation.startswith(f"{view}__")]
    return sum(lake.scan(table, snapshot).size_bytes for table in parts if "__static" not in table.name.relation)


def strategies(report: Report, folder: Path, *, scale: float) -> None:
    """Each strategy alone, over a stream that grows: maintenance of a piece, a read after it, what is stored, and equality."""
    tpch.generate(folder / "tpch", scale)
    for way in WAYS:
        with Platform.create(folder / way) as platform:
            rows = create_tables(platform, folder / "tpch")
            names = create_views(platform, (way,))
            for length, piece in enumerate(pieces(rows, _PIECES), 1):
                append(platform, piece)
                began = clock()
                done = run_maintenance(platform.work, flush=True)
                maintained = clock() - began
                assert not done.failed, done.failed
                read = []
                for name in names:
                    began = clock()
                    list(platform.execute(f"SELECT * FROM {name}"))
                    read.append(clock() - began)
                report.add(
                    what=f"TPC-H {way}",
                    rows_streamed=rows.num_rows * length // _PIECES,
                    maintenance_seconds=maintained,
                    read_seconds_median=median(read),
                    read_seconds_all=sum(read),
                    bytes_stored=sum(bytes_stored(platform, name) for name in names),
                )
            check(platform, names)


def check(platform: Platform, names: list[str]) -> None:
    """Every view is what its query gives over all rows."""
    for name in names:
        expected = rounded(platform.execute(tpch.QUERIES[int(name[1:].partition("_")[0])]))
        assert rounded(platform.execute(f"SELECT * FROM {name}")) == expected, name
