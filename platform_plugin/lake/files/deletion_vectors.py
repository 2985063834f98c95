"""`read_vectors`: the positions in Iceberg's `deletion-vector-v1` blobs, bare or in a Puffin container.

DuckLake writes a single blob bare, and several into a container, each with the snapshot up to which it counts.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    Positions = np.ndarray[Any, np.dtype[np.int64]]

_CONTAINER, _VECTOR = b"PFA1", bytes((0xD1, 0xD3, 0x39, 0x64))
_BLOB_TYPE, _SNAPSHOT = "deletion-vector-v1", "ducklake-snapshot-id"
_WITH_RUNS, _WITHOUT_RUNS = 12347, 12346
_LARGEST_ARRAY, _BITSET_BYTES = 4096, 8192
_WITH_OFFSETS = 4  # fewer containers with runs among them have no table of offsets


class DamagedVector(ValueError):
    """The bytes are no deletion vector."""


def read_vectors(data: bytes) -> tuple[Positions, Positions | None]:
    """All positions in ascending order, and the snapshots that deleted them where the file says so."""
    try:
        blobs = _blobs(data)
        dated = [(snapshot_id, _positions(blob)) for snapshot_id, blob in blobs]
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise DamagedVector(str(error)) from error
    if not dated:
        raise DamagedVector("it has no deletion vector")
    numbers = [snapshot_id for snapshot_id, _ in dated if snapshot_id is not None]
    if not numbers:
        return np.unique(np.concatenate([positions for _, positions in dated])), None
    if len(numbers) < len(dated):
        raise DamagedVector("only some of its deletion vectors name their snapshot")
    # Each blob has the positions of the earlier ones too: a position belongs to the first that has it.
    ordered = sorted(zip(numbers, (positions for _, positions in dated), strict=True), key=lambda pair: pair[0])
    every = np.concatenate([positions for _, positions in ordered])
    snapshots = np.concatenate([np.full(len(positions), number, dtype=np.int64) for number, positions in ordered])
    positions, first = np.unique(every, return_index=True)
    return positions, snapshots[first]


def _blobs(data: bytes) -> list[tuple[int | None, bytes]]:
    """The blobs of a file with the snapshots they name."""
    if data[4:8] == _VECTOR and data[:4] != _CONTAINER:
        return [(None, data)]
    if data[:4] != _CONTAINER or data[-4:] != _CONTAINER:
        raise DamagedVector("it is neither a deletion vector nor a Puffin file")
    size, flags = struct.unpack("<II", data[-12:-4])
    if flags:
        raise DamagedVector("the footer is compressed, which is not supported")
    start = len(data) - 12 - size
    if start < len(_CONTAINER) or data[start - 4 : start] != _CONTAINER:
        raise DamagedVector("its footer is damaged")
    found = []
    for blob in json.loads(data[start : start + size])["blobs"]:
        if blob["type"] != _BLOB_TYPE:
            continue
        offset, length = int(blob["offset"]), int(blob["length"])
        if offset < len(_CONTAINER) or length < 0 or offset + length > start - 4:
            raise DamagedVector("its footer names bytes that are not there")
        snapshot = (blob.get("properties") or {}).get(_SNAPSHOT)
        found.append((None if snapshot is None else int(snapshot), data[offset : offset + length]))
    return found


def _positions(blob: bytes) -> Positions:
    """The positions of one blob: its length, the magic bytes, bitmaps by the upper half of the positions, a checksum."""
    (length,) = struct.unpack(">I", blob[:4])
    if length + 8 != len(blob) or blob[4:8] != _VECTOR:
        raise DamagedVector("a deletion vector has the wrong length")
    (checksum,) = struct.unpack(">I", blob[-4:])
    if zlib.crc32(blob[4:-4]) != checksum:
        raise DamagedVector("the checksum of a deletion vector is wrong")
    body = memoryview(blob)[8:-4]
    (count,) = struct.unpack_from("<q", body, 0)
    place, parts = 8, [np.array([], dtype=np.int64)]
    for _ in range(count):
        (high,) = struct.unpack_from("<I", body, place)
        place += 4
        for part, end in _containers(body, place):
            parts.append((high << 32) + part)
            place = end
    if place != len(body):
        raise DamagedVector("a deletion vector has bytes too many")
    return np.concatenate(parts)


def _containers(body: memoryview, place: int) -> Iterator[tuple[Positions, int]]:
    """The values of each container of a 32-bit Roaring bitmap, and where its bytes end."""
    (cookie,) = struct.unpack_from("<I", body, place)
    place += 4
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        size = (count + 7) // 8
        runs = np.unpackbits(np.frombuffer(body, np.uint8, size, place), bitorder="little")[:count].astype(bool)
        place += size
    elif cookie == _WITHOUT_RUNS:
        (count,) = struct.unpack_from("<I", body, place)
        place += 4
        runs = np.zeros(min(count, 1 << 16), dtype=bool)
    else:
        raise DamagedVector("a bitmap of a deletion vector is damaged")
    heads = np.frombuffer(body, "<u2", 2 * count, place).reshape(-1, 2).astype(np.int64)
    place += 4 * count
    if cookie == _WITHOUT_RUNS or count >= _WITH_OFFSETS:
        place += 4 * count
    if not count:
        yield np.array([], dtype=np.int64), place
    for index, (key, fewer) in enumerate(heads.tolist()):
        values, place = _values(body, place, fewer + 1, is_runs=bool(runs[index]))
        yield (key << 16) + values, place


def _values(body: memoryview, place: int, cardinality: int, *, is_runs: bool) -> tuple[Positions, int]:
    """The values of one container, and where it ends: runs, a sorted array, or a bit for each value."""
    if is_runs:
        (count,) = struct.unpack_from("<H", body, place)
        runs = np.frombuffer(body, "<u2", 2 * count, place + 2).reshape(-1, 2).astype(np.int64)
        values = np.concatenate([np.arange(start, start + more + 1) for start, more in runs.tolist()] or [np.array([], dtype=np.int64)])
        end = place + 2 + 4 * count
    elif cardinality <= _LARGEST_ARRAY:
        values = np.frombuffer(body, "<u2", cardinality, place).astype(np.int64)
        end = place + 2 * cardinality
    else:
        bits = np.unpackbits(np.frombuffer(body, np.uint8, _BITSET_BYTES, place), bitorder="little")
        values = np.flatnonzero(bits).astype(np.int64)
        end = place + _BITSET_BYTES
    if len(values) != cardinality:
        raise DamagedVector("a deletion vector deletes another number of rows than it says")
    return values, end
