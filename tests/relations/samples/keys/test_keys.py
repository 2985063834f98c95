"""Keys: Spark's and ours are the same, and the rows with the lowest are a uniform sample."""

import numpy as np
import pytest

from platform_plugin.relations.samples.keys.keys import EVERY, keys_between, keys_of_ids, low_keys, sample_seed, spark_key
from tests.relations.samples.chi_square import count_draws, goodness, inclusion


@pytest.mark.spark
def test_spark_computes_the_same_keys(spark_session):
    ids = [0, 1, 2, 4095, 4096, 1 << 31, (1 << 62) + 12345]
    for seed in (sample_seed(1), sample_seed(2), 0, -1, 1 - (1 << 63), (1 << 63) - 1):
        shown = ", ".join(f"({number}L)" for number in ids)
        found = spark_session.arrow(f"SELECT {spark_key(seed, 'id')} AS k FROM VALUES {shown} AS t(id)").read_all()
        assert found.column("k").to_pylist() == keys_of_ids(seed, np.array(ids)).tolist()


def test_keys_are_distinct_and_do_not_depend_on_where_a_range_begins():
    keys = keys_between(sample_seed(3), 0, 200_000)
    assert len(np.unique(keys)) == len(keys)
    assert keys.min() >= 0
    assert (keys_between(sample_seed(3), 12_345, 77_777) == keys[12_345:77_777]).all()
    places, low = low_keys(sample_seed(3), 1000, 150_000, EVERY // 1000)
    assert (keys[places + 1000] == low).all()
    assert len(places) == (keys[1000:150_000] <= EVERY // 1000).sum()
    far = (1 << 62) + 12_345
    assert (keys_between(-7, far, far + 50_000) == keys_of_ids(-7, np.arange(far, far + 50_000))).all()
    bound = int(keys[77])
    assert 77 in low_keys(sample_seed(3), 0, 200_000, bound)[0], "a bound is inside, to the last bit"
    assert 77 not in low_keys(sample_seed(3), 0, 200_000, bound - 1)[0]


@pytest.mark.parametrize("size", [1, 7, 35])
def test_the_lowest_are_uniform(size):
    total, runs = 40, 4000
    draws = (np.argsort(keys_between(sample_seed(seed), 1_000_000, 1_000_000 + total))[:size] for seed in range(runs))
    seen, both = count_draws(draws, total)
    assert abs(inclusion(seen, runs, size, total)) < 3.1
    if size > 1:
        # Pairs exclude each other too, which makes their counts differ less than independent ones would.
        assert goodness(both, np.full(len(both), runs * size * (size - 1) / (total * (total - 1)))) < 3.1


def test_samples_of_other_seeds_have_nothing_to_do_with_each_other():
    one, other = (np.argsort(keys_between(sample_seed(seed), 0, 100_000))[:1000] for seed in (1, 2))
    # Hypergeometric: 10 are expected in both, and 3.1 deviations are 9.8 more.
    assert len(np.intersect1d(one, other)) < 20
