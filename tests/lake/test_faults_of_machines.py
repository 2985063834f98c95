"""Full disks, missing rights, clocks that jump, forks, interrupts and long lives: nothing is changed, nothing leaks."""

from __future__ import annotations

import contextlib
import gc
import os
import pwd
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.algebra.plan.predicates import Comparison
from platform_plugin.errors import CatalogueError, InvalidValue, ObjectExists, PlatformError, StorageError
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue import database
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.lake.commit import commit as commits
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.read.read import read_rows
from platform_plugin.lake.upkeep import expire, leased, leases, vacuum

ROWS = pa.table({"id": pa.array(range(100), pa.int64())})


def found(place) -> Lake:
    lake = Lake.create(place)
    with lake.commit("create") as commit:
        table = commit.create_table("t", lake.columns_of(ROWS))
        commit.append(table, [lake.write(table, ROWS)])
    return lake


def append(lake, rows=ROWS):
    table = lake.table("t")
    with lake.commit("append") as commit:
        commit.append(table, [lake.write(table, rows)])


@contextlib.contextmanager
def small_disk(folder: Path, size: str):
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no small disk can be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        gc.collect()
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path, leave: int = 0) -> Path:
    """Take all room but some bytes."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 4096)
        with contextlib.suppress(OSError):
            file.truncate(max(0, file.tell() - leave))
    return filler


def test_a_full_disk_while_writing_rows(tmp_path):
    with small_disk(tmp_path / "disk", "2m") as disk:
        lake = found(disk / "lake")
        before = {path for path, _ in lake.storage.listing()}
        noise = pa.table({"id": pa.array(int.from_bytes(os.urandom(7), "big") for _ in range(500_000))})
        with pytest.raises(StorageError, match="the disk is full") as raised:
            append(lake, noise)
        assert "make room" in raised.value.hint
        assert {path for path, _ in lake.storage.listing()} == before
        assert lake.read("t").num_rows == 100
        append(lake)
        assert lake.read("t").num_rows == 200
        lake.close()


def test_a_full_disk_while_committing(tmp_path):
    with small_disk(tmp_path / "disk", "2m") as disk:
        lake = found(disk / "lake")
        table = lake.table("t")
        file = lake.write(table, ROWS)
        filler = fill(disk)
        head = lake.snapshot()
        failures = 0
        for _ in range(30):
            commit = lake.commit("full", notes={"long": "x" * 20_000})
            commit.append(table, [file] if failures == 0 else [])
            try:
                with commit:
                    pass
            except StorageError as error:
                assert "the disk is full" in str(error) or "can't be read or written" in str(error)  # noqa: PT017
                failures += 1
        assert failures
        assert lake.snapshot().id <= head.id + 30
        readable = lake.read("t").num_rows
        assert readable in (100, 200)
        filler.unlink()
        append(lake)
        assert lake.read("t").num_rows == readable + 100
        lake.close()
        with Lake.open(disk / "lake") as again:
            assert again.read("t").num_rows == readable + 100


def test_a_full_disk_while_founding(tmp_path):
    with small_disk(tmp_path / "disk", "1m") as disk:
        filler = fill(disk, leave=8192)
        with pytest.raises(StorageError, match=r"the disk is full|can't be"):
            Lake.create(disk / "lake")
        filler.unlink()
        found(disk / "lake").close()


AS_NOBODY = """
import os, sys
import pyarrow as pa
import sqlalchemy.dialects.sqlite, pyarrow.parquet, fsspec
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.read.read import read_rows
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.errors import PlatformError
uid = int(sys.argv[1])
# What is imported on demand may be where nobody else may read.
fsspec.url_to_fs(sys.argv[2])
os.setgroups([]); os.setgid(uid); os.setuid(uid)
for call in sys.argv[3:]:
    try:
        lake = Lake.create(sys.argv[2]) if call == "create" else Lake.open(sys.argv[2])
        if call == "read":
            lake.read("t")
        if call == "commit":
            rows = pa.table({"id": [1]})
            with lake.commit("x") as commit:
                commit.append(lake.table("t"), [lake.write(lake.table("t"), rows)])
        if call == "note":
            with lake.commit("x"):
                pass
        print(call, "done")
    except PlatformError as error:
        print(call, type(error).__name__, "hint" if error.hint else "NO HINT", str(error).replace(chr(10), " | "))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_missing_rights_are_said(tmp_path):
    place = Path("/tmp") / f"platform-rights-{os.getpid()}"
    place.mkdir(mode=0o755)
    try:
        lake = found(place / "lake")
        lake.close()
        nobody = str(pwd.getpwnam("nobody").pw_uid)

        def attempt(*calls):
            ran = subprocess.run(
                [sys.executable, "-c", AS_NOBODY, nobody, str(place / "lake"), *calls],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
                cwd=Path(__file__).parents[2],
            )
            assert ran.returncode == 0, ran.stderr
            return ran.stdout.splitlines()

        head = (place / "lake" / "lake.sqlite").stat().st_mtime_ns
        for line in attempt("commit", "note", "create"):
            assert "done" not in line, line
            assert "NO HINT" not in line, line
        (place / "lake" / "data" / "main" / "t").chmod(0o700)
        (place / "lake").chmod(0o777)
        (place / "lake" / "lake.sqlite").chmod(0o666)
        for line in attempt("read", "commit"):
            assert "StorageError hint" in line, line
            assert "permission denied" in line.lower(), line
        (place / "lake").chmod(0o700)
        for line in attempt("read", "create"):
            assert "hint" in line, line
        (place / "lake").chmod(0o755)
        assert (place / "lake" / "lake.sqlite").stat().st_mtime_ns == head
        with Lake.open(place / "lake") as lake:
            assert lake.read("t").num_rows == 100
            assert lake.snapshot().id == 1
    finally:
        subprocess.run(["rm", "-rf", str(place)], check=True)


