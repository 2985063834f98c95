"""Readers that share nothing with DuckDB or with us see the same rows of our lakes, at every snapshot.

They are no dependency of the project: `pip install ducklake-dataframe==1.0.0 polars-ducklake==0.2.0 "polars<2"` into `.venv` switches
these tests on. Neither fills in the default of a column for rows that are older than it, so the column that is added here has none.
"""

import datetime as dt
from collections import Counter
from decimal import Decimal
from importlib.util import find_spec

import pyarrow as pa
import pytest

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.lake.catalogue.location import Location
from platform_plugin.lake.lake import Lake
from tests.lake.agreement import append, create, delete_positions, kept, plain, rows_of

ROWS = pa.table(
    {
        "i": pa.array([*range(99), None], pa.int32()),
        "big": pa.array([number * 10**15 for number in range(100)], pa.int64()),
        "f": pa.array([None, *(number / 7 for number in range(99))], pa.float64()),
        "s": pa.array([None if number % 9 == 0 else f"row {number} 🦆" for number in range(100)]),
        "b": pa.array([number % 2 == 0 for number in range(100)]),
        "n": pa.array([Decimal(number) / 100 for number in range(100)], pa.decimal128(9, 2)),
        "d": pa.array([dt.date(2020, 1, 1) + dt.timedelta(days=number) for number in range(100)]),
        "t": pa.array([dt.datetime(2020, 1, 1) + dt.timedelta(hours=number) for number in range(100)], pa.timestamp("us")),  # noqa: DTZ001
        "z": pa.array(
            [dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=number) for number in range(100)], pa.timestamp("us", "UTC")
        ),
        "l": pa.array([None if number % 5 == 0 else list(range(number % 4)) for number in range(100)], pa.list_(pa.int32())),
        "st": pa.array([{"a": number, "b": str(number)} for number in range(100)], pa.struct([("a", pa.int32()), ("b", pa.string())])),
    }
)


@pytest.fixture
def lake(lake_url):
    """A lake in which everything has happened that moves rows about without DuckDB."""
    with Lake.create(lake_url) as made:
        table = create(made, "t", ROWS.slice(0, 40), ROWS.slice(40, 30))
        append(made, table, ROWS.slice(70, 30))
        first = made.scan(table, made.snapshot()).files[0].id
        delete_positions(made, table, {first: [0, 7, 39]})
        delete_positions(made, table, {first: [8]})
        with made.commit("alter") as commit:
            commit.add_column(table, Field(name="added", type=Primitive("varchar")))
            commit.rename_column(table, "s", to="text")
            commit.drop_column(table, "f")
        append(made, made.table("t"), pa.table({"i": [500], "text": ["after"]}))
        with made.commit("empty") as commit:
            commit.create_table(("main", "nothing"), made.columns_of(ROWS))
        yield made


def ducklake_dataframe(url, name, version):
    from ducklake_polars import read_ducklake

    where = Location.parse(url)
    place = (
        where.catalogue.database
        if where.is_local
        else where.catalogue.set(drivername="postgresql", query={}).render_as_string(hide_password=False)
    )
    return read_ducklake(place, name, snapshot_version=version)


def polars_ducklake(url, name, version):
    from polars_ducklake import scan_ducklake

    return scan_ducklake(Location.parse(url).catalogue.render_as_string(hide_password=False), f"main.{name}", snapshot_id=version).collect()


READERS = {"ducklake_polars": ducklake_dataframe, "polars_ducklake": polars_ducklake}


# It takes no notice of the snapshots that a merged file's list of deletes names, and shows rows as deleted before they were.
SEES_NO_DATES_OF_DELETES = "polars_ducklake"


def assert_same(lake, lake_url, module, snapshots):
    for snapshot in snapshots:
        for table in lake.tables(snapshot):
            name = table.name.relation
            frame = READERS[module](lake_url, name, snapshot.id)
            assert frame.columns == [field.name for field in table.fields]
            theirs = Counter(plain(row) for row in frame.rows())
            assert theirs == Counter(rows_of(lake.read(name, snapshot=snapshot))), (name, snapshot.id)


@pytest.mark.parametrize("module", READERS)
def test_an_independent_reader_sees_the_same_rows_at_every_snapshot(lake, lake_url, module):
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    assert_same(lake, lake_url, module, kept(lake))
    lake.merge("t")
    assert_same(lake, lake_url, module, [lake.snapshot()] if module == SEES_NO_DATES_OF_DELETES else kept(lake))
