"""Ladders: keys that are made from the lowest on are those of a plain, slow rule, and the rows with the lowest are a uniform sample."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.platform import Platform
from platform_plugin.relations.samples.definition import SampleDefinition
from platform_plugin.relations.samples.keys.keys import EVERY, HashedKeys, keys_of_ids, sample_seed
from platform_plugin.relations.samples.keys.ladders import LadderKeys, row_keys
from platform_plugin.relations.samples.record import definitions
from tests.relations.samples.chi_square import count_draws, deviation, goodness, inclusion

SEED = sample_seed(5)
BILLION = 1_000_000_000


def climbed(seed, ladder):
    """The oracle: the places of a ladder's rows and their heights, one step after the other, by the library's logarithm."""

    def hashed(number):
        return int(keys_of_ids(seed, np.array([number]))[0])

    free, height = list(range(64)), 0.0
    for step in range(64):
        own = hashed(64 * ladder + step)
        height += -math.log1p(-((own & ~63) + 0.5) * 2.0**-63) / (64 - step)
        if step < 24:
            place, again = own & 63, own
            while place not in free:
                again = hashed(again)
                place = again & 63
        else:
            place = free[(hashed(own) >> 31) * len(free) >> 32]
        free.remove(place)
        yield place, height


@pytest.mark.parametrize("ladder", [0, 1, 77, BILLION, (1 << 50) + 3])
def test_keys_are_those_of_the_plain_rule(ladder):
    wanted = dict(climbed(SEED, ladder))
    found = LadderKeys(SEED).of(np.arange(64 * ladder, 64 * ladder + 64))
    assert sorted(wanted) == list(range(64))
    assert [key / 2.0**57 for key in found.tolist()] == pytest.approx([wanted[place] for place in range(64)], rel=1e-12)


def test_keys_are_the_same_number_everywhere():
    # A machine that rounds otherwise would draw other rows than those who share its lake.
    found = LadderKeys(7).of(np.array([0, 1, 63, 64, 1_000_000, 1 << 40]))
    assert found.tolist() == KNOWN


KNOWN = [
    *(136742406043129072, 207237254001278144, 452458630381390336),
    *(108877644486244528, 51544062029437472, 59073839943905200),
]


@settings(max_examples=60, deadline=None)
@given(
    first=st.integers(0, 1 << 45),
    width=st.integers(0, 3000),
    share=st.floats(0, 1),
    seed=st.integers(-(1 << 63), (1 << 63) - 1),
)
def test_low_rows_are_found_wherever_a_range_begins(first, width, share, seed):
    keys = LadderKeys(seed)
    everything = keys.of(np.arange(first, first + width))
    bound = int(np.sort(everything)[int(share * (width - 1))]) if width else EVERY
    places, found = keys.below(first, first + width, bound)
    assert places.tolist() == np.flatnonzero(everything <= bound).tolist(), "a bound is inside, to the last bit"
    assert found.tolist() == everything[places].tolist()
    assert len(keys.below(first, first + width, bound - 1)[0]) == max(0, len(places) - 1)
    mixed = np.random.default_rng(1).permutation(width)[:50]
    assert keys.of(first + mixed).tolist() == everything[mixed].tolist()


@pytest.mark.parametrize(("first", "size"), [(1_000_000, 1), (1_000_030, 7), (1_000_000, 35), (1_000_050, 20)])
def test_the_lowest_are_uniform(first, size):
    # Of forty rows on one ladder, or on two.
    total, runs = 40, 4000
    rows = first + 128 * np.arange(runs)[:, None] + np.arange(total)
    keys = LadderKeys(SEED).of(rows.ravel()).reshape(runs, total)
    seen, both = count_draws(np.argsort(keys, axis=1)[:, :size], total)
    assert abs(inclusion(seen, runs, size, total)) < 3.1
    if size > 1:
        assert goodness(both, np.full(len(both), runs * size * (size - 1) / (total * (total - 1)))) < 3.1


def test_ladders_of_neighbours_get_what_they_should():
    # How many of the lowest hundred of 640 rows are on each of ten ladders: a part of a uniform sample.
    runs, counts = 2000, np.zeros(10)
    squares = 0.0
    for seed in range(runs):
        rows, keys = LadderKeys(sample_seed(seed)).below(6400, 7040, LadderKeys(0).bound_for(300, 640))
        own = np.bincount(rows[np.argsort(keys)[:100]] // 64, minlength=10)
        assert own.sum() == 100
        counts += own
        squares += ((own - 10) ** 2).sum()
    # The hypergeometric variance of one ladder's share. Shares add up to a hundred, so one of the ten is not free.
    variance = 100 * 0.1 * 0.9 * (640 - 100) / (640 - 1)
    assert deviation(((counts - runs * 10) ** 2).sum() / (runs * variance) * 0.9, 9) < 3.1
    assert squares / runs / 10 == pytest.approx(variance, rel=4 * math.sqrt(2 / (9 * runs)))


def test_keys_are_exponential():
    keys = np.sort(LadderKeys(SEED).of(np.arange(50_000))) / 2.0**57
    # Kolmogorov's distance; beyond 1.95 over the root of their number happens once in a thousand.
    expected = 1 - np.exp(-keys)
    assert np.abs(expected - (np.arange(len(keys)) + 0.5) / len(keys)).max() < 1.95 / math.sqrt(len(keys))


@pytest.mark.parametrize(("wanted", "count"), [(10, BILLION), (1000, BILLION), (3000, 12_000), (5, 5)])
def test_a_bound_is_for_so_many_rows(wanted, count):
    keys = LadderKeys(SEED)
    found, _ = keys.below(0, count, keys.bound_for(wanted, count))
    assert abs(len(found) - wanted) <= 4.5 * math.sqrt(wanted) * (wanted < count)


def test_hashes_grow_with_ladders_that_are_climbed_and_not_with_rows(monkeypatch):
    from platform_plugin.relations.samples.keys import ladders

    seen = []

    def counted(seed, ids):
        seen.append(len(ids))
        return keys_of_ids(seed, ids)

    monkeypatch.setattr(ladders, "keys_of_ids", counted)
    keys = LadderKeys(SEED)
    keys.below(0, BILLION, keys.bound_for(1000, BILLION))
    assert sum(seen) < 5000, "beside one hash for each sixty-four rows"


def test_samples_of_an_earlier_version_keep_their_keys(tmp_path):
    assert isinstance(row_keys(SampleDefinition(relation="", source="stream", size=5, seed=1)), HashedKeys)
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM posts (id INT)")
        platform.execute("CREATE SAMPLE s ON posts SIZE 5 WITH (seed = 1)")
        (made,) = definitions(platform.lake, platform.lake.snapshot()).values()
        assert isinstance(row_keys(made), LadderKeys)
        assert "has_ladders" not in platform.execute("SHOW CREATE s").arrow().to_pylist()[0].values()
