"""The partitions that are listed for a domain are those of all its values."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.algebra.predicates.ranges import NOT_NULL, ONLY_NULL, above, below, between, points
from platform_plugin.algebra.types.data_types import Decimal, Primitive
from platform_plugin.lake.read.partitions import plan_partition_texts

START = dt.datetime(2025, 11, 20, 22, 30)  # noqa: DTZ001
PARTS = ["year", "month", "day", "hour"]


@given(
    st.sampled_from(PARTS),
    st.booleans(),
    st.tuples(st.integers(-10, 10), st.integers(0, 60 * 24 * 500) | st.integers(0, 60 * 30), st.booleans()),
    st.lists(st.floats(0, 1), min_size=1, max_size=5),
)
def test_every_moment_of_an_interval_is_in_a_listed_part(part, zoned, interval, shares):
    days, minutes, closed = interval
    low = START + dt.timedelta(days=days)
    high = low + dt.timedelta(minutes=minutes)
    if zoned:
        low, high = (moment.replace(tzinfo=dt.timezone(dt.timedelta(hours=3))) for moment in (low, high))
    domain = above(low, closed=True) & below(high, closed=closed)
    texts = plan_partition_texts(part, domain, Primitive("timestamptz" if zoned else "timestamp"))
    for share in shares:
        moment = low + (high - low) * share
        if texts is not None and domain.contains(moment):
            at_utc = moment.astimezone(dt.UTC) if zoned else moment
            assert str(getattr(at_utc, part)) in texts
    longest = {"year": 199 * 366, "month": 330, "day": 29, "hour": 0.9}[part]
    assert texts is not None or high - low > dt.timedelta(days=longest)


@pytest.mark.parametrize(
    ("transform", "domain", "kind", "expected"),
    [
        ("identity", points([1, 2.0, 0.5]), Primitive("int32"), {"1", "2"}),
        ("identity", points(["a", None]), Primitive("varchar"), {"a"}),
        ("identity", ONLY_NULL, Primitive("varchar"), set()),
        ("identity", between("a", "b"), Primitive("varchar"), None),
        ("identity", points([1]), Primitive("float64"), None),
        ("identity", points([1]), Decimal(precision=3, scale=1), None),
        ("identity", points(["a"]), Primitive("int32"), None),
        ("year", between(dt.date(2024, 5, 1), dt.date(2026, 1, 1)), Primitive("date"), {"2024", "2025", "2026"}),
        ("month", above(dt.date(2025, 11, 2), closed=True) & below(dt.date(2026, 1, 1), closed=False), Primitive("date"), {"11", "12"}),
        ("day", between(dt.date(2024, 2, 28), dt.date(2024, 3, 1)), Primitive("date"), {"28", "29", "1"}),
        ("hour", points([dt.date(2024, 2, 28)]), Primitive("date"), None),
        ("year", above(dt.date(2024, 5, 1), closed=True), Primitive("date"), None),
        ("month", NOT_NULL, Primitive("date"), None),
        ("bucket(4)", points([1]), Primitive("int32"), None),
    ],
)
def test_listed_partitions(transform, domain, kind, expected):
    found = plan_partition_texts(transform, domain, kind)
    assert found == (None if expected is None else frozenset(expected))
