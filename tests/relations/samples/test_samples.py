"""Samples through the public door, without Spark: those whose rows are only counted."""

import numpy as np
import pyarrow as pa
import pytest

from platform_plugin.errors import InvalidValue, ObjectExists, PlatformError, StreamOverrun, UnknownObject
from platform_plugin.lake.files.files import write_delete_file
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.samples.draw.pieces import read_pieces
from platform_plugin.relations.samples.handle import merge_named
from tests.relations.samples.chi_square import inclusion
from tests.relations.samples.streams import COLUMNS, append, ids, rows


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute(f"CREATE STREAM posts ({COLUMNS})")
        made.execute(f"CREATE TABLE users ({COLUMNS})")
        yield made


@pytest.mark.parametrize("total", [0, 1, 9, 10, 11, 500])
@pytest.mark.parametrize("relation", ["posts", "users"])
def test_has_as_many_rows_as_it_may(platform, relation, total):
    if total:
        append(platform, relation, 0, total, files=min(total, 3))
    platform.execute(f"CREATE SAMPLE s ON {relation} SIZE 10")
    found = ids(platform, "s")
    assert len(found) == len(set(found)) == min(10, total)
    assert platform.sample("s").cardinality == total
    assert (
        platform.sample("s")
        .arrow()
        .sort_by("id")
        .equals(rows(0, total).filter(np.isin(range(total), found)).cast(platform.sample("s").arrow().schema))
    )


def test_whoever_takes_up_a_range_draws_the_same(platform):
    platform.execute("CREATE SAMPLE s ON posts SIZE 20 WITH (seed = 3)")
    append(platform, "posts", 0, 300, files=2)
    append(platform, "posts", 300, 900)
    before = ids(platform, "s")
    assert before == ids(platform, "s")
    done = run_maintenance(platform.work, kinds=["sample"])
    assert (done.samples, done.rows, done.fetched) == (("main.s",), 900, 20)
    assert ids(platform, "s") == before
    assert run_maintenance(platform.work, kinds=["sample"]).samples == ()


def test_a_seed_names_the_sample(platform):
    append(platform, "users", 0, 1000)
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        platform.execute(f"CREATE SAMPLE {name} ON users SIZE 20 WITH (seed = {seed})")
    assert ids(platform, "one") == ids(platform, "same") != ids(platform, "other")


@pytest.mark.slow
def test_uniform_whenever_and_however_it_is_maintained(platform):
    # Uneven ranges, several files in one, some maintained and the last one only read; one sample for each seed.
    runs, total, size = 60, 60, 6
    for seed in range(runs):
        platform.execute(f"CREATE SAMPLE s{seed} ON posts SIZE {size} WITH (seed = {seed})")
    for number, (first, last) in enumerate([(0, 4), (4, 30), (30, 31), (31, 50), (50, 60)]):
        append(platform, "posts", first, last, files=3 if last - first > 5 else 1)
        if number in (0, 2, 3):
            run_maintenance(platform.work, kinds=["sample"])
    seen = np.zeros(total)
    for seed in range(runs):
        found = ids(platform, f"s{seed}")
        assert len(found) == size
        seen[found] += 1
    assert abs(inclusion(seen, runs, size, total)) < 3.1


def delete_even(lake, relation):
    """Delete every second row of each file, as DELETE does, without Spark."""
    table = lake.table(relation)
    with lake.commit("delete") as commit:
        commit.delete(
            table,
            {
                file.id: write_delete_file(lake.storage, table, file.path, pa.array(range(file.row_id_start % 2, file.record_count, 2)))
                for file in lake.scan(table, lake.snapshot()).files
            },
        )


def test_deleted_rows_are_never_drawn_and_others_uniformly(platform):
    append(platform, "users", 0, 100, files=3)
    delete_even(platform.lake, "users")
    append(platform, "users", 100, 110)
    live = [*range(1, 100, 2), *range(100, 110)]
    runs, size = 70, 6
    seen = np.zeros(110)
    for seed in range(runs):
        platform.execute(f"CREATE SAMPLE s{seed} ON users SIZE {size} WITH (seed = {seed})")
        seen[ids(platform, f"s{seed}")] += 1
    assert not seen[np.setdiff1d(range(110), live)].any()
    assert abs(inclusion(seen[live], runs, size, len(live))) < 3.1


