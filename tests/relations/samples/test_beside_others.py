"""Samples and the rest: other databases, other readers, views over samples, schemas that go."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from platform_plugin.errors import InvalidValue
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from tests.relations.samples.streams import COLUMNS, append, ids


def test_on_either_database_and_for_an_independent_reader(lake_url, duck):
    with Platform.create(lake_url) as platform:
        platform.execute(f"CREATE STREAM posts ({COLUMNS})")
        platform.execute("CREATE SAMPLE s ON posts SIZE 9 WITH (seed = 1)")
        platform.execute("CREATE SAMPLE w ON posts SIZE 9 WITH (window = '50 rows', seed = 1)")
        for start in range(0, 90, 30):
            append(platform, "posts", start, start + 30)
            run_maintenance(platform.work, kinds=["sample"])
        found = ids(platform, "s"), sorted(platform.lake.read("w").column("id").to_pylist())
        assert min(found[1]) >= 40
    reader = duck(lake_url)
    assert [sorted(id_ for (id_,) in reader.rows(f"SELECT id FROM lake.main.{name}")) for name in ("s", "w")] == list(found)
    reader.execute("INSERT INTO lake.main.posts VALUES (1000, 'duck', 1)")
    with Platform.open(lake_url) as platform:
        assert platform.sample("s").cardinality == 91
        assert platform.sample("w").cardinality == 50


def test_runs_at_once_take_up_each_row_once(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute(f"CREATE STREAM posts ({COLUMNS})")
        platform.execute("CREATE SAMPLE s ON posts SIZE 9 WITH (seed = 1)")
        platform.execute("CREATE SAMPLE w ON posts SIZE 9 WITH (window = '70 rows', seed = 1)")

    def maintain(_):
        with Platform.open(tmp_path / "lake") as own:
            return run_maintenance(own.work, kinds=["sample"])

    with Platform.open(tmp_path / "lake") as platform, ThreadPoolExecutor(3) as pool:
        for start in range(0, 200, 40):
            append(platform, "posts", start, start + 40)
            before = ids(platform, "s")
            done = list(pool.map(maintain, range(3)))
            assert sum("main.s" in one.samples for one in done) == 1
            assert not any(one.failed for one in done)
            assert ids(platform, "s") == before
        assert platform.sample("s").cardinality == 200
        assert platform.sample("w").cardinality == 70


def test_a_schema_goes_with_its_samples(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE SCHEMA raw")
        platform.execute(f"CREATE STREAM raw.posts ({COLUMNS})")
        platform.execute("CREATE SAMPLE raw.s ON raw.posts SIZE 10 WITH (window = '5 rows')")
        platform.execute("CREATE SAMPLE raw.g ON raw.posts SIZE 10")
        platform.execute("CREATE SAMPLE apart ON raw.posts SIZE 10")
        with pytest.raises(InvalidValue, match=r'stream "raw\.posts" is sampled by main\.apart') as refused:
            platform.execute("DROP SCHEMA raw CASCADE")
        assert refused.value.hint == "drop first: DROP SAMPLE main.apart"
        platform.execute("DROP SAMPLE apart")
        said = platform.execute("DROP SCHEMA raw CASCADE").message
        assert said == "schema raw dropped, and with it sample raw.g, sample raw.s, stream raw.posts"
        assert platform.lake.tables() == []


@pytest.mark.spark
def test_views_over_samples_are_current(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute(f"CREATE STREAM posts ({COLUMNS})")
        platform.execute("CREATE SAMPLE s ON posts SIZE 20 WITH (seed = 1)")
        platform.execute("CREATE VIEW plain AS SELECT max(id) AS newest, count(*) AS n FROM s")
        query = "SELECT t.n, m.newest FROM (SELECT count(*) AS n FROM posts) t CROSS JOIN (SELECT max(id) AS newest FROM s) m"
        platform.execute(f"CREATE VIEW beside AS {query}")
        for last in (30, 3000):
            append(platform, "posts", last // 100, last)
            newest = max(ids(platform, "s"))
            assert list(platform.execute("SELECT newest, n FROM plain")) == [(newest, 20)]
            platform.execute("REFRESH VIEW beside")
            assert list(platform.execute("SELECT newest FROM beside")) == [(newest,)]
        assert newest > 30
