"""Samples that tasks draw: the same rows as in one process and by Spark's operators, and no more of them moved than the sample has."""

import random
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from platform_plugin.engine.limits import Limits
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.files import files
from platform_plugin.lake.upkeep.vacuum import vacuum
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.samples.definition import SampleDefinition
from platform_plugin.relations.samples.draw.pieces import read_pieces
from platform_plugin.relations.samples.reservoir.counting import count_in_spark
from platform_plugin.relations.samples.reservoir.local import PartDraw, RelationPart, find_local
from platform_plugin.relations.samples.tasks.executor_draw import draw_on_executors, prepare_draw

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_server")]

BASE = SampleDefinition(relation="", source="table", size=40, seed=1)
ENGINES = ("executors", "local", "spark_sql")
DEFINITIONS = {
    "condition": replace(BASE, where="score < 50"),
    "few pass": replace(BASE, where="score = 3 AND kind = 'b'"),
    "none pass": replace(BASE, where="score > 1000"),
    "strata": replace(BASE, strata=("kind",)),
    "strata of two columns": replace(BASE, strata=("kind", "digit"), size_per_stratum=3),
    "strata with a condition": replace(BASE, strata=("digit",), where="score >= 20"),
    "weights": replace(BASE, weight="score"),
    "weights with a condition": replace(BASE, weight="score", where="digit <> 4"),
}


