"""Intervals in files: what is stored are whole numbers, and reading them gives the same intervals, also inside of other values."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.algebra.types.data_types import Field, IntervalType, Primitive, list_of, map_of, stored_field, struct_of
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.read.evolution import adapt_rows
from platform_plugin.lake.values.intervals import months_of, store_intervals
from platform_plugin.lake.values.types import arrow_schema, catalogue_name
from platform_plugin.language.text.datatypes import parse_type

LENGTH, MONTHS, TEXT = IntervalType("DAY", "SECOND"), IntervalType("YEAR", "MONTH"), Primitive("varchar")
KINDS = (
    LENGTH,
    MONTHS,
    list_of(LENGTH),
    list_of(MONTHS),
    struct_of(a=MONTHS, b=TEXT, c=LENGTH),
    map_of(TEXT, list_of(MONTHS)),
    list_of(struct_of(a=list_of(LENGTH))),
)
FIELDS = tuple(Field(name=f"c{place}", type=kind, id=place * 10 + 1) for place, kind in enumerate(KINDS))

lengths = st.none() | st.timedeltas(timedelta(days=-100_000), timedelta(days=100_000))
months = st.none() | st.integers(-(1 << 31), (1 << 31) - 1).map(lambda number: pa.MonthDayNano((number, 0, 0)))
values = st.tuples(
    lengths,
    months,
    st.none() | st.lists(lengths, max_size=3),
    st.none() | st.lists(months, max_size=3),
    st.none() | st.fixed_dictionaries({"a": months, "b": st.sampled_from(["x", None]), "c": lengths}),
    st.none() | st.dictionaries(st.sampled_from("kl"), st.none() | st.lists(months, max_size=2)).map(lambda found: list(found.items())),
    st.none() | st.lists(st.none() | st.fixed_dictionaries({"a": st.none() | st.lists(lengths, max_size=2)}), max_size=2),
)


def numbered() -> tuple[Field, ...]:
    """Fields whose parts have ids, by which files are read."""
    from platform_plugin.lake.catalogue.tables import number_fields

    return number_fields(FIELDS)


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    schema = arrow_schema(numbered())
    return pa.table([pa.array([row[place] for row in rows], schema.field(place).type) for place in range(len(KINDS))], schema=schema)


@given(rows=st.lists(values, max_size=8), first=st.integers(0, 3))
def test_what_is_stored_reads_as_the_same(rows: list[tuple[Any, ...]], first: int) -> None:
    whole = table(rows)
    given_rows = whole.slice(min(first, len(rows)))
    stored = store_intervals(given_rows, numbered())
    assert stored.schema == arrow_schema(map(stored_field, numbered()))
    assert "interval" not in str(stored.schema)
    assert "duration" not in str(stored.schema)
    assert adapt_rows(stored, numbered()).to_pylist() == given_rows.to_pylist()


def test_rows_without_intervals_stay_as_they_are() -> None:
    rows = pa.table({"a": [1]})
    assert store_intervals(rows, (Field(name="a", type=Primitive("int64")),)) is rows


def test_days_are_no_months() -> None:
    with pytest.raises(InvalidValue, match="has days in it"):
        months_of(pa.array([(1, 1, 0)], pa.month_day_nano_interval()))


@pytest.mark.parametrize(
    "text", ["INTERVAL DAY TO SECOND", "INTERVAL DAY", "INTERVAL HOUR TO MINUTE", "INTERVAL YEAR TO MONTH", "INTERVAL MONTH"]
)
def test_a_type_reads_as_it_is_written(text: str) -> None:
    kind = parse_type(text.lower())
    assert str(kind) == text
    assert isinstance(kind, IntervalType)
    assert catalogue_name(kind) == ("int32" if kind.is_months else "int64")


@pytest.mark.parametrize("text", ["INTERVAL SECOND TO DAY", "INTERVAL YEAR TO DAY", "INTERVAL DAY TO WEEK"])
def test_units_of_an_interval_have_an_order(text: str) -> None:
    with pytest.raises(Exception, match="is not an interval"):
        parse_type(text)


def test_an_interval_without_units_is_the_lakes_own_type() -> None:
    assert parse_type("INTERVAL") == Primitive("interval")
