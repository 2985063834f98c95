"""Lakes of an earlier version, which kept nothing of what was picked: what they lack is added by the first write, and reads go without."""

from threading import Barrier, Thread

import numpy as np
import pytest
import sqlalchemy as sa

from platform_plugin.lake.catalogue.catalogue import PLATFORM_LAKE
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.migrations.picks import VERSION
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.samples import record
from platform_plugin.relations.samples.reservoir import sample_list
from platform_plugin.relations.samples.reservoir.picks import PICK, PICK_TABLES
from tests.relations.samples.streams import COLUMNS, append, counted_keys, ids, rows


def make_earlier_lake(url):
    """A lake with samples of a stream of a hundred rows, as one of a version that did not pick; this process has forgotten it."""
    with Platform.create(url) as platform:
        platform.execute(f"CREATE STREAM posts ({COLUMNS})")
        platform.execute("CREATE SAMPLE s ON posts SIZE 5 WITH (seed = 1)")
        platform.execute("CREATE SAMPLE w ON posts SIZE 5 WITH (window = '80 rows', seed = 1)")
        append(platform, "posts", 0, 100)
        with platform.lake.engine.begin() as connection:
            for table in PICK_TABLES:
                table.drop(connection)
            own = PLATFORM_LAKE.c.key == "version"
            connection.execute(sa.update(PLATFORM_LAKE).where(own).values(value=str(VERSION - 1)))
    record._DEFINITIONS.clear()
    sample_list._STREAMS.clear()


def has_picks(lake):
    with lake.reading() as connection:
        return sa.inspect(connection).has_table(PICK.name)


def lowest(first, last):
    return sorted((np.argsort(counted_keys(1, first, last))[:5] + first).tolist())


def put(platform, first, last):
    with platform.stream("posts") as stream:
        stream.append(rows(first, last), wait=True)


READS = {
    "read": lambda platform: platform.sample("s").arrow(),
    "select": lambda platform: platform.execute("SELECT * FROM s"),
    "describe": lambda platform: platform.execute("DESCRIBE EXTENDED w"),
    "show": lambda platform: list(platform.execute("SHOW SAMPLES")),
}
WRITES = {
    "insert": lambda platform: platform.execute("INSERT INTO posts VALUES (100, 'a', 1)"),
    "append": lambda platform: put(platform, 100, 110),
    "maintain": lambda platform: run_maintenance(platform.work, kinds=["sample"]),
    "refresh": lambda platform: platform.execute("REFRESH SAMPLE w"),
    "drop": lambda platform: platform.execute("DROP SAMPLE s"),
}


@pytest.mark.parametrize("what", [*READS, *WRITES])
def test_whatever_comes_first_finds_what_it_needs(tmp_path, what):
    make_earlier_lake(tmp_path / "lake")
    with Platform.open(tmp_path / "lake") as platform:
        {**READS, **WRITES}[what](platform)
        assert has_picks(platform.lake) == (what in WRITES), "a read writes nothing"
        assert platform.sample("w").cardinality == 80


def test_samples_go_on_on_either_database(lake_url):
    make_earlier_lake(lake_url)
    with Platform.open(lake_url) as platform:
        assert not has_picks(platform.lake), "to open a lake changes nothing"
        assert ids(platform, "s") == lowest(0, 100)
        assert not has_picks(platform.lake)
        put(platform, 100, 150)
        assert ids(platform, "s") == lowest(0, 150)
        assert ids(platform, "w") == lowest(70, 150)
        for last in (170, 190, 210):
            assert not run_maintenance(platform.work, kinds=["sample"]).failed
            for name in ("s", "w"):
                platform.execute(f"REFRESH SAMPLE {name}")
            put(platform, last - 20, last)
            assert ids(platform, "s") == lowest(0, last)
            assert ids(platform, "w") == lowest(last - 80, last)


def test_several_may_add_it_at_once(lake_url):
    make_earlier_lake(lake_url)
    lakes = [Lake.open(lake_url) for _ in range(4)]
    start, failures = Barrier(len(lakes)), []

    def add(lake):
        try:
            start.wait(30)
            lake.prepare_tables(record.TABLES)
        except BaseException as error:  # noqa: BLE001  told to the test
            failures.append(error)

    threads = [Thread(target=add, args=(lake,)) for lake in lakes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert has_picks(lakes[0])
    for lake in lakes:
        lake.close()
