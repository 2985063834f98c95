"""Merge, expiry and vacuum when they are interrupted, overtaken or late: no row is ever lost by care."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.errors import CommitConflict, OutcomeUnknown, StorageError
from platform_plugin.lake import catalogue as c
from platform_plugin.lake.commit import Commit
from platform_plugin.lake.files import write_delete_file

NOW = timedelta(0)
FAR = datetime(2200, 1, 1, tzinfo=UTC)


@pytest.fixture
def numbers(lake):
    """A table of two small files, which a merge would make one."""
    rows = pa.table({"id": [1, 2, 3], "word": ["a", "b", "c"]})
    with lake.commit("create") as commit:
        table = commit.create_table("numbers", lake.columns_of(rows))
        commit.append(table, [lake.write(table, rows)])
    table = lake.table("numbers")
    with lake.commit("append") as commit:
        commit.append(table, [lake.write(table, rows)])
    return table


def ids(lake, snapshot=None):
    return sorted(lake.read("numbers", snapshot=snapshot, columns=["id"]).column(0).to_pylist())


def test_a_merge_keeps_a_renamed_column_whose_old_name_has_expired(lake, numbers):
    with lake.commit("rename") as commit:
        commit.rename_column(numbers, "word", to="text")
    before = lake.read("numbers")
    lake.expire(FAR)
    assert lake.merge("numbers").files_after == 1
    assert lake.read("numbers").sort_by("id").equals(before.sort_by("id"))


def test_a_merge_keeps_columns_of_every_kept_snapshot(lake, numbers):
    with lake.lease(lake.snapshot(1)):
        with lake.commit("rename") as commit:
            commit.rename_column(numbers, "word", to="text")
        with lake.commit("drop") as commit:
            commit.drop_column(lake.table("numbers"), "text")
        lake.expire(FAR)
        lake.merge("numbers")
        assert lake.read("numbers", snapshot=lake.snapshot(1)).column("word").to_pylist() == ["a", "b", "c"]
        assert lake.read("numbers").column_names == ["id"]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, OutcomeUnknown, MemoryError])
def test_a_merge_that_is_interrupted_after_its_commit_keeps_the_merged_file(lake, numbers, monkeypatch, interrupt):
    attempt = Commit._attempt

    def interrupted(self, operations):
        attempt(self, operations)
        raise interrupt("after the commit")

    with monkeypatch.context() as patch, pytest.raises(interrupt):
        patch.setattr(Commit, "_attempt", interrupted)
        lake.merge("numbers")
    assert ids(lake) == [1, 1, 2, 2, 3, 3]
    lake.vacuum(grace=NOW)
    assert ids(lake) == [1, 1, 2, 2, 3, 3]


def test_a_merge_that_loses_to_a_delete_leaves_no_file(lake, numbers, monkeypatch):
    before = {path for path, _ in lake.storage.listing()}
    file = lake.scan(numbers, lake.snapshot()).files[0]
    run = Commit._run

    def overtaken(self):
        monkeypatch.setattr(Commit, "_run", run)
        with lake.commit("delete") as commit:
            commit.delete(numbers, {file.id: write_delete_file(lake.storage, numbers, file.path, pa.array([0]))})
        return run(self)

    monkeypatch.setattr(Commit, "_run", overtaken)
    with pytest.raises(CommitConflict) as raised:
        lake.merge("numbers")
    assert "merge files of main.numbers" in str(raised.value)
    assert '"delete"' in str(raised.value)
    after = {path for path, _ in lake.storage.listing()}
    assert [path for path in after - before if not path.endswith("-delete.parquet")] == []
    assert ids(lake) == [1, 2, 2, 3, 3]


def test_a_commit_refuses_a_delete_file_that_a_vacuum_took(lake, numbers):
    file = lake.scan(numbers, lake.snapshot()).files[0]
    with pytest.raises(StorageError, match="is missing"), lake.commit("delete") as commit:
        commit.delete(numbers, {file.id: write_delete_file(lake.storage, numbers, file.path, pa.array([0]))})
        assert lake.vacuum(grace=NOW).orphans == 1
    assert ids(lake) == [1, 1, 2, 2, 3, 3]


def test_a_merge_refuses_to_commit_files_that_a_vacuum_took(lake, numbers, monkeypatch):
    run = Commit._run

    def vacuumed(self):
        monkeypatch.setattr(Commit, "_run", run)
        assert lake.vacuum(grace=NOW).orphans == 1
        return run(self)

    monkeypatch.setattr(Commit, "_run", vacuumed)
    with pytest.raises(StorageError, match="is missing"):
        lake.merge("numbers")
    assert ids(lake) == [1, 1, 2, 2, 3, 3]


def test_a_vacuum_keeps_files_that_the_catalogue_names_by_their_full_path(lake, numbers):
    with lake.writing() as connection:
        f = c.DATA_FILE
        for row in connection.execute(sa.select(f.c.data_file_id, f.c.path)).all():
            full = lake.storage.absolute(f"main/numbers/{row.path}")
            connection.execute(sa.update(f).where(f.c.data_file_id == row.data_file_id).values(path=full, path_is_relative=False))
    assert lake.vacuum(grace=NOW).orphans == 0
    assert ids(lake) == [1, 1, 2, 2, 3, 3]
