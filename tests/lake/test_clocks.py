"""Clocks that jump or go back: snapshots keep their order, and no row or file goes early."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from platform_plugin.errors import StorageError
from platform_plugin.lake.catalogue.catalogue import PLATFORM_LEASE
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.lake.commit import commit as commits
from platform_plugin.lake.read.read import read_rows
from platform_plugin.lake.upkeep import expire, leased, leases, vacuum
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.feeds.ingest import run_ingest
from tests.lake.hundred_rows import ROWS, append_rows


class Clock(datetime):
    """A clock whose hands can be moved."""

    shift = timedelta(0)

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + cls.shift


@pytest.fixture
def clock(monkeypatch):
    class Moved(Clock):
        pass

    for module in (commits, expire, leased, leases, vacuum):
        monkeypatch.setattr(module, "datetime", Moved)
    return Moved


def test_a_clock_that_goes_back_never_reorders_snapshots(lake, clock):
    with lake.commit("create") as commit:
        table = commit.create_table("t", lake.columns_of(ROWS))
        commit.append(table, [lake.write(table, ROWS)])
    for hours in (0, -5, 3, -1, 7, -100):
        clock.shift = timedelta(hours=hours)
        append_rows(lake)
    times = [record.time for record in lake.commits()]
    assert times == sorted(times)
    for record in lake.commits()[1:]:
        assert lake.snapshot(at=record.time).id >= record.id
    clock.shift = timedelta(hours=-100)
    with lake.lease() as lease:
        plan = lake.scan(lake.table("t"), lease.snapshot)
        lake.merge("t")
        lake.expire(datetime.now(UTC) + timedelta(days=30))
        lake.vacuum(grace=timedelta(0))
        assert read_rows(lake, plan).num_rows == 700
    clock.shift = timedelta(hours=200)
    lake.vacuum(grace=timedelta(0))
    assert lake.read("t").num_rows == 700
    append_rows(lake)
    assert lake.read("t").num_rows == 800


def test_a_clock_that_jumps_forward_takes_no_file_that_is_needed(lake, clock):
    with lake.commit("create") as commit:
        table = commit.create_table("t", lake.columns_of(ROWS))
        commit.append(table, [lake.write(table, ROWS)])
    late = lake.commit("late")
    late.append(table, [lake.write(table, ROWS)])
    clock.shift = timedelta(days=4000)
    lake.vacuum()
    with pytest.raises(StorageError, match="is missing"), late:
        pass
    assert lake.read("t").num_rows == 100
    clock.shift = timedelta(0)
    append_rows(lake)
    assert lake.read("t").num_rows == 200


def test_a_stream_by_age_loses_no_row_early_to_a_clock_that_jumps(lake, clock):
    with lake.commit("create") as commit:
        table = commit.create_table("s", lake.columns_of(ROWS))
        declare_relation(commit, table, Declaration(kind="stream", options={"retention_seconds": 3600}))

    def held():
        with lake.commit("append") as commit:
            commit.append(table, [lake.write(table, ROWS)])
        return lake.read("s").num_rows // 100

    assert held() == 1
    clock.shift = timedelta(hours=-5)
    assert held() == 2, "no time has passed"
    clock.shift = timedelta(minutes=30)
    assert held() == 3
    clock.shift = timedelta(minutes=80)
    assert held() == 2, "the first two are older than an hour"
    clock.shift = timedelta(days=400)
    assert held() == 1, "by the clock all others are too old"
    clock.shift = timedelta(0)
    assert [held(), held()] == [2, 3], "rows of the time that was not stay until it has come"


def test_the_lease_of_a_client_whose_clock_is_behind_holds(lake, clock):
    """Both when it is taken and when it is renewed, for whoever has the right time."""
    with lake.commit("create") as commit:
        table = commit.create_table("t", lake.columns_of(ROWS))
        commit.append(table, [lake.write(table, ROWS)])
    clock.shift = timedelta(hours=-9)
    taken, renewed = lake.lease(), lake.lease()
    plan = lake.scan(lake.table("t"), taken.snapshot)
    clock.shift = timedelta(minutes=50)
    append_rows(lake)
    clock.shift = timedelta(hours=-9)
    renewed.renew()
    for minutes, left in ((50, {taken.id, renewed.id}), (70, {renewed.id}), (130, set())):
        clock.shift = timedelta(minutes=minutes)
        lake.merge("t")
        lake.expire(datetime.now(UTC) + timedelta(days=30))
        with lake.reading() as connection:
            assert set(connection.execute(sa.select(PLATFORM_LEASE.c.lease_id)).scalars()) == left
        if left:
            lake.vacuum(grace=timedelta(0))
            assert read_rows(lake, plan).num_rows == 100


def test_clients_whose_clocks_differ_take_turns(lake_url, clock):
    """One is a day ahead, one a day behind: each row of a stream reaches the view and the feed once, whoever appends and whoever runs."""
    hours = (0, 24, -24)
    first = Platform.create(lake_url)
    for statement in (
        "CREATE TABLE users (id BIGINT)",
        "CREATE STREAM posts (i INT) WITH (retention_rows = 4)",
        "CREATE TABLE gone AS HISTORY OF posts",
        "CREATE VIEW counted AS SELECT count(*) AS n, sum(i) AS s FROM posts",
        "CREATE SAMPLE few ON posts SIZE 3 WITH (seed = 1)",
        "CREATE STREAM mirror FROM TABLE users (changes = true)",
    ):
        first.execute(statement)
    clients = [first, Platform.open(lake_url), Platform.open(lake_url)]
    for number in range(12):
        for place, client in enumerate(clients):
            clock.shift = timedelta(hours=hours[(number + place) % 3])
            match (number + place) % 4:
                case 0:
                    assert run_maintenance(client.work).failed == {}
                case 1:
                    run_ingest(client.work, "mirror")
                case 2:
                    client.lake.expire(clock.now(UTC) - timedelta(hours=1))
                case 3:
                    client.lake.merge("gone")
            client.execute(f"INSERT INTO posts VALUES ({3 * number + place})")
            client.execute(f"INSERT INTO users VALUES ({3 * number + place})")
    clock.shift = timedelta(0)
    run_ingest(first.work, "mirror")
    for client in clients:
        assert [tuple(row) for row in client.execute("SELECT * FROM counted")] == [(36, sum(range(36)))]
        assert client.sample("few").cardinality == 36
        ids = [client.lake.read(name).column("i").to_pylist() for name in ("posts", "gone")]
        assert sorted(ids[0] + ids[1]) == list(range(36))
        assert sorted(client.lake.read("mirror").column("id").to_pylist()) == list(range(36))
    times = [record.time for record in first.lake.commits()]
    assert times == sorted(set(times))
    for client in clients:
        client.close()
