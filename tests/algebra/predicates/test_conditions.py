"""Conditions are sets of rows: operations on exact ones are exact, and inexact ones lose no row."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.algebra.predicates.conditions import (
    ALWAYS,
    MAX_BOXES,
    MAYBE,
    NEVER,
    Condition,
    compare,
    is_in,
    is_not_null,
    is_null,
    within,
)
from platform_plugin.algebra.predicates.ranges import NOTHING, points

VALUES = [None, -1, 0, 1, 2, 3]
ROWS = [dict(zip("xyz", row, strict=True)) for row in product(VALUES, repeat=3)]

columns = st.sampled_from("xyz")
conditions = st.recursive(
    st.one_of(
        st.builds(compare, columns, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), st.sampled_from([None, 0, 1, 2])),
        st.builds(is_in, columns, st.lists(st.sampled_from(VALUES), max_size=3)),
        st.builds(is_null, columns),
        st.builds(is_not_null, columns),
        st.sampled_from([ALWAYS, NEVER]),
    ),
    lambda inner: st.builds(Condition.__and__, inner, inner) | st.builds(Condition.__or__, inner, inner),
    max_leaves=12,
)


def rows_in(condition):
    return [condition.contains(row) for row in ROWS]


@given(conditions, conditions)
def test_exact_conditions_are_sets_of_rows(one, other):
    pairs = list(zip(rows_in(one), rows_in(other), strict=True))
    if one.is_exact and other.is_exact:
        assert (one | other).is_exact or len(one.boxes) + len(other.boxes) > MAX_BOXES
    for made, wanted in ((one & other, [a and b for a, b in pairs]), (one | other, [a or b for a, b in pairs])):
        if made.is_exact:
            assert rows_in(made) == wanted
        assert all(inside or not row for inside, row in zip(rows_in(made), wanted, strict=True))
    if one.covers(other):
        assert all(a or not b for a, b in pairs)


@given(conditions)
def test_the_complement_has_the_other_rows(condition):
    outside = condition.complement()
    wanted = [not inside for inside in rows_in(condition)]
    assert all(inside or not row for inside, row in zip(rows_in(outside), wanted, strict=True))
    if outside.is_exact:
        assert rows_in(outside) == wanted


@given(conditions, st.integers(1, 3))
def test_widening_loses_no_row(condition, count):
    wide = condition.widened(count)
    assert len(wide.boxes) <= count
    assert all(inside or not row for inside, row in zip(rows_in(wide), rows_in(condition), strict=True))
    assert wide.is_exact == (condition.is_exact and wide == condition)
    assert condition.is_never == (not any(rows_in(condition)))
    for column in "xyz":
        domain = condition.domain(column)
        assert all(domain.contains(row[column]) for row, inside in zip(ROWS, rows_in(condition), strict=True) if inside)


def test_boxes_that_differ_in_one_column_are_one():
    condition = NEVER
    for number in range(1000):
        condition = condition | compare("x", "=", number)
    assert len(condition.boxes) == 1
    assert condition.domain("x") == points(range(1000))
    corner = compare("x", "=", 1) & compare("y", "=", 1) | compare("x", "=", 1) & compare("y", "=", 2)
    assert str(corner | compare("x", "=", 2) & is_in("y", [1, 2])) == "x: {1}, {2} and y: {1}, {2}"


def test_a_disjunction_never_explodes():
    condition = ALWAYS
    for number in range(40):
        condition = condition & (compare(f"a{number}", "=", 1) | compare(f"b{number}", "=", 1))
    assert len(condition.boxes) <= MAX_BOXES
    assert not condition.is_exact
    either = NEVER
    for number in range(100):
        either = either | compare("x", "=", number) & compare("y", "=", number)
    assert not either.is_exact
    assert either.contains({"x": 3, "y": 3})
    assert not either.contains({"x": 3, "y": 100})


def test_what_is_not_exact_stays_so():
    adults = compare("age", ">=", 18)
    assert (adults & MAYBE).is_exact is False
    assert adults.inexact().complement() == MAYBE
    assert (adults.inexact() & compare("age", "<", 18)) == NEVER
    assert str(adults & MAYBE) == "age: [18, inf), of which some may fail"
    assert within("x", NOTHING) == is_in("x", []) == compare("x", "=", None) == NEVER
    assert (is_null("x") | is_not_null("x")) == ALWAYS
    assert (adults & is_null("name")).columns == ("age", "name")
    with pytest.raises(ValueError, match="~"):
        compare("x", "~", 1)


def test_a_row_without_a_column_may_have_any_value_there():
    assert compare("x", "=", 1).contains({"y": 2})
