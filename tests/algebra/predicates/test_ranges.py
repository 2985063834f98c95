"""Domains are sets: every operation is what it is on a set of sample values, and the form of a set is one."""

import datetime as dt
import math
from decimal import Decimal as Number

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.algebra.predicates.ranges import (
    EVERYTHING,
    NOT_NULL,
    NOTHING,
    ONLY_NULL,
    Domain,
    above,
    below,
    between,
    has_order,
    points,
    union,
)

ENDS = [0, 1, Number("1.5"), 2.0, math.nan, math.inf]
# Each end, and something between every two of them: what tells all sets of these ends apart.
SAMPLES = [None, -1, 0, -0.0, 0.5, 1, True, 1.25, Number("1.5"), 1.75, 2, 3, math.inf, math.nan, -math.inf, "", "a"]

ends = st.sampled_from(ENDS)
domains = st.recursive(
    st.one_of(
        st.sampled_from([EVERYTHING, NOT_NULL, NOTHING, ONLY_NULL]),
        st.builds(lambda values, null: points(values, null=null), st.lists(ends, max_size=3), st.booleans()),
        st.builds(lambda end, closed: below(end, closed=closed), ends, st.booleans()),
        st.builds(lambda end, closed: above(end, closed=closed), ends, st.booleans()),
    ),
    lambda inner: st.builds(Domain.__and__, inner, inner) | st.builds(Domain.__or__, inner, inner) | st.builds(Domain.__invert__, inner),
    max_leaves=8,
)


def members(domain):
    return [domain.contains(value) for value in SAMPLES]


@given(domains, domains)
def test_operations_are_those_of_sets(one, other):
    pairs = list(zip(members(one), members(other), strict=True))
    assert members(one & other) == [a and b for a, b in pairs]
    assert members(one | other) == [a or b for a, b in pairs]
    assert members(~one) == [not a for a, _ in pairs]
    assert members(one.without_null()) == [a and value is not None for (a, _), value in zip(pairs, SAMPLES, strict=True)]
    assert one.covers(other) == all(a or not b for a, b in pairs)
    assert union([one, other, NOTHING]) == one | other


@given(domains, domains)
def test_equal_sets_have_one_form(one, other):
    assert (one == other) == (members(one) == members(other))
    assert ~~one == one
    assert ~(one | other) == ~one & ~other
    assert hash(one & other) == hash(other & one)


@given(domains)
def test_intervals_and_values_give_the_set_back(domain):
    again = ONLY_NULL if domain.null else NOTHING
    for interval in domain.intervals:
        low = NOT_NULL if interval.low is None else above(interval.low, closed=interval.low_closed)
        high = NOT_NULL if interval.high is None else below(interval.high, closed=interval.high_closed)
        again = again | low & high
    assert again == domain
    assert domain.is_empty == (not domain.null and not domain.intervals)
    if domain.values is not None:
        assert points(domain.values, null=domain.null) == domain
    else:
        assert any(not interval.is_point for interval in domain.intervals)
    for count in (1, 2, 3):
        wide = domain.widened(count)
        assert wide.covers(domain)
        assert len(wide.intervals) <= count
        assert wide == domain or len(domain.intervals) > count
        assert domain.without_null().is_empty or repr(wide.intervals[0][0:3:2]) == repr(domain.intervals[0][0:3:2])


@given(domains, st.lists(st.sampled_from(SAMPLES).filter(lambda value: not isinstance(value, (str, bool))), min_size=1))
def test_a_column_overlaps_what_one_of_its_values_is_in(domain, column):
    values = sorted((value for value in column if value is not None), key=lambda value: (math.isnan(value), value))
    low, high = (values[0], values[-1]) if values else (None, None)
    statistics = {"has_null": None in column, "has_values": bool(values)}
    if any(domain.contains(value) for value in column):
        assert domain.overlaps(low, high, **statistics)
        assert domain.overlaps(low, **statistics)
        assert domain.overlaps(None, high, **statistics)
        assert domain.overlaps()
    inside = values and domain & between(low, high) != NOTHING
    assert domain.overlaps(low, high, **statistics) == bool(inside or (domain.null and None in column))


def test_numbers_are_one_family_and_others_are_their_own():
    assert points([1]) == points([1.0]) == points([Number("1.00")])
    assert not points([1]).contains(value=True)
    assert not points([dt.date(2026, 1, 1)]).contains(dt.datetime(2026, 1, 1))  # noqa: DTZ001
    assert not points([dt.datetime(2026, 1, 1)]).contains(dt.datetime(2026, 1, 1, tzinfo=dt.UTC))  # noqa: DTZ001
    assert points([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]).contains(dt.datetime(2026, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))))
    assert above("Z", closed=False).contains("a")
    assert above("z", closed=False).contains("é")
    assert above("\uffff", closed=False).contains("\U0001f986")
    assert above(b"\x7f", closed=False).contains(b"\x80")


def test_nan_is_the_largest_number_and_equals_itself():
    assert points([math.nan]) == points([Number("NaN")])
    assert above(math.inf, closed=False) & below(math.nan, closed=True) == points([math.nan])
    assert not below(math.inf, closed=True).contains(math.nan)
    assert str(~points([math.nan])) == "(-inf, inf], (nan, inf), NULL"


def test_values_without_an_order_are_told():
    assert not has_order([1])
    with pytest.raises(TypeError, match="list"):
        points([[1]])
