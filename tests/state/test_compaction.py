"""Compaction: no row is lost, none is written more than four times for each that was added, and one merge takes a bounded share."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.lake.values.addresses import ADDRESS_BITS
from platform_plugin.lake.values.hashes import hash_value
from platform_plugin.state.compaction import plan_compaction, plan_gathering
from platform_plugin.state.stored_file import CREDITS, DELTA, FilePlace, StoredFile


def address(key):
    return hash_value(key) % (1 << 64) >> 1


class Model:
    """A store whose files are Counters of keys, with as many bytes for each row as a test wants."""

    def __init__(self, row_bytes, *, is_divisible=True):
        self.row_bytes, self.is_divisible = row_bytes, is_divisible
        self.files = {}
        self.added = self.written = self.largest = self.most_files = self.next = 0
        self.total = Counter()

    def put(self, place, rows, *, is_named=True):
        self.next += 1
        file = StoredFile(id=self.next, rows=len(rows), bytes=len(rows) * self.row_bytes, place=place, is_named=is_named)
        self.files[file.id] = (file, rows)

    def add(self, keys, *, is_named=True):
        rows = Counter(keys)
        self.total += rows
        self.added += len(rows)
        self.put(DELTA, rows, is_named=is_named)

    def compact(self):
        plan = plan_compaction([file for file, _ in self.files.values()], is_divisible=self.is_divisible)
        if plan is None:
            return None
        rows = Counter()
        for file in plan.files:
            rows += self.files.pop(file.id)[1]
        parts = {}
        depth = max(plan.depth, len(plan.place.prefix))
        for key, number in rows.items():
            prefix = f"{address(key) >> ADDRESS_BITS - depth:0{depth}b}" if depth else ""
            assert prefix.startswith(plan.place.prefix), "a part of the base has only its own addresses"
            parts.setdefault(prefix, Counter())[key] = number
        for prefix, part in parts.items():
            self.put(plan.place_of(prefix, len(part), len(rows)), part)
        self.written += len(rows)
        self.largest = max(self.largest, len(rows))
        self.most_files = max(self.most_files, len(self.files))
        return plan

    def check(self):
        whole = Counter()
        for file, rows in self.files.values():
            whole += rows
            first, end = file.place.addresses
            assert all(first <= address(key) < end for key in rows)
        assert whole == self.total
        assert self.written <= CREDITS * self.added
        base = [key for file, rows in self.files.values() if file.place.is_base for key in rows]
        assert len(base) == len(set(base)), "the files of a base share no group"


ADDED = st.lists(st.tuples(st.integers(1, 60), st.sampled_from([20, 400, 1 << 40])), min_size=1, max_size=150)


@given(ADDED, st.sampled_from([20, 300_000, 3_000_000]), st.booleans(), st.randoms(use_true_random=False))
def test_whatever_is_added_is_there_and_was_written_at_most_four_times(deltas, row_bytes, is_divisible, chance):
    model = Model(row_bytes, is_divisible=is_divisible)
    for rows, groups in deltas:
        model.add([chance.randrange(groups) for _ in range(rows)])
        model.compact()
    model.check()


def grow(model, deltas, rows, groups, *, seed=1):
    chance = random.Random(seed)
    for _ in range(deltas):
        model.add([chance.randrange(groups) for _ in range(rows)])
        model.compact()
    model.check()


@pytest.mark.parametrize(("deltas", "rows", "groups"), [(4000, 10, 1 << 40), (4000, 10, 5_000), (600, 200, 1 << 40), (1000, 3, 40)])
def test_few_files_are_left(deltas, rows, groups):
    model = Model(20)
    grow(model, deltas, rows, groups)
    # Runs of two sizes and deltas, each as many as the third root of what a delta adds to the base.
    fan = max(8, (sum(file.rows for file, _ in model.files.values()) / rows) ** (1 / 3))
    assert model.most_files <= 3 * fan + 3
    assert model.written > model.added / 2


@pytest.mark.parametrize("row_bytes", [20, 100_000])
def test_few_files_are_left_where_additions_are_always_to_the_same_groups(row_bytes):
    model = Model(row_bytes)
    model.add(range(3_000))
    for _ in range(20):
        model.compact()
    parts = max(1, len(model.files))
    grow(model, 6_000, 8, 8)
    fan = max(8, (3_000 / 8) ** (1 / 3))
    assert model.most_files <= (2 + parts) * fan + parts + 3


def test_one_compaction_takes_a_bounded_share_of_a_large_store():
    model = Model(1_000_000)
    model.add(range(600))
    for _ in range(50):
        model.compact()
    assert max(len(file.place.prefix) for file, _ in model.files.values()) >= 4
    model.largest = 0
    grow(model, 3000, 4, 700)
    base = sum(file.rows for file, _ in model.files.values() if file.place.is_base)
    assert 0 < model.largest <= base / 6
    assert base > 500


def test_the_base_of_an_older_version_is_its_largest_file():
    model = Model(20)
    model.add(range(1000), is_named=False)
    number = 0
    while (plan := model.compact()) is None:
        number += 1
        model.add([number], is_named=False)
    assert number == 10, "the third root of a thousand rows"
    assert {file.rows for file in plan.files} == {1}, "few rows do not pay for the base"
    assert plan.place == FilePlace(run=1)
    for _ in range(400):
        model.add(range(500))
        model.compact()
    assert any(file.place.is_base for file, _ in model.files.values())
    assert sum((rows for _, rows in model.files.values()), Counter()) == model.total


def test_rows_without_keys_are_gathered_once_there_are_many_small_files():
    small = [StoredFile(id=number, rows=1, bytes=100) for number in range(31)]
    large, last = StoredFile(id=99, rows=1, bytes=1 << 30), StoredFile(id=50, rows=1, bytes=5)
    assert plan_gathering([*small, large]) is None
    assert plan_gathering([*small, large, last]).files == (*small, last)


def test_nothing_is_due_without_additions():
    assert plan_gathering([]) is None
    assert plan_compaction([], is_divisible=True) is None
    assert plan_compaction([StoredFile(id=1, rows=5, bytes=9, place=FilePlace(is_base=True))], is_divisible=True) is None
