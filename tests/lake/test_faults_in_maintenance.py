"""Merge, expiry and vacuum when they are interrupted, overtaken or late: no row is ever lost by care."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.errors import CommitConflict, OutcomeUnknown, SnapshotExpired, StorageError
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.commit.commit import Commit
from platform_plugin.lake.files.files import write_delete_file
from platform_plugin.lake.read.read import read_rows

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

    with monkeypatch.context() as patch:
        patch.setattr(Commit, "_attempt", interrupted)
        with pytest.raises(interrupt):
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
    commit = lake.commit("delete")
    commit.delete(numbers, {file.id: write_delete_file(lake.storage, numbers, file.path, pa.array([0]))})
    assert lake.vacuum(grace=NOW).orphans == 1
    with pytest.raises(StorageError, match="is missing"), commit:
        pass
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


def test_a_read_whose_files_were_merged_and_vacuumed_says_so(lake, numbers):
    snapshot = lake.snapshot()
    plan = lake.scan(numbers, snapshot)
    lake.merge("numbers")
    lake.vacuum(grace=NOW)
    with pytest.raises(SnapshotExpired, match="merged while it was read"):
        read_rows(lake, plan)
    assert len(lake.read("numbers", snapshot=snapshot)) == 6
    lake.expire(FAR)
    with pytest.raises(SnapshotExpired, match="expired while it was read"):
        read_rows(lake, plan)


def test_a_lease_keeps_the_files_of_a_plan(lake, numbers):
    with lake.lease() as lease:
        plan = lake.scan(numbers, lease.snapshot)
        lake.merge("numbers")
        lake.expire(FAR)
        assert lake.vacuum(grace=NOW).kept > 0
        assert len(read_rows(lake, plan)) == 6
    assert lake.vacuum(grace=NOW).kept == 0
    with pytest.raises(SnapshotExpired):
        read_rows(lake, plan)


def test_a_file_that_was_removed_by_hand_is_no_expiry(lake, numbers):
    lake.storage.delete([lake.scan(numbers, lake.snapshot()).files[0].path])
    with pytest.raises(StorageError, match="is missing") as raised:
        lake.read("numbers")
    assert not isinstance(raised.value, SnapshotExpired)


def test_inlined_rows_that_move_to_a_file_between_plan_and_read_are_never_just_missing(lake, reader):
    reader.execute("CREATE TABLE few (i INT)")
    reader.execute("INSERT INTO few VALUES (1), (2)")
    before = lake.snapshot(1)
    plan = lake.scan(lake.table("few"), lake.snapshot())
    assert plan.inlined
    feed = lake.changes("few", after=before)
    assert feed.read(lake).num_rows == 2
    lake.merge("few")
    for read in (lambda: read_rows(lake, plan), lambda: feed.read(lake)):
        with pytest.raises(SnapshotExpired, match="moved to a file"):
            read()
    assert lake.read("few").num_rows == 2
    assert lake.changes("few", after=before).read(lake).num_rows == 2
