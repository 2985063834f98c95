from collections import Counter
from itertools import combinations
from math import comb

import numpy as np
import pyarrow as pa
import pytest

from platform_plugin.relations.samples.reservoir.merge import UniformDraw, draw_picks, merge_samples, pick_positions
from platform_plugin.relations.samples.reservoir.reservoir import draw_positions
from platform_plugin.relations.samples.reservoir.shares import choose_method, draw_shares
from tests.relations.samples.chi_square import deviation, goodness, inclusion

METHODS = ["categorical", "chain", "positions"]


@pytest.mark.parametrize("method", METHODS)
def test_shares_have_the_hypergeometric_law(method):
    # The second of reservoirs that stand for 3, 7, 1, 29 and 0 rows, of a sample of 5.
    runs, counts = 4000, [3, 7, 1, 29, 0]
    random = np.random.default_rng(11)
    shares = np.array([draw_shares(counts, 5, random, method=method) for _ in range(runs)])
    assert (shares.sum(axis=1) == 5).all()
    assert (shares <= counts).all()
    for place, own in enumerate(counts[:4]):
        seen = Counter(shares[:, place].tolist())
        law = [comb(own, k) * comb(40 - own, 5 - k) / comb(40, 5) for k in range(min(own, 5) + 1)]
        rare = [k for k, p in enumerate(law) if p * runs < 5]
        classes = [[k] for k in range(len(law)) if k not in rare] + ([rare] if rare else [])
        observed = [sum(seen[k] for k in few) for few in classes]
        expected = [sum(law[k] for k in few) * runs for few in classes]
        assert goodness(observed, expected) < 3.1


@pytest.mark.parametrize("method", METHODS)
def test_shares_of_two_reservoirs_go_together(method):
    # The joint law: P(k) is the product of C(N_i, k_i) over C(N, n).
    runs, counts = 6000, [2, 3, 4]
    random = np.random.default_rng(21)
    seen = Counter(tuple(draw_shares(counts, 3, random, method=method).tolist()) for _ in range(runs))
    law = {
        (a, b, 3 - a - b): comb(2, a) * comb(3, b) * comb(4, 3 - a - b) / comb(9, 3)
        for a in range(3)
        for b in range(4)
        if 0 <= 3 - a - b <= 4
    }
    assert set(seen) == set(law)
    assert abs(goodness([seen[k] for k in law], [law[k] * runs for k in law])) < 3.1


def test_populations_beyond_a_billion_rows():
    random = np.random.default_rng(3)
    drawn = np.array([draw_shares([4 * 10**11, 10**11, 5 * 10**11], 10_000, random) for _ in range(50)])
    assert (drawn.sum(axis=1) == 10_000).all()
    assert np.abs(drawn.mean(axis=0) - [4000, 1000, 5000]).max() < 30
    tree = np.array([draw_shares([4 * 10**11, 10**11, 5 * 10**11], 500, random, method="categorical") for _ in range(50)])
    assert np.abs(tree.mean(axis=0) - [200, 50, 250]).max() < 8


def test_every_method_is_chosen_somewhere():
    assert {choose_method(64, 10**6, 1000), choose_method(1024, 10**6, 1000), choose_method(2, 10**9, 10**8)} == {
        "chain",
        "positions",
        "categorical",
    }


def local(start, count, size, random):
    """A reservoir over the rows from `start` on, by the short way that the tests of reservoirs compare with the long one."""
    return UniformDraw(rows=pa.table({"id": pa.array(start + draw_positions(count, size, random), pa.int64())}), cardinality=count)


SKEWED = [3, 7, 1, 29, 0]


@pytest.mark.parametrize("counts", [SKEWED, [40], [0, 40, 0], [20, 20], [1] * 40, [39, 1]])
@pytest.mark.parametrize("size", [1, 5, 30])
def test_merged_samples_are_uniform_over_rows(counts, size):
    runs, total = 1500, sum(counts)
    random = np.random.default_rng(size)
    starts = np.cumsum(counts) - counts
    seen = np.zeros(total)
    for _ in range(runs):
        parts = [local(start, count, size, random) for start, count in zip(starts, counts, strict=True)]
        merged = merge_samples(parts, size, random)
        ids = merged.rows.column("id").to_numpy()
        assert merged.cardinality == total
        assert len(np.unique(ids)) == min(size, total)
        seen[ids] += 1
    assert abs(inclusion(seen, runs, size, total)) < 3.7


