"""Names of stored files: what a store writes it reads back, and other names say nothing."""

import pytest

from platform_plugin.lake.read.scan import FileScan
from platform_plugin.lake.values.addresses import ADDRESS_BITS
from platform_plugin.state.stored_file import DELTA, FilePlace, StoredFile, read_place

UUID = "0198f1c2-aaaa-7bbb-8ccc-0123456789ab"


@pytest.mark.parametrize(
    "place",
    [
        DELTA,
        FilePlace(run=1, credit=7),
        FilePlace(run=2, credit=12, prefix="01"),
        FilePlace(is_base=True),
        FilePlace(is_base=True, prefix="1"),
    ],
)
def test_a_name_says_where_its_rows_stand(place):
    assert read_place(f"main/t/{UUID}{place.suffix}.parquet") == place


@pytest.mark.parametrize(
    "name", [UUID, f"{UUID}-delete", f"{UUID}-run3-5", f"{UUID}-run1", f"{UUID}-base-p12", f"{UUID}-delta-", "delta", "database"]
)
def test_other_names_say_nothing(name):
    assert read_place(f"main/t/{name}.parquet") is None


def test_a_prefix_is_a_range_of_addresses():
    whole = 1 << ADDRESS_BITS
    assert FilePlace().addresses == (0, whole)
    assert FilePlace(prefix="0").addresses == (0, whole // 2)
    assert FilePlace(prefix="11").addresses == (whole // 4 * 3, whole)


def test_a_file_of_a_scan_without_a_name_of_ours_is_a_delta():
    scanned = FileScan(id=3, path=f"t/{UUID}.parquet", record_count=5, size_bytes=70, footer_bytes=9, row_id_start=0, begin_snapshot=1)
    assert StoredFile.of(scanned) == StoredFile(id=3, rows=5, bytes=70, is_named=False)
    named = scanned._replace(path=f"t/{UUID}-base-p1.parquet")
    assert StoredFile.of(named).place == FilePlace(is_base=True, prefix="1")
