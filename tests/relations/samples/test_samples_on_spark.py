"""Samples with conditions and strata, and samples of views: those for which Spark looks at rows."""

import numpy as np
import pytest

from platform_plugin.errors import QueryFailed
from platform_plugin.platform import Platform
from platform_plugin.relations.samples.read import _SAMPLES
from platform_plugin.relations.samples.reservoir.local_scan import sample_locally
from tests.relations.samples.chi_square import inclusion
from tests.relations.samples.streams import COLUMNS, append, ids, rows

pytestmark = pytest.mark.spark


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        made.execute(f"CREATE STREAM posts ({COLUMNS})")
        made.execute(f"CREATE TABLE users ({COLUMNS})")
        yield made


@pytest.mark.timeout(400)
def test_conditions_and_strata_on_a_stream(platform):
    append(platform, "posts", 0, 200, files=2)
    platform.execute("CREATE SAMPLE w ON posts SIZE 10 WHERE posts.id % 2 = 0 AND kind <> 'rare' WITH (seed = 1)")
    platform.execute("CREATE SAMPLE g ON posts SIZE 100 WHERE id >= 10 STRATIFIED BY kind SIZE 4 PER STRATUM WITH (seed = 1)")
    for first in (200, 500):
        assert all(number % 2 == 0 and number % 50 for number in ids(platform, "w"))
        before = ids(platform, "w"), ids(platform, "g")
        assert platform.execute("REFRESH SAMPLE w").row_count == platform.execute("REFRESH SAMPLE g").row_count
        assert (ids(platform, "w"), ids(platform, "g")) == before
        append(platform, "posts", first, first + 300)
    everything = rows(10, 800).to_pandas()
    counts = {(kind,): int(count) for kind, count in everything.kind.value_counts().items()}
    assert platform.sample("g").cardinalities == counts
    assert platform.sample("g").pandas().kind.value_counts().to_dict() == {"a": 4, "b": 4, "rare": 4}
    assert platform.sample("w").cardinality == int(((everything.id % 2 == 0) & (everything.kind != "rare")).sum()) + 4
    told = {row[0]: row[1] for row in platform.execute("DESCRIBE EXTENDED g")}
    assert told["# strata"] == "3"
    assert told["# where"] == "id >= 10"
    joined = platform.execute("SELECT count(*), count(DISTINCT g.kind) FROM g JOIN posts p ON p.id = g.id")
    assert list(joined) == [(12, 3)]


def test_an_even_share_of_the_whole_for_each_stratum(platform):
    append(platform, "posts", 1, 40)
    platform.execute("CREATE SAMPLE g ON posts SIZE 10 STRATIFIED BY kind WITH (seed = 1)")
    assert platform.execute("REFRESH SAMPLE g").row_count == 39
    assert platform.sample("g").pandas().kind.value_counts().to_dict() == {"a": 5, "b": 5}
    append(platform, "posts", 40, 200)
    assert platform.sample("g").pandas().kind.value_counts().to_dict() == {"a": 3, "b": 3, "rare": 3}


def test_conditions_and_strata_on_a_table_that_loses_rows(platform):
    append(platform, "users", 0, 300, files=3)
    platform.execute("CREATE SAMPLE g ON users SIZE 300 WHERE id < 250 STRATIFIED BY (kind, score) SIZE 1 PER STRATUM WITH (seed = 1)")
    platform.execute("DELETE FROM users WHERE score > 20")
    alive = rows(0, 250).to_pandas().query("score <= 20")
    assert platform.sample("g").cardinality == len(alive)
    assert len(platform.sample("g").cardinalities) == len(alive[["kind", "score"]].drop_duplicates())
    found = platform.sample("g").pandas()
    assert len(found) == len(found[["kind", "score"]].drop_duplicates()) == len(platform.sample("g").cardinalities)
    assert set(found.id) <= set(alive.id)
    assert platform.execute("REFRESH SAMPLE g").row_count == len(found)
    assert set(platform.sample("g").arrow().column("id").to_pylist()) == set(found.id)


def test_rows_that_pass_a_condition_are_drawn_uniformly(platform):
    append(platform, "users", 0, 60, files=3)
    runs, size = 12, 5
    seen = np.zeros(60)
    for seed in range(runs):
        platform.execute(f"CREATE SAMPLE s{seed} ON users SIZE {size} WHERE id % 2 = 1 WITH (seed = {seed})")
        seen[ids(platform, f"s{seed}")] += 1
    assert not seen[::2].any()
    assert abs(inclusion(seen[1::2], runs, size, 30)) < 3.1


