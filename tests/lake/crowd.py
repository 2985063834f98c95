"""Processes that work on one lake at the same time; each prints one JSON line when it has done its work.

`python -m tests.lake.crowd <kind> <url> <number> <rounds or seconds>`; all of a crowd start at the same moment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.lake.crashing import COUNTER

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
        while True:
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
    while time.monotonic() < until:
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
    while time.monotonic() < until:
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
    while time.monotonic() < until:
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


def start(kind: str, url: str, number: int, amount: float) -> subprocess.Popen[str]:
    """One member of a crowd; it waits for a line on its input."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.lake.crowd", kind, url, str(number), str(amount)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(members: list[subprocess.Popen[str]], *, timeout: float = 100) -> list[dict[str, Any]]:
    """Let them all go at once and gather what they say; any that fails fails all."""
    for member in members:
        assert member.stdout is not None
        assert member.stdout.readline() == "ready\n", member.communicate()[1]
    for member in members:
        assert member.stdin is not None
        member.stdin.write("go\n")
        member.stdin.flush()
    said = []
    for member in members:
        out, complaints = member.communicate(timeout=timeout)
        assert member.returncode == 0, complaints
        said.append(json.loads(out))
    return said


if __name__ == "__main__":
    from platform_plugin.lake.lake import Lake

    kind_, url_, number_, amount_ = sys.argv[1:]
    with Lake.open(url_) as lake_:
        # What is imported late is imported before the start.
        warm = lake_.write(lake_.table("common"), rows(0, 0))
        lake_.storage.delete([warm.path])
        lake_.read("common")
        print("ready", flush=True)
        sys.stdin.readline()
        print(json.dumps(KINDS[kind_](lake_, int(number_), float(amount_) if "." in amount_ else int(amount_))), flush=True)  # type: ignore[arg-type]
    os._exit(0)
