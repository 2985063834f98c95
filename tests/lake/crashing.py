"""A process that does one thing to a lake and is killed at the n-th point on the way: no signal handler, no clean-up, no flush.

Points are before and after every SQL statement, commit, opened file, written piece and deleted file; a piece is killed half-written.
Run as a module it serves requests, one JSON object a line, each in a fork of its own, so that importing is paid once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlalchemy as sa

from tests.warm import import_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.lake import Lake

COUNTER = sa.Table("platform_counter", sa.MetaData(), sa.Column("name", sa.String, primary_key=True), sa.Column("value", sa.BigInteger))


def rows_of_round(number: int, count: int) -> list[int]:
    """The ids that a round appends: no other round has them."""
    return [number * 10 + i for i in range(count)]


def batch(ids: list[int]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "word": pa.array([f"word {i}" for i in ids], pa.string())})


def delete_smallest(lake: Lake, commit: Commit, table: Table, base: Snapshot) -> None:
    """Delete the row with the smallest id by a delete file."""
    from platform_plugin.lake.files.files import write_delete_file
    from platform_plugin.lake.read.read import read_file

    found = []
    for file in lake.scan(table, base).files:
        rows, kept = read_file(lake, table, file, base)
        found += [(row_id, position, file, kept) for row_id, position in zip(rows.column("id").to_pylist(), kept.to_pylist(), strict=True)]
    if found:
        _, position, file, kept = min(found, key=lambda entry: entry[0])
        gone = sorted(set(range(file.record_count)) - set(kept.to_pylist()) | {position})
        commit.delete(table, {file.id: write_delete_file(lake.storage, table, file.path, pa.array(gone))})


def op_commit(lake: Lake, number: int) -> None:
    """Files for two tables, a delete file and a note, in one commit."""
    base = lake.snapshot()
    a, b = lake.table("a", base), lake.table("b", base)
    with lake.commit(f"round {number}", base=base) as commit:
        commit.append(a, [lake.write(a, batch(rows_of_round(number, 4)))])
        commit.append(b, [lake.write(b, batch(rows_of_round(number, 2)))])
        delete_smallest(lake, commit, a, base)
        commit.put(COUNTER, name="rounds", value=number)


def op_change(lake: Lake, number: int) -> None:
    """Delete the row with the smallest id and write the next one anew, with before-images of both, as DELETE and UPDATE do."""
    from platform_plugin.lake.read.deletes import write_replacing_deletes
    from tests.lake.changing import places_of, rewrite_rows

    base = lake.snapshot()
    scan = lake.scan(lake.table("a", base), base)
    ids = sorted(lake.read("a", snapshot=base).column("id").to_pylist())[:2]
    places, kept = places_of(lake, scan, ids), places_of(lake, scan, ids[1:])
    images = lake.write_before_images(scan, places)
    deletes = write_replacing_deletes(lake, scan, places)
    with lake.commit(f"change {number}", base=base) as commit:
        commit.delete(scan.table, deletes)
        commit.keep_before_images(scan.table, images)
        commit.append(scan.table, [rewrite_rows(lake, scan, kept, {})])


def op_define(lake: Lake, number: int) -> None:
    """A new table with rows, and the end of the one before."""
    with lake.commit(f"define {number}") as commit:
        table = commit.create_table(f"t{number}", lake.columns_of(batch([])))
        commit.append(table, [lake.write(table, batch(rows_of_round(number, 3)))])
        for old in lake.tables():
            if old.name.relation.startswith("t"):
                commit.drop_table(old)


def op_merge(lake: Lake, number: int) -> None:
    lake.merge("a")


def op_expire(lake: Lake, number: int) -> None:
    lake.expire(datetime.now(UTC))


def op_vacuum(lake: Lake, number: int) -> None:
    lake.vacuum(grace=timedelta(0))


def op_lease(lake: Lake, number: int) -> None:
    with lake.lease(holder="victim", duration=timedelta(seconds=0.2)) as lease:
        lake.read("a", snapshot=lease.snapshot)
        lease.renew(timedelta(seconds=0.2))


def append_to_ring(lake: Lake, number: int) -> None:
    """A segment for the stream `ring`; what it pushes out leaves, and what no reader needs is deleted."""
    table = lake.table("ring")
    with lake.commit(f"segment {number}") as commit:
        commit.append(table, [lake.write(table, batch(rows_of_round(number, 4)))])


def compact_store(lake: Lake, number: int) -> None:
    """What is due in the store `arranged`."""
    from platform_plugin.state.arrangement import arrangement
    from tests.state.stores import compact

    compact(lake, arrangement(lake.table("arranged"), ["uid"]))


def migrate(lake: Lake, number: int) -> None:
    """The first write to a lake of an earlier version, and nothing else."""
    with lake.writing():
        pass


OPERATIONS = {name.removeprefix("op_"): function for name, function in list(globals().items()) if name.startswith("op_")}


class Points:
    """Counts points and dies at one of them."""

    def __init__(self, kill_at: int | None) -> None:
        self.count = 0
        self.kill_at = kill_at
        self.names: list[str] = []

    def __call__(self, name: str) -> bool:
        self.count += 1
        self.names.append(name)
        return self.count == self.kill_at

    def reach(self, name: str) -> None:
        if self(name):
            os.kill(os.getpid(), signal.SIGKILL)


def watch(points: Points) -> None:
    """Put points around everything that touches the catalogue or the data folder."""
    from sqlalchemy.engine.default import DefaultDialect

    from platform_plugin.lake.files.storage import Storage

    sa.event.listen(sa.Engine, "before_cursor_execute", lambda *args: points.reach(f"before {args[2][:60]}"))
    sa.event.listen(sa.Engine, "after_cursor_execute", lambda *args: points.reach(f"after {args[2][:60]}"))
    plain_commit, plain_open, plain_delete = DefaultDialect.do_commit, Storage.open, Storage.delete

    def do_commit(self: Any, connection: Any) -> None:
        points.reach("before commit")
        plain_commit(self, connection)
        points.reach("after commit")

    @contextmanager
    def open_(self: Storage, path: str, mode: str = "rb") -> Iterator[Any]:
        if "w" not in mode:
            with plain_open(self, path, mode) as file:
                yield file
            return
        points.reach(f"before opening {path}")
        with plain_open(self, path, mode) as file:
            points.reach("opened")
            yield Pieces(file, points)
            points.reach("written, not closed")
        points.reach("closed")

    def delete(self: Storage, paths: Any) -> int:
        found = 0
        for path in paths:
            points.reach(f"before deleting {path}")
            found += plain_delete(self, [path])
            points.reach("deleted")
        return found

    DefaultDialect.do_commit = do_commit
    Storage.open = open_  # type: ignore[assignment]
    Storage.delete = delete  # type: ignore[method-assign]


class Pieces:
    """A file whose every written piece is a point; the fatal piece arrives by half."""

    def __init__(self, file: Any, points: Points) -> None:
        self.file, self.points = file, points

    def write(self, data: Any) -> int:
        if self.points("writing"):
            self.file.write(bytes(data)[: len(data) // 2])
            self.file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return int(self.file.write(data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def run(request: dict[str, Any], answer: int) -> None:
    """In the fork: do the operation, and report only if it was survived."""
    from platform_plugin.lake.lake import Lake

    points = Points(request["kill_at"])
    if request["operation"] == "create":
        watch(points)
        Lake.create(request["url"]).close()
    else:
        with Lake.open(request["url"]) as lake:
            watch(points)
            {**OPERATIONS, "ring": append_to_ring, "migrate": migrate, "compact": compact_store}[request["operation"]](
                lake, request["number"]
            )
    os.write(answer, json.dumps({"points": points.count}).encode())


def serve() -> None:
    import_all("platform_plugin.lake")
    import_all("platform_plugin.state")

    for line in sys.stdin:
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(receive)
            try:
                run(json.loads(line), send)
                os._exit(0)
            except BaseException as error:  # noqa: BLE001  reported to whoever asked
                os.write(send, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
                os._exit(1)
        os.close(send)
        said = Path(f"/dev/fd/{receive}").read_text()
        os.close(receive)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(json.dumps({"killed": killed, **(json.loads(said) if said else {})}), flush=True)


class Victims:
    """The server's other end."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.lake.crashing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def attempt(self, url: str, operation: str, *, number: int = 0, kill_at: int | None = None) -> dict[str, Any]:
        """Let a process do an operation and die at a point; `killed` says whether it got that far."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"url": url, "operation": operation, "number": number, "kill_at": kill_at}
        print(json.dumps(request), file=self.process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert "error" not in answer, (request, answer["error"])
        return answer

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)


if __name__ == "__main__":
    serve()
