"""The engine of a run: that of the run before that of the relation before the lake's; what it was, why, and what it took."""

import json
import threading
import time
from contextlib import suppress

import pytest

from platform_plugin.engine.figures import rough_time
from platform_plugin.engine.limits import Limits
from platform_plugin.engine.rates import START_SECONDS
from platform_plugin.errors import QueryInterrupted
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.values.engine_notes import NOTED
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform

QUERY = "SELECT k, count(*) AS n, sum(v) AS s FROM calls GROUP BY k"
OTHER = "SELECT v % 7 AS r, count(*) AS n FROM calls GROUP BY v % 7"


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM calls (k BIGINT, v BIGINT) WITH (retention_rows = 1000000)")
        yield platform


def arrive(platform):
    platform.execute("INSERT INTO calls SELECT id % 5, id FROM range(100)" if platform.work.is_attached else _values())


def _values():
    return "INSERT INTO calls VALUES " + ", ".join(f"({number % 5}, {number})" for number in range(100))


def ran(platform, only=None, **options):
    done = run_maintenance(platform.work, only, **options)
    assert not done.failed
    return {name: run for run in done.engine_runs for name in run.relations}, done


def test_a_small_run_is_done_in_the_process_and_says_what_a_job_would_have_taken(platform):
    platform.execute(f"CREATE VIEW sums AS {QUERY}")
    arrive(platform)
    runs, done = ran(platform)
    run = runs["main.sums"]
    assert (run.engine, run.rows, run.tasks, run.jobs) == ("local", 100, 0, 0)
    assert set(run.estimates) == {"local", "executors"}
    assert run.estimates["executors"] > START_SECONDS, "a server would have to be started"
    assert run.why == f"executors would take {rough_time(run.estimates['executors'])}"
    assert run.seconds > 0
    assert not platform.work.is_attached
    (noted,) = json.loads(platform.lake.commits(until=done.snapshot.id, limit=1)[0].notes)[NOTED]
    assert (noted["engine"], noted["relations"], noted["why"]) == ("local", ["main.sums"], run.why)
    assert noted["estimated_seconds"] <= noted["seconds"] + 1


def test_limits_are_for_auto_and_not_for_who_asks_for_the_process(platform):
    platform.work.limits = Limits(client_range_rows=10)
    platform.execute(f"CREATE VIEW sums WITH (engine = 'local') AS {QUERY}")
    arrive(platform)
    runs, _ = ran(platform)
    assert runs["main.sums"].engine == "local"
    assert runs["main.sums"].why == "engine = 'local', option of the relation"
    assert not platform.work.is_attached


@pytest.mark.spark
@pytest.mark.usefixtures("spark_server")
def test_run_relation_and_lake_ask_in_this_order(platform):
    platform.work.session  # noqa: B018  attached from now on
    platform.work.limits = Limits(task_least_rows=10)
    platform.work.engine = "spark_sql"
    platform.execute(f"CREATE VIEW lakes WITH (start = 'earliest') AS {QUERY}")
    platform.execute(f"CREATE VIEW tasks WITH (start = 'earliest', engine = 'executors') AS {OTHER}")
    arrive(platform)
    runs, done = ran(platform)
    lakes, tasks = runs["main.lakes"], runs["main.tasks"]
    assert (lakes.engine, tasks.engine) == ("spark_sql", "executors")
    assert lakes.why == "engine = 'spark_sql', option engine"
    assert done.on_spark == {"main.lakes": lakes.why}
    assert lakes.jobs == tasks.jobs == 1
    assert tasks.tasks == sum(tasks.executors.values()) >= 2
    assert tasks.rows == 100
    assert tasks.skew >= 1
    assert 0 < tasks.client_bytes < 100_000
    assert tasks.core_rows_per_second > 0
    arrive(platform)
    runs, done = ran(platform, engine="local")
    assert {run.engine for run in runs.values()} == {"local"}
    assert not done.jobs
    arrive(platform)
    runs, _ = ran(platform, engine="auto")
    assert {run.engine for run in runs.values()} == {"local"}
    assert 0.01 < runs["main.tasks"].estimates["executors"] < START_SECONDS, "the server is there already"
    for name, query in (("lakes", QUERY), ("tasks", OTHER)):
        rows = [sorted(map(tuple, platform.execute(text))) for text in (f"SELECT * FROM {name}", query)]
        assert rows[0] == rows[1]


@pytest.mark.spark
@pytest.mark.usefixtures("spark_server")
def test_a_refresh_may_ask_too_and_what_executors_refuse_is_spark_sqls_for_its_reason(platform):
    platform.execute(f"CREATE VIEW sums WITH (start = 'earliest') AS {QUERY}")
    platform.execute("CREATE VIEW sounds WITH (start = 'earliest') AS SELECT soundex(string(k)) AS s, count(*) AS n FROM calls GROUP BY 1")
    arrive(platform)
    platform.execute("REFRESH VIEW sums WITH (engine = executors)")
    notes = [json.loads(commit.notes or "{}") for commit in platform.lake.commits(limit=5)]
    (run,) = next(note[NOTED] for note in reversed(notes) if NOTED in note)
    assert (run["engine"], run["why"]) == ("executors", "engine = 'executors', option of the run")
    plan = [row[0] for row in platform.execute("EXPLAIN REFRESH VIEW sounds")]
    assert any(line.startswith("  engine spark_sql, about ") and line.endswith(": the function string") for line in plan), plan
    runs, done = ran(platform, [Name.of("sounds")], engine="executors")
    assert runs["main.sounds"].engine == "spark_sql"
    assert done.on_spark["main.sounds"] == runs["main.sounds"].why
    assert "the function string" in runs["main.sounds"].why
    assert sum(row[1] for row in platform.execute("SELECT * FROM sounds")) == 100


@pytest.mark.spark
@pytest.mark.usefixtures("spark_server")
def test_the_server_tells_how_many_tasks_run(platform):
    session = platform.work.session

    def run():
        with suppress(QueryInterrupted), session.arrow("SELECT sum(hash(id)) AS s FROM range(100000000000)", "slow"):
            pass

    thread = threading.Thread(target=run)
    thread.start()
    try:
        end = time.monotonic() + 60
        while not (found := session.read_busy_slots())[1] and time.monotonic() < end:
            time.sleep(0.05)
    finally:
        session.insist("slow")
        thread.join(60)
    assert 1 <= found[1] <= found[0]
