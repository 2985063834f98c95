"""Where the tests SA-01 to SA-18 of the specification stand, those here that stand nowhere else, and uniformity a thousand times over."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from platform_plugin.platform import Platform
from platform_plugin.relations.samples.keys.keys import HashedKeys, sample_seed
from platform_plugin.relations.samples.keys.ladders import LadderKeys
from platform_plugin.relations.samples.reservoir.merge import draw_picks
from platform_plugin.relations.samples.reservoir.reservoir import Skips
from tests.relations.samples.chi_square import inclusion
from tests.relations.samples.streams import COLUMNS, append, ids

FOLDER = Path(__file__).parent
ELSEWHERE = {
    "SA-01": "test_samples.py::test_has_as_many_rows_as_it_may",
    "SA-02": "reservoir/test_merge.py::test_pooling_reservoirs_fails_this_very_test",
    "SA-03": "reservoir/test_merge.py::test_merged_samples_are_uniform_over_pairs_and_subsets",
    "SA-04": "reservoir/test_merge.py::test_shares_have_the_hypergeometric_law",
    "SA-05": "draw/test_viewed.py::test_spark_and_numpy_choose_the_same_and_no_other_rows_come_out",
    "SA-06": "draw/test_viewed.py::test_every_row_of_every_task_is_as_likely",
    "SA-08": "reservoir/test_counting.py::test_rows_that_reach_the_client_do_not_grow_with_files",
    "SA-09": "reservoir/test_reservoir.py::test_few_random_numbers_for_many_rows",
    "SA-10": "reservoir/test_merge.py::test_shares_have_the_hypergeometric_law",
    "SA-11": "reservoir/test_merge.py::test_populations_beyond_a_billion_rows",
    "SA-12": "test_crash.py::test_killed_here_and_there",
    "SA-13": "keys/test_keys.py::test_samples_of_other_seeds_have_nothing_to_do_with_each_other",
    "SA-14": "test_samples.py::test_uniform_whenever_and_however_it_is_maintained",
    "SA-15": "reservoir/test_sliding.py::test_uniform_in_the_window_and_nothing_outside",
    "SA-16": "keys/test_ranks.py::test_sets_have_the_law_of_successive_draws",
    "SA-17": "estimate/test_estimators.py::test_the_error_of_a_count_is_as_the_formula_says",
    "SA-18": "estimate/test_estimators.py::test_no_match_is_not_taken_for_nothing",
}


def test_every_test_of_the_specification_is_somewhere():
    for name, place in ELSEWHERE.items():
        file, function = place.split("::")
        assert f"def {function}(" in (FOLDER / file).read_text(), name
    here = {f"SA-{number}" for number in re.findall(r"def test_sa_(\d\d)", Path(__file__).read_text())}
    assert here | set(ELSEWHERE) == {f"SA-{number:02}" for number in range(1, 19)}


def test_sa_07_drawn_on_demand_while_the_stream_goes_on(tmp_path):
    runs, size, ends = 60, 6, (10, 50, 100)
    seen = {end: np.zeros(end) for end in ends}
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute(f"CREATE STREAM posts ({COLUMNS})")
        for seed in range(runs):
            platform.execute(f"CREATE SAMPLE s{seed} ON posts SIZE {size} WITH (seed = {seed})")
        for first, end in zip((0, *ends), ends, strict=False):
            append(platform, "posts", first, end)
            for seed in range(runs):
                found = ids(platform, f"s{seed}")
                assert len(found) == size
                seen[end][found] += 1
    for end, counts in seen.items():
        assert abs(inclusion(counts, runs, size, end)) < 3.1, end


REPEATS, RUNS, SIZE, TOTAL = 1000, 400, 5, 40


def by_keys(keys):
    """The places of the lowest keys of forty rows, and of the next forty, and so on."""

    def draw(repeat):
        found = keys(sample_seed(repeat)).of(np.arange(RUNS * TOTAL)).reshape(RUNS, TOTAL)
        return np.argsort(found, axis=1)[:, :SIZE]

    return draw


def by_merging(repeat):
    """Merges of four reservoirs of very different cardinalities."""
    random = np.random.default_rng(repeat)
    counts = np.array([3, 7, 1, TOTAL - 11])
    starts = np.cumsum(counts) - counts
    held = np.minimum(counts, SIZE)
    for _ in range(RUNS):
        own = [start + random.permutation(count)[:most] for start, count, most in zip(starts, counts, held, strict=True)]
        yield np.concatenate(own)[draw_picks(held, counts, SIZE, random)]


def by_skipping(repeat):
    """Algorithm L, which begins with the first rows and puts others into their slots."""
    random = np.random.default_rng(repeat)
    for _ in range(RUNS):
        items, slots = Skips(SIZE, random).until(TOTAL)
        found = np.arange(SIZE)
        for item, slot in zip(items.tolist(), slots.tolist(), strict=True):
            found[slot] = item
        yield found


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "draw", [by_keys(HashedKeys), by_keys(LadderKeys), by_merging, by_skipping], ids=["hashes", "ladders", "merge", "skips"]
)
def test_uniform_a_thousand_times_over(draw):
    # A thousand tests, each of four hundred draws. What is uniform is found to be improbable at one in a thousand, to either side, by about
    # two of them; more than ten would be a law that is not.
    scores = []
    for repeat in range(REPEATS):
        found = np.stack(list(draw(repeat)))
        assert found.shape == (RUNS, SIZE)
        assert (np.diff(np.sort(found, axis=1), axis=1) > 0).all(), "no row twice"
        scores.append(inclusion(np.bincount(found.ravel(), minlength=TOTAL), RUNS, SIZE, TOTAL))
    values = np.array(scores)
    assert np.count_nonzero(np.abs(values) > 3.09) <= REPEATS // 100
    assert abs(values.mean()) < 4 / math.sqrt(REPEATS), "neither too uneven nor too even"
    assert abs(values.std() - 1) < 0.1
