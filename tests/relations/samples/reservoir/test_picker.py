"""The picker looks ahead for low keys, and finds for each append just what is low in it."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.relations.samples.definition import SampleDefinition
from platform_plugin.relations.samples.keys.keys import EVERY
from platform_plugin.relations.samples.reservoir.picker import Picker


def picker_of(size, **options):
    """One of a sample whose table nobody asks for."""
    definition = SampleDefinition(relation="", source="stream", size=size, seed=4, **options)
    return Picker(SimpleNamespace(definition=definition, table=SimpleNamespace(fields=())), None)


@pytest.mark.parametrize("options", [{"has_ladders": True}, {"where": "id > 0"}], ids=["ladders", "hashes"])
@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(1, 200),
    appends=st.lists(
        st.tuples(st.one_of(st.integers(1, 5), st.integers(1, 5000)), st.floats(0.3, 1), st.integers(0, 3)), min_size=1, max_size=30
    ),
    full=st.booleans(),
)
def test_what_is_looked_up_ahead_is_what_each_append_has(options, size, appends, full):
    picker = picker_of(size, **options)
    keys = picker._keys
    first, bound = 1_000_000, keys.bound_for(size, 20 * size) if full else EVERY
    for width, share, others in appends:
        first += others * 700  # rows that somebody else has added
        places, found = picker._low_keys(first, first + width, bound)
        wanted = keys.below(first, first + width, bound)
        assert (places.tolist(), found.tolist()) == (wanted[0].tolist(), wanted[1].tolist())
        first, bound = first + width, min(bound, int(bound * share))


def count_looks(picker):
    """A list of what the picker asks its keys for."""
    looks = []

    class Counted(type(picker._keys)):
        def below(self, *asked):
            looks.append(asked)
            return super().below(*asked)

    picker._keys = Counted(picker._keys.seed)
    return looks


def test_most_appends_need_no_look_of_their_own():
    picker = picker_of(1000, has_ladders=True)
    looks = count_looks(picker)
    bound = picker._keys.bound_for(1000, 5_000_000)
    found = [picker._low_keys(first, first + 12_000, bound)[0] + first for first in range(5_000_000, 6_200_000, 12_000)]
    assert len(looks) < 3
    # Two hundred and forty are expected; five deviations are 78.
    assert abs(len(np.concatenate(found)) - 240) < 78


@pytest.mark.parametrize("wanted", [EVERY, 30, 3])
def test_a_ladder_is_climbed_once_for_all_small_appends_to_it(wanted):
    picker = picker_of(10, has_ladders=True)
    looks = count_looks(picker)
    bound = EVERY if wanted == EVERY else picker._keys.bound_for(wanted, 100)
    for first in range(6_400, 6_400 + 640, 2):
        picker._low_keys(first, first + 2, bound)
    assert len(looks) <= 10
