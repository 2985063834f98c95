"""The keys of weighted rows: exact logarithms, the right law, and samples of parts that are those of the whole."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.errors import InvalidValue
from platform_plugin.relations.samples.definition import SampleDefinition
from platform_plugin.relations.samples.keys.keys import EVERY, keys_between, sample_seed
from platform_plugin.relations.samples.keys.lowest import LowestRows, choose_lowest
from platform_plugin.relations.samples.keys.ranks import exact_log2, inclusion_probability, rank_keys
from platform_plugin.relations.samples.keys.weights import log_weights, low_weighted_keys, with_weights
from tests.relations.samples.chi_square import goodness


def logs(weights):
    return exact_log2(np.asarray(weights, dtype=np.float64))


@given(st.lists(st.floats(min_value=5e-324, max_value=1.7e308), min_size=1, max_size=50))
def test_logarithms_are_as_good_as_those_of_the_library(values):
    for found, value in zip(logs(values), values, strict=True):
        assert found == pytest.approx(math.log2(value), rel=1e-15, abs=1e-300)


def test_logarithms_are_the_same_number_everywhere():
    # Bits, not nearness: another processor or library must not draw other rows.
    assert logs([3.0, 0.1, 1.0000000001, 1e300]).tobytes().hex() == ("69bd9fa3015cf93f71a379094f930ac04141f44608d4e33d898b1a9fa0248f40")


@given(st.lists(st.tuples(st.integers(0, (1 << 63) - 1), st.floats(-1e6, 1e6)), min_size=2, max_size=40))
def test_keys_are_in_the_order_of_the_ranks(rows):
    keys, weights = np.array([key for key, _ in rows]), np.array([weight for _, weight in rows])
    found = rank_keys(keys, weights)
    assert (found >= 0).all()
    exact = [math.log2(-math.log1p(-min((key + 0.5) / 2**63, 1 - 2**-53))) - weight for key, weight in rows]
    for one in range(len(rows)):
        for other in range(len(rows)):
            if exact[one] < exact[other] - 1e-6:
                assert found[one] <= found[other]


@given(st.lists(st.integers(0, (1 << 63) - 1), min_size=1, max_size=60), st.floats(-100, 100))
def test_rows_of_one_weight_keep_their_order(keys, weight):
    ordered = np.sort(np.array(keys))
    assert (np.diff(rank_keys(ordered, np.full(len(ordered), weight))) >= 0).all()


def successive(weights, size):
    """The exact law of sets that are drawn one by one, each time in proportion to the weights of those left."""
    law = {}
    for chosen in combinations(range(len(weights)), size):
        total = Fraction(0)
        for order in permutations(chosen):
            left, chance = Fraction(sum(weights)), Fraction(1)
            for one in order:
                chance *= Fraction(weights[one]) / left
                left -= weights[one]
            total += chance
        law[chosen] = float(total)
    assert abs(sum(law.values()) - 1) < 1e-12
    return law


@pytest.mark.parametrize(("weights", "size"), [([1, 2, 3, 4, 5], 2), ([1, 1, 1, 1, 50], 2), ([3, 1, 4, 1, 5, 9], 3), ([7, 1], 1)])
def test_sets_have_the_law_of_successive_draws(weights, size):
    runs, own = 6000, logs(weights)
    seen = Counter()
    for seed in range(runs):
        keys = rank_keys(keys_between(sample_seed(seed), 0, len(weights)), own)
        seen[tuple(sorted(np.argsort(keys)[:size].tolist()))] += 1
    law = successive(weights, size)
    common = [one for one in law if law[one] * runs >= 5]
    rest = [one for one in law if law[one] * runs < 5]
    observed = [seen[one] for one in common] + ([sum(seen[one] for one in rest)] if rest else [])
    expected = [law[one] * runs for one in common] + ([sum(law[one] for one in rest) * runs] if rest else [])
    assert goodness(observed, expected) < 3.7


def test_uniform_keys_fail_this_very_test():
    runs, weights = 6000, [1, 2, 3, 4, 5]
    seen = Counter(tuple(sorted(np.argsort(keys_between(sample_seed(seed), 0, 5))[:2].tolist())) for seed in range(runs))
    law = successive(weights, 2)
    assert goodness([seen[one] for one in law], [law[one] * runs for one in law]) > 30


def held_of(keys, first, last, size):
    places = np.arange(last - first)
    return {(): LowestRows(cardinality=last - first, bound=(1 << 63) - 1, keys=keys[first:last], places=places).lowest(size)}


@given(st.integers(0, 10**6), st.lists(st.integers(1, 60), min_size=1, max_size=8), st.integers(1, 20))
def test_samples_of_parts_merge_into_that_of_the_whole(seed, counts, size):
    total = sum(counts)
    weights = np.random.default_rng(seed).lognormal(0, 3, total)
    keys = rank_keys(keys_between(sample_seed(seed), 0, total), logs(weights))
    ends = np.cumsum(counts).tolist()
    parts = [held_of(keys, end - count, end, size + 1) for count, end in zip(counts, ends, strict=True)]
    chosen = choose_lowest(parts, lambda _: size + 1)
    found = np.concatenate([places + end - count for places, count, end in zip(chosen.places, counts, ends, strict=True)])
    assert sorted(found.tolist()) == sorted(np.argsort(keys)[: size + 1].tolist())


DEFINITION = SampleDefinition(relation="", source="table", size=10, seed=1, weight="w")


def estimates(weights, values, runs, definition=DEFINITION):
    rows = pa.table({"w": weights, "value": values, "sample_weight": pa.nulls(len(weights), pa.float64())})
    own = log_weights(definition, rows)
    for seed in range(runs):
        keys = rank_keys(keys_between(sample_seed(seed), 0, len(weights)), own)
        places = np.argsort(keys)[: definition.size + 1]
        found = with_weights(definition, rows.take(pa.array(places)), keys[places])
        assert found.column("sample_weight").null_count == 1
        drawn = found.filter(found.column("sample_weight").is_valid())
        yield float((drawn.column("value").to_numpy() * drawn.column("sample_weight").to_numpy()).sum()), drawn


@pytest.mark.parametrize("related", [True, False])
def test_weighted_totals_are_right_on_average(related):
    random = np.random.default_rng(5)
    weights = random.lognormal(0, 1.5, 200)
    values = weights * random.uniform(0.8, 1.2, 200) if related else random.uniform(0, 1, 200)
    totals = np.array([total for total, _ in estimates(weights, values, 3000)])
    error = totals.std() / np.sqrt(len(totals))
    assert abs(totals.mean() - values.sum()) < 3.5 * error
    if related:
        # That is what weights are for: rows that make up most of the sum are nearly surely drawn.
        uniform = values.sum() * np.sqrt((1 - 10 / 200) / 10) * values.std() / values.mean()
        assert totals.std() < uniform / 2


def test_variances_are_right_on_average_and_bounds_cover():
    # Rows of a sample are uncorrelated once the threshold is given, so each adds its own part to the variance.
    random = np.random.default_rng(8)
    weights = random.lognormal(0, 1.2, 400)
    values = weights * random.uniform(0.5, 1.5, 400)
    sampled = replace(DEFINITION, size=60)
    totals, variances = [], []
    for total, drawn in estimates(weights, values, 3000, sampled):
        value, counts = drawn.column("value").to_numpy(), drawn.column("sample_weight").to_numpy()
        totals.append(total)
        variances.append((value**2 * counts * (counts - 1)).sum())
    found, errors = np.array(totals), np.sqrt(variances)
    assert abs(np.mean(variances) / found.var() - 1) < 0.1
    assert 0.93 < (np.abs(found - values.sum()) < 1.96 * errors).mean() < 0.97


def test_counts_are_right_on_average_too():
    weights = np.array([1.0] * 50 + [5.0] * 20)
    counts = np.array([drawn.column("sample_weight").to_numpy().sum() for _, drawn in estimates(weights, weights, 3000)])
    assert abs(counts.mean() - 70) < 3.5 * counts.std() / np.sqrt(len(counts))


def test_inclusion_is_the_exponential_law():
    threshold = int(rank_keys(np.array([1 << 62]), np.zeros(1))[0])
    assert inclusion_probability(logs([1, 2, 1e-12, 1e12]), threshold) == pytest.approx([0.5, 0.75, math.log(2) * 1e-12, 1.0])


def test_what_has_no_weight():
    rows = pa.table({"w": pa.array([1.0, None, 0.0, 4.0])})
    assert log_weights(DEFINITION, rows).tolist() == [0, -math.inf, -math.inf, 2]
    for wrong in (-1.0, math.nan, math.inf, -math.inf):
        with pytest.raises(InvalidValue, match=r'column "w" holds .*, which is no weight'):
            log_weights(DEFINITION, pa.table({"w": [1.0, wrong]}))


@given(st.integers(0, 10**6), st.sampled_from([None, 1.0, 3600.0, 1e9]), st.integers(1, 300))
def test_few_rows_need_a_logarithm_and_none_is_missed(seed, half_life, wanted):
    random = np.random.default_rng(seed)
    weights = np.where(random.random(400) < 0.1, 0.0, random.lognormal(0, 5, 400))
    moments = pa.array(random.integers(0, 2 * 10**15, 400), pa.timestamp("us"))
    rows = pa.table({"w": weights, "at": moments})
    decayed = SampleDefinition(
        relation="", source="table", size=10, seed=1, weight="w", time="at" if half_life else None, half_life=half_life
    )
    ids = np.arange(400)
    count, places, keys = low_weighted_keys(decayed, seed, ids, rows, EVERY)
    assert count == len(places) == np.count_nonzero(weights)
    bound = int(np.sort(keys)[min(wanted, count) - 1])
    again, fewer, low = low_weighted_keys(decayed, seed, ids, rows, bound)
    assert again == count
    assert fewer.tolist() == places[keys <= bound].tolist()
    assert low.tolist() == keys[keys <= bound].tolist()


def test_decayed_weights_halve_and_never_overflow():
    decayed = SampleDefinition(relation="", source="table", size=10, seed=1, weight="w", time="at", half_life=60.0)
    moments = pa.array([0, 60, 120, None, 10**11], pa.timestamp("s", "UTC"))
    found = log_weights(decayed, pa.table({"w": pa.array([1, 1, 4, 1, 1], pa.int64()), "at": moments}))
    assert found[:4].tolist() == [0, 1, 4, -math.inf]
    assert found[4] == pytest.approx(1e11 / 60)
    keys = rank_keys(np.full(5, 1 << 60)[:3], found[:3])
    assert np.argsort(keys).tolist() == [2, 1, 0]
