"""Deletion vectors, which DuckDB writes when told to: reads, feeds, merges and vacuum know them, and damage is told as what it is."""

import datetime as dt
import json
import struct
import zlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.errors import StorageError
from platform_plugin.lake.files.deletion_vectors import DamagedVector, read_vectors
from tests.lake.agreement import assert_agree, assert_changes_agree, delete_positions, kept

NO_GRACE = dt.timedelta(0)


def container_of(values, kind):
    if kind == "run":
        edges = np.flatnonzero(np.diff(values) > 1)
        starts, ends = np.r_[values[0], values[edges + 1]], np.r_[values[edges], values[-1]]
        return struct.pack("<H", len(starts)) + np.column_stack([starts, ends - starts]).astype("<u2").tobytes()
    if len(values) <= 4096:
        return values.astype("<u2").tobytes()
    bits = np.zeros(1 << 16, dtype=np.uint8)
    bits[values] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def bitmap_of(positions, *, runs):
    """A Roaring bitmap in its portable form, written down from its specification."""
    keys = np.unique(positions >> 16)
    parts = [(int(key), positions[positions >> 16 == key] & 0xFFFF) for key in keys]
    bodies = [container_of(values, "run" if runs else "plain") for _, values in parts]
    heads = b"".join(struct.pack("<HH", key, len(values) - 1) for key, values in parts)
    if runs:
        flags = np.packbits(np.ones(len(parts), dtype=np.uint8), bitorder="little").tobytes()
        start = struct.pack("<I", 12347 | (len(parts) - 1) << 16) + flags + heads
    else:
        start = struct.pack("<II", 12346, len(parts)) + heads
    if runs and len(parts) < 4:
        return start + b"".join(bodies)
    offsets = np.cumsum([len(start) + 4 * len(parts), *map(len, bodies)])[:-1]
    return start + offsets.astype("<u4").tobytes() + b"".join(bodies)


def vector_of(positions, *, runs=False):
    values = np.array(sorted(positions), dtype=np.int64)
    halves = [(int(high), values[values >> 32 == high] & 0xFFFFFFFF) for high in np.unique(values >> 32)]
    body = b"\xd1\xd3\x39\x64" + struct.pack("<q", len(halves))
    body += b"".join(struct.pack("<I", high) + bitmap_of(part, runs=runs) for high, part in halves)
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def puffin_of(vectors):
    """A Puffin file of deletion vectors by the snapshots up to which they count."""
    data, blobs = b"PFA1", []
    for snapshot_id, vector in vectors:
        properties = {"referenced-data-file": "x"} | ({} if snapshot_id is None else {"ducklake-snapshot-id": str(snapshot_id)})
        blobs.append({"type": "deletion-vector-v1", "offset": len(data), "length": len(vector), "properties": properties})
        data += vector
    payload = json.dumps({"blobs": blobs}).encode()
    return data + b"PFA1" + payload + struct.pack("<II", len(payload), 0) + b"PFA1"


POSITIONS = st.sets(st.integers(0, 300_000) | st.integers((1 << 32) - 5, (1 << 32) + 70_000), min_size=1, max_size=50)


@given(POSITIONS, st.integers(0, 5000), st.booleans())
def test_every_form_of_a_vector_is_read(positions, dense, runs):
    positions = positions | set(range(65_000, 65_000 + dense))
    found, at = read_vectors(vector_of(positions, runs=runs))
    assert (found.tolist(), at) == (sorted(positions), None)


def test_vectors_of_several_snapshots_are_told_apart():
    data = puffin_of([(7, vector_of({1, 2, 5})), (4, vector_of({2}))])
    positions, at = read_vectors(data)
    assert (positions.tolist(), at.tolist()) == ([1, 2, 5], [7, 4, 7])
    positions, at = read_vectors(puffin_of([(None, vector_of({3})), (None, vector_of({1}))]))
    assert (positions.tolist(), at) == ([1, 3], None)


@given(st.data())
def test_damage_never_reads_as_positions(data):
    whole = puffin_of([(1, vector_of({3, 99_000}))]) if data.draw(st.booleans()) else vector_of({3, 99_000})
    end = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(DamagedVector):
        read_vectors(whole[:end])
    bare = bytearray(vector_of({3, 99_000}, runs=data.draw(st.booleans())))
    bare[data.draw(st.integers(0, len(bare) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(DamagedVector):
        read_vectors(bytes(bare))


def make_vectors(reader):
    reader.execute("CALL lake.set_option('write_deletion_vectors', true)")
    reader.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    reader.execute("CREATE TABLE t AS SELECT range AS i, range::VARCHAR AS s FROM range(20000)")
    reader.execute("DELETE FROM t WHERE i % 2 = 0")
    reader.execute("DELETE FROM t WHERE i < 100")
    reader.execute("UPDATE t SET s = 'changed' WHERE i = 101")


def agree_everywhere(lake, reader):
    snapshots = kept(lake)
    assert_agree(lake, reader, snapshots=snapshots)
    begin = lake.table("t").begin_snapshot
    for before, after in pairwise(snapshots):
        if before.id >= begin:
            assert_changes_agree(lake, reader, "t", after=before, until=after)


def vectors_in(lake):
    return {path for path, _ in lake.storage.listing() if path.endswith(".puffin")}


def test_vectors_that_duckdb_writes_are_read_in_every_snapshot(lake, reader):
    make_vectors(reader)
    assert len(vectors_in(lake)) == 3
    agree_everywhere(lake, reader)


def test_deletes_merges_and_vacuum_know_vectors(lake, reader):
    make_vectors(reader)
    table = lake.table("t")
    big = lake.scan(table, lake.snapshot()).files[0]
    delete_positions(lake, table, {big.id: [103, 105]})
    agree_everywhere(lake, reader)
    lake.merge("t")
    agree_everywhere(lake, reader)
    lake.vacuum(grace=NO_GRACE)
    assert_agree(lake, reader)
    lake.expire(dt.datetime.now(dt.UTC))
    lake.vacuum(grace=NO_GRACE)
    assert vectors_in(lake) == set()
    assert_agree(lake, reader)


def test_a_vector_that_no_commit_named_is_a_left_over(lake, reader):
    make_vectors(reader)
    with lake.storage.open("main/t/left-delete.puffin", "wb") as file:
        file.write(vector_of({1}))
    assert lake.vacuum(grace=NO_GRACE).orphans == 1
    assert len(vectors_in(lake)) == 1
    agree_everywhere(lake, reader)


def test_a_damaged_vector_is_told_as_what_it_is(lake, reader):
    make_vectors(reader)
    scan = lake.scan(lake.table("t"), lake.snapshot())
    path = next(file.deletes.path for file in scan.files if file.deletes is not None)
    with lake.storage.open(path, "wb") as file:
        file.write(b"PAR1 is no deletion vector")
    with pytest.raises(StorageError, match="deletion vector"):
        lake.read("t")
