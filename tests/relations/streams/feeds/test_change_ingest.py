"""Streams of a table's changes: summed up with their weights they are the table, whatever became of it between batches."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_plugin.errors import InvalidStatement, InvalidValue, SnapshotExpired
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.feeds.ingest import run_ingest
from platform_plugin.relations.streams.feeds.sources import SourceGap
from tests.lake.changing import end_rows


@pytest.fixture
def platform(tmp_path):
    with Platform.create(f"platform+local://{tmp_path}/lake") as opened:
        opened.execute("CREATE TABLE t (id BIGINT, n BIGINT)")
        yield opened


def expire(platform):
    return platform.lake.expire(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1))


def bag(platform, name="s"):
    """The rows that a stream of changes sums up to."""
    rows = platform.lake.read(name)
    found: Counter[tuple[int, int]] = Counter()
    for one, n, weight in zip(*(rows.column(column).to_pylist() for column in ("id", "n", "_weight")), strict=True):
        found[one, n] += weight
    assert all(weight in (0, 1) for weight in found.values())
    return sorted(+found)


def table(platform):
    return sorted(tuple(row.values()) for row in platform.lake.read("t").to_pylist())


def test_changes_come_with_their_kinds_and_weights(platform):
    platform.execute("INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)")
    platform.execute("CREATE STREAM s FROM TABLE t (changes = true)")
    assert run_ingest(platform.work, "s").rows == 3
    assert run_ingest(platform.work, "s").snapshot is None, "its own commit is no change of the table"
    platform.execute("INSERT INTO t VALUES (4, 0)")
    end_rows(platform.lake, platform.lake.table("t"), [1], images=True, new={"n": 5})
    end_rows(platform.lake, platform.lake.table("t"), [2], images=True)
    assert run_ingest(platform.work, "s").rows == 4
    rows = platform.lake.read("s").to_pylist()[3:]
    assert [tuple(row.values()) for row in rows] == [
        (1, 0, "update_before", -1),
        (1, 5, "update_after", 1),
        (2, 0, "delete", -1),
        (4, 0, "insert", 1),
    ]
    assert bag(platform) == table(platform)
    assert "changes = true" in next(iter(platform.execute("SHOW CREATE STREAM s")))[0]


def test_a_feed_holds_what_it_has_not_read(platform):
    platform.execute("INSERT INTO t VALUES (1, 0), (2, 0)")
    platform.execute("CREATE STREAM s FROM TABLE t (changes = true, start 'latest')")
    assert run_ingest(platform.work, "s").rows == 0
    held = next(iter(platform.execute("SHOW CONSUMERS")))
    end_rows(platform.lake, platform.lake.table("t"), [1], images=True)
    platform.execute("INSERT INTO t VALUES (3, 0)")
    assert expire(platform).holders == (f"stream main.s of main.t at snapshot {held[3]}",)
    assert run_ingest(platform.work, "s").rows == 2
    platform.execute("ALTER TABLE t SET (on_unconsumed = 'drop')")
    platform.execute("INSERT INTO t VALUES (4, 0)")
    expire(platform)
    with pytest.raises(SnapshotExpired, match=r'stream "main.s" has read table "main.t" up to snapshot \d+, which has expired'):
        run_ingest(platform.work, "s")
    platform.execute("DROP STREAM s")
    assert list(platform.execute("SHOW CONSUMERS")) == []


def test_what_has_no_changes_to_follow_is_refused(platform):
    platform.execute("CREATE STREAM other (id BIGINT)")
    platform.execute("CREATE TABLE own (id BIGINT, _weight BIGINT)")
    with pytest.raises(InvalidValue, match="is a stream, not a table"):
        platform.execute("CREATE STREAM s FROM TABLE other (changes = true)")
    with pytest.raises(InvalidValue, match='has a column "_weight" of its own'):
        platform.execute("CREATE STREAM s FROM TABLE own (changes = true)")
    platform.execute("CREATE STREAM s FROM TABLE t (changes = true)")
    with pytest.raises(InvalidStatement, match='a stream has no option "changes"'):
        platform.execute("ALTER STREAM s SET (changes = false)")
    run_ingest(platform.work, "s")
    platform.execute("CREATE OR REPLACE TABLE t (id BIGINT, n BIGINT)")
    with pytest.raises(SourceGap, match="dropped and created again"):
        run_ingest(platform.work, "s")


STEPS = st.lists(
    st.tuples(st.sampled_from(["insert", "update", "delete", "merge", "ingest", "maintain", "expire"]), st.integers(0, 8)), max_size=14
)


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
def test_any_history_sums_up_to_the_table(steps, tmp_path_factory):
    with Platform.create(f"platform+local://{tmp_path_factory.mktemp('changes')}/lake") as platform:
        platform.execute("CREATE TABLE t (id BIGINT, n BIGINT)")
        platform.execute("INSERT INTO t VALUES (0, 0), (1, 0), (2, 0)")
        platform.execute("CREATE STREAM s FROM TABLE t (changes = true, max_files = 2)")
        following = 3
        for step, number in steps:
            lake = platform.lake
            match step:
                case "insert":
                    platform.execute(f"INSERT INTO t VALUES ({following}, 0)")
                    following += 1
                case "update":
                    end_rows(lake, lake.table("t"), [number, number + 1], images=number % 2 == 0, new={"n": number})
                case "delete":
                    end_rows(lake, lake.table("t"), [number], images=number % 2 == 1)
                case "merge":
                    lake.merge("t")
                case "expire":
                    expire(platform)
                case "ingest" | "maintain":
                    read_on(platform, step)
                    assert bag(platform) == table(platform)
        read_on(platform, "ingest")
        assert bag(platform) == table(platform)


def read_on(platform, step):
    """Read batch after batch, each of few files, until none is left."""
    if step == "maintain":
        while run_maintenance(platform.work).feeds:
            pass
    else:
        while not run_ingest(platform.work, "s").caught_up:
            pass
