"""Bounds hold as often as they say: thousands of samples of known populations."""

import math

import numpy as np
import pytest

from platform_plugin.relations.samples.estimate.estimators import (
    BoundedEstimate,
    Design,
    needed_size,
    quantile,
    ratio,
    student_quantile,
    total,
)

RUNS = 500


def covered(truth, draw):
    """The share of runs in which the truth is within the bounds, and the mean estimate."""
    found = [draw() for _ in range(RUNS)]
    return np.mean([one.low <= truth <= one.high for one in found]), np.mean([one.value for one in found])


def simple(random, population, size):
    places = random.choice(population, size, replace=False)
    return places, np.zeros(size, dtype=int), Design(populations=np.array([population]), sizes=np.array([size]))


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize("population", [2000, 100_000])
def test_counts(share, population):
    random = np.random.default_rng(1)
    matches = np.arange(population) < share * population

    def draw():
        places, strata, design = simple(random, population, 1000)
        hits = matches[places]
        return total(np.ones(hits.sum()), strata[hits], design, 0.95, counts=True)

    rate, mean = covered(share * population, draw)
    assert 0.925 <= rate <= 0.975
    assert abs(mean / (share * population) - 1) < 0.03


@pytest.mark.parametrize("matching", [0, 1, 5, 400, 99_999, 100_000])
def test_counts_of_few_rows_or_of_nearly_all(matching):
    random = np.random.default_rng(2)

    def draw():
        _, strata, design = simple(random, 100_000, 1000)
        hits = random.hypergeometric(matching, 100_000 - matching, 1000)
        return total(np.ones(hits), strata[:hits], design, 0.95, counts=True)

    rate, _ = covered(matching, draw)
    assert rate >= 0.94


def test_no_match_is_not_taken_for_nothing():
    found = total(np.ones(0), np.zeros(0, dtype=int), Design(populations=np.array([10**6]), sizes=np.array([1000])), 0.95, counts=True)
    assert found.value == found.low == 0
    assert 3000 < found.high < 4000  # 3.7 / n: the rule of three at 97.5 %
    summed = total(np.ones(3), np.zeros(3, dtype=int), Design(populations=np.array([10**6]), sizes=np.array([1000])), 0.95)
    assert math.isnan(summed.low)
    assert math.isnan(summed.high)
    assert summed.relative_error == math.inf


@pytest.mark.parametrize("law", ["normal", "exponential"])
def test_sums_means_and_ratios(law):
    random = np.random.default_rng(3)
    population = 50_000
    values = random.normal(100, 30, population) if law == "normal" else random.exponential(10, population)
    others = values * random.uniform(0.5, 1.5, population) + 1
    matches = random.random(population) < 0.3

    def draw(kind):
        places, strata, design = simple(random, population, 1500)
        hits = matches[places]
        own, beside, where = values[places][hits], others[places][hits], strata[hits]
        if kind == "sum":
            return total(own, where, design, 0.95)
        return ratio(own, np.ones(len(own)) if kind == "mean" else beside, where, design, 0.95)

    truths = {
        "sum": values[matches].sum(),
        "mean": values[matches].mean(),
        "ratio": values[matches].sum() / others[matches].sum(),
    }
    for kind, truth in truths.items():
        rate, mean = covered(truth, lambda kind=kind: draw(kind))
        assert 0.925 <= rate <= 0.975, kind
        assert abs(mean / truth - 1) < 0.01


def test_strata_that_differ_are_worth_it():
    random = np.random.default_rng(4)
    sizes = np.array([40_000, 5000, 300])
    parts = [random.normal(mean, 5, size) for mean, size in zip((10, 100, 5000), sizes, strict=True)]
    truth = sum(part.sum() for part in parts)
    drawn = np.array([200, 200, 100])
    design = Design(populations=sizes, sizes=drawn)

    def draw():
        own = [random.choice(part, count, replace=False) for part, count in zip(parts, drawn, strict=True)]
        return total(np.concatenate(own), np.repeat(np.arange(3), drawn), design, 0.95)

    rate, mean = covered(truth, draw)
    assert 0.925 <= rate <= 0.975
    assert abs(mean / truth - 1) < 0.001
    whole, strata, flat = np.concatenate(parts), np.zeros(500, dtype=int), Design(populations=np.array([45_300]), sizes=np.array([500]))
    plain = total(random.choice(whole, 500, replace=False), strata, flat, 0.95)
    assert plain.relative_error > 10 * draw().relative_error


@pytest.mark.parametrize("share", [0.5, 0.9, 0.05])
def test_quantiles(share):
    random = np.random.default_rng(5)
    values = random.lognormal(2, 1, 40_000)

    def draw():
        places, strata, design = simple(random, len(values), 1000)
        return quantile(values[places], strata, design, 0.95, share)

    rate, mean = covered(np.quantile(values, share), draw)
    assert 0.925 <= rate <= 0.98
    assert abs(mean / np.quantile(values, share) - 1) < 0.03


@pytest.mark.parametrize("confidence", [0.8, 0.99])
def test_other_confidences(confidence):
    random = np.random.default_rng(6)
    values = random.uniform(0, 1, 20_000)

    def draw():
        places, strata, design = simple(random, len(values), 500)
        return total(values[places], strata, design, confidence)

    rate, _ = covered(values.sum(), draw)
    assert abs(rate - confidence) < 4 * np.sqrt(confidence * (1 - confidence) / RUNS)


def test_the_error_of_a_count_is_as_the_formula_says():
    # Winter, equation 5.1: sigma 0.1 and n 1000 of a million rows have a relative mean square error of 0.0090.
    random = np.random.default_rng(7)
    drawn = random.hypergeometric(100_000, 900_000, 1000, size=4000)
    assert abs(((drawn * 1000 / 100_000 - 1) ** 2).mean() / 0.0090 - 1) < 0.1


def test_all_rows_are_no_estimate():
    design = Design(populations=np.array([3]), sizes=np.array([3]))
    found = total(np.array([1.0, 2.0]), np.zeros(2, dtype=int), design, 0.95)
    assert found == BoundedEstimate(value=3.0, low=3.0, high=3.0)
    assert found.relative_error == 0


def test_the_size_that_would_do_does():
    random = np.random.default_rng(8)
    values = random.exponential(1, 200_000)
    places, strata, design = simple(random, len(values), 500)
    wanted = needed_size(total(values[places], strata, design, 0.95), 0.02, design)
    places, strata, design = simple(random, len(values), int(wanted * 1.1))
    assert total(values[places], strata, design, 0.95).relative_error < 0.021
    assert 5_000 < wanted < 15_000


def test_student():
    for freedom, known in ((29, 2.0452), (60, 2.0003), (1000, 1.9623)):
        assert abs(student_quantile(0.95, freedom) - known) < 1e-3
