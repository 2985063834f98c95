"""A stored result is served while nothing that it depends on has changed, and never longer."""

from __future__ import annotations

import pyarrow as pa
import pytest

from platform_plugin.errors import PlatformError
from platform_plugin.platform import Platform
from platform_plugin.relations.views.read.stored import find_stored

pytestmark = pytest.mark.spark


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM posts (uid INT, score INT) WITH (retention_rows = 4)")
        made.execute("CREATE TABLE users (id INT, region STRING)")
        made.execute("INSERT INTO users VALUES (1, 'DE'), (2, 'US')")
        made.execute("CREATE VIEW impact AS SELECT uid, count(*) AS n FROM posts GROUP BY uid")
        made.execute(
            "CREATE VIEW regions AS SELECT u.region, i.n FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) i"
            " JOIN users u ON u.id = i.uid"
        )
        yield made


def append(platform, *uids):
    lake = platform.lake
    table = lake.table("posts")
    with lake.commit("append") as commit:
        columns = {"uid": pa.array(uids, pa.int32()), "score": pa.array([1] * len(uids), pa.int32())}
        commit.append(table, [lake.write(table, pa.table(columns))])


def read(platform, view):
    lake = platform.lake
    (found,) = [found for found in lake.views() if found.name.relation == view]
    stored = find_stored(platform.work, found, lake.snapshot())
    return sorted(platform.execute(f"SELECT * FROM {view}")), "computed" if stored is None else "looked up"


def test_nothing_new_is_looked_up_and_anything_new_is_computed(platform):
    append(platform, 1, 2, 2)
    assert read(platform, "impact") == ([(1, 1), (2, 2)], "computed")
    platform.execute("REFRESH VIEW impact")
    assert read(platform, "impact") == ([(1, 1), (2, 2)], "looked up")
    assert list(platform.execute("SELECT n FROM impact WHERE uid = :uid", {"uid": 2})) == [(2,)]
    append(platform, 1)
    assert read(platform, "impact") == ([(1, 2), (2, 2)], "computed")
    platform.execute("REFRESH VIEW impact")
    assert read(platform, "impact") == ([(1, 2), (2, 2)], "looked up")
    append(platform, 3, 3, 3, 3)  # the ring turns
    platform.execute("REFRESH VIEW impact")
    platform.lake.retain()
    assert read(platform, "impact") == ([(1, 2), (2, 2), (3, 4)], "looked up")


def test_tables_above_the_grouping_count_others_do_not(platform):
    append(platform, 1, 2)
    platform.execute("REFRESH VIEW regions")
    assert read(platform, "regions") == ([("DE", 1), ("US", 1)], "looked up")
    platform.execute("CREATE TABLE other (n INT)")
    platform.execute("INSERT INTO other VALUES (1)")
    assert read(platform, "regions") == ([("DE", 1), ("US", 1)], "looked up")
    platform.execute("UPDATE users SET region = 'FR' WHERE id = 2")
    assert read(platform, "regions") == ([("DE", 1), ("FR", 1)], "computed")
    platform.execute("REFRESH VIEW regions")
    assert read(platform, "regions") == ([("DE", 1), ("FR", 1)], "looked up")
    platform.execute("DELETE FROM users WHERE id = 1")
    assert read(platform, "regions") == ([("FR", 1)], "computed")


def test_old_snapshots_and_queries_by_spark_use_it_too(platform):
    append(platform, 1)
    platform.execute("REFRESH VIEW impact")
    version = platform.lake.snapshot().id
    append(platform, 1)
    platform.execute("REFRESH VIEW impact")
    assert sorted(platform.execute(f"SELECT * FROM impact AT (VERSION => {version})")) == [(1, 1)]
    assert sorted(platform.execute("SELECT sum(n) FROM impact")) == [(2,)]


def test_readers_may_accept_what_was_the_answer_a_while_ago(platform):
    append(platform, 1)
    before = platform.lake.snapshot()
    stale = "SELECT * FROM impact AT (STALENESS => '1 hour')"
    assert sorted(platform.execute(stale)) == [(1, 1)], "there is no result yet"
    platform.execute("REFRESH VIEW impact")
    append(platform, 1)
    result = platform.execute(stale)
    assert (list(result), result.metrics) == ([(1, 1)], None)
    assert result.snapshot.id > before.id, "the snapshot that it is the answer at is named"
    assert list(platform.execute(f"SELECT * FROM impact AT (VERSION => {result.snapshot.id})")) == [(1, 1)]
    assert list(platform.execute("SELECT n FROM impact AT (STALENESS => :lag) WHERE uid = 1", {"lag": "1 hour"})) == [(1,)]
    assert sorted(platform.execute("SELECT * FROM impact AT (STALENESS => '1 microsecond')")) == [(1, 2)]
    assert read(platform, "impact") == ([(1, 2)], "computed")
    assert list(platform.execute(stale)) == [(1, 1)], "also where the present answer is at hand"
    joined = "SELECT now.n, past.n FROM impact now JOIN impact AT (STALENESS => '1 hour') past USING (uid)"
    assert list(platform.execute(joined)) == [(2, 1)]
    platform.execute("REFRESH VIEW impact")
    assert sorted(platform.execute(stale)) == [(1, 2)]
    assert sorted(platform.execute("SELECT * FROM users AT (STALENESS => '1 hour')")) == [(1, "DE"), (2, "US")]
    for wrong in ("'soon'", "5", "'-1 second'"):
        with pytest.raises(PlatformError, match=r"duration|one value"):
            platform.execute(f"SELECT * FROM impact AT (STALENESS => {wrong})").close()
