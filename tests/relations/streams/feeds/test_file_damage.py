"""Damage is told from a store that does not answer: the one refuses a file for good, the other is tried again."""

from __future__ import annotations

import bz2
import gzip
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from platform_plugin.relations.streams.feeds import file_damage
from platform_plugin.relations.streams.feeds.declaration import FilesFeed
from platform_plugin.relations.streams.feeds.file_damage import find_damage
from platform_plugin.relations.streams.feeds.file_listing import open_system
from platform_plugin.relations.streams.feeds.sources import SourceFile

CSV, PARQUET = FilesFeed(glob="*", format="csv"), FilesFeed(glob="*", format="parquet")


def at(path):
    return SourceFile(uri=str(path), size_bytes=1, version="1")


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_packed_files(tmp_path, ending, pack):
    whole = pack(os.urandom(100_000))
    for name, content, said in [
        ("whole", whole, "Spark can't"),
        ("half", whole[:50_000], "unpacked"),
        ("other", b"no such thing", "unpacked"),
    ]:
        path = tmp_path / f"{name}.csv.{ending}"
        path.write_bytes(content)
        assert said in find_damage(CSV, at(path)), name


def test_parquet_files(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": pa.array(range(100_000))}), path, write_page_checksum=True, compression="zstd")
    assert find_damage(PARQUET, at(path)) == "Spark can't read it"
    content = bytearray(path.read_bytes())
    content[200:2000] = bytes(1800)
    path.write_bytes(content)
    assert find_damage(PARQUET, at(path)).startswith("it is not a whole Parquet file")


def test_what_can_not_be_had_is_not_damaged(tmp_path, monkeypatch):
    assert find_damage(CSV, at(tmp_path / "nowhere.csv")) is None

    sound = bz2.compress(b"1")
    (tmp_path / "b.csv.bz2").write_bytes(sound)
    monkeypatch.setattr(file_damage, "open_system", lambda uri: open_system(uri.removeprefix("far://")))
    monkeypatch.setattr(file_damage, "path_in", lambda _, uri: uri.removeprefix("far://"))
    assert find_damage(CSV, at(f"far://{tmp_path}/b.csv.bz2")) is None, "Spark's way to it may be the trouble"

    class Away:
        protocol = "file"

        def cat_file(self, *_, **__):
            raise ConnectionResetError(104, "the store hung up")

        open = cat_file

    monkeypatch.setattr(file_damage, "open_system", lambda uri: (Away(), uri))
    assert find_damage(CSV, at(tmp_path / "a.csv")) is None
    assert find_damage(PARQUET, at(tmp_path / "a.parquet")) is None
