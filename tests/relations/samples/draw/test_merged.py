"""Samples that merge others, through the public door: uniform over all relations at every snapshot, and the same for each who asks."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from platform_plugin.errors import CommitConflict, InvalidValue, ObjectExists, PlatformError, UnknownObject
from platform_plugin.platform import Platform
from platform_plugin.relations.samples import define
from platform_plugin.relations.samples.handle import merge_named, open_sample
from tests.relations.samples.chi_square import goodness, inclusion
from tests.relations.samples.streams import COLUMNS, append, ids, rows


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute(f"CREATE STREAM eu ({COLUMNS})")
        made.execute(f"CREATE STREAM us ({COLUMNS})")
        made.execute(f"CREATE TABLE old ({COLUMNS})")
        yield made


def sample(platform, name, of, size=6, seed=None):
    platform.execute(f"CREATE SAMPLE {name} ON {of} SIZE {size}" + (f" WITH (seed = {seed})" if seed is not None else ""))


@pytest.mark.slow
def test_uniform_over_relations_of_very_different_sizes(platform):
    append(platform, "eu", 0, 3)
    append(platform, "us", 3, 39, files=2)
    append(platform, "old", 39, 40)
    runs, size, seen = 80, 6, np.zeros(40)
    of_parts = np.zeros(3)
    for run in range(runs):
        for place, of in enumerate(("eu", "us", "old")):
            sample(platform, f"{of}{run}", of, size=size + place, seed=3 * run + place)
        sample(platform, f"all{run}", f"SAMPLES (eu{run}, us{run}, old{run})", seed=run)
        found = ids(platform, f"all{run}")
        assert len(set(found)) == size
        assert platform.sample(f"all{run}").cardinality == 40
        seen[found] += 1
        of_parts += np.histogram(found, bins=[0, 3, 39, 40])[0]
    assert abs(inclusion(seen, runs, size, 40)) < 3.1
    assert goodness(of_parts, runs * size * np.array([3, 36, 1]) / 40) < 3.1


@pytest.mark.slow
def test_hours_merge_into_days_and_days_into_a_table(platform):
    counts = {"h1": 2, "h2": 17, "h3": 9, "h4": 4}
    start = 0
    for name, count in counts.items():
        platform.execute(f"CREATE TABLE {name} ({COLUMNS})")
        append(platform, name, start, start + count)
        start += count
    runs, size, seen = 60, 5, np.zeros(32)
    for run in range(runs):
        for place, name in enumerate(counts):
            sample(platform, f"{name}_{run}", name, size=size, seed=4 * run + place)
        # One seed for all merges: they are told apart by what they merge.
        sample(platform, f"d1_{run}", f"SAMPLES (h1_{run}, h2_{run})", size=size, seed=run)
        sample(platform, f"d2_{run}", f"SAMPLES (h3_{run}, h4_{run})", size=size, seed=run)
        sample(platform, f"all_{run}", f"SAMPLES (d1_{run}, d2_{run})", size=size, seed=run)
        found = ids(platform, f"all_{run}")
        assert len(found) == size
        seen[found] += 1
    assert abs(inclusion(seen, runs, size, 32)) < 3.1


def test_strata_are_merged_one_by_one(platform):
    append(platform, "eu", 0, 400)
    append(platform, "us", 400, 500)
    runs = 60
    seen = np.zeros(500)
    for run in range(runs):
        for place, (name, rest) in enumerate((("eu", "SIZE 8 PER STRATUM"), ("us", ""))):
            platform.execute(f"CREATE SAMPLE {name}{run} ON {name} SIZE 30 STRATIFIED BY kind {rest} WITH (seed = {2 * run + place})")
        sample(platform, f"all{run}", f"SAMPLES (eu{run}, us{run})", size=18, seed=run)
        found = platform.sample(f"all{run}")
        assert found.pandas().kind.value_counts().to_dict() == {"a": 6, "b": 6, "rare": 6}
        assert found.cardinalities == {("a",): 240, ("b",): 250, ("rare",): 10}
        seen[found.arrow().column("id").to_numpy()] += 1
    kinds = rows(0, 500).column("kind").to_numpy(zero_copy_only=False)
    for kind, count in (("a", 240), ("b", 250), ("rare", 10)):
        assert abs(inclusion(seen[kinds == kind], runs, 6, count)) < 3.1
    sample(platform, "bigger", "SAMPLES (eu0, us0)", size=30)
    assert platform.sample("bigger").pandas().kind.value_counts().to_dict() == {"a": 8, "b": 8, "rare": 8}, "no more than a part may have"
    (made,) = next(iter(platform.execute("SHOW CREATE all0")))
    assert made == "CREATE SAMPLE main.all0 ON SAMPLES (main.eu0, main.us0) SIZE 18 WITH (seed = 0)"
    told = {row[0]: row[1] for row in platform.execute("DESCRIBE EXTENDED all0")}
    assert told["# stratified by"] == "kind"


def test_each_snapshot_has_its_own_and_keeps_it(platform):
    append(platform, "eu", 0, 50)
    sample(platform, "a", "eu", seed=1)
    sample(platform, "b", "us", seed=2)
    sample(platform, "both", "SAMPLES (a, b)", seed=3)
    then = platform.lake.snapshot().id
    first = ids(platform, "both")
    assert max(first) < 50
    append(platform, "us", 50, 5000)
    later = ids(platform, "both")
    assert max(later) >= 50
    assert platform.sample("both").cardinality == 5000
    platform.execute("REFRESH SAMPLE b")
    assert ids(platform, "both") == later, "a part was stored and is the same"
    assert platform.execute("REFRESH SAMPLE both").row_count == 6
    stored = platform.lake.snapshot().id
    assert ids(platform, "both") == later
    assert platform.execute("REFRESH SAMPLE both").snapshot.id == stored, "nothing had changed"
    append(platform, "eu", 5000, 9000)
    assert platform.sample("both").cardinality == 9000, "what is stored is of an older snapshot"
    assert sorted(platform.sample("both", version=then).arrow().column("id").to_pylist()) == first
    with Platform.open(str(platform.lake.location)) as other:
        assert ids(other, "both") == ids(platform, "both")


def test_windows_move_the_merged_sample(platform):
    platform.execute("CREATE SAMPLE a ON eu SIZE 5 WITH (window = '20 rows', seed = 1)")
    sample(platform, "b", "us", seed=2)
    sample(platform, "both", "SAMPLES (a, b)", size=5)
    append(platform, "eu", 0, 100)
    append(platform, "us", 100, 110)
    assert platform.sample("both").cardinality == 30
    platform.execute("REFRESH SAMPLE both")
    append(platform, "eu", 200, 300)
    platform.execute("REFRESH SAMPLE both")
    assert all(100 <= found < 110 or found >= 280 for found in ids(platform, "both"))
    assert platform.sample("both").cardinality == 30


def test_is_listed_described_and_made_again(platform):
    append(platform, "eu", 0, 100)
    sample(platform, "a", "eu", seed=1)
    sample(platform, "b", "old", size=7, seed=2)
    sample(platform, "both", "SAMPLES (a, b)", seed=3)
    platform.execute("REFRESH SAMPLE both")
    append(platform, "eu", 100, 130)
    assert [row[1] for row in platform.execute("SHOW SAMPLES")] == ["a", "b", "both"]
    told = {row[0]: row[1] for row in platform.execute("DESCRIBE EXTENDED both")}
    assert told["id"] == "INT"
    assert told["# of"] == "samples main.a, main.b"
    assert told["# cardinality"] == "6 stored rows stand for 100"
    assert told["# part main.a"].startswith("6 rows at most of stream main.eu; 6 rows stand for 130; nothing, 130 rows wait")
    assert told["# part main.b"] == "7 rows at most of table main.old; nothing is stored yet"
    (made,) = next(iter(platform.execute("SHOW CREATE both")))
    assert made == "CREATE SAMPLE main.`both` ON SAMPLES (main.a, main.b) SIZE 6 WITH (seed = 3)"
    platform.execute(made.replace("main.`both`", "again"))
    assert ids(platform, "again") == ids(platform, "both")


def test_columns_may_come_in_another_order(platform):
    platform.execute("CREATE TABLE mixed (score INT, ID INT, kind STRING)")
    platform.execute("INSERT INTO mixed VALUES (5, 1000, 'x')")
    append(platform, "eu", 0, 3)
    sample(platform, "a", "eu")
    sample(platform, "b", "mixed")
    sample(platform, "both", "SAMPLES (a, b)")
    found = platform.sample("both").arrow()
    assert found.column_names == ["id", "kind", "score"]
    assert {"id": 1000, "kind": "x", "score": 5} in found.to_pylist()


@pytest.mark.parametrize(
    ("statement", "kind", "said"),
    [
        ("CREATE SAMPLE x ON SAMPLES (a, others) SIZE 3", InvalidValue, 'sample "main.others" has no column "kind", which "main.a" has'),
        ("CREATE SAMPLE x ON SAMPLES (a, wides) SIZE 3", InvalidValue, 'column "id" is INT in sample "main.a", BIGINT in "main.wides"'),
        ("CREATE SAMPLE x ON SAMPLES (a, b) SIZE 7", InvalidValue, 'sample "main.a" holds 6 rows'),
        ("CREATE SAMPLE x ON SAMPLES (x, b) SIZE 3", InvalidValue, 'sample "main.x" can\'t be part of itself'),
        ("CREATE SAMPLE a ON SAMPLES (c, b) SIZE 3", ObjectExists, '"main.a" exists already'),
        ("CREATE SAMPLE x ON SAMPLES (a, bb) SIZE 3", UnknownObject, "did you mean"),
        ("CREATE SAMPLE x ON SAMPLES (a, us) SIZE 3", InvalidValue, '"main.us" is not a sample'),
        ("CREATE SAMPLE x ON SAMPLES (a, a) SIZE 3", InvalidValue, "are of one relation"),
        ("CREATE SAMPLE x ON SAMPLES (a, both) SIZE 3", InvalidValue, 'samples "main.a" and "main.a" are of one relation'),
        ("CREATE SAMPLE x ON SAMPLES (a, twin) SIZE 3", InvalidValue, 'samples "main.a" and "main.twin" have the same seed'),
        ("CREATE SAMPLE x ON SAMPLES (a, layers) SIZE 3", InvalidValue, 'sample "main.a" is stratified by nothing, "main.layers" by kind'),
        ("CREATE SAMPLE x ON SAMPLES (a, b) SIZE 3 WITH (window = '1 hour')", InvalidValue, "no window of its own"),
        ("CREATE SAMPLE x ON SAMPLES (a, b) SIZE 20000000", InvalidValue, "can't have 20000000 rows"),
        ("CREATE SAMPLE x ON both SIZE 3", InvalidValue, '"main.both" is a sample itself'),
        ("DROP SAMPLE a", InvalidValue, 'sample "main.a" is part of main.both'),
        ("DELETE FROM both", InvalidValue, '"main.both" is a sample'),
    ],
)
def test_refusals_change_nothing(platform, statement, kind, said):
    platform.execute("CREATE TABLE other (id INT, score INT)")
    platform.execute("CREATE TABLE wide (id BIGINT, kind STRING, score INT)")
    for name, of, seed in (("a", "eu", 1), ("b", "us", 2), ("twin", "old", 1)):
        sample(platform, name, of, seed=seed)
    sample(platform, "both", "SAMPLES (a, b)")
    sample(platform, "others", "other")
    sample(platform, "wides", "wide")
    platform.execute("CREATE SAMPLE layers ON old SIZE 6 STRATIFIED BY (kind)")
    before = platform.lake.snapshot().id
    with pytest.raises(kind) as refused:
        platform.execute(statement)
    assert said in str(refused.value)
    assert platform.lake.snapshot().id == before


def test_parts_go_after_what_they_are_part_of(platform):
    sample(platform, "a", "eu")
    sample(platform, "b", "us")
    sample(platform, "both", "SAMPLES (a, b)")
    platform.execute("DROP SAMPLE both")
    platform.execute("DROP SAMPLE a")
    with pytest.raises(PlatformError):
        platform.sample("both")


def test_a_part_that_is_dropped_while_it_is_merged(platform, monkeypatch):
    sample(platform, "a", "eu")
    sample(platform, "b", "us")
    checked = define.check_parts

    def meanwhile(*given):
        checked(*given)
        monkeypatch.undo()
        platform.execute("DROP SAMPLE a")

    monkeypatch.setattr(define, "check_parts", meanwhile)
    with pytest.raises(CommitConflict, match="was dropped meanwhile"):
        sample(platform, "both", "SAMPLES (a, b)")
    assert [row[1] for row in platform.execute("SHOW SAMPLES")] == ["b"]


def test_a_part_that_is_merged_while_it_is_dropped(platform, monkeypatch):
    sample(platform, "a", "eu")
    sample(platform, "b", "us")

    def meanwhile(*_):
        monkeypatch.undo()
        sample(platform, "both", "SAMPLES (a, b)")
        return []

    monkeypatch.setattr("platform_plugin.relations.samples.remove.list_samples_of", meanwhile)
    with pytest.raises(CommitConflict, match="became part of both meanwhile"):
        platform.execute("DROP SAMPLE a")
    assert platform.sample("both").cardinality == 0


def test_a_schema_goes_with_all_its_samples(platform):
    platform.execute("CREATE SCHEMA s")
    for name, of in (("s.a", "eu"), ("s.b", "us"), ("s.m", "SAMPLES (s.a, s.b)")):
        sample(platform, name, of)
    platform.execute("DROP SCHEMA s CASCADE")
    assert list(platform.execute("SHOW SAMPLES")) == []


def test_a_merge_without_a_name_is_the_same_draw(platform):
    append(platform, "eu", 0, 100)
    append(platform, "us", 100, 300)
    sample(platform, "a", "eu")
    sample(platform, "b", "us")
    sample(platform, "both", "SAMPLES (a, b)", size=4, seed=9)
    assert sorted(merge_named(platform.work, ["a", "b"], 4, seed=9).rows.column("id").to_pylist()) == ids(platform, "both")
    with pytest.raises(InvalidValue, match="of one relation"):
        merge_named(platform.work, ["a", "a"], 3)


def test_merging_costs_no_spark_where_the_parts_need_none(platform):
    append(platform, "eu", 0, 10)
    sample(platform, "a", "eu")
    sample(platform, "b", "us")
    sample(platform, "both", "SAMPLES (a, b)")
    with platform.work.lake.lease(holder="test") as lease:
        assert open_sample(platform.work, "both", lease.snapshot).cardinality == 10
    assert [len(row) for row in platform.execute("SELECT * FROM both", timeout=timedelta(seconds=20))] == [3] * 6


@pytest.mark.spark
def test_queries_answers_and_views_read_it(platform, spark_server):
    append(platform, "eu", 0, 1000)
    append(platform, "us", 1000, 5000)
    sample(platform, "a", "eu", size=600)
    sample(platform, "b", "us", size=600)
    sample(platform, "both", "SAMPLES (a, b)", size=600)
    assert list(platform.execute("SELECT count(*), count(DISTINCT b.id) FROM both b JOIN us ON us.id = b.id")) == [
        (sum(found >= 1000 for found in ids(platform, "both")),) * 2
    ]
    asked = "SELECT count(*) AS n FROM both WITH SAMPLE (error = 0.2) WHERE id >= 1000"
    ((n, low, high, *_),) = platform.execute(asked)
    assert low <= n <= high
    assert abs(n - 4000) < 400
    platform.execute("REFRESH SAMPLE both")
    assert next(iter(platform.execute(asked)))[0] == n, "what is stored is the same"
    platform.execute("CREATE VIEW kinds WITH (start = 'earliest') AS SELECT eu.kind, count(*) AS n FROM eu GROUP BY eu.kind")
    platform.execute(
        "CREATE VIEW beside AS SELECT k.kind, k.n, count(*) AS sampled FROM kinds k JOIN both b ON b.kind = k.kind GROUP BY k.kind, k.n"
    )
    assert sum(row[2] for row in platform.execute("SELECT * FROM beside")) == 600
    append(platform, "us", 5000, 50_000)
    assert sum(row[2] for row in platform.execute("SELECT * FROM beside")) == 600