def test_pooling_reservoirs_fails_this_very_test():
    # What looks right and is not: put all local samples into one pot and draw from it.
    runs, total, size = 1500, 40, 5
    random = np.random.default_rng(1)
    starts = np.cumsum(SKEWED) - SKEWED
    seen = np.zeros(total)
    for _ in range(runs):
        pot = np.concatenate([start + draw_positions(count, size, random) for start, count in zip(starts, SKEWED, strict=True)])
        seen[random.choice(pot, size, replace=False)] += 1
    assert inclusion(seen, runs, size, total) > 30


def test_merged_samples_are_uniform_over_pairs_and_subsets():
    runs, counts, size = 8000, [2, 4, 1], 3
    random = np.random.default_rng(9)
    starts = np.cumsum(counts) - counts
    pairs, subsets = Counter(), Counter()
    for _ in range(runs):
        parts = [local(start, count, size, random) for start, count in zip(starts, counts, strict=True)]
        found = tuple(sorted(merge_samples(parts, size, random).rows.column("id").to_pylist()))
        subsets[found] += 1
        pairs.update(combinations(found, 2))
    all_subsets, all_pairs = list(combinations(range(7), 3)), list(combinations(range(7), 2))
    assert abs(goodness([subsets[one] for one in all_subsets], np.full(35, runs / 35))) < 3.1
    assert abs(goodness([pairs[one] for one in all_pairs], np.full(21, runs * 3 / 21))) < 3.7


@pytest.mark.parametrize("parts", [2, 3, 8, 64, 256, 1024])
def test_partitions_get_what_they_should(parts):
    # Cardinalities from ten to a thousand; how many of the sample fall into each.
    runs, size = 400, 60
    random = np.random.default_rng(parts)
    counts = np.geomspace(10, 1000, parts).astype(int)
    held = np.minimum(counts, size)
    owners = np.repeat(np.arange(parts), held)
    total = int(counts.sum())
    seen = np.zeros(parts)
    for _ in range(runs):
        seen += np.bincount(owners[draw_picks(held, counts, size, random)], minlength=parts)
    expected = runs * size * counts / total
    assert abs(deviation((total - 1) / (total - size) * ((seen - expected) ** 2 / expected).sum(), parts - 1)) < 3.1


def test_merging_in_steps_is_as_good_as_at_once():
    runs, size = 3000, 4
    random = np.random.default_rng(2)
    counts = [2, 9, 1, 5, 13, 6]
    starts = np.cumsum(counts) - counts
    total = sum(counts)
    seen = np.zeros(total)
    for _ in range(runs):
        merged = local(0, counts[0], size, random)
        for start, count in zip(starts[1:], counts[1:], strict=True):
            merged = merge_samples([merged, local(start, count, size, random)], size, random)
        assert merged.cardinality
        seen[merged.rows.column("id").to_numpy()] += 1
    assert abs(inclusion(seen, runs, size, total)) < 3.1


def test_picks_are_uniform_within_a_reservoir():
    runs, random = 3000, np.random.default_rng(6)
    counts, shares = np.array([6, 6, 6, 6]), np.array([2, 4, 6, 0])
    seen = np.zeros(24)
    for _ in range(runs):
        found = pick_positions(counts, shares, random)
        assert np.bincount(found // 6, minlength=4).tolist() == [2, 4, 6, 0]
        assert len(np.unique(found)) == 12
        seen[found] += 1
    assert abs(inclusion(seen[:6], runs, 2, 6)) < 3.1
    assert abs(inclusion(seen[6:12], runs, 4, 6)) < 3.1
    assert (seen[12:18] == runs).all()
    assert not seen[18:].any()


def test_a_reservoir_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="reservoir 0 holds 1 rows, the sample needs 5"):
        merge_samples([UniformDraw(rows=pa.table({"id": [1]}), cardinality=1000)], 5, np.random.default_rng(1))