def test_tables_are_sampled_as_they_are_at_the_snapshot(platform):
    append(platform, "users", 0, 50)
    platform.execute("CREATE SAMPLE s ON users SIZE 10 WITH (seed = 1)")
    then = platform.lake.snapshot().id
    first = ids(platform, "s")
    assert platform.execute("REFRESH SAMPLE s").row_count == 10
    stored = platform.lake.snapshot().id
    assert ids(platform, "s") == first
    assert platform.execute("REFRESH SAMPLE s").snapshot.id == stored, "nothing had changed"
    append(platform, "users", 50, 5000)
    assert max(ids(platform, "s")) >= 50
    assert platform.sample("s").cardinality == 5000
    assert sorted(platform.sample("s", version=then).arrow().column("id").to_pylist()) == first


def test_old_snapshots_have_the_sample_as_it_was(platform, tmp_path):
    platform.execute("CREATE SAMPLE s ON posts SIZE 5 WITH (seed = 9)")
    known = {}
    for start in range(0, 500, 100):
        append(platform, "posts", start, start + 100)
        known[platform.lake.snapshot().id] = ids(platform, "s")
        if start % 200:
            platform.execute("REFRESH SAMPLE s")
            known[platform.lake.snapshot().id] = ids(platform, "s")
    with Platform.open(str(tmp_path / "lake")) as other:
        for version, found in known.items():
            assert sorted(other.sample("s", version=version).arrow().column("id").to_pylist()) == found


def test_a_stream_keeps_rows_for_its_samples(platform):
    platform.execute("CREATE STREAM short (id INT, kind STRING, score INT) WITH (retention_rows = 10)")
    platform.execute("CREATE SAMPLE s ON short SIZE 4 WITH (seed = 2)")
    for start in range(0, 100, 10):
        append(platform, "short", start, start + 10)
    assert platform.sample("s").cardinality == 100
    run_maintenance(platform.work, kinds=["sample"])
    append(platform, "short", 100, 110)
    append(platform, "short", 110, 120)
    assert platform.lake.read("short").num_rows < 40
    assert platform.sample("s").cardinality == 120


def test_rows_that_left_unseen_are_an_error_and_not_a_wrong_sample(platform):
    platform.execute("CREATE STREAM short (id INT, kind STRING, score INT) WITH (retention_rows = 10, on_unconsumed = 'drop')")
    platform.execute("CREATE SAMPLE s ON short SIZE 4")
    for start in range(0, 100, 10):
        append(platform, "short", start, start + 10)
    with pytest.raises(StreamOverrun, match=r'sample "main.s" has a gap'):
        platform.sample("s")


def test_lists_and_descriptions(platform):
    append(platform, "posts", 0, 100)
    platform.execute("CREATE SAMPLE s ON posts SIZE 10 WITH (seed = 5)")
    platform.execute("REFRESH SAMPLE s")
    append(platform, "posts", 100, 150)
    assert [row[1:4] for row in platform.execute("SHOW SAMPLES")] == [("s", "sample", 10)]
    told = {row[0]: row[1] for row in platform.execute("DESCRIBE EXTENDED s")}
    assert told["id"] == "INT"
    assert told["# of"] == "stream main.posts"
    assert told["# cardinality"] == "10 rows stand for 150"
    assert told["# coverage"].startswith("6.66")
    assert told["# consumed"] == "up to row 99, 50 rows wait and join when it is read"
    assert "snapshots ago" in told["# age"]
    (made,) = next(iter(platform.execute("SHOW CREATE s")))
    assert made == "CREATE SAMPLE main.s ON main.posts SIZE 10 WITH (seed = 5)"
    before = ids(platform, "s")
    platform.execute(made.replace("main.s", "again"))
    assert ids(platform, "again") != before or ids(platform, "s") == before


@pytest.mark.parametrize(
    ("statement", "kind", "said"),
    [
        ("CREATE SAMPLE posts ON users SIZE 3", ObjectExists, '"main.posts" exists already'),
        ("CREATE SAMPLE x ON nothing SIZE 3", UnknownObject, "nothing"),
        ("CREATE SAMPLE x ON s SIZE 3", InvalidValue, '"main.s" is a sample itself'),
        ("CREATE SAMPLE x ON posts SIZE 20000000", InvalidValue, "can't have 20000000 rows"),
        ("CREATE SAMPLE x ON posts SIZE 3 STRATIFIED BY sort", UnknownObject, 'column "sort" does not exist in "posts"'),
        ("CREATE SAMPLE x ON posts SIZE 3 WHERE rand() < 0.5", InvalidValue, '"rand" gives another value at every look'),
        ("CREATE SAMPLE x ON posts SIZE 3 WHERE uniform(0, 9) < 5", InvalidValue, '"uniform" gives another value at every look'),
        ("CREATE SAMPLE x ON posts SIZE 3 WHERE name = randstr(3)", InvalidValue, '"randstr" gives another value at every look'),
        ("CREATE SAMPLE x ON posts SIZE 3 WHERE hour(localtime()) > 5", InvalidValue, '"localtime" gives another value at every look'),
        ("CREATE SAMPLE x ON posts SIZE 3 WHERE name = current_user", InvalidValue, '"current_user" gives another value at every look'),
        ("CREATE SAMPLE x ON posts SIZE 3 WHERE id IN (SELECT id FROM users)", InvalidValue, "reads another relation"),
        ("INSERT INTO s VALUES (1, 'a', 2)", InvalidValue, '"main.s" is a sample'),
        ("DELETE FROM s", InvalidValue, '"main.s" is a sample'),
        ("UPDATE s SET id = 1", InvalidValue, '"main.s" is a sample'),
        ("DROP STREAM posts", InvalidValue, 'stream "main.posts" is sampled by main.s'),
        ("DROP TABLE s", InvalidValue, '"main.s" is a sample, not a table'),
        ("REFRESH SAMPLE posts", InvalidValue, '"main.posts" is not a sample'),
    ],
)
def test_refusals_change_nothing(platform, statement, kind, said):
    platform.execute("CREATE SAMPLE s ON posts SIZE 3")
    before = platform.lake.snapshot().id
    with pytest.raises(kind) as refused:
        platform.execute(statement)
    assert said in str(refused.value)
    assert platform.lake.snapshot().id == before