@pytest.fixture
def platform(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ROW_GROUP_ROWS", 100)
    with Platform.create(tmp_path / "lake") as made:
        made.work.limits = Limits(task_least_rows=1, task_part_rows=170)
        yield made


def rows_of(count, seed=1):
    chance = random.Random(seed)
    return pa.table(
        {
            "score": pa.array([chance.choice([None, *range(100)]) for _ in range(count)], pa.int32()),
            "kind": [chance.choice(["a", "a", "a", "b", None]) for _ in range(count)],
            "digit": pa.array([number % 10 for number in range(count)], pa.int32()),
        }
    )


def store(platform, name, rows, count):
    """A table of these rows in so many files."""
    lake = platform.lake
    with lake.commit("rows") as commit:
        table = commit.create_table(name, lake.columns_of(rows))
        declare_relation(commit, table, Declaration(kind="table"))
        step = -(-rows.num_rows // count)
        commit.append(table, [lake.write(table, rows.slice(start, step)) for start in range(0, rows.num_rows, step)])


def part_of(platform, definition, **more):
    lake = platform.lake
    pieces = read_pieces(lake, lake.scan(lake.table("t"), lake.snapshot()))
    return RelationPart(pieces=pieces, size=definition.cap(1), seed=7, **more)


def lowest(found, size):
    """What reservoirs hold, as sets of keys and places."""
    return {
        key: (held.cardinality, sorted(zip((own := held.lowest(size)).keys.tolist(), own.places.tolist(), strict=True)))
        for key, held in found.items()
    }


def agree(platform, definition, part):
    """The reservoirs of a part by tasks, which must be those of the process and of Spark's operators."""
    platform.work.engine = "local"
    ((_, here),) = find_local(platform.work, [PartDraw(definition, part)])
    planned = prepare_draw(platform.work, definition, part)
    if planned.is_empty:
        assert here == {}
        return {}, None
    (draw,), job = draw_on_executors(platform.work, [planned])
    drawn = draw.drawn
    size = definition.cap(max(1, len(here)))
    assert lowest(drawn, size) == lowest(here, size)
    if not definition.is_weighted:
        assert lowest(count_in_spark(platform.work, definition, part), size) == lowest(here, size)
    for held in drawn.values():
        assert len(held.keys) == min(size, held.cardinality) or part.bounds
        assert (held.keys <= held.bound).all()
    return drawn, job


@pytest.mark.parametrize("name", DEFINITIONS)
def test_tasks_choose_what_the_process_and_sparks_operators_choose(platform, name):
    store(platform, "t", rows_of(3000), 5)
    drawn, _ = agree(platform, DEFINITIONS[name], part_of(platform, DEFINITIONS[name]))
    assert bool(drawn) == (name != "none pass")


def test_rows_that_were_deleted_and_changed(platform):
    store(platform, "t", rows_of(1500), 3)
    platform.execute("DELETE FROM t WHERE digit = 3")
    platform.execute("UPDATE t SET score = 7 WHERE digit = 5")
    for definition in DEFINITIONS.values():
        agree(platform, definition, part_of(platform, definition))


def test_what_comes_to_the_client_are_the_rows_of_the_sample_and_two_numbers_a_task(platform, monkeypatch):
    store(platform, "t", rows_of(8000), 8)
    monkeypatch.setattr(type(platform.work.session), "read_task_slots", lambda _: 8)
    definition = replace(BASE, size=100, where="score < 50")
    drawn, job = agree(platform, definition, part_of(platform, definition))
    assert len(job.shares) == 8
    assert job.metrics.jobs == 1
    assert job.metrics.tasks == 8 + 1, "eight draw, and one merges"
    assert sum(share.rows for share in job.shares) == 8000
    assert sum(share.bytes_written for share in job.shares) == 8 * 100 * 16, "each keeps a whole reservoir, which stays where it is"
    assert sum(len(held.keys) for held in drawn.values()) == 100
    # A row is a key and a place; besides them there are figures of tasks and the words of a pickle.
    assert job.client_bytes < 100 * 16 + 8 * 200 + 1000
    assert not list(platform.lake.storage.listing("_results/"))


def test_of_a_range_after_a_full_sample_only_rows_come_that_it_takes_in(platform):
    store(platform, "t", rows_of(4000), 4)
    definition = DEFINITIONS["condition"]
    part = part_of(platform, definition)
    bound = int(sorted(agree(platform, definition, part)[0][()].keys)[9])
    drawn, job = agree(platform, definition, replace(part, bounds={(): bound}))
    assert len(drawn[()].keys) == 10
    assert job.metrics.tasks == len(job.shares), "nothing has to be merged"


def test_the_choice_of_an_engine_chooses_no_rows(platform):
    platform.execute("CREATE STREAM r (score INT, kind STRING, digit INT) WITH (retention_rows = 1000000)")
    samples = {
        "passing": "ON r SIZE 30 WHERE score > 30 WITH (seed = 3)",
        "by_kind": "ON r SIZE 30 STRATIFIED BY (kind) WITH (seed = 3)",
        "weighted": "ON r SIZE 30 WHERE digit < 7 WEIGHTED BY (score) WITH (seed = 3)",
        "newest": "ON r SIZE 20 WHERE score > 30 WITH (seed = 3, window = '900 rows')",
    }
    found = {}
    for engine in ENGINES:
        platform.work.engine = engine
        for name, text in samples.items():
            platform.execute(f"CREATE SAMPLE {name}_{engine} {text}")
    lake = platform.lake
    for seed in range(2):
        table = lake.table("r")
        for _ in range(3):
            with lake.commit("append") as commit:
                commit.append(table, [lake.write(table, rows_of(400, seed))])
        for engine in ENGINES:
            platform.work.engine = engine
            for name in samples:
                platform.execute(f"REFRESH SAMPLE {name}_{engine}")
                rows = platform.execute(f"SELECT * FROM {name}_{engine}").arrow()
                cardinality = platform.sample(f"{name}_{engine}").cardinality
                found[engine, name] = cardinality, sorted(map(tuple, (row.values() for row in rows.to_pylist())), key=repr)
                assert rows.num_rows >= 20
                assert found[engine, name] == found["executors", name], (engine, name)


def test_a_run_asks_before_the_sample_and_this_before_the_lake_and_tells_who_drew(platform):
    platform.execute("CREATE STREAM s (score INT, digit INT)")
    for name, option in (("tasks", ", engine = 'executors'"), ("lakes", "")):
        platform.execute(f"CREATE SAMPLE {name} ON s SIZE 5 WHERE score < 50 WITH (seed = 1{option})")
    assert "engine = 'executors'" in next(iter(platform.execute("SHOW CREATE SAMPLE tasks")))[0]
    platform.work.engine = "local"

    def consume(**options):
        rows = rows_of(400).select(["score", "digit"])
        table = platform.lake.table("s")
        with platform.lake.commit("rows") as commit:
            commit.append(table, [platform.lake.write(table, rows)])
        done = run_maintenance(platform.work, [Name.of("tasks"), Name.of("lakes")], **options)
        assert not done.failed
        return {run.relations[0]: run for run in done.engine_runs}, done

    runs, done = consume()
    assert {name: run.engine for name, run in runs.items()} == {"main.tasks": "executors", "main.lakes": "local"}
    tasks = runs["main.tasks"]
    assert tasks.why == "engine = 'executors', option of the relation"
    assert tasks.tasks == sum(tasks.executors.values()) >= 1
    assert done.jobs == tasks.jobs >= 1
    assert tasks.skew >= 1
    assert 0 < tasks.client_bytes < 100_000
    runs, _ = consume(engine="local")
    assert {(name, run.engine, run.why) for name, run in runs.items()} == {
        (name, "local", "engine = 'local', option of the run") for name in ("main.tasks", "main.lakes")
    }
    runs, _ = consume(engine="auto")
    assert {run.engine for run in runs.values()} == {"local"}
    assert all(run.why.startswith("executors would take ") for run in runs.values())
    drawn = [sorted(map(repr, platform.sample(name).arrow().to_pylist())) for name in ("tasks", "lakes")]
    assert drawn[0] == drawn[1]


def append(platform, seed, count=3):
    """Rows that wait for a run, since nobody has picked any of them."""
    lake = platform.lake
    for number in range(count):
        with lake.commit("append") as commit:
            commit.append(lake.table("r"), [lake.write(lake.table("r"), rows_of(300, seed * 10 + number))])


def attack(platform, deaths):
    """Kill a client at each of these points or moments; how often it died."""
    platform.execute("CREATE STREAM r (score INT, kind STRING, digit INT) WITH (retention_rows = 1000000)")
    for name in ("drawn", "oracle"):
        platform.execute(f"CREATE SAMPLE {name} ON r SIZE 30 WHERE score > 30 WITH (seed = 3)")
    platform.work.engine = "local"
    died = 0
    for seed, death in enumerate(deaths):
        append(platform, seed)
        ended = subprocess.run(
            [sys.executable, "-m", "tests.relations.samples.tasks.victim", str(platform.lake.location), str(death)],
            cwd=Path(__file__).parents[4],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert ended.returncode in (0, -9), ended.stderr
        died += ended.returncode == -9
        # The oracle is never stored: it is drawn from all rows that the stream ever had.
        read = [
            (sorted(map(repr, platform.execute(f"SELECT * FROM {name}").arrow().to_pylist())), platform.sample(name).cardinality)
            for name in ("drawn", "oracle")
        ]
        assert read[0] == read[1], death
        assert len(read[0][0]) == 30
    vacuum(platform.lake, grace=timedelta(0), dry_run=False)
    assert not list(platform.lake.storage.listing("_results/"))
    return died


def test_a_client_killed_after_the_job_and_before_the_commit(platform):
    assert attack(platform, [6]) == 1


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_client_killed_all_along(platform):
    moments = [f"{tenths / 10}s" for tenths in range(1, 16, 2)]
    died = attack(platform, [*range(1, 60, 3), *moments])
    print(f"survived {died} kills")
    assert died > 10
