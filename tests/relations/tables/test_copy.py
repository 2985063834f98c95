"""What COPY says of files that do not fit, that can't be read, and that it does not get to."""

from __future__ import annotations

import bz2
import gzip

import pytest

from platform_plugin.errors import InvalidValue, PlatformError, StorageError
from platform_plugin.platform import Platform


@pytest.mark.spark
def test_files_that_can_not_be_copied_are_told_apart(tmp_path, spark_server):
    (tmp_path / "head.csv").write_text("id,name\n1,tea\n")
    (tmp_path / "other.csv").write_text("id,colour\n1,red\n")
    (tmp_path / "torn.csv.gz").write_bytes(gzip.compress(b"1,tea\n" * 10_000)[:-20])
    (tmp_path / "text.parquet").write_text("1,tea")
    cases = [
        ("head.csv'", InvalidValue, "do not fit the table", "id,name", "its first line names the columns: add (HEADER)"),
        ("other.csv' (HEADER)", InvalidValue, "do not fit the table", "Header: id, colour", "correct them, or add ignore_errors"),
        ("torn.csv.gz'", StorageError, "can't be read", "Unexpected end of input stream", "check that they are whole"),
        ("text.parquet'", StorageError, "can't be read", "is not a Parquet file", "check that they are whole"),
        ("nix://x/y.csv'", StorageError, "can't be reached", 'No FileSystem for scheme "nix"', "check the address"),
    ]
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE goods (id INT, name STRING)")
        for rest, kind, message, detail, hint in cases:
            with pytest.raises(PlatformError) as caught:
                platform.execute(f"COPY goods FROM '{rest if '://' in rest else f'file://{tmp_path}/{rest}'}")
            assert type(caught.value) is kind, (rest, str(caught.value))
            assert message in caught.value.message
            assert detail in caught.value.detail
            assert hint in caught.value.hint
        assert platform.lake.read("goods").num_rows == 0


@pytest.mark.spark
def test_the_ending_of_a_path_that_is_a_parameter_counts_as_well(tmp_path, spark_server):
    (tmp_path / "goods.tsv.bz2").write_bytes(bz2.compress(b"1\ttea\n2\tcups\n"))
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE goods (id INT, name STRING)")
        platform.execute("COPY goods FROM ?", [f"file://{tmp_path}/goods.tsv.bz2"])
        assert sorted(platform.lake.read("goods").column("name").to_pylist()) == ["cups", "tea"]
