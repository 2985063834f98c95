"""Picks at ingest: the sample is the same as if all rows had been looked at, whoever writes, merges and expires in whatever order."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.lake.files.files import write_delete_file
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.samples import waiting
from platform_plugin.relations.samples.keys.keys import keys_between, sample_seed
from platform_plugin.relations.samples.keys.lowest import LowestRows, choose_lowest
from platform_plugin.relations.samples.record import definitions, find_sample
from platform_plugin.relations.samples.reservoir import sample_list as known_here
from platform_plugin.relations.samples.reservoir.growing import find_pending, read_current_sample
from platform_plugin.relations.samples.reservoir.picks import ENDED_PICK, PICK, decode_rows, encode_rows
from platform_plugin.relations.samples.reservoir.sliding import find_window
from tests.relations.samples.streams import COLUMNS, append, counted_keys, ids, rows

ROOT = Path(__file__).parents[4]


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute(f"CREATE STREAM posts ({COLUMNS})")
        yield made


def put(platform, relation, first, last):
    """Append rows from memory."""
    with platform.stream(relation) as stream:
        stream.append(rows(first, last), wait=True)


def lowest(seed, size, first, last):
    """The rows that a sample must have, of those with these ids, whose numbers are their ids."""
    keys = counted_keys(seed, first, last)
    return sorted((np.argsort(keys)[:size] + first).tolist())


def behind(platform, name="s"):
    snapshot = platform.lake.snapshot()
    return find_pending(platform.work, find_sample(platform.lake, platform.lake.table(name), snapshot), snapshot)


def test_nothing_has_to_be_read_again(platform):
    platform.execute("CREATE SAMPLE s ON posts SIZE 20 WITH (seed = 3)")
    last = 0
    for width in (1, 5, 40, 1000, 3, 3000, 1, 500):
        put(platform, "posts", last, last + width)
        last += width
        assert ids(platform, "s") == lowest(3, 20, 0, last)
        assert platform.sample("s").cardinality == last
    found = behind(platform)
    assert found.gap_rows == 0
    assert len(found.picks) == 8
    # Of the last commits a sample of 20 takes next to nothing, and no more was picked.
    assert sum(each.rows.num_rows for each in found.picks[-3:]) < 30
    assert run_maintenance(platform.work, kinds=["sample"]).samples == (), "so few picks are not worth a commit"
    assert platform.execute("REFRESH SAMPLE s").row_count == last
    assert behind(platform).picks == ()
    assert ids(platform, "s") == lowest(3, 20, 0, last)


def test_the_way_rows_come_does_not_matter(platform):
    platform.execute("CREATE SAMPLE s ON posts SIZE 15 WITH (seed = 5)")
    put(platform, "posts", 0, 300)
    append(platform, "posts", 300, 420, files=2)
    put(platform, "posts", 420, 430)
    append(platform, "posts", 430, 440)
    assert behind(platform).gap_rows == 130
    assert ids(platform, "s") == lowest(5, 15, 0, 440)
    done = run_maintenance(platform.work, kinds=["sample"])
    assert done.rows == 440
    put(platform, "posts", 440, 2000)
    assert ids(platform, "s") == lowest(5, 15, 0, 2000)


def test_writers_need_not_agree(platform, tmp_path):
    # What the other knows is out of date all the time: it is made to look once and never again.
    platform.execute("CREATE SAMPLE s ON posts SIZE 10 WITH (seed = 1)")
    platform.execute("CREATE SAMPLE w ON posts SIZE 10 WITH (window = '300 rows', seed = 1)")
    last, kept = 0, {}
    for number in range(24):
        writer = number % 3
        known_here._STREAMS.clear()
        for place, samples in kept.get(writer, {}).items():
            known_here._STREAMS.put(place, samples)
        put(platform, "posts", last, last + 50)
        last += 50
        kept[writer] = {place: entry.value for place, entry in known_here._STREAMS.entries.items()}
        if number % 7 == 6:
            run_maintenance(platform.work, [platform.lake.table(name).name for name in ("s", "w")], kinds=["sample"])
        assert ids(platform, "s") == lowest(1, 10, 0, last)
        assert ids(platform, "w") == lowest(1, 10, max(0, last - 300), last)
    assert behind(platform).gap_rows == 0


@pytest.mark.parametrize("size", [1, 12, 400])
def test_windows_have_just_their_rows(platform, size):
    platform.execute(f"CREATE SAMPLE w ON posts SIZE {size} WITH (window = '700 rows', seed = 2)")
    last = 0
    for number, width in enumerate([1, 30, 200, 2, 700, 40, 40, 40, 350, 1, 1, 1, 900, 20]):
        (append if number == 6 else put)(platform, "posts", last, last + width)
        last += width
        assert ids(platform, "w") == lowest(2, size, max(0, last - 700), last)
        assert platform.sample("w").cardinality == min(700, last)
        if number % 3 == 2:
            platform.execute("REFRESH SAMPLE w")
            assert ids(platform, "w") == lowest(2, size, max(0, last - 700), last)
            assert sorted(platform.lake.read("w").column("id").to_pylist()) == ids(platform, "w")


def test_a_window_that_grows_scarce_is_filled_from_the_stream(platform):
    # Little was picked while the window was thought to be large; then most of it is gone.
    platform.execute("CREATE STREAM short (id INT, kind STRING, score INT) WITH (retention_rows = 100000)")
    platform.execute("CREATE SAMPLE w ON short SIZE 30 WITH (window = 'retention', seed = 2)")
    for start in range(0, 6000, 1000):
        put(platform, "short", start, start + 1000)
    platform.execute("ALTER STREAM short SET (retention_rows = 900)")
    put(platform, "short", 6000, 6100)
    held = platform.lake.read("short").column("id").to_pylist()
    assert len(held) < 2000
    assert ids(platform, "w") == lowest(2, 30, min(held), 6100)


def test_strata_are_picked_and_counted(platform):
    platform.execute("CREATE SAMPLE g ON posts SIZE 30 STRATIFIED BY kind WITH (seed = 4)")
    last = 1
    append(platform, "posts", 0, 1)
    put(platform, "posts", 1, 30)
    for width in (60, 1, 400, 1200):
        put(platform, "posts", last + 29 if last == 1 else last, (last + 29 if last == 1 else last) + width)
        last = (last + 29 if last == 1 else last) + width
    snapshot = platform.lake.snapshot()
    sample = find_sample(platform.lake, platform.lake.table("g"), snapshot)
    with platform.lake.reading() as connection:
        found = connection.execute(sa.select(PICK.c.first_row_id, PICK.c.next_row_id).order_by(PICK.c.first_row_id)).all()
    assert [tuple(row) for row in found] == [(1, 30), (30, 90), (90, 91), (91, 491), (491, 1691)]
    everything = rows(0, last).to_pandas()
    keys = keys_between(sample_seed(4), 0, last)
    picks = {}
    for each in find_pending(platform.work, sample, snapshot).picks:
        for key, (count, _) in each.strata.items():
            picks[key] = picks.get(key, 0) + count
        inside = everything.iloc[each.first_row_id : each.next_row_id]
        for kind, places in inside.groupby("kind").groups.items():
            own = sorted(places, key=lambda place: keys[place])
            bound = each.strata[kind,][1]
            picked = set(each.rows.column("_row").to_pylist())
            assert {place for place in own if keys[place] <= bound} == picked & set(own)
            # A sample may need ten of them; a bound that was too low would be found out here.
            assert (
                len(picked & set(own)) >= min(10, len(own))
                or bound >= keys[sorted(everything.query("kind == @kind").index[:], key=lambda p: keys[p])[9]]
            )
    assert picks == {(kind,): int(count) for kind, count in everything.iloc[1:].kind.value_counts().items()}


def test_a_sample_with_many_strata_is_picked_from_the_first_append_on(platform):
    # Its size is for all strata together: were each stratum's first pick as large as the sample, it would not fit the catalogue.
    platform.execute("CREATE STREAM wide (id INT, kind STRING, content STRING)")
    platform.execute("CREATE SAMPLE g ON wide SIZE 40 STRATIFIED BY kind WITH (seed = 4)")
    count = 4000
    content = [str(number) * 40 for number in range(count)]
    with platform.stream("wide") as stream:
        stream.append(pa.table({"id": range(count), "kind": [str(number % 20) for number in range(count)], "content": content}), wait=True)
    found = behind(platform, "g")
    assert found.gap_rows == 0
    assert [each.rows.num_rows for each in found.picks] == [40]


def test_rows_of_a_process_that_ends_are_picked_too(platform, tmp_path):
    platform.execute("CREATE SAMPLE s ON posts SIZE 5 WITH (seed = 9)")
    script = f"""
