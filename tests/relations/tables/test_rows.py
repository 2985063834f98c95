"""Literal rows keep what they are given, in any type, or are refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.algebra.types.data_types import Decimal as DecimalType
from platform_plugin.algebra.types.data_types import Field, Primitive, list_of, map_of, struct_of
from platform_plugin.errors import PlatformError
from platform_plugin.language.text.places import Span
from platform_plugin.language.text.values import Parameter
from platform_plugin.relations.tables.rows import literal_rows

NOWHERE = Span(source="?", start=0, end=1)
INT, TEXT, BIG = Primitive("int32"), Primitive("varchar"), Primitive("int64")


def stored(value, kind):
    rows = literal_rows([[Parameter(index=0, span=NOWHERE)]], [Field(name="v", type=kind)], (value,), NOWHERE)
    return rows.column("v").to_pylist()[0]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, INT),
        (1.5, INT),
        ("1", INT),
        (2**31, INT),
        (-1, Primitive("uint64")),
        (-1, Primitive("uint128")),
        (10**38, Primitive("int128")),
        (10**400, Primitive("float64")),
        (1e39, Primitive("float32")),
        (True, Primitive("float64")),
        (Decimal("NaN"), DecimalType(precision=9, scale=2)),
        (Decimal("9999999.995"), DecimalType(precision=9, scale=2)),
        (Decimal(10**7), DecimalType(precision=9, scale=2)),
        (datetime(2026, 1, 1, 1, tzinfo=UTC), Primitive("date")),
        (datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC), Primitive("timestamp_s")),
        (datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC), Primitive("timestamp_ms")),
        (datetime(1, 1, 1, tzinfo=UTC), Primitive("timestamp_ns")),
        ("not json", Primitive("json")),
        ("not a uuid", Primitive("uuid")),
        (b"\x00" * 16, Primitive("uuid")),
        ({"a": 1}, list_of(INT)),
        ([1, "x"], list_of(INT)),
        ([[1], [2**31]], list_of(list_of(INT))),
        ([1], struct_of(a=INT)),
        ({"a": 1, "c": 2}, struct_of(a=INT, b=TEXT)),
        ({"a": 1, "A": 2}, struct_of(a=INT)),
        ({"a": "x"}, map_of(TEXT, INT)),
        ([("a", 1), ("a", 2)], map_of(TEXT, INT)),
        ([(None, 1)], map_of(TEXT, INT)),
        ([1, 2], map_of(TEXT, INT)),
        (1, Primitive("timetz")),
        ({"a": 1}, Primitive("timetz")),
        (timedelta(days=1), Primitive("interval")),
        ("x", Primitive("variant")),
    ],
)
def test_what_does_not_fit_is_refused(value, kind):
    with pytest.raises(PlatformError, match=r"column|parameter"):
        stored(value, kind)


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        ({"A": 1}, struct_of(a=INT, b=TEXT), {"a": 1, "b": None}),
        ({"k": [1, None]}, map_of(TEXT, list_of(INT)), [("k", [1, None])]),
        ([("k", 1)], map_of(TEXT, INT), [("k", 1)]),
        ([UUID(int=7), None], list_of(Primitive("uuid")), [UUID(int=7).bytes, None]),
        (UUID(int=7), Primitive("uuid"), UUID(int=7)),
        (Decimal(10**20), Primitive("int128"), Decimal(10**20)),
        (math.inf, Primitive("float32"), math.inf),
        (time(1, 2, 3, 4), Primitive("time"), time(1, 2, 3, 4)),
        (datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), Primitive("timestamptz"), datetime(2026, 1, 1, tzinfo=UTC)),
        (date(2026, 1, 1), Primitive("timestamptz"), datetime(2026, 1, 1, tzinfo=UTC)),
        ('{"a": 1}', Primitive("json"), '{"a": 1}'),
    ],
)
def test_what_fits_is_kept(value, kind, wanted):
    assert stored(value, kind) == wanted


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals()
    | st.text()
    | st.binary()
    | st.datetimes()
    | st.dates()
    | st.uuids(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
PLAIN = st.sampled_from(
    ["boolean", "int8", "int64", "uint32", "uint64", "int128", "float32", "float64", "date", "timestamp", "timestamptz"]
)
PRIMITIVES = (PLAIN | st.sampled_from(["timestamp_s", "timestamp_ns", "varchar", "blob", "uuid", "json", "time"])).map(Primitive)
KINDS = st.recursive(
    PRIMITIVES | st.just(DecimalType(precision=9, scale=2)),
    lambda inner: inner.map(list_of) | inner.map(lambda kind: map_of(TEXT, kind)) | inner.map(lambda kind: struct_of(a=kind, b=INT)),
    max_leaves=3,
)


@given(VALUES, KINDS)
def test_any_value_is_kept_or_refused_in_our_own_words(value, kind):
    try:
        kept = stored(value, kind)
    except PlatformError:
        assert value is not None, "NULL fits every type"
    else:
        assert (kept is None) == (value is None)


@given(st.integers(), st.sampled_from(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int128"]))
def test_whole_numbers_are_kept_exactly_or_refused(value, name):
    try:
        assert stored(value, Primitive(name)) == value
    except PlatformError:
        bits = int(name.removeprefix("u").removeprefix("int"))
        low, high = (0, 2**bits) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1))
        assert not (low <= value < high and abs(value) < 10**38)
