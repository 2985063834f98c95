"""Samples and views on one stream: one scan, one commit."""

import pytest

from platform_plugin.engine.limits import Limits
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from tests.relations.samples.streams import COLUMNS, append, ids

pytestmark = pytest.mark.spark


JOBS = {"local": 0, "executors": 1, "spark_sql": 3}
"""What a run has at most, whatever the number of samples and views."""


@pytest.mark.timeout(400)
@pytest.mark.parametrize("engine", JOBS)
def test_samples_take_part_in_the_run_of_views(tmp_path, spark_server, engine):
    with Platform.create(tmp_path / "lake", engine=engine) as platform:
        platform.execute(f"CREATE STREAM posts ({COLUMNS})")
        platform.execute("CREATE VIEW kinds AS SELECT kind, count(*) AS n FROM posts GROUP BY kind")
        platform.execute("CREATE SAMPLE counted ON posts SIZE 10 WITH (seed = 1)")
        platform.execute("CREATE SAMPLE chosen ON posts SIZE 10 WHERE id % 2 = 1 WITH (seed = 1)")
        platform.execute("CREATE SAMPLE kinds_of ON posts SIZE 9 STRATIFIED BY kind WITH (seed = 1)")
        append(platform, "posts", 0, 300, files=2)
        names = ("counted", "chosen", "kinds_of")
        before = [ids(platform, name) for name in names]
        done = run_maintenance(platform.work)
        assert not done.failed
        assert set(done.samples) == {"main.counted", "main.chosen", "main.kinds_of"}
        assert done.jobs <= JOBS[engine]
        told = {name: run.engine for run in done.engine_runs for name in run.relations}
        assert told == dict.fromkeys(("main.kinds", "main.chosen", "main.kinds_of"), engine)
        assert not list(platform.lake.storage.listing("_results/"))
        assert [ids(platform, name) for name in names] == before
        assert run_maintenance(platform.work, kinds=["sample"]).samples == ()
        assert platform.sample("kinds_of").cardinalities == dict.fromkeys([("a",)], 144) | {("b",): 150, ("rare",): 6}
        # A condition that fails holds up neither the view nor the other samples.
        platform.execute("CREATE SAMPLE bad ON posts SIZE 10 WHERE 100 / (id - 350) > 0")
        run_maintenance(platform.work, kinds=["sample"])
        append(platform, "posts", 300, 400)
        done = run_maintenance(platform.work)
        assert (done.views, list(done.failed)) == (("main.kinds",), ["main.bad"])
        assert set(done.samples) == {"main.counted", "main.chosen", "main.kinds_of"}
        alone = run_maintenance(platform.work, kinds=["sample"])
        assert (alone.samples, list(alone.failed)) == ((), ["main.bad"])
        assert platform.sample("counted").cardinality == 400


@pytest.mark.timeout(400)
def test_what_the_shared_scan_lacks_is_asked_for_again(tmp_path, spark_server):
    # Of 30 000 rows 1040 are expected to be picked at first, of the 30 that pass one: too few for a reservoir of ten.
    with Platform.create(tmp_path / "lake", engine="spark_sql") as platform:
        platform.execute(f"CREATE STREAM posts ({COLUMNS})")
        platform.execute("CREATE VIEW kinds AS SELECT kind, count(*) AS n FROM posts GROUP BY kind")
        platform.execute("CREATE SAMPLE few ON posts SIZE 10 WHERE id % 1000 = 7 WITH (seed = 1)")
        append(platform, "posts", 0, 30_000, files=2)
        before = ids(platform, "few")
        assert len(before) == 10
        assert all(number % 1000 == 7 for number in before)
        assert run_maintenance(platform.work).samples == ("main.few",)
        assert ids(platform, "few") == before
        assert platform.sample("few").cardinality == 30


@pytest.mark.timeout(400)
def test_samples_and_views_that_executors_maintain_are_one_job(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake", engine="executors") as platform:
        platform.work.limits = Limits(task_least_rows=1)
        platform.execute(f"CREATE STREAM posts ({COLUMNS}) WITH (retention_rows = 1000000)")
        platform.execute("CREATE SAMPLE chosen ON posts SIZE 50 WHERE id % 2 = 1 WITH (seed = 1)")
        platform.execute("CREATE SAMPLE kinds_of ON posts SIZE 9 STRATIFIED BY kind WITH (seed = 1)")
        platform.execute("CREATE SAMPLE heavy ON posts SIZE 20 WEIGHTED BY (id) WITH (seed = 1)")
        platform.execute("CREATE SAMPLE newest ON posts SIZE 20 WHERE id % 3 = 1 WITH (seed = 1, window = '500 rows')")
        names = ("chosen", "kinds_of", "heavy", "newest")

        def consume(start, end):
            append(platform, "posts", start, end, files=2)
            before = [ids(platform, name) for name in names]  # drawn from the rows for this read
            done = run_maintenance(platform.work)
            assert not done.failed
            assert set(done.samples) == {f"main.{name}" for name in names}
            assert [ids(platform, name) for name in names] == before
            assert {run.engine for run in done.engine_runs} == {"executors"}
            told = [name for run in done.engine_runs for name in run.relations]
            assert len(told) == len(set(told)), "each is told once"
            return done, set(told)

        done, told = consume(0, 400)
        assert (done.jobs, told) == (1, {f"main.{name}" for name in names})
        platform.execute("CREATE VIEW kinds WITH (start = 'earliest') AS SELECT kind, count(*) AS n FROM posts GROUP BY kind")
        run_maintenance(platform.work)
        # The window's range is one of its own: it begins where its picks end, and is looked at beside the others.
        done, told = consume(400, 900)
        assert told == {"main.kinds", *(f"main.{name}" for name in names)}
        assert done.jobs <= 2
        assert sorted(platform.execute("SELECT * FROM kinds")) == sorted(platform.execute("SELECT kind, count(*) FROM posts GROUP BY kind"))
