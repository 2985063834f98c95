"""Where values stand among others, against a dictionary, whichever way they are looked up."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.engine.arrow import positions as arrow_lookups
from platform_plugin.engine.arrow.positions import find_positions

ENDS = [-(2**63), -(2**63) + 1, 2**63 - 1]


def check(values: list[Any], among: list[Any], kind: pa.DataType, *, once: bool) -> None:
    found = find_positions(pa.array(values, kind), pa.array(among, kind), once=once)
    known = [value for value in among if value is not None]
    if once and len(set(known)) < len(known):
        assert found is None
        return
    assert found is not None
    for value, place in zip(values, found.to_pylist(), strict=True):
        if value is None or value not in known:
            assert place is None
        else:
            assert among[place] == value


@pytest.mark.parametrize("small", [1, 10_000])
@given(data=st.data(), once=st.booleans())
def test_numbers_are_found_where_they_stand(small: int, *, data: st.DataObject, once: bool) -> None:
    first = data.draw(st.sampled_from([0, -7, 2**63 - 40, -(2**63)]))
    near = st.integers(min_value=first, max_value=first + 30)
    among = data.draw(st.lists(near, min_size=1, max_size=30, unique=data.draw(st.booleans())))
    values = data.draw(st.lists(st.one_of(st.none(), near, st.sampled_from(ENDS)), max_size=30))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(arrow_lookups, "_SMALL", small)
        check(values, among, pa.int64(), once=once)


@given(
    values=st.lists(st.one_of(st.none(), st.sampled_from("abc"))),
    among=st.lists(st.one_of(st.none(), st.sampled_from("abcd"))),
    once=st.booleans(),
)
def test_so_are_texts(values: list[Any], among: list[Any], *, once: bool) -> None:
    check(values, among, pa.string(), once=once)
