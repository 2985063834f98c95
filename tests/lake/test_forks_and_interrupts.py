"""Forks, interrupts and long lives of a process: a lake stays whole, and nothing leaks."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.errors import ObjectExists, PlatformError
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.commit import commit as commits
from platform_plugin.lake.lake import Lake
from tests.lake.hundred_rows import ROWS, append_rows


def test_a_fork_while_a_lake_is_open(lake):
    with lake.commit("create") as commit:
        table = commit.create_table("t", lake.columns_of(ROWS))
        commit.append(table, [lake.write(table, ROWS)])
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            try:
                append_rows(lake)
                lake.close()
                os._exit(0)
            except BaseException:  # noqa: BLE001  told by the exit code
                os._exit(1)
        children.append(child)
        append_rows(lake)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    append_rows(lake)
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
            append_rows(lake)
    assert lake.read("t").num_rows == (100 if where == "after" else 0)
    append_rows(lake)
    assert lake.read("t").num_rows == (200 if where == "after" else 100)
