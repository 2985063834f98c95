"""Processes that work on one lake at the same time, all started at the same moment; each tells what it did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.lake.crashing import COUNTER
from tests.warm import import_all

if TYPE_CHECKING:
    from platform_plugin.lake.lake import Lake


def rows(number: int, turn: int, count: int = 3) -> pa.Table:
    return pa.table({"id": pa.array([(number * 1000 + turn) * 10 + i for i in range(count)], pa.int64())})


def appender(lake: Lake, number: int, turns: int) -> dict[str, Any]:
    """Append to the common table and to one's own in the same commit, and count."""
    common, own = lake.table("common"), lake.table(f"own{number % 4}")
    snapshots, conflicts = [], 0
    from platform_plugin.errors import CommitConflict

    for turn in range(turns):
        with lake.commit(f"{number} {turn}") as commit:
            commit.append(common, [lake.write(common, rows(number, turn))])
            commit.append(own, [lake.write(own, rows(number, turn, 2))])
        assert commit.snapshot is not None
        snapshots.append(commit.snapshot.id)
        while turn % 2:  # not each time: eight that count at once do little else than lose to each other
            base = lake.snapshot()
            with lake.reading() as connection:
                value = connection.execute(COUNTER.select()).one().value
            try:
                with lake.commit(f"count {number} {turn}", base=base) as commit:
                    commit.put(COUNTER, expected={"value": value}, name="n", value=value + 1)
            except CommitConflict as error:
                assert f"count {number} {turn}" in str(error), error  # noqa: PT017
                assert "by snapshot" in str(error), error  # noqa: PT017
                conflicts += 1
            else:
                snapshots.append(commit.snapshot.id if commit.snapshot else -1)
                break
    return {"snapshots": snapshots, "conflicts": conflicts}


def caretaker(lake: Lake, number: int, seconds: float) -> dict[str, Any]:
    """Merge, expire and vacuum without pause and with hardly any grace."""
    from platform_plugin.errors import CommitConflict, SnapshotExpired, StorageError

    done: dict[str, int] = {}
    until = time.monotonic() + seconds
    while time.monotonic() < until or "merge" not in done:
        for name, work in (
            ("merge", lambda: lake.merge("common")),
            ("expire", lambda: lake.expire(datetime.now(UTC) - timedelta(seconds=0.3))),
            ("vacuum", lambda: lake.vacuum(grace=timedelta(seconds=0.5))),
        ):
            outcome = name
            try:
                work()
            except (CommitConflict, SnapshotExpired):
                outcome = f"{name} lost"
            except StorageError as error:
                # A merge's file that another one's vacuum took: it lasted longer than the grace.
                assert "is missing" in str(error), error  # noqa: PT017
                outcome = f"{name} vacuumed"
            done[outcome] = done.get(outcome, 0) + 1
    return done


def writer(lake: Lake, number: int, seconds: float) -> dict[str, Any]:
    """Append runs of rows whose sum is known from their count: a torn or doubled read shows."""
    from platform_plugin.errors import StorageError

    table, turn, vacuumed = lake.table("common"), 0, 0
    until = time.monotonic() + seconds
    while time.monotonic() < until or not turn:  # on a busy machine the first may take that long
        try:
            with lake.commit(f"{number} {turn}") as commit:
                commit.append(table, [lake.write(table, rows(number, turn, 1)), lake.write(table, rows(number + 500, turn, 1))])
        except StorageError as error:
            assert "is missing" in str(error), error  # noqa: PT017
            vacuumed += 1
        else:
            turn += 1
    return {"turns": turn, "vacuumed": vacuumed}


def reader(lake: Lake, number: int, seconds: float) -> dict[str, Any]:
    """Read whole snapshots, every second time under a lease; what is read must be what was committed."""
    from platform_plugin.errors import SnapshotExpired

    good = expired = 0
    until = time.monotonic() + seconds
    turn = 0
    while time.monotonic() < until or not good:
        turn += 1
        try:
            with ExitStack() as stack:
                leased = turn % 2 == 0
                snapshot = stack.enter_context(lake.lease()).snapshot if leased else lake.snapshot()
                for _ in range(2):
                    check(lake, snapshot)
        except SnapshotExpired:
            assert not leased, "a lease did not hold"
            expired += 1
        else:
            good += 1
    return {"good": good, "expired": expired}


def check(lake: Lake, snapshot: Any) -> None:
    """Every writer's turns are there without holes, and each with both its halves."""
    ids = lake.read("common", snapshot=snapshot).column("id").to_pylist()
    assert len(set(ids)) == len(ids), "rows twice"
    turns: dict[int, list[int]] = {}
    for value in sorted(ids):
        turns.setdefault(value // 10 // 1000, []).append(value // 10 % 1000)
    for writer_number, found in turns.items():
        assert found == list(range(len(found))), f"holes in {writer_number}: {found}"
        assert len(turns[(writer_number + 500) % 1000]) == len(found), "half a commit"


KINDS = {"appender": appender, "caretaker": caretaker, "writer": writer, "reader": reader}


def member(url: str, work: tuple[str, int, float], gate: tuple[int, int], answer: Path) -> None:
    """In a fork of its own: wait for the start, do the work, tell what was done."""
    from platform_plugin.lake.lake import Lake

    try:
        with Lake.open(url) as lake:
            # What is imported late is imported before the start.
            warm = lake.write(lake.table("common"), rows(0, 0))
            lake.storage.delete([warm.path])
            lake.read("common")
            ready, go = gate
            os.write(ready, b".")
            os.read(go, 1)
            kind, number, amount = work
            said = KINDS[kind](lake, number, amount)  # type: ignore[arg-type]
        answer.write_text(json.dumps(said))
        os._exit(0)
    except BaseException:  # noqa: BLE001  shown to whoever started the crowd
        traceback.print_exc()
        os._exit(1)


def serve(url: str, members: list[tuple[str, int, float]], folder: Path) -> int:
    """Fork the members from one process that has imported everything, start them at once, and wait for all."""
    import_all("platform_plugin.lake")
    ready_out, ready_in = os.pipe()
    go_out, go_in = os.pipe()
    children = []
    for place, work in enumerate(members):
        child = os.fork()
        if child == 0:
            member(url, work, (ready_in, go_out), folder / str(place))
        children.append(child)
    os.close(ready_in)
    waiting = len(children)
    while waiting and (arrived := os.read(ready_out, waiting)):
        waiting -= len(arrived)
    os.write(go_in, b"!" * len(children))
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


def run(url: str, members: list[tuple[str, int, float]], *, timeout: float = 800) -> list[dict[str, Any]]:
    """Let all members (kind, number, turns or seconds) go at once and gather what they say; any that fails fails all."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, "-m", "tests.lake.crowd", url, json.dumps(members), folder],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return [json.loads((Path(folder) / str(place)).read_text()) for place in range(len(members))]


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])))
