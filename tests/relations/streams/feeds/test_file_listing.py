"""The listing: which files come next, and that whatever may have changed a file changes its version."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.relations.streams.feeds.file_listing import plan_batch, read_changed, read_listing
from platform_plugin.relations.streams.feeds.sources import READ, REFUSED, KnownFile, SourceFile


def test_files_come_in_the_order_of_their_age_and_hidden_ones_never(tmp_path):
    for place, name in enumerate(["b.csv", "a.csv", "_tmp.csv", ".c.csv"]):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (1000 + place, 1000 + place))
    batch = plan_batch(read_listing(f"{tmp_path}/*.csv"), {}, max_files=10, max_bytes=10)
    assert [file.uri for file in batch.files] == [f"{tmp_path}/b.csv", f"{tmp_path}/a.csv"]


def test_links_are_the_files_that_they_lead_to(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a").write_text("123")
    (tmp_path / "a.csv").symlink_to(tmp_path / "far" / "a")
    (tmp_path / "folder.csv").symlink_to(tmp_path / "far")
    (tmp_path / "broken.csv").symlink_to(tmp_path / "nowhere")
    (listed,) = read_listing(f"{tmp_path}/*.csv")
    assert (listed.uri, listed.size_bytes, read_changed([listed])) == (f"{tmp_path}/a.csv", 3, [])
    (tmp_path / "far" / "a").write_text("1234")
    assert read_changed([listed]) == [listed]


def test_every_way_of_changing_a_file_is_seen(tmp_path):
    path = tmp_path / "a.csv"

    def listed():
        return read_listing(f"{tmp_path}/*.csv")

    path.write_text("1")
    before = listed()
    assert read_changed(before) == []
    path.write_text("12")
    assert read_changed(before) == before, "it grew"
    before = listed()
    os.utime(path, (5, 5))
    assert read_changed(before) == before, "it was touched"
    before = listed()
    (tmp_path / "new").write_text("12")
    os.utime(tmp_path / "new", (5, 5))
    (tmp_path / "new").replace(path)
    assert read_changed(before) == before, "another file took its name"
    before = listed()
    path.unlink()
    assert read_changed(before) == before, "it is gone"


def test_a_file_that_was_refused_comes_again_only_as_another():
    file = SourceFile(uri="a", size_bytes=1, version="2")
    for state, version, expected in [(REFUSED, "2", ()), (REFUSED, "1", (file,)), (READ, "2", ()), (READ, "1", ())]:
        batch = plan_batch([file], {"a": KnownFile(version=version, state=state)}, max_files=9, max_bytes=9)
        assert batch.files == expected
        assert bool(batch.changed) == ((state, version) == (READ, "1"))


def test_a_change_is_told_once():
    known = {"a": KnownFile(version="1", reported_version="2")}
    assert plan_batch([SourceFile(uri="a", size_bytes=1, version="2")], known, max_files=9, max_bytes=9).changed == ()
    assert plan_batch([SourceFile(uri="a", size_bytes=1, version="3")], known, max_files=9, max_bytes=9).changed


def test_young_and_empty_files_wait():
    files = [
        SourceFile(uri=uri, size_bytes=size, version="1", modified=moment)
        for uri, size, moment in [("a", 1, 90.0), ("b", 1, 99.0), ("c", 0, 1.0)]
    ]
    batch = plan_batch(files, {}, max_files=9, max_bytes=9, now=100.0, settle_seconds=5.0)
    assert [[file.uri for file in part] for part in (batch.files, batch.settling, batch.empty)] == [["a"], ["b"], ["c"]]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 5)), max_size=30),
    st.integers(1, 6),
    st.integers(1, 100),
)
def test_batches_hold_every_file_once_within_their_limits(sizes, max_files, max_bytes):
    listing = [SourceFile(uri=f"{place}", size_bytes=size, version="1", modified=float(age)) for place, (size, age) in enumerate(sizes)]
    known: dict[str, KnownFile] = {}
    read: list[SourceFile] = []
    while (batch := plan_batch(listing, known, max_files=max_files, max_bytes=max_bytes)).files:
        assert len(batch.files) <= max_files
        assert len(batch.files) == 1 or sum(file.size_bytes for file in batch.files) <= max_bytes
        assert len(batch.files) + len(batch.waiting) + len(read) == len(listing)
        read += batch.files
        known |= {file.uri: KnownFile(version=file.version) for file in batch.files}
    assert sorted(file.uri for file in read) == sorted(file.uri for file in listing)
    assert [file.modified for file in read] == sorted(file.modified for file in read)