def test_dropped_samples_let_go(platform):
    platform.execute("CREATE SAMPLE s ON posts SIZE 3")
    assert platform.execute("CREATE SAMPLE IF NOT EXISTS s ON posts SIZE 3").message == "sample main.s exists already"
    platform.execute("DROP SAMPLE s")
    with pytest.raises(PlatformError):
        platform.sample("s")
    platform.execute("DROP STREAM posts")


def test_a_sample_outlives_its_table_only_in_name(platform):
    append(platform, "users", 0, 10)
    platform.execute("CREATE SAMPLE s ON users SIZE 3")
    platform.execute("DROP TABLE users")
    with pytest.raises(UnknownObject, match=r'what sample "main.s" is drawn from does not exist'):
        platform.sample("s")
    platform.execute("DROP SAMPLE s")


def test_columns_that_come_and_go(platform):
    append(platform, "posts", 0, 20)
    platform.execute("CREATE SAMPLE s ON posts SIZE 30")
    platform.execute("REFRESH SAMPLE s")
    platform.execute("ALTER STREAM posts ADD COLUMN extra INT")
    platform.execute("ALTER STREAM posts DROP COLUMN kind")
    lake = platform.lake
    table = lake.table("posts")
    with lake.commit("more") as commit:
        commit.append(table, [lake.write(table, rows(20, 30).drop_columns(["kind"]))])
    found = platform.sample("s").arrow().sort_by("id")
    assert found.column_names == ["id", "kind", "score"]
    assert found.column("id").to_pylist() == list(range(30))
    assert found.column("kind").to_pylist()[20:] == [None] * 10


def test_merging_samples_of_several_streams(platform):
    platform.execute(f"CREATE STREAM more ({COLUMNS})")
    append(platform, "posts", 0, 10)
    append(platform, "more", 10, 40)
    seen, runs, size = np.zeros(40), 60, 6
    for seed in range(runs):
        platform.execute(f"CREATE SAMPLE a{seed} ON posts SIZE 6 WITH (seed = {seed})")
        platform.execute(f"CREATE SAMPLE b{seed} ON more SIZE 8 WITH (seed = {seed + 1000})")
        merged = merge_named(platform.work, [f"a{seed}", f"b{seed}"], size)
        assert merged.cardinality == 40
        seen[merged.rows.column("id").to_numpy()] += 1
    assert abs(inclusion(seen, runs, size, 40)) < 3.1
    with pytest.raises(InvalidValue, match="of one relation"):
        merge_named(platform.work, ["a0", "a1"], 3)
    with pytest.raises(InvalidValue, match="holds 6 rows"):
        merge_named(platform.work, ["a0", "b0"], 7)


def test_single_rows_of_a_large_file_are_the_right_ones(platform):
    count = 40_000
    table = platform.lake.table("users")
    with platform.lake.commit("load") as commit:
        commit.append(table, [platform.lake.write(table, rows(0, count))])
    platform.execute("CREATE SAMPLE s ON users SIZE 2 WITH (seed = 4)")
    found = platform.sample("s").arrow()
    assert found.cast(rows(0, 1).schema).equals(rows(0, count).take(sorted(found.column("id").to_pylist())))
    pieces = read_pieces(platform.lake, platform.lake.scan(table, platform.lake.snapshot()))
    for places in ([0], [39_999], [4095, 4096], [17, 20_000, 33_333]):
        assert pieces.fetch(platform.lake, np.array(places), table.fields).column("id").to_pylist() == places
