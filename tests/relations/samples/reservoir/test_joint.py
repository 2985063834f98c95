"""Samples and views on one stream: one scan, one commit."""

import pytest

from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from tests.relations.samples.streams import COLUMNS, append, ids

pytestmark = pytest.mark.spark


@pytest.mark.timeout(400)
def test_samples_take_part_in_the_run_of_views(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as platform:
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
        assert done.jobs <= 3
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
    with Platform.create(tmp_path / "lake") as platform:
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
