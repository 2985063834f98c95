from itertools import combinations
from math import comb, log

import numpy as np
import pyarrow as pa
import pytest

from platform_plugin.relations.samples.keys.seeds import random_generator
from platform_plugin.relations.samples.reservoir.reservoir import Reservoir, Skips, draw_positions
from tests.relations.samples.chi_square import goodness, inclusion


def sample(total, size, batch, random):
    reservoir = Reservoir(size, random)
    for start in range(0, total, batch):
        reservoir.add(pa.record_batch({"id": pa.array(range(start, min(total, start + batch)), pa.int64())}))
    assert reservoir.cardinality == total
    return reservoir.rows().column("id").to_pylist() if total else []


@pytest.mark.parametrize("total", [0, 1, 6, 7, 8, 70, 700])
@pytest.mark.parametrize("batch", [1, 5, 1000])
def test_holds_as_many_rows_as_it_can_and_none_twice(total, batch):
    found = sample(total, 7, batch, np.random.default_rng(total))
    assert len(found) == min(7, total)
    assert len(set(found)) == len(found)
    assert set(found) <= set(range(total))


@pytest.mark.parametrize("batch", [1, 3, 7, 40])
def test_every_row_and_every_pair_is_as_likely(batch):
    runs, total, size = 3000, 20, 4
    random = np.random.default_rng(batch)
    singles, pairs = np.zeros(total), np.zeros((total, total))
    for _ in range(runs):
        found = sorted(sample(total, size, batch, random))
        singles[found] += 1
        for one, other in combinations(found, 2):
            pairs[one, other] += 1
    assert abs(inclusion(singles, runs, size, total)) < 3.1
    expected = runs * size * (size - 1) / (total * (total - 1))
    observed = pairs[np.triu_indices(total, 1)]
    assert abs(goodness(observed, np.full(len(observed), expected))) < 3.7


def test_every_subset_is_as_likely():
    runs, total, size = 6000, 7, 3
    random = np.random.default_rng(5)
    subsets = dict.fromkeys(combinations(range(total), size), 0)
    for _ in range(runs):
        subsets[tuple(sorted(sample(total, size, 2, random)))] += 1
    assert abs(goodness(list(subsets.values()), np.full(len(subsets), runs / comb(total, size)))) < 3.1


def test_each_moment_is_uniform_over_what_went_by_until_then():
    runs, size = 3000, 3
    random = np.random.default_rng(8)
    counts = {5: np.zeros(5), 12: np.zeros(12), 30: np.zeros(30)}
    for _ in range(runs):
        reservoir, start = Reservoir(size, random), 0
        for end, seen in counts.items():
            reservoir.add(pa.table({"id": pa.array(range(start, end), pa.int64())}))
            seen[reservoir.rows().column("id").to_numpy()] += 1
            start = end
    for end, seen in counts.items():
        assert abs(inclusion(seen, runs, size, end)) < 3.1


def test_few_random_numbers_for_many_rows():
    size, total = 100, 10_000_000
    reservoir = Reservoir(size, np.random.default_rng(3))
    replaced = 0
    for _ in range(total // 100_000):
        items, _ = reservoir.pass_by(100_000)
        replaced += len(items)
    assert reservoir.skips.draws < 10_000
    # Those that stay within their batch are fewer than all that entered.
    assert replaced < size * (1 + log(total / size)) * 1.2


def test_skips_do_not_depend_on_how_they_are_asked_for():
    together = Skips(10, np.random.default_rng(4)).until(100_000)
    apart = Skips(10, np.random.default_rng(4))
    parts = [apart.until(end) for end in (11, 12, 500, 99_999, 100_000)]
    assert np.concatenate([items for items, _ in parts]).tolist() == together[0].tolist()
    assert np.concatenate([slots for _, slots in parts]).tolist() == together[1].tolist()


def test_goes_on_beyond_what_a_float_can_count():
    items, _ = Skips(1, np.random.default_rng(2)).until(1 << 51)
    assert (np.diff(items) > 0).all()
    assert 20 < len(items) < 60  # ln(2^51) is 35.4


def test_positions():
    runs, total, size = 3000, 20, 4
    random = np.random.default_rng(1)
    counts = np.zeros(total)
    for _ in range(runs):
        found = draw_positions(total, size, random)
        assert (np.diff(found) > 0).all()
        counts[found] += 1
    assert abs(inclusion(counts, runs, size, total)) < 3.1
    assert len(np.unique(draw_positions(10**12, 10_000, random))) == 10_000


def test_seeds_are_repeatable_and_apart():
    assert random_generator(1, "a", 2).integers(0, 1 << 62) == random_generator(1, "a", 2).integers(0, 1 << 62)
    drawn = {
        int(random_generator(seed, *words).integers(0, 1 << 62)) for seed in (0, 1) for words in [(), ("a",), ("a", 1), ("a", "1"), ("a1",)]
    }
    assert len(drawn) == 10
