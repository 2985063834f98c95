"""`StoredFile`: a file of a store, with what its name says: how often its rows were rewritten, and which addresses it holds.

A name ends in what compaction must know of a file: `-delta` for rows as they were added, `-run1-…` or `-run2-…` for rows that were merged
once or twice since, with the credits that they have left, `-base` for the rows that additions are merged into. The bits behind `-p` are the
highest bits of all addresses in the file. Names travel with files, so that neither a catalogue table nor footers have to be read. A file of
another client, or of an older version, has no such ending.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.lake.values.addresses import ADDRESS_BITS

if TYPE_CHECKING:
    from platform_plugin.lake.read.scan import FileScan, ListedFile

CREDITS = 4
"""So many rows are written by compaction, at most, for each row that is added."""
LAST_RUN = 2
"""Runs are merged to larger ones up to this generation."""
_ENDING = re.compile(r"-(?:delta|run([12])-(\d+)|(base))(?:-p([01]+))?\.parquet$")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlace:
    """Where the rows of a file stand in a store: the generation of their run, with its credits, or the base; and the bits of a part."""

    run: int = 0
    credit: int = 0
    is_base: bool = False
    prefix: str = ""

    @property
    def suffix(self) -> str:
        """The ending of the file's name.

        >>> FilePlace(run=2, credit=700, prefix="011").suffix, FilePlace().suffix, FilePlace(is_base=True).suffix
        ('-run2-700-p011', '-delta', '-base')
        """
        word = "base" if self.is_base else f"run{self.run}-{self.credit}" if self.run else "delta"
        return f"-{word}-p{self.prefix}" if self.prefix else f"-{word}"

    @property
    def addresses(self) -> tuple[int, int]:
        """The addresses from which on and up to which the file may hold rows, the last one excluded."""
        free = ADDRESS_BITS - len(self.prefix)
        first = int(self.prefix or "0", 2) << free
        return first, first + (1 << free)


DELTA = FilePlace()


def read_place(path: str) -> FilePlace | None:
    """What a path says of its file; None for one that no store has named.

    >>> read_place("main/t/0198-base-p10.parquet")
    FilePlace(run=0, credit=0, is_base=True, prefix='10')
    """
    found = _ENDING.search(path)
    if found is None:
        return None
    return FilePlace(run=int(found[1] or 0), credit=int(found[2] or 0), is_base=found[3] is not None, prefix=found[4] or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of a store: its id and size, and its place; a file without a place counts as a delta."""

    id: int
    rows: int
    bytes: int
    place: FilePlace = DELTA
    is_named: bool = True

    @classmethod
    def of(cls, file: FileScan | ListedFile) -> StoredFile:
        """The file of a scan, or of a list of files."""
        place = read_place(file.path)
        return cls(id=file.id, rows=file.record_count, bytes=file.size_bytes, place=place or DELTA, is_named=place is not None)

    @property
    def credit(self) -> int:
        """How many more rows may be written for those of this file."""
        if self.place.is_base:
            return 0
        return self.place.credit if self.place.run else CREDITS * self.rows
