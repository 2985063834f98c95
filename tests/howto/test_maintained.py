"""docs/howto/maintained.md: a kind of relation from outside the package is maintained by the one loop, beside views and samples."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from platform_plugin.errors import CommitConflict
from platform_plugin.language.text.kind_words import KindWord
from platform_plugin.maintenance.run import find_due, run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations import kinds
from platform_plugin.relations.follow.maintained import RunControl, Selection
from tests.howto.tallies import TALLIES, TALLY, create_tally, read_tally


@pytest.fixture(autouse=True)
def registered():
    kinds.register(TALLY, word=KindWord(word="TALLY", plural="TALLIES"))
    yield
    kinds.unregister(TALLY)


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM posts (uid INT) WITH (retention_rows = 5)")
        create_tally(made.lake, "posted", made.lake.table("posts"))
        yield made


def put(platform, *numbers):
    platform.stream("posts").append([{"uid": number} for number in numbers]).result()


def number(platform):
    ((found,),) = platform.execute("SELECT n FROM posted")
    return found


def stored(platform):
    return platform.lake.read("posted").column("n").to_pylist()


def test_a_read_and_a_run_count_alike(platform):
    assert (number(platform), stored(platform)) == (0, [])
    put(platform, 1, 2, 3)
    assert (number(platform), stored(platform)) == (3, [])
    done = run_maintenance(platform.work)
    assert (done.names, done.rows, done.did_anything) == ({"tally": ("main.posted",)}, 3, True)
    assert (number(platform), stored(platform)) == (3, [3])
    assert not run_maintenance(platform.work).did_anything
    before = platform.lake.snapshot()
    put(platform, 4)
    run_maintenance(platform.work, kinds=["tally"])
    assert number(platform) == 4
    assert read_tally(platform.lake, platform.lake.table("posted"), before).count() == 3, "as it was"


def test_a_dry_run_says_what_would_be_done(platform):
    put(platform, 1, 2)
    (due,), failed = find_due(platform.work, Selection())
    assert (due.name, due.row_count, due.writes, failed) == ("main.posted", 2, ("main.posted",), {})
    assert stored(platform) == []
    assert find_due(platform.work, Selection(kinds=frozenset({"view"}))) == ([], {})


def test_the_stream_holds_what_it_has_not_consumed(platform):
    for start in range(0, 30, 3):
        put(platform, *range(start, start + 3))
    assert platform.lake.read("posts").num_rows == 30
    run_maintenance(platform.work)
    put(platform, 30)
    assert platform.lake.read("posts").num_rows <= 7
    assert number(platform) == 31
    platform.execute("DROP TALLY posted")
    for start in range(0, 30, 3):
        put(platform, *range(start, start + 3))
    assert platform.lake.read("posts").num_rows <= 7, "nobody needs them any more"


def test_of_two_runs_over_the_same_rows_one_is_told(platform):
    put(platform, 1, 2)
    with platform.lake.lease() as lease:
        pending, _ = TALLIES.find(platform.work, lease.snapshot, Selection())
        steps, _ = TALLIES.step(platform.work, lease.snapshot, pending, RunControl(), ())
        put(platform, 3)
        assert run_maintenance(platform.work).names == {"tally": ("main.posted",)}
        with pytest.raises(CommitConflict):
            put_late(platform.lake, lease.snapshot, steps)
    assert number(platform) == 3


def put_late(lake, snapshot, steps):
    with lake.commit("late", base=snapshot) as commit:
        for step in steps:
            step.put(commit)


@settings(max_examples=10, deadline=None)
@given(steps=st.lists(st.sampled_from(["put", "run", "read"]), max_size=12))
def test_wherever_runs_cut_the_rows_each_counts_once(tmp_path_factory, steps):
    with Platform.create(tmp_path_factory.mktemp("tallies") / "lake") as platform:
        platform.execute("CREATE STREAM posts (uid INT)")
        create_tally(platform.lake, "posted", platform.lake.table("posts"))
        count = 0
        for step in steps:
            if step == "put":
                put(platform, 1, 2)
                count += 2
            elif step == "run":
                run_maintenance(platform.work)
                assert sum(stored(platform)) == count
            assert number(platform) == count