def test_a_condition_that_few_rows_pass_is_asked_twice(platform):
    # Of 20 000 rows 1040 are expected to be taken at first, of the 20 that pass one: too few for a reservoir of 15.
    append(platform, "users", 0, 20_000)
    platform.execute("CREATE SAMPLE s ON users SIZE 15 WHERE id % 1000 = 0 WITH (seed = 1)")
    assert platform.sample("s").cardinality == 20
    assert len({number for number in ids(platform, "s") if number % 1000 == 0}) == 15
    platform.execute("CREATE SAMPLE none ON users SIZE 15 WHERE id < 0")
    assert (platform.sample("none").cardinality, ids(platform, "none")) == (0, [])


def test_samples_of_views(platform):
    append(platform, "posts", 0, 100)
    append(platform, "users", 0, 100)
    platform.execute("CREATE VIEW plain AS SELECT id, score FROM users WHERE id < 50")
    platform.execute("CREATE VIEW kept AS SELECT score % 10 AS digit, count(*) AS n FROM posts GROUP BY score % 10")
    append(platform, "posts", 100, 200)
    platform.execute("CREATE SAMPLE p ON plain SIZE 7 WITH (seed = 1)")
    platform.execute("CREATE SAMPLE k ON kept SIZE 3 WHERE n > 0 WITH (seed = 1)")
    assert platform.sample("p").cardinality == 50
    assert len({number for number in ids(platform, "p") if number < 50}) == 7
    first = platform.sample("k").arrow().to_pylist()
    assert platform.sample("k").cardinality == 10
    assert platform.execute("REFRESH SAMPLE k").row_count == 3
    stored = platform.lake.snapshot().id
    assert platform.sample("k").arrow().to_pylist() == first
    assert platform.execute("REFRESH SAMPLE k").snapshot.id == stored, "nothing had changed"
    append(platform, "posts", 200, 300)
    assert {row["n"] for row in platform.sample("k").arrow().to_pylist()} != {row["n"] for row in first}


def test_a_condition_that_spark_refuses_is_pointed_at(platform):
    with pytest.raises(QueryFailed) as refused:
        platform.execute("CREATE SAMPLE s ON users SIZE 3 WHERE nothing > 3")
    assert "nothing" in str(refused.value)
    assert platform.execute("SHOW SAMPLES").row_count == 0


@pytest.mark.parametrize("relation", ["posts", "users"])
def test_spark_and_arrow_draw_the_same(platform, relation, monkeypatch):
    append(platform, relation, 0, 3000, files=3)
    if relation == "users":
        platform.execute("DELETE FROM users WHERE id % 5 = 0")
        platform.execute("UPDATE users SET score = score + 1 WHERE id < 40")
    clauses = (
        "WHERE ID < 2500 AND Kind <> 'a'",
        f"WHERE {relation}.score BETWEEN 20 AND 60 OR kind IN ('rare') STRATIFIED BY kind SIZE 7 PER STRATUM",
        "STRATIFIED BY (score, kind) SIZE 2 PER STRATUM",
    )
    for number, clause in enumerate(clauses):
        platform.execute(f"CREATE SAMPLE s{number} ON {relation} SIZE 20 {clause} WITH (seed = {number})")
    looks = []
    monkeypatch.setattr(
        "platform_plugin.relations.samples.reservoir.local.sample_locally", lambda *args: looks.append(sample_locally(*args)) or looks[-1]
    )
    here = [(ids(platform, f"s{number}"), platform.sample(f"s{number}").cardinalities) for number in range(3)]
    assert len(looks) == 3
    assert None not in looks
    monkeypatch.setattr("platform_plugin.relations.samples.reservoir.local.sample_locally", lambda *_: None)
    _SAMPLES.clear()
    assert [(ids(platform, f"s{number}"), platform.sample(f"s{number}").cardinalities) for number in range(3)] == here


def test_columns_may_be_called_as_functions_are(platform):
    platform.execute("CREATE TABLE visits (uuid INT, `user` STRING)")
    platform.execute("INSERT INTO visits VALUES (1, 'ada'), (2, 'bob'), (3, 'ada')")
    platform.execute("CREATE SAMPLE some ON visits SIZE 3 WHERE user = 'ada' AND uuid > 1")
    assert list(platform.execute("SELECT uuid FROM some")) == [(3,)]
