"""What one Spark task does, without Spark."""

from itertools import chain

import numpy as np
import pyarrow as pa

from platform_plugin.samples.strata import group, keys_of
from platform_plugin.samples.task import CARDINALITY, TASK, sample_task
from tests.samples.chi_square import goodness, inclusion


def batches(total, step):
    for start in range(0, total, step):
        numbers = range(start, min(total, start + step))
        kinds = [None if number % 10 == 0 else "ab"[number % 2] for number in numbers]
        yield pa.record_batch({"kind": kinds, "_place": pa.array(numbers, pa.int64())})


def test_each_stratum_has_a_reservoir_of_its_own():
    rows = pa.Table.from_batches(list(sample_task(batches(300, 7), ["kind"], 6, 1, "words", task=4)))
    assert set(rows.column(TASK).to_pylist()) == {4}
    by_kind = {key: rows.take(pa.array(places)) for key, places in group(rows, ["kind"]).items()}
    assert {key: part.num_rows for key, part in by_kind.items()} == {(None,): 6, ("a",): 6, ("b",): 6}
    assert {key: set(part.column(CARDINALITY).to_pylist()) for key, part in by_kind.items()} == {
        (None,): {30},
        ("a",): {120},
        ("b",): {150},
    }
    assert all(number % 10 == 0 for number in by_kind[None,].column("_place").to_pylist())


def test_a_task_that_is_run_again_takes_the_same():
    first = pa.Table.from_batches(list(sample_task(batches(300, 7), [], 6, 1, "words", task=4)))
    again = pa.Table.from_batches(list(sample_task(batches(300, 50), [], 6, 1, "words", task=9)))
    assert first.column("_place").to_pylist() == again.column("_place").to_pylist()
    other = pa.Table.from_batches(list(sample_task(batches(300, 7), [], 6, 2, "words", task=4)))
    assert first.column("_place").to_pylist() != other.column("_place").to_pylist()
    assert list(sample_task([], [], 6, 1, task=0)) == []


def test_identical_parts_do_not_take_identical_rows():
    def moved(start):
        return (pa.record_batch({"_place": pa.array(np.arange(start, start + 100))}) for _ in range(1))

    taken = [next(sample_task(moved(start), [], 5, 1, task=0)).column("_place").to_numpy() - start for start in range(0, 2000, 100)]
    assert len({tuple(sorted(one)) for one in taken}) == 20


def test_rows_of_a_stratum_are_as_likely():
    runs, seen = 2000, np.zeros(40)
    for seed in range(runs):
        rows = pa.Table.from_batches(list(sample_task(batches(40, 9), ["kind"], 3, seed, task=0)))
        seen[rows.column("_place").to_numpy()] += 1
    for inside in ([n for n in range(40) if n % 10 and n % 2], [n for n in range(40) if n % 10 and n % 2 == 0]):
        assert abs(inclusion(seen[inside], runs, 3, len(inside))) < 3.1
    assert abs(goodness(seen[::10], np.full(4, runs * 3 / 4)) + 1) < 3.7


def test_keys_tell_null_from_text():
    table = pa.table({"a": ["x", None, "x", "None"], "b": pa.array([1, 1, None, 1], pa.int32())})
    numbers, keys = keys_of(table, ["a", "b"])
    assert [keys[number] for number in numbers] == [("x", "1"), (None, "1"), ("x", None), ("None", "1")]
    assert keys_of(table, [])[1] == [()]
    assert sorted(chain.from_iterable(places.tolist() for places in group(table, ["b"]).values())) == [0, 1, 2, 3]
