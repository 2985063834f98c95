"""Every path stays below the data folder, on any file system, and what a commit names is on disk before."""

import errno
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from platform_plugin.errors import PathOutsideLake, StorageError
from platform_plugin.lake.files.storage import Storage
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.read.deletes import write_replacing_deletes
from platform_plugin.lake.values.types import arrow_schema


@pytest.fixture
def storage(tmp_path):
    return Storage(f"{tmp_path}/data/")


@pytest.mark.parametrize(
    "path", ["..", "../x", "a/../../x", "a/..", "/etc/passwd", "s3://bucket/x", "file:///etc/passwd", "a\0b", "https://x/y", "//x"]
)
def test_paths_that_lead_out_are_refused(storage, path):
    for do in (storage.absolute, storage.exists, storage.size, lambda path: storage.delete([path])):
        with pytest.raises(PathOutsideLake):
            do(path)
    with pytest.raises(PathOutsideLake), storage.open(path, "wb"):
        pass


def test_links_that_lead_out_are_refused(storage, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(PathOutsideLake), storage.open("link"):
        pass
    (tmp_path / "elsewhere").symlink_to(tmp_path / "data")
    with Storage(f"{tmp_path}/elsewhere").open("x.parquet", "wb") as file:
        file.write(b"x")
    assert storage.size("x.parquet") == 1


def test_files_come_and_go(storage, tmp_path):
    with storage.open("a/b c/ü.parquet", "wb") as file:
        file.write(b"12345")
    assert storage.size("a/b c/ü.parquet") == 5
    assert [path for path, _ in storage.listing()] == ["a/b c/ü.parquet"]
    assert storage.relative(f"{tmp_path}/data/a/b c/ü.parquet") == "a/b c/ü.parquet"
    assert storage.delete(["a/b c/ü.parquet", "never/was"]) == 1
    assert list(storage.listing()) == []
    for opened in (storage.open, storage.open_arrow):
        with pytest.raises(StorageError, match="missing"), opened("a/b c/ü.parquet"):
            pass


def test_arrow_reads_local_files_by_itself_and_others_by_their_file_system(storage):
    for place, kind in ((storage, pa.OSFile), (Storage("memory://bucket/arrow/"), object)):
        with place.open("x.parquet", "wb") as file:
            file.write(b"12345")
        with place.open_arrow("x.parquet") as file:
            assert isinstance(file, kind)
            assert (file.seek(0, os.SEEK_END), file.seek(1), file.read(2)) == (5, 1, b"23")
    with pytest.raises(PathOutsideLake), storage.open_arrow("../x"):
        pass


def test_other_file_systems():
    memory = Storage("memory://bucket/lake/")
    with memory.open("main/t/x.parquet", "wb") as file:
        file.write(b"123")
    assert [path for path, _ in memory.listing()] == ["main/t/x.parquet"]
    assert memory.size("main/t/x.parquet") == 3
    for path in ("../x", "memory://bucket/other/x", "/etc/passwd"):
        with pytest.raises(PathOutsideLake):
            memory.absolute(path)
    assert memory.delete(["main/t/x.parquet"]) == 1
    assert Storage("s3://bucket/lake").uri("main/x") == "s3a://bucket/lake/main/x"
    with pytest.raises(StorageError, match="no file system"):
        list(Storage("nowhere://x").listing())


@pytest.fixture
def synced(monkeypatch):
    """The paths that were forced to disk, in their order."""
    found = []
    fsync = os.fsync

    def noted(descriptor):
        fsync(descriptor)
        found.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", noted)
    return found


def test_every_file_that_a_commit_names_is_on_disk_before(tmp_path, synced):
    with Lake.create(tmp_path / "lake") as lake:
        rows = pa.table({"id": [1, 2, 3]})
        with lake.commit("create") as commit:
            commit.create_table("t", lake.columns_of(rows))
        table = lake.table("t")
        foreign = tmp_path / "lake" / "data" / "main" / "t" / "part-0.parquet"
        with lake.commit("append") as commit:
            ours = lake.write(table, rows)
            pq.write_table(rows.cast(arrow_schema(table.fields)), foreign)  # as Spark does
            commit.append(table, [ours, *lake.describe_files(table, ["main/t/part-0.parquet"])])
            data = tmp_path / "lake" / "data"
            assert {data, data / "main", data / "main" / "t", data / ours.path, foreign} <= set(synced)
        scan = lake.scan(table, lake.snapshot())
        with lake.commit("delete") as commit:
            commit.delete(table, write_replacing_deletes(lake, scan, {scan.files[0].id: [0]}))
        lake.merge("t")
    assert set(data.rglob("*.parquet")) <= set(synced)


def test_a_disk_that_loses_what_it_took_is_an_error_and_nothing_stays(tmp_path, monkeypatch):
    with Lake.create(tmp_path / "lake") as lake:
        rows = pa.table({"id": [1]})
        with lake.commit("create") as commit:
            table = commit.create_table("t", lake.columns_of(rows))

        def lost(_):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lost)
            with pytest.raises(StorageError, match="can't be read or written"):
                lake.write(table, rows)
        assert list((tmp_path / "lake" / "data").rglob("*.parquet")) == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.EINVAL])
def test_folders_that_can_not_be_forced_to_disk_are_let_be(storage, monkeypatch, number):
    fsync = os.fsync

    def files_only(descriptor):
        if Path(f"/proc/self/fd/{descriptor}").readlink().is_dir():
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", files_only)
    with storage.open("a/x.parquet", "wb") as file:
        file.write(b"x")
    assert storage.size("a/x.parquet") == 1
