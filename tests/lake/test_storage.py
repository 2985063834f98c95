"""Every path stays below the data folder, on any file system."""

import pytest

from platform_plugin.errors import PathOutsideLake, StorageError
from platform_plugin.lake.storage import Storage


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
    with pytest.raises(StorageError, match="missing"), storage.open("a/b c/ü.parquet"):
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
