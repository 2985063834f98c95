"""Pieces: the files and catalogue rows of a population with a known size, from which single rows are read by number.

Positions are drawn first and rows read after, so that a sample of stored rows costs the row groups that hold it and no scan.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.lake.read.inlined import read_inlined
from platform_plugin.lake.read.read import read_file
from platform_plugin.lake.read.scan import InlinedTable
from platform_plugin.lake.values.types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import FileScan, TableScan

    Integers = NDArray[np.int64]

_THREADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The rows of one file, or of one table in the catalogue, that belong to a population.

    They are the `count` rows from position `low` on, unless `positions` lists them.
    """

    source: FileScan | InlinedTable
    low: int
    count: int
    first_row_id: int
    positions: Integers | None = None
    row_ids: Integers | None = None

    @property
    def span(self) -> tuple[int, int]:
        """The positions of its file from the first of its rows up to but not including what follows the last."""
        if self.positions is None:
            return self.low, self.low + self.count
        return int(self.positions[0]), int(self.positions[-1]) + 1

    def position_of(self, ordinals: Integers) -> Integers:
        """The positions of the n-th rows of this piece."""
        return ordinals + self.low if self.positions is None else self.positions[ordinals]

    def row_ids_of(self, ordinals: Integers) -> Integers:
        """The row ids of the n-th rows of this piece."""
        if self.row_ids is not None:
            return self.row_ids[ordinals]
        return self.position_of(ordinals) - self.low + self.first_row_id

    def ordinals_of(self, positions: Integers) -> Integers:
        """The numbers within the piece of the rows at these positions of its file."""
        return positions - self.low if self.positions is None else np.searchsorted(self.positions, positions)

    def ordinal_of_row(self, row_id: int) -> int:
        """The number within the piece of the row with a row id."""
        if self.row_ids is not None:
            return int(np.searchsorted(self.row_ids, row_id))
        return int(self.ordinals_of(np.array([row_id - self.first_row_id + self.low]))[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """A population in pieces; its rows are numbered from 0 through all of them."""

    scan: TableScan
    parts: tuple[Piece, ...]

    @property
    def counts(self) -> Integers:
        """The row count of each piece, by which a sample is shared among them."""
        return np.array([piece.count for piece in self.parts], dtype=np.int64)

    @property
    def row_count(self) -> int:
        """The row count of the population."""
        return sum(piece.count for piece in self.parts)

    def row_ids(self, ordinals: Integers) -> Integers:
        """The row ids of the rows with these ascending numbers."""
        ends = np.cumsum(self.counts)
        owners = np.searchsorted(ends, ordinals, side="right")
        found = [self.parts[owner].row_ids_of(ordinals[owners == owner] - (ends[owner - 1] if owner else 0)) for owner in np.unique(owners)]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def fetch(self, lake: Lake, ordinals: Integers, fields: Sequence[Field]) -> pa.Table:
        """The rows with these ascending numbers; only the row groups that hold them are read."""
        ends = np.cumsum(self.counts)
        owners = np.searchsorted(ends, ordinals, side="right")
        wanted = [(self.parts[owner], ordinals[owners == owner] - (ends[owner - 1] if owner else 0)) for owner in np.unique(owners)]

        def read(one: tuple[Piece, Integers]) -> pa.Table:
            return _fetch(lake, self.scan, one[0], one[1], fields)

        if len(wanted) < 2:
            tables = [read(one) for one in wanted]
        else:
            with ThreadPoolExecutor(max_workers=_THREADS) as pool:
                tables = list(pool.map(read, wanted))
        return pa.concat_tables(tables) if tables else pa.Table.from_batches([], schema=arrow_schema(fields))

    def number(self, places: Integers) -> Integers:
        """The numbers of rows from their places among all files of the scan, one file after the other, or from -2 - row id."""
        starts = np.cumsum(self.counts) - self.counts
        found = np.empty(len(places), dtype=np.int64)
        ends = np.cumsum([file.record_count for file in self.scan.files])
        by_file = {piece.source.id: number for number, piece in enumerate(self.parts) if not isinstance(piece.source, InlinedTable)}
        owners = np.where(places < 0, -1, np.searchsorted(ends, places, side="right"))
        for owner in np.unique(owners[owners >= 0]):
            inside, file = owners == owner, self.scan.files[owner]
            number = by_file[file.id]
            found[inside] = starts[number] + self.parts[number].ordinals_of(places[inside] - (ends[owner] - file.record_count))
        firsts = np.array([piece.first_row_id for piece in self.parts], dtype=np.int64)
        order = np.argsort(firsts, kind="stable")
        for index in np.flatnonzero(owners < 0):
            row_id = -2 - int(places[index])
            number = self._holder(order, firsts, row_id)
            found[index] = starts[number] + self.parts[number].ordinal_of_row(row_id)
        return found

    def _holder(self, order: NDArray[np.intp], firsts: Integers, row_id: int) -> int:
        # Row ids of a file follow each other; rows in the catalogue may lie between those of files.
        for number, piece in enumerate(self.parts):
            if piece.row_ids is not None and row_id in piece.row_ids:
                return number
        place = int(np.searchsorted(firsts[order], row_id, side="right")) - 1
        while self.parts[order[place]].row_ids is not None:
            place -= 1
        return int(order[place])


def read_pieces(lake: Lake, scan: TableScan, *, first_row_id: int = 0, next_row_id: int | None = None) -> Pieces:
    """The live rows of a scan, for a stream those in a range of row ids, as pieces; the deletes of files are read."""
    parts = []
    for file in scan.files:
        start = file.row_id_start or 0
        low = max(0, first_row_id - start)
        high = file.record_count if next_row_id is None else min(file.record_count, next_row_id - start)
        if low >= high:
            continue
        if file.is_whole:
            parts.append(Piece(source=file, low=low, count=high - low, first_row_id=start + low))
            continue
        _, kept = read_file(lake, scan.table, file, scan.snapshot, fields=())
        positions = kept.to_numpy(zero_copy_only=False).astype(np.int64)
        positions = positions[(positions >= low) & (positions < high)]
        if len(positions):
            parts.append(Piece(source=file, low=low, count=len(positions), first_row_id=start + low, positions=positions))
    if scan.inlined:
        with lake.reading() as connection:
            for inlined in scan.inlined:
                _, ids, _ = read_inlined(connection, inlined, scan.table, scan.snapshot, fields=())
                row_ids = np.array(ids, dtype=np.int64)
                inside = np.flatnonzero((row_ids >= first_row_id) & (row_ids < (next_row_id if next_row_id is not None else 1 << 62)))
                if len(inside):
                    own = row_ids[inside]
                    parts.append(
                        Piece(
                            source=inlined, low=0, count=len(own), first_row_id=int(own[0]), positions=inside.astype(np.int64), row_ids=own
                        )
                    )
    return Pieces(scan=scan, parts=tuple(parts))


def _fetch(lake: Lake, scan: TableScan, piece: Piece, ordinals: Integers, fields: Sequence[Field]) -> pa.Table:
    positions = piece.position_of(ordinals)
    if isinstance(piece.source, InlinedTable):
        with lake.reading() as connection:
            rows, _, _ = read_inlined(connection, piece.source, scan.table, scan.snapshot, fields=fields)
        return rows.take(pa.array(positions))
    rows, _ = read_file(lake, scan.table, piece.source, scan.snapshot, fields=fields, positions=positions)
    return rows
