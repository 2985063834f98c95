"""Samples of windows: by rows, by age, and of what a stream holds."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest

from platform_plugin.errors import InvalidValue
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.samples.record import find_sample
from platform_plugin.relations.samples.reservoir.reservoirs import plan_spans
from platform_plugin.relations.samples.reservoir.sliding import find_window
from tests.relations.samples.chi_square import inclusion
from tests.relations.samples.streams import COLUMNS, append, ids


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute(f"CREATE STREAM posts ({COLUMNS})")
        yield made


@pytest.mark.slow
def test_uniform_in_the_window_and_nothing_outside(platform):
    # Ranges of all sizes, some merged, one cut by the border, one that no run has taken up.
    runs, window, size = 25, 70, 12
    for seed in range(runs):
        platform.execute(f"CREATE SAMPLE s{seed} ON posts SIZE {size} WITH (window = '{window} rows', seed = {seed})")
    last = 0
    for number, width in enumerate([13, 2, 1, 1, 1, 2, 30, 3, 1, 19, 1, 1, 1, 8]):
        append(platform, "posts", last, last + width)
        last += width
        if number % 4 != 3:
            run_maintenance(platform.work, kinds=["sample"])
    seen = np.zeros(last)
    for seed in range(runs):
        found = ids(platform, f"s{seed}")
        assert len(set(found)) == size
        assert platform.sample(f"s{seed}").cardinality == window
        seen[found] += 1
    assert not seen[: last - window].any()
    assert abs(inclusion(seen[last - window :], runs, size, window)) < 3.1


def test_rows_that_another_client_keeps_in_the_catalogue_are_in_the_window(platform, duck, tmp_path):
    platform.execute("CREATE SAMPLE s ON posts SIZE 60 WITH (window = 'retention', seed = 1)")
    platform.execute("CREATE SAMPLE n ON posts SIZE 60 WITH (window = '42 rows', seed = 1)")
    duck(f"platform+local://{tmp_path}/lake").execute("INSERT INTO lake.main.posts SELECT range, 'duck', 1 FROM range(5)")
    for first in (5, 25):
        append(platform, "posts", first, first + 20)
        for _ in ("read", "stored"):
            assert ids(platform, "s") == list(range(first + 20)), "also those that are older than any file"
            assert ids(platform, "n") == list(range(max(0, first - 22), first + 20))
            run_maintenance(platform.work, kinds=["sample"])


@pytest.mark.parametrize("size", [1, 5, 200])
def test_every_read_has_what_it_may(platform, size):
    platform.execute(f"CREATE SAMPLE s ON posts SIZE {size} WITH (window = '40 rows', seed = 1)")
    assert ids(platform, "s") == []
    for start in range(0, 100, 7):
        append(platform, "posts", start, start + 7)
        end = start + 7
        before = ids(platform, "s")
        assert len(set(before)) == min(size, end, 40)
        assert min(before) >= end - 40
        if start % 3:
            run_maintenance(platform.work, kinds=["sample"])
            after = ids(platform, "s")
            assert len(set(after)) == len(before)
            assert min(after) >= end - 40
            # Who reads the table with another client has the sample as the run left it.
            assert sorted(platform.lake.read("s").column("id").to_pylist()) == before


def test_reservoirs_stay_few(platform):
    platform.execute("CREATE SAMPLE s ON posts SIZE 5 WITH (window = '400 rows', seed = 1)")
    most = 0
    for start in range(0, 600, 15):
        append(platform, "posts", start, start + 15)
        run_maintenance(platform.work, kinds=["sample"])
        snapshot = platform.lake.snapshot()
        sample = find_sample(platform.lake, platform.lake.table("s"), snapshot)
        ranges = [each.span for each in find_window(platform.work, sample, snapshot).picks]
        most = max(most, len(ranges))
        assert all(end - first <= 50 for first, end in ranges)
        assert ranges[0][1] > start + 15 - 400
    assert 8 <= most <= 18


def test_spans_are_merged_as_in_counting():
    spans, most = [], 0
    for number in range(1, 3000):
        spans.append((number - 1, number))
        spans = [(own[0][0], own[-1][1]) for own in plan_spans(spans, (max(0, number - 1000), number))]
        most = max(most, len(spans))
        assert spans[0][0] <= max(0, number - 1000)
        assert all(one[1] == other[0] for one, other in pairwise(spans))
    assert most <= 26


def test_a_window_of_what_the_stream_holds(platform):
    platform.execute(f"CREATE STREAM short ({COLUMNS}) WITH (retention_rows = 30)")
    platform.execute("CREATE SAMPLE s ON short SIZE 8 WITH (window = 'retention', seed = 1)")
    for start in range(0, 300, 10):
        append(platform, "short", start, start + 10)
        if start % 40 == 0:
            run_maintenance(platform.work, kinds=["sample"])
        held = platform.lake.read("short").column("id").to_pylist()
        found = ids(platform, "s")
        assert set(found) <= set(held)
        assert len(found) == min(8, len(held))
        assert platform.sample("s").cardinality == len(held)
    assert platform.lake.read("short").num_rows <= 40, "a windowed sample holds nothing back"


def test_a_window_of_time_ends_with_the_snapshot(platform):
    platform.execute("CREATE SAMPLE s ON posts SIZE 100 WITH (window = '1 hour', seed = 1)")
    append(platform, "posts", 0, 10)
    append(platform, "posts", 10, 30)
    run_maintenance(platform.work, kinds=["sample"])
    assert platform.sample("s").cardinality == 30
    snapshot = platform.lake.snapshot()
    sample = find_sample(platform.lake, platform.lake.table("s"), snapshot)
    later = replace(snapshot, time=snapshot.time + timedelta(hours=2))
    assert find_window(platform.work, sample, later).whole.row_count == 0


def test_old_snapshots_have_their_own_window(platform):
    platform.execute("CREATE SAMPLE s ON posts SIZE 5 WITH (window = '20 rows', seed = 1)")
    known = {}
    for start in range(0, 100, 10):
        append(platform, "posts", start, start + 10)
        known[platform.lake.snapshot().id] = ids(platform, "s")
        run_maintenance(platform.work, kinds=["sample"])
        known[platform.lake.snapshot().id] = ids(platform, "s")
    for version, found in known.items():
        assert sorted(platform.sample("s", version=version).arrow().column("id").to_pylist()) == found


def test_described_made_again_and_dropped(platform):
    append(platform, "posts", 0, 50)
    platform.execute("CREATE SAMPLE s ON posts SIZE 5 WITH (window = '20 rows', seed = 1)")
    assert platform.execute("REFRESH SAMPLE s").row_count == 20
    told = {row[0]: row[1] for row in platform.execute("DESCRIBE EXTENDED s")}
    assert told["# window"] == "rows 30 to 49"
    assert told["# picked"] == "20 rows of 1 ranges"
    assert next(iter(platform.execute("SHOW CREATE s")))[0] == (
        "CREATE SAMPLE main.s ON main.posts SIZE 5 WITH (window = '20 rows', seed = 1)"
    )
    assert [row[1] for row in platform.execute("SHOW TABLES")] == ["posts", "s"]
    platform.execute("DROP SAMPLE s")
    assert [table.name.relation for table in platform.lake.tables()] == ["posts"]
    for option, said in (("'soon'", "'soon' is not a window"), ("'0 rows'", "'0 rows' is not a window")):
        with pytest.raises(InvalidValue, match=said):
            platform.execute(f"CREATE SAMPLE s ON posts SIZE 5 WITH (window = {option})")
    platform.execute("CREATE TABLE users (id INT)")
    with pytest.raises(InvalidValue, match="a table has no window"):
        platform.execute("CREATE SAMPLE s ON users SIZE 5 WITH (window = '5 rows')")


@pytest.mark.spark
def test_conditions_and_strata_in_a_window(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute(f"CREATE STREAM posts ({COLUMNS})")
        platform.execute(
            "CREATE SAMPLE s ON posts SIZE 40 WHERE id % 2 = 0 STRATIFIED BY kind SIZE 6 PER STRATUM WITH (window = '100 rows', seed = 1)"
        )
        for start in range(0, 240, 60):
            append(platform, "posts", start, start + 60)
            found, end = platform.sample("s"), start + 60
            inside = [number for number in range(max(0, end - 100), end) if number % 2 == 0]
            assert set(found.arrow().column("id").to_pylist()) <= set(inside)
            rare = sum(number % 50 == 0 for number in inside)
            assert found.cardinalities == {("a",): len(inside) - rare, ("rare",): rare}
            assert found.arrow().num_rows == 6 + rare
            if start != 120:
                assert platform.execute("REFRESH SAMPLE s").row_count
                assert platform.sample("s").cardinalities == found.cardinalities
