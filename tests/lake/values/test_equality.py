"""Rows are equal as plain Python has it: NULL and NaN equal themselves, the two zeros differ, lists and maps by their values in order."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.lake.values.equality import equal_rows, equal_values

FLOATS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])
NESTED = pa.struct([("a", pa.list_(pa.float64())), ("m", pa.map_(pa.string(), pa.int32()))])
KINDS = {
    pa.int32(): st.integers(0, 2),
    pa.float64(): FLOATS,
    pa.string(): st.sampled_from(["", "a", "b"]),
    pa.bool_(): st.booleans(),
    pa.binary(): st.sampled_from([b"", b"x"]),
    pa.decimal128(9, 2): st.sampled_from([Decimal("1.00"), Decimal("2.50")]),
    pa.timestamp("us", tz="UTC"): st.sampled_from([dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 2)]),
    pa.date32(): st.sampled_from([dt.date(2026, 1, 1), dt.date(2026, 1, 2)]),
    pa.list_(pa.int32()): st.lists(st.none() | st.integers(0, 1), max_size=3),
    pa.list_(pa.list_(pa.float64())): st.lists(st.none() | st.lists(FLOATS, max_size=2), max_size=2),
    pa.map_(pa.string(), pa.float64()): st.lists(st.tuples(st.sampled_from("ab"), st.none() | FLOATS), max_size=2),
    NESTED: st.fixed_dictionaries(
        {
            "a": st.none() | st.lists(FLOATS, max_size=2),
            "m": st.none() | st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1)), max_size=2),
        }
    ),
}


def shown(value):
    """A value as text that tells all differences but those between NaNs."""
    match value:
        case float():
            return "NaN" if value != value else struct.pack("d", value).hex()  # noqa: PLR0124
        case list() | tuple():
            return [shown(part) for part in value]
        case dict():
            return {name: shown(part) for name, part in value.items()}
        case _:
            return repr(value)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_equal_values_are_those_that_plain_python_finds_equal(kind, data):
    pairs = data.draw(st.lists(st.tuples(st.none() | KINDS[kind], st.none() | KINDS[kind]), max_size=8))
    left, right = (pa.array([pair[side] for pair in pairs], kind) for side in (0, 1))
    assert equal_values(left, right).tolist() == [shown(one) == shown(other) for one, other in pairs]
    cut = slice(1, None)
    assert equal_values(left[cut], right[cut]).tolist() == [shown(one) == shown(other) for one, other in pairs[cut]]


def test_types_with_a_storage_of_their_own():
    ids = pa.array([b"0" * 16, b"1" * 16, None], pa.binary(16)).cast(pa.uuid())
    assert equal_values(ids, ids.take(pa.array([0, 0, 2]))).tolist() == [True, False, True]
    words = pa.array(["a", "b", None]).dictionary_encode()
    assert equal_values(words, pa.array(["a", "a", None]).dictionary_encode()).tolist() == [True, False, True]
    assert equal_values(pa.nulls(2), pa.nulls(2)).tolist() == [True, True]
    assert equal_values(pa.chunked_array([], pa.int32()), pa.chunked_array([], pa.int32())).tolist() == []


def test_a_row_is_equal_in_all_its_columns():
    left = pa.table({"a": pa.chunked_array([[1, 2], [3]]), "b": ["x", None, "z"]})
    assert equal_rows(left, pa.table({"a": [1, 2, 4], "b": ["x", None, "z"]})).tolist() == [True, True, False]