from platform_plugin.platform import Platform
from tests.relations.samples.streams import rows
platform = Platform.open({str(tmp_path / "lake")!r})
platform.stream("posts").append(rows(0, 5000))
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=100)
    assert ids(platform, "s") == lowest(9, 5, 0, 5000)
    assert behind(platform).gap_rows == 0


def test_old_snapshots_keep_their_picks(platform, tmp_path):
    platform.execute("CREATE SAMPLE s ON posts SIZE 5 WITH (seed = 9)")
    platform.execute("CREATE SAMPLE w ON posts SIZE 5 WITH (window = '150 rows', seed = 9)")
    known = {}
    for start in range(0, 1000, 100):
        put(platform, "posts", start, start + 100)
        known[platform.lake.snapshot().id] = start + 100
        if start % 300 == 0:
            platform.execute("REFRESH SAMPLE s")
            platform.execute("REFRESH SAMPLE w")
            known[platform.lake.snapshot().id] = start + 100
    with Platform.open(str(tmp_path / "lake")) as other:
        for version, end in known.items():
            assert sorted(other.sample("s", version=version).arrow().column("id").to_pylist()) == lowest(9, 5, 0, end)
            assert sorted(other.sample("w", version=version).arrow().column("id").to_pylist()) == lowest(9, 5, max(0, end - 150), end)


