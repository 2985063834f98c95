"""Full disks: whatever was being written, an error says so, nothing is half there, and the next try works."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from platform_plugin.errors import StorageError
from platform_plugin.lake.lake import Lake
from tests.lake.hundred_rows import ROWS, append_rows, create_lake

if TYPE_CHECKING:
    from pathlib import Path


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
        lake = create_lake(disk / "lake")
        before = {path for path, _ in lake.storage.listing()}
        noise = pa.table({"id": pa.array(int.from_bytes(os.urandom(7), "big") for _ in range(500_000))})
        with pytest.raises(StorageError, match="the disk is full") as raised:
            append_rows(lake, noise)
        assert "make room" in raised.value.hint
        assert {path for path, _ in lake.storage.listing()} == before
        assert lake.read("t").num_rows == 100
        append_rows(lake)
        assert lake.read("t").num_rows == 200
        lake.close()


def test_a_full_disk_while_committing(tmp_path):
    with small_disk(tmp_path / "disk", "2m") as disk:
        lake = create_lake(disk / "lake")
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
        append_rows(lake)
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
        create_lake(disk / "lake").close()
