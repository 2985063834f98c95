"""kill -9 at every point of an append that pushes segments out of a stream: the ring is whole, its history misses nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from platform_plugin.lake.catalogue.identifiers import new_uuid
from platform_plugin.lake.catalogue.relations import RELATION, Declaration, declare_relation
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.commit.schema_operations import CreateTableOp
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.ring.history import FollowStream
from platform_plugin.lake.ring.segments import RING_TABLES, read_ring
from tests.lake.crashing import Victims, append_to_ring, batch, rows_of_round

KEPT = 12


@pytest.fixture(scope="module")
def victims():
    served = Victims()
    yield served
    served.stop()


def prepare(lake, *, with_history):
    with lake.commit("stream") as commit:
        table = commit.create_table("ring", lake.columns_of(batch([])))
        declare_relation(commit, table, Declaration(kind="stream", options={"retention_rows": KEPT}))
    lake.prepare_tables([RELATION, *RING_TABLES])
    if with_history:
        table = lake.table("ring")
        past = replace(table, id=None, uuid=new_uuid(), name=Name.of("past"))
        with lake.commit("history") as commit:
            commit.also(CreateTableOp(past))
            commit.also(FollowStream(table, past))


def check(lake, rounds, *, with_history):
    every = [row for number in rounds for row in rows_of_round(number, 4)]
    held = lake.read("ring").column("id").to_pylist()
    assert held == every[-len(held) :] if held else not every
    assert len(held) == min(len(every), KEPT)
    with lake.reading() as connection:
        ring = read_ring(connection, lake.table("ring").uuid)
    assert (ring.next_row_id, ring.row_count) == (len(every), len(held))
    if with_history:
        assert lake.read("past").column("id").to_pylist() + held == every


def attack(lake_url, victims, step, *, with_history):
    with Lake.create(lake_url) as lake:
        prepare(lake, with_history=with_history)
        rounds, number, point = [], 0, 1
        for _ in range(3):
            number += 1
            append_to_ring(lake, number)
            rounds.append(number)
        while True:
            number += 1
            before = lake.snapshot().id
            told = victims.attempt(lake_url, "ring", number=number, kill_at=point)
            with lake.writing():
                pass  # a server notices only now and then that its client is gone
            if lake.snapshot().id > before:
                rounds.append(number)
            with Lake.open(lake_url) as fresh:
                check(fresh, rounds, with_history=with_history)
            number += 1
            append_to_ring(lake, number)
            rounds.append(number)
            check(lake, rounds, with_history=with_history)
            if not told["killed"]:
                break
            point += step
        lake.expire(datetime.now(UTC) + timedelta(seconds=1))
        lake.vacuum(grace=timedelta(0))
        check(lake, rounds, with_history=with_history)
        files = [path for path, _ in lake.storage.listing() if path.endswith(".parquet")]
        assert len(files) == (len(rounds) if with_history else KEPT // 4)
    return point


@pytest.mark.parametrize("with_history", [False, True], ids=["ring", "history"])
def test_killed_here_and_there(lake_url, victims, with_history):
    assert attack(lake_url, victims, 23, with_history=with_history) > 23


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("with_history", [False, True], ids=["ring", "history"])
def test_killed_at_every_point(lake_url, victims, with_history):
    points = attack(lake_url, victims, 1, with_history=with_history)
    print(f"survived {points} kills")
    assert points > 50
