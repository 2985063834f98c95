"""kill -9 of a real process at every point of every operation: nothing is lost, nothing half-done is seen, the next one goes on."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.errors import CatalogueError
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.read import net_changes
from tests.lake.crashing import COUNTER, OPERATIONS, Victims, batch, rows_of_round

TEN_MINUTES = 600.0
State = dict[str, frozenset[int]]


@pytest.fixture(scope="module")
def victims():
    served = Victims()
    yield served
    served.stop()


@dataclass
class Model:
    """What every snapshot must hold, told from what was done and never from what is read."""

    states: dict[int, State] = field(default_factory=dict)
    rounds: int | None = None

    @property
    def head(self) -> int:
        return max(self.states)

    def after(self, operation: str, number: int) -> State | None:
        """What a new snapshot of an operation must hold; None if it makes none."""
        now = self.states[self.head]
        match operation:
            case "commit":
                a = now["a"] - {min(now["a"], default=-1)} | set(rows_of_round(number, 4))
                return {**now, "a": frozenset(a), "b": now["b"] | set(rows_of_round(number, 2))}
            case "define":
                kept = {name: ids for name, ids in now.items() if not name.startswith("t")}
                return {**kept, f"t{number}": frozenset(rows_of_round(number, 3))}
            case "change":
                return {**now, "a": now["a"] - {min(now["a"])}}
            case "merge":
                return now
            case _:
                return None

    def check(self, lake: Lake) -> None:
        """Every kept snapshot reads as it must; a missing one has been expired."""
        kept = [record.id for record in lake.commits()]
        assert max(kept) == self.head
        for snapshot_id in kept:
            snapshot = lake.snapshot(snapshot_id)
            expected = self.states[snapshot_id]
            assert {table.name.relation for table in lake.tables(snapshot)} == set(expected)
            for name, ids in expected.items():
                rows = lake.read(name, snapshot=snapshot)
                assert sorted(rows.column("id").to_pylist()) == sorted(ids), (snapshot_id, name)
                assert rows.column("word").to_pylist() == [f"word {i}" for i in rows.column("id").to_pylist()]
        for older, newer in pairwise(kept):
            if "a" in self.states[older]:
                with pytest.MonkeyPatch.context() as patch:
                    # Of so few rows nobody would open the before-images.
                    patch.setattr(net_changes, "ROWS_OF_OPENING", -1000)
                    changes = lake.net_changes("a", after=lake.snapshot(older), until=lake.snapshot(newer))
                went, came = changes.read(lake)
                ids = [set(part.rows.column("id").to_pylist()) for part in (went, came)]
                assert ids == [self.states[older]["a"] - self.states[newer]["a"], self.states[newer]["a"] - self.states[older]["a"]]
        with lake.reading() as connection:
            assert connection.execute(sa.select(COUNTER.c.value)).scalar() == self.rounds


def do(lake: Lake, model: Model, operation: str, number: int) -> None:
    """An operation that is not killed."""
    OPERATIONS[operation](lake, number)
    settle(lake, model, operation, number, must=True)


def settle(lake: Lake, model: Model, operation: str, number: int, *, must: bool) -> None:
    """Note what an operation did: all of it, or, if it was killed, perhaps nothing."""
    with lake.writing():
        pass  # a server notices only now and then that its client is gone
    head = lake.snapshot().id
    expected = model.after(operation, number)
    if expected is None or (head == model.head and not must):
        assert head == model.head
        return
    assert head == model.head + 1
    model.states[head] = expected
    if operation == "commit":
        model.rounds = number


def prepare(lake: Lake, model: Model) -> None:
    """Two tables, with something to merge, to expire and to vacuum."""
    with lake.commit("found") as commit:
        for name in ("a", "b"):
            commit.create_table(name, lake.columns_of(batch([])))
    model.states[0] = {}
    model.states[1] = {"a": frozenset(), "b": frozenset()}
    lake.prepare_tables([COUNTER])
    for number in (1, 2):
        do(lake, model, "commit", number)


def orphan(lake: Lake) -> str:
    path = lake.write(lake.table("a"), batch([-1])).path
    assert lake.storage.exists(path)
    return path


def named_files(lake: Lake) -> set[str]:
    """All files that the catalogue names, by plain SQL."""
    with lake.reading() as connection:
        has_images = sa.inspect(connection).has_table("platform_gone")
        images = set(connection.execute(sa.text("SELECT path FROM platform_gone")).scalars()) if has_images else set()
        return images | {
            row[0]
            for kind in ("data_file", "delete_file")
            for row in connection.execute(
                sa.text(
                    "SELECT s.path || t.path || f.path FROM ducklake_" + kind + " f"
                    " JOIN (SELECT DISTINCT table_id, schema_id, path FROM ducklake_table) t ON t.table_id = f.table_id"
                    " JOIN ducklake_schema s ON s.schema_id = t.schema_id"
                )
            )
        }


def spread(count: int) -> list[int]:
    """The numbers from 1 to `count`, in an order of which every beginning is spread evenly."""
    return sorted(range(1, count + 1), key=lambda number: int(f"{number:016b}"[::-1], 2))


def attack(lake_url: str, victims: Victims, operation: str, *, step: int = 1, seconds: float = math.inf) -> tuple[int, int]:
    """Kill the operation at every `step`-th point, as far as the time reaches; returns how often it was killed, and its points."""
    deadline = time.monotonic() + seconds
    with Lake.create(lake_url) as lake:
        model, number, kills = Model(), 10, 0
        prepare(lake, model)

        def attempt(kill_at: int | None) -> dict[str, Any]:
            nonlocal number
            number += 1
            left = orphan(lake)
            told: dict[str, Any] = victims.attempt(lake_url, operation, number=number, kill_at=kill_at)
            settle(lake, model, operation, number, must=not told["killed"])
            with Lake.open(lake_url) as fresh:
                model.check(fresh)
            recover(lake, model, number + 1000)
            assert not lake.storage.exists(left)
            if operation in ("expire", "vacuum", "merge"):
                do(lake, model, "commit", number + 2000)
            return told

        points = attempt(None)["points"]
        for point in spread(points) if step == 1 else range(1, points + 1, step):
            if time.monotonic() > deadline:
                break
            kills += attempt(point)["killed"]
        assert not attempt(None)["killed"]
    return kills, points


def recover(lake: Lake, model: Model, number: int) -> None:
    """The next commit, merge, expiry and vacuum go on, and leave exactly the files that are needed."""
    do(lake, model, "commit", number)
    before = lake.snapshot().id
    lake.merge("a")
    if lake.snapshot().id > before:
        model.states[before + 1] = model.states[before]
    model.check(lake)
    lake.expire(datetime.now(UTC))
    # A killed holder's lease runs out by itself.
    deadline = datetime.now(UTC) + timedelta(seconds=5)
    while lake.vacuum(grace=timedelta(0)).kept and datetime.now(UTC) < deadline:
        pass
    assert {path for path, _ in lake.storage.listing() if path.endswith(".parquet")} == named_files(lake)
    model.check(lake)


@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_killed_here_and_there(lake_url, victims, operation):
    kills, _ = attack(lake_url, victims, operation, step=43)
    assert kills >= 1


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_killed_at_every_point(lake_url, victims, operation):
    """At every one on a quiet machine; on a busy one at as many as ten minutes allow, spread evenly."""
    kills, points = attack(lake_url, victims, operation, seconds=TEN_MINUTES)
    print(f"{operation}: survived {kills} kills at {points} points")
    assert kills > 15


def found_over(url: str, victims: Victims, *, step: int = 1, seconds: float = math.inf) -> tuple[int, int]:
    deadline = time.monotonic() + seconds

    def attempt(kill_at: int) -> dict[str, Any]:
        # Each place is founded once, killed once, and founded again.
        place = url.replace("/lake", f"/lake{kill_at}") if url.startswith("platform+local") else f"{url}/{kill_at}&schema=s{kill_at}"
        told: dict[str, Any] = victims.attempt(place, "create", kill_at=kill_at)
        if told["killed"]:
            try:
                Lake.open(place).close()
            except CatalogueError:
                Lake.create(place).close()
        with Lake.open(place) as lake:
            assert lake.snapshot().id == 0
            with lake.commit("works") as commit:
                table = commit.create_table("t", lake.columns_of(pa.table({"x": [1]})))
                commit.append(table, [lake.write(table, pa.table({"x": [1]}))])
            assert lake.read("t").num_rows == 1
            lake.vacuum(grace=timedelta(0))
            assert lake.read("t").num_rows == 1
        return told

    points, kills = attempt(100_000)["points"], 0
    for point in spread(points) if step == 1 else range(1, points + 1, step):
        if time.monotonic() > deadline:
            break
        kills += attempt(point)["killed"]
    return kills, points


def test_a_founding_that_is_killed_can_be_repeated(lake_url, victims):
    kills, _ = found_over(lake_url, victims, step=53)
    assert kills > 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_founding_that_is_killed_anywhere_can_be_repeated(lake_url, victims):
    """At every point on a quiet machine; on a busy one at as many as ten minutes allow, spread evenly."""
    kills, points = found_over(lake_url, victims, seconds=TEN_MINUTES)
    print(f"founding: survived {kills} kills at {points} points")
    assert kills > 50


def test_a_killed_process_leaves_its_lease_and_the_lease_ends(lake_url, victims):
    with Lake.create(lake_url) as lake:
        model = Model()
        prepare(lake, model)
        points = victims.attempt(lake_url, "lease")["points"]
        # Dead before the release, after the renewal.
        assert victims.attempt(lake_url, "lease", kill_at=points - 4)["killed"]
        with lake.reading() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(c.PLATFORM_LEASE)).scalar() == 1
        recover(lake, model, 50)
