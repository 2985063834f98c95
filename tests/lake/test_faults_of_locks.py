"""Locks: held by others, lost with their holder, and never let go by accident."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from platform_plugin.lake.lake import Lake

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def local(tmp_path):
    with Lake.create(tmp_path / "lake") as lake:
        with lake.commit("load") as commit:
            table = commit.create_table("t", lake.columns_of(ROWS))
            commit.append(table, [lake.write(table, ROWS)])
        yield lake


def in_another_process(code: str, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a piece of Python with its own SQLite."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=check, timeout=60, cwd=sys.path[0] or "."
    )


def test_opening_a_lake_twice_keeps_the_locks_of_the_first(local, tmp_path):
    # POSIX drops all of a process' locks on a file when the process closes any descriptor of it. Without its locks, this process'
    # log would be taken for a dead one's and be removed by the next process that closes the catalogue.
    local.snapshot()
    Lake.open(tmp_path / "lake").close()
    in_another_process(
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM ducklake_snapshot').fetchall(); c.close()",
        tmp_path / "lake" / "lake.sqlite",
    )
    assert (tmp_path / "lake" / "lake.sqlite-wal").exists()
    with local.commit("more") as commit:
        commit.append(local.table("t"), [local.write(local.table("t"), ROWS)])
    with Lake.open(tmp_path / "lake") as fresh:
        assert fresh.read("t").num_rows == 6
