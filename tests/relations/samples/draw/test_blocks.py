"""Blocks: every set of them as likely, estimates that don't mind neighbours that are alike, and answers from them without Spark."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.files.files import write_delete_file
from platform_plugin.platform import Platform
from platform_plugin.relations.samples.draw import blocks
from platform_plugin.relations.samples.draw.blocks import BlockDesign, block_quantile, block_ratio, block_total, count_blocks, draw_blocks

ROWS = 64


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "PAGE_ROWS", ROWS)


@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=8), st.integers(1, 40), st.integers(0, 9))
def test_blocks_are_runs_of_rows_of_one_piece(counts, size, seed):
    counts = np.array(counts)
    drawn = draw_blocks(counts, size, np.random.default_rng(seed))
    starts = np.cumsum(counts) - counts
    total = sum(-(-count // 4096) for count in counts.tolist())
    assert drawn.design.block_count == count_blocks(counts) == total
    assert len(drawn.design.rows) == min(size, total)
    assert drawn.design.population == counts.sum()
    assert (np.diff(drawn.places) > 0).all()
    for unit, rows in enumerate(drawn.design.rows.tolist()):
        own = drawn.places[drawn.units == unit]
        piece = int(np.searchsorted(starts, own[0], side="right")) - 1
        while counts[piece] == 0:
            piece -= 1
        inside = own - starts[piece]
        assert len(own) == rows
        assert inside[0] % 4096 == 0
        assert (inside == np.arange(inside[0], min(inside[0] + 4096, counts[piece]))).all()


def test_every_pair_of_blocks_is_as_likely(small_blocks):
    counts, seen, runs = np.array([ROWS * 3, 10, ROWS + 1]), Counter(), 6000
    for seed in range(runs):
        drawn = draw_blocks(counts, 2, np.random.default_rng(seed))
        seen[tuple(drawn.places[np.unique(drawn.units, return_index=True)[1]].tolist())] += 1
    assert len(seen) == 15
    expected = runs / 15
    assert sum((found - expected) ** 2 / expected for found in seen.values()) < 36.1  # 14 degrees of freedom, one in a thousand


def neighbours(random, count):
    """A population whose neighbours are alike: amounts in waves, a kind that comes more often towards the end."""
    place = np.arange(count) / count
    kinds = random.random(count) < 0.05 + 0.3 * place
    amounts = random.lognormal(3, 0.7, count) * (1 + 0.9 * np.sin(place * 60)) * np.where(kinds, 3, 1)
    return kinds, amounts


def test_the_truth_is_between_the_bounds_though_neighbours_are_alike(small_blocks):
    random = np.random.default_rng(3)
    count, runs = 160_000, 800
    kinds, amounts = neighbours(random, count)
    # Pieces of all sizes, so that many blocks are short.
    counts = np.diff(np.concatenate([[0], np.sort(random.choice(count, 700, replace=False)), [count]]))
    truths = (kinds.sum(), amounts[kinds].sum(), amounts[kinds].mean(), np.median(amounts[kinds]))
    inside, wrong = np.zeros(4), 0
    for seed in range(runs):
        drawn = draw_blocks(counts, 150, np.random.default_rng(seed))
        own = kinds[drawn.places]
        units, values, design = drawn.units[own], amounts[drawn.places][own], drawn.design
        sums = np.bincount(units, weights=values, minlength=150)
        rows = np.bincount(units, minlength=150).astype(float)
        found = (
            block_total(rows, design, 0.95),
            block_total(sums, design, 0.95),
            block_ratio(sums, rows, design, 0.95),
            block_quantile(values, units, design, 0.95, 0.5),
        )
        inside += [one.low <= truth <= one.high for one, truth in zip(found, truths, strict=True)]
        # What would be said if the rows had been drawn one by one.
        share = own.mean()
        half = 1.96 * count * (share * (1 - share) / len(own)) ** 0.5
        wrong += abs(count * share - truths[0]) <= half
    assert (np.abs(inside / runs - 0.95) < 3.1 * (0.95 * 0.05 / runs) ** 0.5 + 0.01).all(), inside / runs
    assert wrong / runs < 0.9, "this population would show it if blocks were taken for rows"


def test_few_telling_blocks_have_no_bounds():
    design = BlockDesign(block_count=1000, population=64_000, rows=np.full(100, 64))
    assert np.isnan(block_total(np.where(np.arange(100) < 29, 5.0, 0.0), design, 0.95).low)
    assert not np.isnan(block_total(np.where(np.arange(100) < 31, 5.0, 0.0), design, 0.95).low)
    # Half of the blocks match, but one has nearly all: how many such there are can't be told.
    assert np.isnan(block_total(np.where(np.arange(100) < 50, 1.0, 0.0) + 5000 * (np.arange(100) == 7), design, 0.95).low)
    assert np.isnan(block_ratio(np.zeros(100), np.zeros(100), design, 0.95).value)
    assert np.isnan(block_quantile(np.empty(0), np.empty(0, dtype=int), design, 0.95, 0.5).value)
    # What every row has one of is not estimated.
    whole = block_total(np.full(100, 64.0), design, 0.95)
    assert (whole.low, whole.value, whole.high) == (64_000, 64_000, 64_000)


COUNT = 1_400_000


@pytest.fixture(scope="module")
def sales(tmp_path_factory):
    random = np.random.default_rng(1)
    kinds, amounts = neighbours(random, COUNT)
    rows = pa.table({"id": pa.array(range(COUNT), pa.int32()), "kind": np.where(kinds, "late", "early"), "amount": amounts})
    with Platform.create(tmp_path_factory.mktemp("blocks") / "lake") as platform:
        platform.execute("CREATE TABLE sales (id INT, kind STRING, amount DOUBLE)")
        lake = platform.lake
        table = lake.table("sales")
        with lake.commit("load") as commit:
            commit.append(table, [lake.write(table, rows.slice(start, 400_000)) for start in range(0, COUNT, 400_000)])
        yield platform, kinds, amounts


def test_answers_from_blocks_need_no_spark(sales, no_unasked_server):
    platform, kinds, amounts = sales
    query = "SELECT kind, count(*) AS n, sum(s.amount) AS t, avg(amount) AS a, median(amount) AS m FROM sales s"
    found = platform.execute(
        f"{query} WITH SAMPLE (error = 0.6, confidence = 0.9999) WHERE id >= :first AND amount > 2.5 GROUP BY kind", {"first": 0}
    )
    answers = found.arrow().to_pylist()
    assert {row["kind"] for row in answers} == {"early", "late"}
    for row in answers:
        own = amounts[(kinds == (row["kind"] == "late")) & (amounts > 2.5)]
        for name, truth in (("n", len(own)), ("t", own.sum()), ("a", own.mean()), ("m", np.median(own))):
            assert row[f"{name}_low"] <= truth <= row[f"{name}_high"], (row["kind"], name)
            assert (row[f"{name}_high"] - row[f"{name}_low"]) / 2 <= 0.6 * row[name] * 1.0001
        assert row["matching_rows"] < row["sample_rows"] < row["population_rows"] == COUNT
        assert row["sample_rows"] >= 64 * 4096 - 3 * 4096


def test_what_is_in_few_blocks_is_answered_from_single_rows(sales):
    platform, _, _ = sales
    # By a column of which the catalogue has bounds, files are left out; by this expression none is.
    query = "SELECT count(*) AS n FROM sales WHERE id + 0 < ?"
    (row,) = platform.estimate(query, [20_000], error=0.3).arrow().to_pylist()
    assert row["n_low"] <= 20_000 <= row["n_high"]
    assert row["sample_rows"] <= 500_000
    assert row["population_rows"] == COUNT
    with pytest.raises(InvalidValue, match=r"can't be estimated with an error of 0.01"):
        platform.estimate(query, [2000], error=0.01)


def test_files_that_can_hold_no_match_are_left_out(sales):
    platform, _, _ = sales
    (row,) = platform.estimate("SELECT count(*) AS n FROM sales WHERE id < ?", [20_000], error=0.3).arrow().to_pylist()
    assert row["n_low"] <= 20_000 <= row["n_high"]
    assert row["population_rows"] == 400_000


def test_explained_with_its_blocks(sales):
    platform, _, _ = sales
    told = [line for (line,) in platform.execute("EXPLAIN SELECT sum(amount) AS s FROM sales WITH SAMPLE (error = 0.1)")]
    assert "can draw whole blocks of 4096 rows, 64 of 343 at first" in told


def test_deleted_rows_are_in_no_block(sales):
    platform, kinds, _ = sales
    lake = platform.lake
    table = lake.table("sales")
    before = lake.snapshot()
    gone = {
        file.id: write_delete_file(lake.storage, table, file.path, pa.array(np.flatnonzero(np.arange(file.record_count) % 5 == 0)))
        for file in lake.scan(table, before).files
    }
    with lake.commit("delete") as commit:
        commit.delete(table, gone)
    left = np.concatenate([np.arange(count) % 5 != 0 for count in (400_000, 400_000, 400_000, 200_000)])
    query = "SELECT count(*) AS n, count_if(kind = 'late') AS late FROM sales"
    (row,) = platform.estimate(query, error=0.5, confidence=0.9999).arrow().to_pylist()
    assert row["n"] == row["n_low"] == row["n_high"] == row["population_rows"] == left.sum()
    assert row["late_low"] <= kinds[left].sum() <= row["late_high"]
    assert row["sample_rows"] < left.sum() / 2