def test_picks_that_no_snapshot_needs_are_forgotten(platform):
    platform.execute("CREATE SAMPLE s ON posts SIZE 5 WITH (seed = 9)")
    for start in range(0, 500, 100):
        put(platform, "posts", start, start + 100)
        platform.execute("REFRESH SAMPLE s")
    newest = platform.lake.snapshot()
    platform.lake.expire(older_than=newest.time)
    put(platform, "posts", 500, 600)
    platform.execute("REFRESH SAMPLE s")
    with platform.lake.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(PICK)).scalar() <= 2
    assert ids(platform, "s") == lowest(9, 5, 0, 600)


def test_rows_that_another_client_deletes_stay_in_a_growing_sample(platform):
    platform.execute("CREATE SAMPLE s ON posts SIZE 5 WITH (seed = 9)")
    platform.execute("CREATE SAMPLE w ON posts SIZE 5 WITH (window = '100 rows', seed = 9)")
    put(platform, "posts", 0, 100)
    lake = platform.lake
    table = lake.table("posts")
    gone = lowest(9, 5, 0, 100)
    (file,) = lake.scan(table, lake.snapshot()).files
    with lake.commit("delete") as commit:
        commit.delete(table, {file.id: write_delete_file(lake.storage, table, file.path, pa.array(gone))})
    assert ids(platform, "s") == gone
    assert platform.sample("s").cardinality == 100
    assert not set(ids(platform, "w")) & set(gone)
    assert platform.sample("w").cardinality == 95


def test_a_column_that_no_longer_fits_is_left_to_the_run(platform):
    platform.execute("CREATE SAMPLE s ON posts SIZE 500 WITH (seed = 1)")
    platform.execute("ALTER STREAM posts ALTER COLUMN score TYPE BIGINT")
    put(platform, "posts", 0, 10)
    assert behind(platform).gap_rows == 0
    with platform.stream("posts") as stream:
        stream.append([{"id": 10, "kind": "a", "score": 1 << 40}], wait=True)
    assert behind(platform).gap_rows == 1
    assert list(run_maintenance(platform.work, kinds=["sample"]).failed) == ["main.s"]


