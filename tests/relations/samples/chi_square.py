"""Pearson's test without a table: how far counts are from what is expected, as standard deviations of a normal law."""

from __future__ import annotations

import numpy as np


def deviation(statistic, freedom):
    """A chi-square statistic as a standard normal one (Wilson and Hilferty); beyond 3.1 happens once in a thousand."""
    return ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / np.sqrt(2 / (9 * freedom))


def goodness(observed, expected):
    """Of independent counts."""
    observed, expected = np.asarray(observed, float), np.asarray(expected, float)
    return deviation(((observed - expected) ** 2 / expected).sum(), len(observed) - 1)


def count_draws(draws, population):
    """How often each item, and each pair of items, is in some draws."""
    singles, pairs = np.zeros(population), np.zeros((population, population))
    for found in draws:
        singles[found] += 1
        pairs[np.ix_(found, found)] += 1
    return singles, pairs[np.triu_indices(population, 1)]


def inclusion(counts, runs, size, population):
    """Of how often each item was in a sample of a fixed size: items exclude each other, which makes the counts differ less."""
    expected = runs * size / population
    statistic = (population - 1) / population * ((np.asarray(counts) - expected) ** 2).sum() / (expected * (1 - size / population))
    return deviation(statistic, population - 1)