def test_a_catalogue_locked_by_another_program_is_an_error_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "BUSY_TIMEOUT_SECONDS", 0.4)
    lake = found(tmp_path / "lake")
    holder = sqlite3.connect(tmp_path / "lake" / "lake.sqlite", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    before = {path for path, _ in lake.storage.listing()}
    started = time.monotonic()
    with pytest.raises(CatalogueError, match="is locked by another process") as raised, lake.commit("note"):
        pass
    assert time.monotonic() - started < 5
    assert raised.value.hint
    assert lake.read("t").num_rows == 100  # readers pass
    assert {path for path, _ in lake.storage.listing()} == before
    holder.rollback()
    holder.close()
    append(lake)
    lake.close()


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
        append(lake)
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
    append(lake)
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
    append(lake)
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


def test_a_fork_while_a_lake_is_open(lake):
    with lake.commit("create") as commit:
        table = commit.create_table("t", lake.columns_of(ROWS))
        commit.append(table, [lake.write(table, ROWS)])
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            try:
                append(lake)
                lake.close()
                os._exit(0)
            except BaseException:  # noqa: BLE001  told by the exit code
                os._exit(1)
        children.append(child)
        append(lake)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    append(lake)
    assert lake.read("t").num_rows == 800
    assert lake.snapshot().id == 8


def test_a_fork_inside_a_commit(lake):
    with lake.commit("create") as commit:
        commit.create_table("t", lake.columns_of(ROWS))
    with lake.writing() as connection:
        connection.execute(sa.insert(c.PLATFORM_LAKE).values(key="k", value="parent"))
        child = os.fork()
        if child == 0:
            # Its memory holds the parent's open transaction, which is not its to end.
            os._exit(0)
        os.waitpid(child, 0)
    with lake.reading() as connection:
        assert connection.execute(sa.select(c.PLATFORM_LAKE.c.value).where(c.PLATFORM_LAKE.c.key == "k")).scalar() == "parent"


def descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def open_and_close(lake_url, rounds):
    for _ in range(rounds):
        with Lake.open(lake_url) as lake:
            lake.snapshot()
        with pytest.raises(ObjectExists):
            Lake.create(lake_url)


def test_opening_and_failing_leaks_no_descriptors(lake, lake_url):
    with lake.commit("create") as commit:
        table = commit.create_table("t", lake.columns_of(ROWS))
        commit.append(table, [lake.write(table, ROWS)])
    open_and_close(lake_url, 3)
    before = descriptors()
    open_and_close(lake_url, 25)
    for _ in range(10):
        with pytest.raises(PlatformError):
            lake.read("nowhere")
        with pytest.raises(PlatformError):
            lake.describe_files(table, ["main/t/nowhere.parquet"])
        lake.read("t")
        with pytest.raises(PlatformError):
            lake.write(table, pa.table({"id": ["x"]}))
    assert descriptors() <= before


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_thousand_rounds_leak_no_descriptors(lake, lake_url):
    open_and_close(lake_url, 3)
    before = descriptors()
    open_and_close(lake_url, 1000)
    assert descriptors() <= before


@pytest.mark.parametrize("where", ["before", "inside", "after"])
def test_an_interrupt_inside_a_commit_leaves_all_or_nothing(lake, monkeypatch, where):
    with lake.commit("create") as commit:
        commit.create_table("t", lake.columns_of(ROWS))
    write = commits.Commit._write

    def interrupted(self, connection, operations):
        if where == "before":
            raise KeyboardInterrupt
        made = write(self, connection, operations)
        if where == "inside":
            raise KeyboardInterrupt
        return made

    run = commits.Commit._run

    def late(self):
        made = run(self)
        if where == "after":
            raise KeyboardInterrupt
        return made

    with monkeypatch.context() as patch:
        patch.setattr(commits.Commit, "_write", interrupted)
        patch.setattr(commits.Commit, "_run", late)
        with pytest.raises(KeyboardInterrupt):
            append(lake)
    assert lake.read("t").num_rows == (100 if where == "after" else 0)
    append(lake)
    assert lake.read("t").num_rows == (200 if where == "after" else 100)


NAMES = [
    'it\'s "quoted"',
    " ",
    "a b",
    "a.b",
    "../up",
    "💥",
    "Straße",
    "select",
    "a/b",
    "null",
    "%s",
    "{x}",
    "x;DROP TABLE t;--",
    "`",
    "n" * 255,
    "CON",
    "-",
]


def test_any_name_can_be_given_to_anything(lake):
    rows = pa.table({name: [1] for name in NAMES})
    for name in NAMES:
        with lake.commit(name, author=name) as commit:
            commit.create_schema(name)
        with lake.commit(name) as commit:
            table = commit.create_table((name, name), lake.columns_of(rows), comment=name)
            commit.append(table, [lake.write(table, rows)])
        assert lake.read((name, name)).equals(rows)
        assert lake.read((name, name), columns=[name], where=[Comparison(name, "=", 1)]).num_rows == 1
        assert lake.table((name, name)).comment == name
        assert lake.commits()[-1].message == name
    for path, _ in lake.storage.listing():
        assert ".." not in path.split("/")
    lake.vacuum(grace=timedelta(0))
    for name in NAMES:
        assert lake.read((name, name)).equals(rows)


@pytest.mark.parametrize(
    "name", ["", "zero\0", "half \ud83d", "x" * 256, "ü" * 128], ids=["empty", "zero", "surrogate", "long", "long in bytes"]
)
def test_names_that_nothing_can_have(lake, name):
    columns = lake.columns_of(ROWS)
    with lake.commit("create") as commit:
        table = commit.create_table("t", columns)
    before = lake.snapshot()
    bad_column = [replace(columns[0], name=name)]
    for do in (
        lambda k: k.create_schema(name),
        lambda k: k.create_table(name, columns),
        lambda k: k.create_table("x", bad_column),
        lambda k: k.rename_table(table, name),
        lambda k: k.rename_column(table, "id", to=name),
        lambda k: k.add_column(table, bad_column[0]),
        lambda k: k.create_view(name, "SELECT 1"),
    ):
        with pytest.raises(InvalidValue) as raised, lake.commit("bad") as commit:
            do(commit)
        str(raised.value).encode()
        assert raised.value.hint
    assert lake.snapshot() == before


def test_names_that_differ_only_in_case_are_one(lake):
    with lake.commit("create") as commit:
        table = commit.create_table("Users", lake.columns_of(ROWS))
    for do in (
        lambda k: k.create_table("USERS", lake.columns_of(ROWS)),
        lambda k: k.create_view("users", "SELECT 1"),
        lambda k: k.create_table("x", lake.columns_of(pa.table({"a": [1], "A": [2]}))),
        lambda k: k.add_column(table, lake.columns_of(pa.table({"ID": [1]}))[0]),
    ):
        with pytest.raises((ObjectExists, InvalidValue)), lake.commit("again") as commit:
            do(commit)


def test_long_comments_and_texts(lake):
    with lake.commit("create") as commit:
        table = commit.create_table("t", lake.columns_of(ROWS))
    long = "ü💥'\"" * 250_000
    with lake.commit(long[:100_000]) as commit:
        commit.comment(table, long)
        commit.comment(table, long, column=("id",))
    assert lake.table("t").comment == long
    assert lake.table("t").fields[0].comment == long


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_thousand_columns(lake):
    rows = pa.table({f"c{i}": pa.array([i, i + 1]) for i in range(10_000)})
    steps = {}

    def timed(name, step):
        started = time.process_time()  # a busy machine makes everything slow, quadratic time only this
        result = step()
        steps[name] = round(time.process_time() - started, 2)
        return result

    def create():
        with lake.commit("create") as commit:
            return commit.create_table("t", lake.columns_of(rows))

    timed("create", create)
    timed("append", lambda: append(lake, rows))
    timed("append again", lambda: append(lake, rows))
    assert timed("read", lambda: lake.read("t")).num_rows == 4
    assert timed("prune", lambda: lake.read("t", columns=["c7"], where=[Comparison("c7", "=", 7)])).num_rows == 2
    timed("merge", lambda: lake.merge("t"))
    assert lake.read("t").num_rows == 4
    print(steps)
    assert sum(steps.values()) < 60
