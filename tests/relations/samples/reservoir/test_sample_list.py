"""What a writer knows of samples, and when it looks again."""

from dataclasses import replace
from uuid import uuid4

import pytest

from platform_plugin.cache import BUDGET_VARIABLE, set_budget
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.samples.record import find_sample
from platform_plugin.relations.samples.reservoir import picker
from platform_plugin.relations.samples.reservoir import sample_list as known_here
from platform_plugin.relations.samples.reservoir.growing import find_pending
from platform_plugin.relations.samples.reservoir.sample_list import KnownSamples, known_samples
from tests.relations.samples.streams import COLUMNS, ids, rows


@pytest.fixture(autouse=True)
def cache(monkeypatch):
    """The default budget: these tests are of what is looked at again, and when."""
    monkeypatch.delenv(BUDGET_VARIABLE, raising=False)
    set_budget()


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute(f"CREATE STREAM posts ({COLUMNS})")
        yield made


def known_of_posts(platform):
    snapshot = platform.lake.snapshot()
    return known_samples(platform.lake, snapshot, platform.lake.table("posts", snapshot))


def put(platform, first, last):
    with platform.stream("posts") as stream:
        stream.append(rows(first, last), wait=True)


def test_only_rows_of_others_make_it_stale(platform):
    base = platform.lake.snapshot()
    known = KnownSamples(uuid4(), base.schema_version)
    assert not known.is_stale(base)
    assert known.is_stale(replace(base, schema_version=base.schema_version + 1))
    known.pickers.append(None)
    for start in range(0, 5_000_000, 500_000):
        known.count_in(start, start + 500_000)
    assert not known.is_stale(base), "it has seen all of these itself"
    known.count_in(5_900_000, 6_000_000)
    assert not known.is_stale(base)
    known.count_in(6_200_000, 6_300_000)
    assert known.is_stale(base), "more than a million came from others"


def test_it_looks_again_after_a_while_that_is_the_shortest_of_what_was_asked_for(platform, monkeypatch):
    base = platform.lake.snapshot()
    known = KnownSamples(uuid4(), base.schema_version)
    known.pickers.append(None)
    known.look_again(20)
    known.look_again(30)
    now = known_here.time.monotonic()
    monkeypatch.setattr(known_here.time, "monotonic", lambda: now + 15)
    assert not known.is_stale(base)
    monkeypatch.setattr(known_here.time, "monotonic", lambda: now + 21)
    assert known.is_stale(base)


def test_a_stream_without_samples_is_looked_at_once(platform):
    first = known_of_posts(platform)
    assert first.pickers == []
    put(platform, 0, 10)
    assert known_of_posts(platform) is first
    platform.execute("CREATE SAMPLE s ON posts SIZE 5")
    assert len(known_of_posts(platform).pickers) == 1


def test_what_was_too_much_to_pick_is_looked_for_again(platform, monkeypatch):
    # The first picks of a large sample are left to a run; once that has made it, the writer has to learn of it.
    platform.execute("CREATE SAMPLE s ON posts SIZE 50 WITH (seed = 1)")
    with monkeypatch.context() as patch:
        patch.setattr(picker, "LARGEST_BYTES", 400)
        put(platform, 0, 3000)
        known = known_of_posts(platform)
        assert known.look_again_after == 30
        assert not run_maintenance(platform.work, kinds=["sample"]).failed
        later = known_here.time.monotonic() + 31
        patch.setattr(known_here.time, "monotonic", lambda: later)
        assert known_of_posts(platform) is not known
    before = ids(platform, "s")
    put(platform, 3000, 3010)
    snapshot = platform.lake.snapshot()
    assert find_pending(platform.work, find_sample(platform.lake, platform.lake.table("s"), snapshot), snapshot).gap_rows == 0
    assert len(set(ids(platform, "s")) - set(before)) < 10


def test_appends_that_wait_for_their_release_are_counted_in_the_lake(platform):
    # Whoever looks goes on where others stopped: another process, or this one when its cache was emptied.
    platform.execute("CREATE SAMPLE s ON posts SIZE 5 WITH (seed = 1)")
    for start in range(0, 50, 10):
        put(platform, start, start + 10)
    known = known_of_posts(platform)
    assert known.unreleased_appends == 5
    known_here._STREAMS.clear()
    again = known_of_posts(platform)
    assert again is not known
    assert again.unreleased_appends == 5
    platform.execute("REFRESH SAMPLE s")
    known_here._STREAMS.clear()
    assert known_of_posts(platform).unreleased_appends == 0
