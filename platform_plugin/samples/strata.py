"""Strata: which rows belong together, and how a sample of all of them is made of samples of parts, stratum by stratum."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.samples.merge import draw_picks, pick
from platform_plugin.samples.reservoir import draw_positions
from platform_plugin.samples.shares import draw_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from platform_plugin.samples.definition import Key

    Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """The local reservoir of a stratum: how many rows it stands for, and the numbers of those in it.

    Without numbers every number below the cardinality may still be drawn.
    """

    cardinality: int
    numbers: Integers | None = None

    def draw(self, size: int, random: np.random.Generator) -> Integers:
        """A uniform subset of this size."""
        if self.numbers is None:
            return draw_positions(self.cardinality, size, random)
        counts, shares = np.array([len(self.numbers)]), np.array([size])
        return self.numbers[pick(counts, shares, random)]


_NOTHING = Local(cardinality=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What becomes of a sample when a part of the population joins it: rows that stay, numbers of rows that come, and the new counts."""

    kept: Integers
    numbers: Integers
    cardinalities: Mapping[Key, int]


def keys_of(rows: pa.Table | pa.RecordBatch, strata: Sequence[str]) -> tuple[Integers, list[Key]]:
    """For each row the number of its stratum, and the strata by number."""
    if not strata:
        return np.zeros(rows.num_rows, dtype=np.int64), [()] if rows.num_rows else []
    codes = np.zeros(rows.num_rows, dtype=np.int64)
    names: list[list[str | None]] = []
    for column in strata:
        values = rows.column(column)
        chunk = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        encoded = pc.dictionary_encode(chunk, null_encoding="encode")
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        names.append(pc.cast(encoded.dictionary, pa.string()).to_pylist())
        codes = codes * max(1, len(names[-1])) + encoded.indices.to_numpy(zero_copy_only=False)
    found, numbers = np.unique(codes, return_inverse=True)
    keys = []
    for code in found.tolist():
        rest, key = code, []
        for values in reversed(names):
            rest, place = divmod(rest, len(values))
            key.append(values[place])
        keys.append(tuple(reversed(key)))
    return numbers, keys


def group(rows: pa.Table | pa.RecordBatch, strata: Sequence[str]) -> dict[Key, Integers]:
    """The places of each stratum's rows."""
    if not strata:
        return {(): np.arange(rows.num_rows, dtype=np.int64)} if rows.num_rows else {}
    numbers, keys = keys_of(rows, strata)
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=len(keys)))
    return {key: order[(ends[place - 1] if place else 0) : ends[place]] for place, key in enumerate(keys)}


def merge_locals(parts: Iterable[tuple[Key, Local]], size: int, random: np.random.Generator) -> dict[Key, Local]:
    """One reservoir a stratum of those that tasks have made, each with the numbers it drew."""
    by_key: defaultdict[Key, list[Local]] = defaultdict(list)
    for key, part in parts:
        by_key[key].append(part)
    merged = {}
    for key in sorted(by_key, key=sortable):
        locals_ = by_key[key]
        numbers = [part.numbers for part in locals_ if part.numbers is not None]
        cardinalities = [part.cardinality for part in locals_]
        picks = draw_picks([len(part) for part in numbers], cardinalities, size, random)
        merged[key] = Local(cardinality=sum(cardinalities), numbers=np.concatenate(numbers)[picks])
    return merged


def take_up(
    held: Mapping[Key, Integers],
    cardinalities: Mapping[Key, int],
    joining: Mapping[Key, Local],
    cap: Callable[[int], int],
    random: np.random.Generator,
) -> Taken:
    """Let a part of the population join a sample: each stratum is a reservoir of its own, merged with the part's.

    `held` are the places of the sample's rows, by stratum.
    """
    counts = {key: cardinalities.get(key, 0) + (joining[key].cardinality if key in joining else 0) for key in {**cardinalities, **joining}}
    size = cap(len(counts))
    kept, numbers = [], []
    for key in sorted(counts, key=sortable):
        old, new = held.get(key, np.empty(0, dtype=np.int64)), joining.get(key)
        if new is None and len(old) <= size:
            kept.append(old)
            continue
        shares = draw_shares([cardinalities.get(key, 0), new.cardinality if new is not None else 0], size, random)
        kept.append(old[pick(np.array([len(old)]), shares[:1], random)])
        if new is not None:
            numbers.append(new.draw(int(shares[1]), random))
    return Taken(kept=_joined(kept), numbers=np.sort(_joined(numbers)), cardinalities=counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What is drawn of each of several parts: numbers of its rows, or only how many where its reservoir holds too few of them."""

    numbers: tuple[Integers, ...]
    shares: tuple[int, ...]
    cardinalities: Mapping[Key, int]


def choose(parts: Sequence[Mapping[Key, Local]], cap: Callable[[int], int], random: np.random.Generator) -> Chosen:
    """A sample of all parts together, stratum by stratum."""
    counts: dict[Key, int] = {}
    for part in parts:
        for key, local in part.items():
            counts[key] = counts.get(key, 0) + local.cardinality
    size = cap(len(counts))
    numbers: list[list[Integers]] = [[] for _ in parts]
    shares = np.zeros(len(parts), dtype=np.int64)
    for key in sorted(counts, key=sortable):
        own = [part.get(key, _NOTHING) for part in parts]
        drawn = draw_shares([local.cardinality for local in own], size, random)
        shares += drawn
        for place, (local, share) in enumerate(zip(own, drawn.tolist(), strict=True)):
            if share and (local.numbers is None or len(local.numbers) >= share):
                numbers[place].append(local.draw(share, random))
    return Chosen(numbers=tuple(_joined(own) for own in numbers), shares=tuple(shares.tolist()), cardinalities=counts)


def sortable(key: Key) -> tuple[tuple[bool, str], ...]:
    """An order of strata, so that the same draws are made for the same of them."""
    return tuple((value is None, value or "") for value in key)


def _joined(parts: Sequence[Integers]) -> Integers:
    return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, dtype=np.int64)
