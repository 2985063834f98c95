"""`ReservoirReader`: the reservoirs of tasks as files, of which the merge reads only as many of the lowest keys as it needs.

A file has eight bytes for the key and eight for the place of each row, stratum by stratum, in each the lowest keys first. It is temporary:
the client removes it with its folder when the job is over, and a vacuum what a killed client leaves.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Self
from uuid import uuid4

import numpy as np

from platform_plugin.relations.samples.keys.lowest import LowestRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from platform_plugin.lake.files.storage import Storage
    from platform_plugin.relations.samples.definition import Key

    Integers = NDArray[np.int64]

_ENTRY_SIZE = 16
# A vacuum knows files that end so.
_SUFFIX = ".tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class StratumShare:
    """The rows of a stratum in a task's reservoir: how many rows they stand for, up to which key, and how many they are."""

    cardinality: int
    bound: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservoirShare:
    """The reservoir of a task: the figures of its strata, and its rows: `entries`, if they are few, or a file."""

    strata: Mapping[Key, StratumShare]
    entries: Integers
    path: str | None = None


def pack_reservoir(storage: Storage, folder: str, found: Mapping[Key, LowestRows], *, inline_rows: int) -> tuple[ReservoirShare, int]:
    """A task's reservoir as it is sent: with its rows if they are at most so many, or else with a file of them; the bytes written."""
    entries = [np.empty((0, 2), dtype=np.int64)]
    for held in found.values():
        order = np.argsort(held.keys)
        entries.append(np.stack([held.keys[order], held.places[order]], axis=1))
    rows = np.concatenate(entries)
    strata = {key: StratumShare(cardinality=held.cardinality, bound=held.bound, count=len(held.keys)) for key, held in found.items()}
    if len(rows) <= inline_rows:
        return ReservoirShare(strata=strata, entries=rows), 0
    path = f"{folder}{uuid4().hex}{_SUFFIX}"
    with storage.open(path, "wb") as file:
        file.write(rows.tobytes())
    return ReservoirShare(strata=strata, entries=entries[0], path=path), rows.nbytes


class ReservoirReader:
    """Reads the reservoirs of several tasks from the lowest keys on; use it as a context manager."""

    def __init__(self, storage: Storage, shares: Sequence[ReservoirShare]) -> None:
        self._storage, self._shares = storage, shares
        self._stack = ExitStack()
        self._files: dict[int, BinaryIO] = {}
        self._starts: list[dict[Key, int]] = []
        for share in shares:
            counts = np.array([0, *(stratum.count for stratum in share.strata.values())], dtype=np.int64)
            self._starts.append(dict(zip(share.strata, np.cumsum(counts).tolist(), strict=False)))
        self.rows_read = 0
        """How many rows of reservoirs were read."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def read_lowest(self, key: Key, size: int) -> LowestRows:
        """The lowest `size` rows of a stratum in all reservoirs together, or all up to the key from which on some of them miss rows."""
        owners = [number for number, share in enumerate(self._shares) if key in share.strata]
        strata = [self._shares[number].strata[key] for number in owners]
        total, bound = sum(stratum.cardinality for stratum in strata), min(stratum.bound for stratum in strata)
        read = [np.empty((0, 2), dtype=np.int64) for _ in owners]
        limit = bound
        while True:
            open_ones = [
                place for place, rows in enumerate(read) if len(rows) < strata[place].count and not (len(rows) and rows[-1, 0] >= limit)
            ]
            if not open_ones:
                break
            for place in open_ones:
                first, share = len(read[place]), strata[place]
                # As many as are expected of the lowest, which mostly is enough.
                count = min(share.count - first, _expected_rows(size * share.cardinality // max(1, total)))
                read[place] = np.concatenate([read[place], self._read(owners[place], key, first, count)])
            keys = np.concatenate([rows[:, 0] for rows in read])
            limit = bound if len(keys) < size else min(bound, int(np.partition(keys, size - 1)[size - 1]))
        rows = np.concatenate(read)
        rows = rows[rows[:, 0] <= limit]
        return LowestRows(cardinality=total, bound=limit, keys=rows[:, 0], places=rows[:, 1]).lowest(size)

    def _read(self, owner: int, key: Key, first: int, count: int) -> Integers:
        share = self._shares[owner]
        start = self._starts[owner][key] + first
        self.rows_read += count
        if share.path is None:
            return share.entries[start : start + count]
        if owner not in self._files:
            self._files[owner] = self._stack.enter_context(self._storage.open(share.path))
        file = self._files[owner]
        file.seek(start * _ENTRY_SIZE)
        return np.frombuffer(file.read(count * _ENTRY_SIZE), dtype=np.int64).reshape(-1, 2)


def _expected_rows(mean: int) -> int:
    """So many rows that a share with this mean seldom has more of the lowest."""
    return mean + 3 * int(mean**0.5) + 8
