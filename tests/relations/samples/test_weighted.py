"""Weighted samples through the public door, without Spark: of tables and streams, by a column, by age, or by both."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pytest

from platform_plugin.errors import InvalidStatement, InvalidValue, PlatformError, UnknownObject
from platform_plugin.lake.files.files import write_delete_file
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.samples.handle import merge_named

COLUMNS = "id INT, amount DOUBLE, at TIMESTAMP, kind STRING"
BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def amount(number):
    """A few rows make up most of the sum."""
    return float(1 + (number * 7919 % 101) ** 4 // 10**5)


def rows(first, last):
    numbers = range(first, last)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "amount": pa.array([amount(number) for number in numbers], pa.float64()),
            "at": pa.array([BEGIN + dt.timedelta(minutes=number) for number in numbers], pa.timestamp("us", "UTC")),
            "kind": pa.array(["ab"[number % 2] for number in numbers], pa.string()),
        }
    )


def append(platform, relation, table, *, files=1):
    lake = platform.lake
    found = lake.table(relation)
    step = -(-table.num_rows // files)
    with lake.commit("append") as commit:
        commit.append(found, [lake.write(found, table.slice(start, step)) for start in range(0, table.num_rows, step)])


def ids(platform, sample):
    return sorted(platform.sample(sample).arrow().column("id").to_pylist())


def total(platform, sample, column="amount"):
    found = platform.sample(sample).arrow()
    return float((found.column(column).to_numpy() * found.column("sample_weight").to_numpy()).sum())


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute(f"CREATE STREAM pays ({COLUMNS})")
        made.execute(f"CREATE TABLE paid ({COLUMNS})")
        yield made


@pytest.mark.parametrize("relation", ["pays", "paid"])
@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 300])
def test_has_as_many_rows_as_it_may(platform, relation, count):
    if count:
        append(platform, relation, rows(0, count), files=min(count, 3))
    platform.execute(f"CREATE SAMPLE s ON {relation} SIZE 10 WEIGHTED BY (amount)")
    for _ in range(2):
        found = platform.sample("s")
        assert len(set(ids(platform, "s"))) == found.arrow().num_rows == min(10, count)
        assert found.cardinality == count
        weights = found.arrow().column("sample_weight")
        assert weights.null_count == 0
        assert (weights.to_numpy() >= 1).all()
        assert ((weights.to_numpy() == 1).all()) == (count <= 10)
        assert (
            found.arrow()
            .drop_columns("sample_weight")
            .sort_by("id")
            .equals(rows(0, count).filter(np.isin(range(count), ids(platform, "s"))))
        )
        platform.execute("REFRESH SAMPLE s")


def test_rows_of_one_weight_are_drawn_as_by_an_unweighted_sample_that_looks_at_rows(platform):
    same = rows(0, 500).set_column(1, "amount", pa.array([3.0] * 500)).set_column(3, "kind", pa.array(["a"] * 500))
    append(platform, "pays", same, files=2)
    platform.execute("CREATE SAMPLE w ON pays SIZE 20 WEIGHTED BY amount WITH (seed = 4)")
    platform.execute("CREATE SAMPLE u ON pays SIZE 20 STRATIFIED BY (kind) WITH (seed = 4)")
    assert ids(platform, "w") == ids(platform, "u")
    assert platform.sample("w").arrow().column("sample_weight").to_pylist() == pytest.approx([25.0] * 20, rel=0.6)


@pytest.mark.parametrize("relation", ["pays", pytest.param("paid", marks=pytest.mark.slow)])
def test_sums_are_right_on_average(platform, relation):
    append(platform, relation, rows(0, 400), files=3)
    runs, truth = 150, sum(amount(number) for number in range(400))
    sums, counts, places = [], [], 0.0
    for seed in range(runs):
        platform.execute(f"CREATE SAMPLE s{seed} ON {relation} SIZE 12 WEIGHTED BY (amount) WITH (seed = {seed})")
        sums.append(total(platform, f"s{seed}"))
        counts.append(platform.sample(f"s{seed}").arrow().column("sample_weight").to_numpy().sum())
        places += platform.sample(f"s{seed}").arrow().column("amount").to_numpy().mean() / runs
    assert abs(np.mean(sums) - truth) < 3.5 * np.std(sums) / np.sqrt(runs)
    assert abs(np.mean(counts) - 400) < 3.5 * np.std(counts) / np.sqrt(runs)
    assert places > 2 * truth / 400, "large rows are drawn more often"


def test_whoever_takes_up_a_range_has_the_same(platform):
    for name, sql in (("w", "WEIGHTED BY (amount)"), ("d", "WITH (half_life = '1 hour', time_column = 'at', seed = 2)")):
        platform.execute(f"CREATE SAMPLE {name} ON pays SIZE 15 {sql}")
    seen = {}
    for number, (first, last) in enumerate([(0, 3), (3, 60), (60, 61), (61, 300), (300, 700)]):
        append(platform, "pays", rows(first, last), files=2 if last - first > 50 else 1)
        before = {name: platform.sample(name).arrow() for name in "wd"}
        if number % 2:
            assert set(run_maintenance(platform.work, kinds=["sample"]).samples) == {"main.w", "main.d"}
        for name, table in before.items():
            assert platform.sample(name).arrow().sort_by("id").equals(table.sort_by("id"))
            assert platform.sample(name).cardinality == last
        seen[platform.lake.snapshot().id] = platform.sample("w").arrow()
    for version, table in seen.items():
        assert platform.sample("w", version=version).arrow().sort_by("id").equals(table.sort_by("id"))
    # One that is made now and sees all rows at once has the same, but for its seed.
    (made,) = next(iter(platform.execute("SHOW CREATE w")))
    assert "WEIGHTED BY (amount) WITH (seed = " in made
    platform.execute(made.replace("main.w", "again"))
    assert platform.sample("again").arrow().sort_by("id").equals(platform.sample("w").arrow().sort_by("id"))


def test_appended_rows_are_picked_in_their_commit(platform):
    platform.execute("CREATE SAMPLE s ON pays SIZE 5 WEIGHTED BY (amount) WITH (seed = 3)")
    platform.execute("CREATE SAMPLE d ON pays SIZE 5 WITH (half_life = '30 s', time_column = 'at', seed = 3)")
    with platform.stream("pays") as pays:
        for start in range(0, 400, 50):
            pays.append(rows(start, start + 50))
            if start == 200:
                platform.execute("REFRESH SAMPLE s")
    told = {row[0]: row[1] for row in platform.execute("DESCRIBE EXTENDED s")}
    assert told["# consumed"].endswith("0 rows wait and join when it is read")
    assert int(told["# picked"].split()[0]) < 60, "rows whose keys are too high are not picked"
    assert told["# weighted by"] == "amount"
    picked = {name: platform.sample(name).arrow() for name in "sd"}
    assert platform.sample("s").cardinality == 400
    assert run_maintenance(platform.work, kinds=["sample"]).samples == (), "nothing waits"
    # Who sees all rows at once draws the same.
    for name, rest in (("s", "WEIGHTED BY (amount) WITH (seed = 3)"), ("d", "WITH (half_life = '30 s', time_column = 'at', seed = 3)")):
        platform.execute(f"CREATE SAMPLE {name}2 ON pays SIZE 5 {rest}")
        assert platform.sample(f"{name}2").arrow().sort_by("id").equals(picked[name].sort_by("id"))
        platform.execute(f"REFRESH SAMPLE {name}")
        assert platform.sample(name).arrow().sort_by("id").equals(picked[name].sort_by("id"))


def test_what_can_not_be_weighed_is_left_to_the_run_that_tells_of_it(platform):
    platform.execute("CREATE SAMPLE s ON pays SIZE 5 WEIGHTED BY (amount)")
    with platform.stream("pays") as pays:
        pays.append(rows(0, 10))
        pays.append(rows(10, 12).set_column(1, "amount", pa.array([None, 0.0])))
        pays.append(rows(12, 13).set_column(1, "amount", pa.array([-1.0])))
    with pytest.raises(InvalidValue, match=r"holds -1, which is no weight"):
        platform.sample("s")
    assert list(run_maintenance(platform.work, kinds=["sample"]).failed) == ["main.s"]
    # One that looks at the others only counts those that have a weight.
    platform.execute("CREATE STREAM good (id INT, amount DOUBLE)")
    platform.execute("CREATE SAMPLE g ON good SIZE 5 WEIGHTED BY (amount)")
    with platform.stream("good") as good:
        good.append([{"id": 1, "amount": None}, {"id": 2, "amount": 0.0}])
        good.append([{"id": 3, "amount": 1.0}, {"id": 4, "amount": None}])
    assert (ids(platform, "g"), platform.sample("g").cardinality) == ([3], 1)


def test_a_run_takes_up_what_was_appended(platform):
    platform.execute("CREATE SAMPLE s ON pays SIZE 5 WEIGHTED BY (amount)")
    append(platform, "pays", rows(0, 100))
    told = {row[0]: row[1] for row in platform.execute("DESCRIBE EXTENDED s")}
    assert told["# consumed"] == "nothing, 100 rows wait and join when it is read"
    assert told["# cardinality"] == "0 rows stand for 0, and for what counts of 100 more"
    assert run_maintenance(platform.work, kinds=["sample"]).samples == ("main.s",)
    told = {row[0]: row[1] for row in platform.execute("DESCRIBE EXTENDED s")}
    assert told["# cardinality"] == "5 rows stand for 100"
    assert [row[0] for row in platform.execute("DESCRIBE s")] == ["id", "amount", "at", "kind", "sample_weight"]


def test_young_rows_are_drawn_from_a_decayed_sample(platform):
    append(platform, "pays", rows(0, 3000))
    append(platform, "paid", rows(0, 3000))
    for relation in ("pays", "paid"):
        platform.execute(f"CREATE SAMPLE d_{relation} ON {relation} SIZE 50 WITH (half_life = '1 hour', time_column = 'AT', seed = 1)")
        found = ids(platform, f"d_{relation}")
        assert np.mean(found) > 2800, "of rows a minute apart half the weight is on the last hour"
        assert min(found) > 3000 - 60 * 20
    counts, sums = [], []
    for seed in range(100):
        platform.execute(f"CREATE SAMPLE r{seed} ON paid SIZE 300 WITH (half_life = '10 hours', time_column = 'at', seed = {seed})")
        counts.append(platform.sample(f"r{seed}").arrow().column("sample_weight").to_numpy().sum())
        platform.execute(
            f"CREATE SAMPLE b{seed} ON paid SIZE 60 WEIGHTED BY (amount) WITH (half_life = '30 days', time_column = 'at', seed = {seed})"
        )
        sums.append(total(platform, f"b{seed}"))
    assert abs(np.mean(counts) - 3000) < 3.5 * np.std(counts) / 10
    assert abs(np.mean(sums) - sum(amount(number) for number in range(3000))) < 3.5 * np.std(sums) / 10


@pytest.mark.spark
def test_conditions_and_rows_that_have_no_weight(platform, spark_server):
    table = rows(0, 200).set_column(1, "amount", pa.array([None if n % 4 == 0 else 0.0 if n % 4 == 1 else amount(n) for n in range(200)]))
    append(platform, "paid", table, files=2)
    platform.execute("CREATE SAMPLE s ON paid SIZE 500 WHERE id >= 100 AND kind = 'b' WEIGHTED BY (amount)")
    assert ids(platform, "s") == [number for number in range(100, 200) if number % 4 == 3]
    assert platform.sample("s").cardinality == 25
    append(platform, "paid", rows(200, 202).set_column(1, "amount", pa.array([-5.0, 1.0])))
    platform.execute("CREATE SAMPLE t ON paid SIZE 500 WEIGHTED BY (amount)")
    with pytest.raises(InvalidValue, match='column "amount" holds -5, which is no weight'):
        platform.sample("t")
    platform.execute("CREATE SAMPLE above ON paid SIZE 500 WHERE amount > 0 WEIGHTED BY (amount)")
    assert platform.sample("above").cardinality == 101
    platform.execute("CREATE SAMPLE sums ON paid SIZE 500 WHERE amount + 0 > 0 WEIGHTED BY (amount)")
    append(platform, "paid", rows(202, 204).set_column(1, "amount", pa.array([math.nan, 1.0])))
    with pytest.raises(InvalidValue, match='column "amount" holds nan, which is no weight'):
        platform.sample("above")
    with pytest.raises(InvalidValue, match="for every row that is there") as refused:
        platform.sample("sums")
    assert "NaN" in refused.value.hint


def test_tables_that_change(platform):
    append(platform, "paid", rows(0, 100), files=3)
    platform.execute("CREATE SAMPLE s ON paid SIZE 8 WEIGHTED BY (amount) WITH (seed = 1)")
    then, first = platform.lake.snapshot().id, platform.sample("s").arrow()
    assert platform.execute("REFRESH SAMPLE s").row_count == 8
    assert platform.sample("s").arrow().equals(first)
    table = platform.lake.table("paid")
    with platform.lake.commit("delete") as commit:
        files = platform.lake.scan(table, platform.lake.snapshot()).files
        gone = {
            file.id: write_delete_file(platform.lake.storage, table, file.path, pa.array(range(file.record_count - 1))) for file in files
        }
        commit.delete(table, gone)
    assert ids(platform, "s") == [33, 67, 99]
    assert platform.sample("s").arrow().column("sample_weight").to_pylist() == [1.0] * 3
    assert platform.sample("s", version=then).arrow().equals(first)
    platform.execute("ALTER TABLE paid ADD COLUMN tip INT")
    platform.execute("CREATE SAMPLE tips ON paid SIZE 8 WEIGHTED BY (tip)")
    assert platform.sample("tips").cardinality == 0
    platform.execute("ALTER TABLE paid DROP COLUMN tip")
    with pytest.raises(InvalidValue, match=r'column "tip" of "main.paid" is gone'):
        platform.sample("tips")
    platform.execute("DROP SAMPLE tips")


def test_rows_in_the_catalogue_are_weighed_too(platform, duck):
    platform.execute("CREATE SAMPLE s ON paid SIZE 3 WEIGHTED BY (amount)")
    append(platform, "paid", rows(0, 50))
    duck(str(platform.lake.location)).execute(
        "INSERT INTO lake.main.paid SELECT 1000 + range, 1e9, TIMESTAMPTZ '2026-01-01', 'x' FROM range(3)"
    )
    assert ids(platform, "s") == [1000, 1001, 1002]
    assert platform.sample("s").cardinality == 53


def test_an_independent_reader_sums_with_the_weights(platform, duck):
    append(platform, "pays", rows(0, 500))
    append(platform, "paid", rows(0, 500))
    for relation in ("pays", "paid"):
        platform.execute(f"CREATE SAMPLE s_{relation} ON {relation} SIZE 50 WEIGHTED BY (amount)")
        platform.execute(f"REFRESH SAMPLE s_{relation}")
    reader = duck(str(platform.lake.location))
    asked = "SELECT sum(amount * sample_weight), count(sample_weight), count(*) FROM lake.main.s_"
    # Of a stream the row beyond is stored as well, and counts for nothing.
    assert reader.rows(f"{asked}pays") == [(pytest.approx(total(platform, "s_pays")), 50, 51)]
    assert reader.rows(f"{asked}paid") == [(pytest.approx(total(platform, "s_paid")), 50, 50)]


@pytest.mark.parametrize("kind", ["TINYINT", "BIGINT", "FLOAT", "DECIMAL(38,9)"])
def test_any_number_is_a_weight(platform, kind):
    platform.execute(f"CREATE TABLE odd (id INT, w {kind})")
    platform.execute("INSERT INTO odd VALUES (1, 1), (2, 100), (3, NULL)")
    platform.execute("CREATE SAMPLE s ON odd SIZE 5 WEIGHTED BY (W)")
    assert ids(platform, "s") == [1, 2]
    (made,) = next(iter(platform.execute("SHOW CREATE s")))
    assert "WEIGHTED BY (w)" in made


@pytest.mark.parametrize(
    ("rest", "kind", "said"),
    [
        ("ON paid SIZE 3 WEIGHTED BY (kind)", InvalidValue, 'column "kind" has the type STRING, which is no weight'),
        ("ON paid SIZE 3 WEIGHTED BY (amont)", UnknownObject, "did you mean amount?"),
        ("ON paid SIZE 3 WEIGHTED BY (amount) STRATIFIED BY (kind)", InvalidValue, "a weighted sample has no strata"),
        ("ON pays SIZE 3 WEIGHTED BY (amount) WITH (window = '5 rows')", InvalidValue, "a weighted sample has no window"),
        ("ON paid SIZE 3 WITH (half_life = '1 hour')", InvalidValue, "needs the column that says when a row was"),
        ("ON paid SIZE 3 WITH (time_column = 'at')", InvalidValue, 'option "time_column" needs a half_life'),
        ("ON paid SIZE 3 WITH (half_life = '1 hour', time_column = 'id')", InvalidValue, "has the type INT, which is no time"),
        ("ON paid SIZE 3 WITH (half_life = '10 ms', time_column = 'at')", InvalidValue, "a half-life is at least a second"),
        ("ON paid SIZE 3 WITH (half_life = 'soon', time_column = 'at')", InvalidStatement, "a duration"),
        ("ON v SIZE 3 WEIGHTED BY (amount)", InvalidValue, "a view has no weighted sample"),
        ("ON SAMPLES (w, u) SIZE 3", InvalidValue, 'sample "main.w" is weighted'),
        ("ON SAMPLES (u, w) SIZE 3 WEIGHTED BY (amount)", InvalidStatement, "a merged sample has no WEIGHTED"),
        ("ON w SIZE 3 WEIGHTED BY (amount)", InvalidValue, '"main.w" is a sample itself'),
        ("ON taken SIZE 3 WEIGHTED BY (sample_weight)", InvalidValue, 'has a column "sample_weight"'),
    ],
)
def test_refusals_change_nothing(platform, rest, kind, said, monkeypatch):
    platform.execute("CREATE TABLE taken (sample_weight INT)")
    platform.execute("CREATE SAMPLE w ON paid SIZE 9 WEIGHTED BY (amount)")
    platform.execute("CREATE SAMPLE u ON pays SIZE 9")
    if " v " in rest:
        monkeypatch.setattr("platform_plugin.relations.views.kind.ViewKind.fields", lambda *_: ())
        with platform.lake.commit("view") as commit:
            commit.create_view(("main", "v"), "SELECT * FROM paid")
    before = platform.lake.snapshot().id
    with pytest.raises(kind) as refused:
        platform.execute(f"CREATE SAMPLE x {rest}")
    assert said in str(refused.value)
    assert platform.lake.snapshot().id == before


def test_nothing_takes_a_weighted_sample_for_a_uniform_one(platform):
    append(platform, "paid", rows(0, 100))
    platform.execute("CREATE SAMPLE w ON paid SIZE 50 WEIGHTED BY (amount)")
    platform.execute("CREATE SAMPLE u ON pays SIZE 50")
    platform.execute("REFRESH SAMPLE w")
    with pytest.raises(InvalidValue, match="is weighted"):
        merge_named(platform.work, ["w", "u"], 3)
    with pytest.raises(PlatformError, match=r'sample "main.w" is weighted'):
        platform.execute("SELECT count(*) AS n FROM w WITH SAMPLE (error = 0.5)")


def test_a_stream_that_is_cut_is_told_of(platform):
    platform.execute(f"CREATE STREAM short ({COLUMNS}) WITH (retention_rows = 10)")
    platform.execute("CREATE SAMPLE s ON short SIZE 5 WEIGHTED BY (amount)")
    for start in range(0, 100, 10):
        append(platform, "short", rows(start, start + 10))
    assert platform.sample("s").cardinality == 100, "the stream keeps what waits for the sample"
    run_maintenance(platform.work, kinds=["sample"])
    append(platform, "short", rows(100, 110))
    held = sum(file.record_count for file in platform.lake.scan(platform.lake.table("short"), platform.lake.snapshot()).files)
    assert held < 110
    assert platform.sample("s").cardinality == 110


@pytest.mark.spark
def test_queries_sum_with_the_weights_and_views_read_them(platform, spark_server):
    append(platform, "pays", rows(0, 2000))
    append(platform, "paid", rows(0, 2000))
    platform.execute("CREATE SAMPLE s ON pays SIZE 200 WEIGHTED BY (amount)")
    platform.execute("CREATE SAMPLE t ON paid SIZE 200 WHERE kind = 'a' WEIGHTED BY (amount)")
    with pytest.raises(InvalidValue, match="can't be judged without Spark"):
        platform.execute("CREATE SAMPLE u ON paid SIZE 200 WHERE hash(id) > 0 WEIGHTED BY (amount)")
    truth = sum(amount(number) for number in range(2000))
    for _ in range(2):
        ((found, count),) = platform.execute("SELECT sum(s.amount * s.sample_weight), count(*) FROM s JOIN pays p ON p.id = s.id")
        assert (found, count) == (pytest.approx(total(platform, "s")), 200)
        assert found == pytest.approx(truth, rel=0.2)
        ((odd, count),) = platform.execute("SELECT sum(id % 2), count(sample_weight) FROM t")
        assert (odd, count) == (0, 200)
        platform.execute("REFRESH SAMPLE s")
        platform.execute("REFRESH SAMPLE t")
    platform.execute("CREATE VIEW kinds WITH (start = 'earliest') AS SELECT kind, count(*) AS n FROM pays GROUP BY kind")
    append(platform, "pays", rows(2000, 2100))
    platform.execute("REFRESH VIEW kinds")
    assert run_maintenance(platform.work, kinds=["sample"]).samples == ("main.s",), "it is no guest at the runs of views"
    assert platform.sample("s").cardinality == 2100


def test_merged_and_weighted_samples_on_either_database(lake_url):
    with Platform.create(lake_url) as platform:
        for name in ("pays", "more"):
            platform.execute(f"CREATE STREAM {name} ({COLUMNS})")
            platform.execute(f"CREATE SAMPLE u_{name} ON {name} SIZE 9")
        platform.execute("CREATE SAMPLE w ON pays SIZE 9 WEIGHTED BY (amount) WITH (half_life = '1 hour', time_column = 'at')")
        platform.execute("CREATE SAMPLE m ON SAMPLES (u_pays, u_more) SIZE 9")
        append(platform, "pays", rows(0, 100))
        run_maintenance(platform.work, kinds=["sample"])
        with platform.stream("more") as more:
            more.append(rows(100, 200))
        found = ids(platform, "w"), ids(platform, "m")
        for name in "wm":
            platform.execute(f"REFRESH SAMPLE {name}")
    with Platform.open(lake_url) as platform:
        assert (ids(platform, "w"), ids(platform, "m")) == found
        assert (platform.sample("w").cardinality, platform.sample("m").cardinality) == (100, 200)
        with pytest.raises(InvalidValue, match=r"is part of main\.m"):
            platform.execute("DROP SAMPLE u_pays")
