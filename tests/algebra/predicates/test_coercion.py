"""Constants stand where Spark's comparisons put them; `test_read` proves more of them against DuckDB, `test_spark` against Spark."""

import datetime as dt
import math
from decimal import Decimal as Number
from uuid import UUID

import pytest

from platform_plugin.algebra.predicates.coercion import Threshold, coerce, coerce_list
from platform_plugin.algebra.types.data_types import Decimal, Primitive

DAY, MIDNIGHT = dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NAIVE = dt.datetime(2026, 1, 1)  # noqa: DTZ001
IDENTIFIER = "00000000-0000-0000-0000-000000000005"


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int64", 1 << 70, 1 << 70),
        ("int64", Number("2.5"), Number("2.5")),
        ("int64", 2.5, 2.5),
        ("int64", math.inf, math.inf),
        ("int64", True, None),
        ("int64", "1", None),
        ("float64", Number("0.1"), 0.1),
        ("float64", 2**53 + 1, 2.0**53),
        ("float64", 1 << 2000, None),
        ("float32", 2**24, 2.0**24),
        ("float32", 2**24 + 1, None),
        ("boolean", True, True),
        ("boolean", 1, None),
        ("varchar", "a", "a"),
        ("varchar", 1, None),
        ("json", "a", None),
        ("blob", b"a", b"a"),
        ("uuid", UUID(IDENTIFIER), IDENTIFIER),
        ("date", DAY, DAY),
        ("date", MIDNIGHT, DAY),
        ("date", NAIVE, None),
        ("date", "2026-01-01", DAY),
        ("date", "2026-1-1", None),
        ("date", "2026-13-01", None),
        ("timestamp", NAIVE, NAIVE),
        ("timestamp", MIDNIGHT, NAIVE),
        ("timestamp", DAY, NAIVE),
        ("timestamp", "2026-01-01", NAIVE),
        ("timestamp", "2026-01-01 00:00:00Z", None),
        ("timestamp_ns", NAIVE, None),
        ("timestamptz", NAIVE, None),
        ("timestamptz", DAY, MIDNIGHT),
        ("timestamptz", "2026-01-01T01:00:00.0+01:00", MIDNIGHT),
        ("timestamptz", "2026-01-01 00:00", MIDNIGHT),
        ("timestamptz", dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), None),
        ("time", dt.time(1), None),
    ],
)
def test_a_constant_stands_at_one_place_or_nowhere(kind, value, expected):
    found = coerce(value, Primitive(kind))
    assert found == (None if expected is None else Threshold(expected, expected))
    assert found is None or type(found.low) is type(expected)


def test_what_is_rounded_stands_in_a_range():
    assert coerce(MIDNIGHT.replace(hour=5), Primitive("date")) == Threshold(DAY, DAY, is_exact=False)
    assert coerce(2.0**53, Primitive("int64")) == Threshold(2.0**53 - 1, 2.0**53 + 2, is_exact=False)
    near = coerce(0.1, Decimal(precision=20, scale=18))
    assert near.low < Number("0.1") < near.high
    assert not near.is_exact


@pytest.mark.parametrize(
    ("kind", "value", "fits"),
    [
        (Decimal(precision=38, scale=10), Number("1.5"), True),
        (Decimal(precision=38, scale=10), 10**27, True),
        (Decimal(precision=38, scale=10), 10**28, False),
        (Decimal(precision=38, scale=38), 1, False),
        (Decimal(precision=9, scale=2), Number("1E-30"), True),
        (Decimal(precision=9, scale=2), Number("1E-32"), False),
        (Primitive("uint128"), Number("0.5"), False),
        (Primitive("uint64"), Number("0.5"), True),
    ],
)
def test_decimals_that_need_too_many_digits_are_rounded_by_spark(kind, value, fits):
    assert (coerce(value, kind) is not None) == fits


def test_the_values_of_a_list_are_brought_to_one_type():
    assert [one.is_exact for one in coerce_list([1, 2], Primitive("int64"))] == [True, True]
    assert [one.is_exact for one in coerce_list([1, 2**53 + 1, 1.0], Primitive("int64"))] == [True, False, True]
    assert coerce_list([10**20, Number("1E-20")], Primitive("int32")) == [None, None]
    assert coerce_list([1, "a"], Primitive("int32"))[1] is None
    assert coerce_list([], Primitive("int32")) == []