_parts = st.lists(st.integers(1, 60), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(widths=_parts, size=st.integers(1, 30), seed=st.integers(0, 1000), tree=st.randoms(use_true_random=False))
def test_merging_in_any_order_leaves_the_same(widths, size, seed, tree):
    # Segments into hours, hours into days, days into all: whatever is merged first, the lowest of all are left.
    ends = np.cumsum([0, *widths]).tolist()

    def local(first, end):
        keys = counted_keys(seed, first, end)
        return LowestRows(cardinality=end - first, bound=(1 << 63) - 1, keys=keys, places=np.arange(first, end)).lowest(size)

    parts = [local(first, end) for first, end in pairwise(ends)]
    while len(parts) > 1:
        place = tree.randrange(len(parts) - 1)
        one, other = parts[place : place + 2]
        bound = min(one.bound, other.bound)
        one, other = one.up_to(bound), other.up_to(bound)
        joined = LowestRows(
            cardinality=one.cardinality + other.cardinality,
            bound=bound,
            keys=np.concatenate([one.keys, other.keys]),
            places=np.concatenate([one.places, other.places]),
        )
        parts[place : place + 2] = [joined.lowest(size)]
    chosen = choose_lowest([{(): parts[0]}], lambda _: size)
    assert chosen.places[0].tolist() == lowest(seed, size, 0, ends[-1])
    assert chosen.cardinalities == {(): ends[-1]}
    assert not chosen.short


def test_the_windows_of_old_snapshots_end_where_they_ended(platform):
    platform.execute("CREATE SAMPLE w ON posts SIZE 5 WITH (window = '1 hour', seed = 1)")
    put(platform, "posts", 0, 100)
    put(platform, "posts", 100, 150)
    snapshot = platform.lake.snapshot()
    sample = find_sample(platform.lake, platform.lake.table("w"), snapshot)
    window = find_window(platform.work, sample, snapshot)
    assert (window.gap_rows, [each.span for each in window.picks]) == (0, [(0, 100), (100, 150)])
    assert ids(platform, "w") == lowest(1, 5, 0, 150)


def test_conditions_are_judged_as_rows_come(platform):
    # Where Spark is needed to judge, as for a call, rows wait for a run.
    sample = make_sample(platform, "e", "STRATIFIED BY kind", where="posts.ID % 2 = 1 AND Score < 50 OR kind IS NULL")
    plain = make_sample(platform, "c", "", where="score BETWEEN 10 AND 30")
    call = make_sample(platform, "h", "", where="hash(id) > 0")
    last = 0
    for width in (700, 3, 900):
        put(platform, "posts", last, last + width)
        last += width
    everything = rows(0, last).to_pandas()
    strata = everything.query("id % 2 == 1 and score < 50 or kind.isnull()", engine="python")
    for each, passing in ((sample, strata), (plain, everything.query("10 <= score <= 30")), (call, None)):
        snapshot = platform.lake.snapshot()
        found = find_pending(platform.work, find_sample(platform.lake, platform.lake.table(each), snapshot), snapshot)
        if passing is not None:
            assert found.gap_rows == 0
            if each == plain:
                keys = keys_between(sample_seed(1), 0, last)[passing.id]
                assert ids(platform, each) == sorted(passing.id.to_numpy()[np.argsort(keys)[:20]].tolist())
            assert platform.sample(each).cardinality == len(passing)
        else:
            assert found.gap_rows == last


def make_sample(platform, name, rest, *, where):
    """A sample with a condition, made without Spark, which CREATE SAMPLE asks whether it is one."""
    lake = platform.lake
    platform.execute(f"CREATE SAMPLE {name} ON posts SIZE 20 {rest} WITH (seed = 1)")
    table = lake.table(name)
    with lake.commit("a condition") as commit:
        options = definitions(lake, lake.snapshot())[str(table.uuid)].options()
        declare_relation(commit, table, Declaration(kind="sample", options={**options, "where": where}))
        commit.comment(table, "so that the schema has another version")
    return name


@pytest.mark.parametrize("rest", ["", "STRATIFIED BY kind"])
def test_an_append_of_which_no_row_passes_goes_through(platform, rest):
    make_sample(platform, "s", rest, where="score >= 98")
    put(platform, "posts", 0, 10)
    assert platform.sample("s").cardinality == 0
    put(platform, "posts", 10, 20)
    assert ids(platform, "s") == [14]


def test_rows_that_were_kept_by_an_earlier_version_are_read():
    # It did not make them small.
    table = rows(0, 40)
    (batch,) = table.to_batches()
    assert decode_rows(bytes(batch.serialize()), table.schema).equals(table)
    assert decode_rows(encode_rows(table), table.schema).equals(table)
    assert len(encode_rows(table)) < len(bytes(batch.serialize()))
    assert decode_rows(encode_rows(table.slice(0, 0)), table.schema).num_rows == 0


def test_what_has_ended_is_kept_apart_until_no_snapshot_needs_it(platform):
    platform.execute("CREATE SAMPLE s ON posts SIZE 5 WITH (seed = 9)")
    put(platform, "posts", 0, 100)
    before = platform.lake.snapshot()
    platform.execute("REFRESH SAMPLE s")
    put(platform, "posts", 100, 150)
    # An earlier version left those that had ended among the others.
    with platform.lake.writing() as connection:
        connection.execute(sa.insert(PICK).from_select([column.name for column in PICK.c], sa.select(ENDED_PICK)))
        connection.execute(sa.delete(ENDED_PICK))
    assert ids_at(platform, before) == lowest(9, 5, 0, 100)
    platform.execute("REFRESH SAMPLE s")
    assert (count(platform, PICK), count(platform, ENDED_PICK)) == (0, 2)
    assert ids_at(platform, before) == lowest(9, 5, 0, 100)
    platform.lake.expire(older_than=platform.lake.snapshot().time)
    put(platform, "posts", 150, 160)
    platform.execute("REFRESH SAMPLE s")
    assert (count(platform, PICK), count(platform, ENDED_PICK)) == (0, 1), "the last one is kept for the snapshots before this one"
    assert ids(platform, "s") == lowest(9, 5, 0, 160)


def test_picks_of_a_dropped_sample_are_forgotten_by_the_run_of_another(platform):
    platform.execute("CREATE SAMPLE s ON posts SIZE 5 WITH (seed = 9)")
    platform.execute("CREATE SAMPLE other ON posts SIZE 5 WITH (seed = 8)")
    put(platform, "posts", 0, 100)
    before = platform.lake.snapshot()
    platform.execute("DROP SAMPLE s")
    assert (count(platform, PICK), count(platform, ENDED_PICK)) == (1, 1)
    assert ids_at(platform, before) == lowest(9, 5, 0, 100)
    platform.lake.expire(older_than=platform.lake.snapshot().time)
    platform.execute("REFRESH SAMPLE other")
    assert (count(platform, PICK), count(platform, ENDED_PICK)) == (0, 1), "the one that has ended now"


def ids_at(platform, snapshot):
    """The same at an older snapshot, not as somebody has read it before."""
    sample = find_sample(platform.lake, platform.lake.table("s", snapshot), snapshot)
    return sorted(read_current_sample(platform.work, find_pending(platform.work, sample, snapshot)).rows.column("id").to_pylist())


def count(platform, table):
    with platform.lake.reading() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar()


def test_a_run_merges_picks_once_there_are_many(platform, monkeypatch):
    monkeypatch.setattr(waiting, "_MOST_PICKS", 4)
    platform.execute("CREATE SAMPLE s ON posts SIZE 5 WITH (seed = 9)")
    merged = []
    for start in range(0, 100, 10):
        put(platform, "posts", start, start + 10)
        merged.append(bool(run_maintenance(platform.work, kinds=["sample"]).samples))
    assert merged == [False, False, False, True, False, False, False, True, False, False]
    assert ids(platform, "s") == lowest(9, 5, 0, 100)


@pytest.mark.parametrize(
    ("rest", "column", "told"),
    [
        ("STRATIFIED BY (kind)", "kind", 'column "kind", which tells the strata of a sample apart, is gone'),
        ("WEIGHTED BY (score)", "score", 'column "score" of "main.posts" is gone'),
    ],
)
def test_a_column_that_is_gone_holds_nobody_up(platform, rest, column, told):
    platform.execute(f"CREATE SAMPLE g ON posts SIZE 6 {rest} WITH (seed = 1)")
    platform.execute("CREATE SAMPLE s ON posts SIZE 6 WITH (seed = 1)")
    put(platform, "posts", 0, 50)
    platform.execute(f"ALTER STREAM posts RENAME COLUMN {column} TO other")
    with platform.stream("posts") as stream:
        stream.append([{"id": number} for number in range(50, 80)], wait=True)
    assert ids(platform, "s") == lowest(1, 6, 0, 80)
    done = run_maintenance(platform.work, kinds=["sample"])
    assert [(name, error.message) for name, error in done.failed.items()] == [("main.g", told)]
    platform.execute(f"ALTER STREAM posts RENAME COLUMN other TO {column}")
    assert not run_maintenance(platform.work, kinds=["sample"], again=True).failed
