"""Draws from views: what Spark chooses is what numpy says, and that is uniform whatever the tasks."""

import numpy as np
import pyarrow as pa
import pytest

from platform_plugin.platform import Platform
from platform_plugin.relations.samples.definition import SampleDefinition
from platform_plugin.relations.samples.draw.viewed import KEY, Stratum, counting_frame, drawing_frame, is_scan, plan_bounds, read_strata
from platform_plugin.relations.samples.keys.keys import EVERY, keys_of_ids
from tests.relations.samples.chi_square import inclusion
from tests.relations.samples.streams import COLUMNS, append, ids

TASKS = [0, 40, 1, 7]
"""How many rows each of four tasks has."""


def task_keys(seed, counts=TASKS):
    """The keys of the rows of each task, as Spark numbers them: the task in the upper bits, the row's place in the lower ones."""
    return keys_of_ids(seed, np.concatenate([(task << 33) + np.arange(count) for task, count in enumerate(counts)]).astype(np.int64))


@pytest.mark.parametrize("counts", [TASKS, [48], [1] * 48, [24, 24]])
def test_every_row_of_every_task_is_as_likely(counts):
    runs, size, total = 4000, 5, 48
    seen = np.zeros(total)
    for seed in range(runs):
        seen[np.argsort(task_keys(seed, counts))[:size]] += 1
    assert abs(inclusion(seen, runs, size, total)) < 3.1


def test_a_bound_lets_enough_rows_pass():
    for size, count in ((1, 10_000), (100, 5_000), (1000, 1_000_000)):
        bound = plan_bounds([Stratum(hash=1, cardinality=count)], size)[1]
        for seed in range(20):
            passed = np.count_nonzero(keys_of_ids(seed, np.arange(count)) <= bound)
            assert size <= passed <= 4 * size + 200
    assert plan_bounds([Stratum(hash=1, cardinality=50)], 3) == {1: EVERY}


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        made.execute(f"CREATE TABLE users ({COLUMNS})")
        yield made


@pytest.mark.spark
def test_spark_and_numpy_choose_the_same_and_no_other_rows_come_out(platform):
    session = platform.work.session
    plain = SampleDefinition(relation="", source="view", size=30, seed=1)
    stratified = SampleDefinition(relation="", source="view", size=30, seed=1, strata=("kind", "other"))
    for parts in (1, 5, 64):
        rows = session.spark.range(0, 3200, 1, parts).selectExpr("id", "id % 3 AS kind", "IF(id < 3, 'rare', NULL) AS other")
        counts = [len(part) for part in np.array_split(np.arange(3200), parts)]
        keys = task_keys(9, counts)
        strata = read_strata(plain, session.arrow(counting_frame(platform.work, plain, rows)).read_all())
        assert [one.cardinality for one in strata.values()] == [3200]
        bounds = plan_bounds(strata.values(), 30)
        found = session.arrow(drawing_frame(platform.work, plain, rows, seed=9, size=30, bounds=bounds)).read_all()
        assert found.column("id").to_pylist() == np.argsort(keys)[:30].tolist()
        assert found.column(KEY).to_pylist() == np.sort(keys)[:30].tolist()
    strata = read_strata(stratified, session.arrow(counting_frame(platform.work, stratified, rows)).read_all())
    assert sorted(one.cardinality for one in strata.values()) == [1, 1, 1, 1065, 1066, 1066]
    bounds = plan_bounds(strata.values(), 5)
    found = session.arrow(drawing_frame(platform.work, stratified, rows, seed=9, size=5, bounds=bounds)).read_all()
    expected = {0, 1, 2}
    for kind in range(3):
        own = np.arange(3 + kind, 3200, 3)
        expected |= set(own[np.argsort(keys[own])[:5]].tolist())
    assert sorted(found.column("id").to_pylist()) == sorted(expected)


@pytest.mark.spark
def test_views_that_join_or_group_are_worked_out_once(platform):
    append(platform, "users", 0, 300, files=3)
    bodies = {
        "chosen": ("SELECT id, score * 2 AS twice FROM users WHERE id % 2 = 0", True),
        "grouped": ("SELECT score, count(*) AS id FROM users GROUP BY score", False),
        "joined": ("SELECT a.id FROM users a JOIN users b ON a.id = b.score", False),
        "above": ("SELECT id FROM chosen", False),
        "counted": ("SELECT count(*) AS id FROM users", False),
        "thrown": ("SELECT id FROM users WHERE rand() < 0.5", False),
    }
    snapshot = None
    for name, (body, _) in bodies.items():
        snapshot = platform.execute(f"CREATE VIEW {name} AS {body}").snapshot
    views = {view.name.relation: view for view in platform.lake.views(snapshot)}
    assert {name: is_scan(platform.work, views[name], snapshot) for name in bodies} == {name: known for name, (_, known) in bodies.items()}
    platform.execute("CREATE SAMPLE of_thrown ON thrown SIZE 1000")
    platform.execute("REFRESH SAMPLE of_thrown")
    assert 60 < platform.sample("of_thrown").cardinality == platform.sample("of_thrown").arrow().num_rows < 240
    for name in ("chosen", "joined"):
        platform.execute(f"CREATE SAMPLE of_{name} ON {name} SIZE 5 WITH (seed = 3)")
        found = ids(platform, f"of_{name}")
        assert len(set(found)) == 5
        everything = platform.execute(f"SELECT id FROM {name}").arrow().column("id").to_pylist()
        assert platform.sample(f"of_{name}").cardinality == len(everything)
        assert set(found) <= set(everything)


@pytest.mark.spark
def test_strata_and_conditions_of_a_view(platform):
    append(platform, "users", 0, 300, files=2)
    platform.execute("CREATE VIEW v AS SELECT id, kind, score FROM users")
    platform.execute("CREATE SAMPLE g ON v SIZE 12 WHERE id >= 100 STRATIFIED BY kind WITH (seed = 2)")
    assert platform.sample("g").cardinalities == {("a",): 96, ("b",): 100, ("rare",): 4}
    assert platform.sample("g").pandas().kind.value_counts().to_dict() == {"a": 4, "b": 4, "rare": 4}
    assert min(ids(platform, "g")) >= 100
    platform.execute("CREATE SAMPLE none ON v SIZE 12 WHERE id < 0 STRATIFIED BY kind")
    assert (platform.sample("none").cardinalities, platform.sample("none").arrow().num_rows) == ({}, 0)
    assert platform.sample("none").arrow().column_names == ["id", "kind", "score"]


@pytest.mark.spark
def test_rows_of_a_view_are_drawn_uniformly(platform):
    append(platform, "users", 0, 60, files=3)
    platform.execute("CREATE VIEW v AS SELECT id FROM users")
    runs, size = 12, 5
    seen = np.zeros(60)
    for seed in range(runs):
        platform.execute(f"CREATE SAMPLE s{seed} ON v SIZE {size} WITH (seed = {seed})")
        seen[ids(platform, f"s{seed}")] += 1
    assert abs(inclusion(seen, runs, size, 60)) < 3.1


def test_strata_whose_hashes_are_equal_have_the_higher_bound():
    counted = pa.table({"a": [None, "x", "x"], "b": ["x", None, "y"], "\x1fcount": [5, 5000, 7], "\x1fstratum": [1, 1, 2]})
    strata = read_strata(SampleDefinition(relation="", source="view", size=9, seed=1, strata=("a", "b")), counted)
    assert {key: one.cardinality for key, one in strata.items()} == {(None, "x"): 5, ("x", None): 5000, ("x", "y"): 7}
    assert plan_bounds(strata.values(), 3) == {1: EVERY, 2: EVERY}
