"""`read_pages` and `take_rows`: single rows of a Parquet file, read by page instead of by row group.

A row group has a million rows, a page a few thousand, and Arrow reads nothing smaller than a row group. So the pages that hold the rows are
copied as they are, compressed and with their checksums, into a file in memory with a footer that names only these pages.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from platform_plugin.cache import Cache
from platform_plugin.lake.files.thrift import I64, LIST, STRUCT, Struct, read_struct, write_struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

_MAGIC = b"PAR1"
# Beyond this share of the pages it takes about as long to read all of them.
_WORTH_IT = 0.75
_FEW_RUNS = 4
_BATCH_ROWS = 16_384
# A text of which a chunk has so few bytes for each value is in a dictionary.
_CODED_BYTES = 4
# The fields of Parquet's own structs that are needed here (parquet.thrift).
_ROW_GROUPS, _NUM_ROWS = 4, 3
_COLUMNS, _TOTAL_BYTES, _GROUP_ROWS = 1, 2, 3
_FILE_OFFSET, _META, _OFFSET_INDEX, _OFFSET_INDEX_LENGTH, _COLUMN_INDEX, _COLUMN_INDEX_LENGTH = 2, 3, 4, 5, 6, 7
_LOWS, _HIGHS = 2, 3
_VALUES, _PLAIN_BYTES, _BYTES, _DATA_PAGE, _DICTIONARY_PAGE, _ENCODING_STATISTICS = 5, 6, 7, 9, 11, 13
_OF_PAGES, _ENCODING, _PLAIN = 1, 2, 0
# The kinds of data pages, the field of a page's head that is about such a page, and in it that of its encoding.
_DATA_PAGES = {0: (5, 2), 3: (8, 4)}
_HEAD_BYTES = 512
# Bounds, bloom filters and indexes are of all pages of a chunk and not of those that are left.
_STALE = (10, 12, 13, 14, 15, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """A file's footer and the places of its pages: by row group and column their offsets, sizes and first rows."""

    struct: Struct
    row_counts: tuple[int, ...]
    pages: dict[tuple[int, int], tuple[Integers, Integers, Integers]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageBounds:
    """The first rows of the pages of a column of whole numbers, and the least and greatest number in each."""

    starts: Integers
    lows: Integers
    highs: Integers


def read_page_bounds(file: BinaryIO, parquet: pq.ParquetFile, key: tuple[str, int], column: int) -> PageBounds | None:
    """The bounds of the pages of a column of 64 bits; None where the file does not have them, as with pages of NULL alone."""
    return _BOUNDS.find((*key, column), lambda: _read_page_bounds(file, parquet, key, column))


def _read_page_bounds(file: BinaryIO, parquet: pq.ParquetFile, key: tuple[str, int], column: int) -> PageBounds | None:
    footer = _FOOTERS.find(key, lambda: _read_footer(file, parquet))
    groups = range(len(footer.row_counts))
    firsts = _firsts(file, footer, groups, column)
    starts, lows, highs, begin = [], [], [], 0
    for group in groups:
        chunk = _chunk(footer, group, column)
        if len(firsts) <= group or _COLUMN_INDEX not in chunk:
            return None
        file.seek(chunk[_COLUMN_INDEX][1])
        index, _ = read_struct(file.read(chunk[_COLUMN_INDEX_LENGTH][1]))
        ends = [b"".join(index[field][1][1]) for field in (_LOWS, _HIGHS)]
        if any(len(end) != 8 * len(firsts[group]) for end in ends):
            return None
        starts.append(firsts[group] + begin)
        lows.append(np.frombuffer(ends[0], dtype="<i8"))
        highs.append(np.frombuffer(ends[1], dtype="<i8"))
        begin += footer.row_counts[group]
    if not starts:
        return None
    return PageBounds(starts=np.concatenate(starts), lows=np.concatenate(lows), highs=np.concatenate(highs))


def read_pages(file: BinaryIO, parquet: pq.ParquetFile, key: tuple[str, int], names: Sequence[str], positions: Integers) -> pa.Table | None:
    """The rows at ascending positions of a file, read by page; None where pages can't be read alone or it would not pay."""
    leaves: dict[str, list[int]] = {name: [] for name in names}
    for index in range(parquet.metadata.num_columns):
        column = parquet.schema.column(index)
        own = leaves.get(column.path.split(".")[0])
        if own is not None:
            if column.max_repetition_level:
                return None
            own.append(index)
    if not names or any("." in name for name in names):
        return None
    footer = _FOOTERS.find(key, lambda: _read_footer(file, parquet))
    owners = np.searchsorted(np.cumsum(footer.row_counts), positions, side="right")
    groups = np.unique(owners).tolist()
    # Mostly the pages of all columns begin at the same rows; those where they do are read together.
    alike: dict[tuple[bytes, ...], list[str]] = {}
    for name, columns in leaves.items():
        shapes = {tuple(firsts.tobytes() for firsts in _firsts(file, footer, groups, column)) for column in columns}
        if len(shapes) != 1 or not (shape := shapes.pop()):
            return None
        alike.setdefault(shape, []).append(name)
    if not _is_worth_it(footer, leaves[names[0]][0], groups, positions):
        return None
    found: dict[str, tuple[pa.ChunkedArray, pa.Field]] = {}
    for together in alike.values():
        columns = [index for name in together for index in leaves[name]]
        coded = [name for name in _coded_texts(parquet, leaves, groups[0]) if name in together]
        rows = _read_alike(file, footer, _Columns(indexes=sorted(columns), names=together, coded=coded), positions)
        found.update(zip(rows.column_names, zip(rows.columns, rows.schema, strict=True), strict=True))
    return pa.Table.from_arrays([found[name][0] for name in names], schema=pa.schema([found[name][1] for name in names]))


def _is_worth_it(footer: Footer, column: int, groups: Sequence[int], positions: Integers) -> bool:
    """Whether the wanted rows are in few enough of the pages."""
    touched = pages = 0
    ends = np.cumsum(footer.row_counts)
    for group in groups:
        start = int(ends[group]) - footer.row_counts[group]
        firsts = footer.pages[group, column][2]
        inside = positions[(positions >= start) & (positions < ends[group])] - start
        touched += len(np.unique(np.searchsorted(firsts, inside, side="right")))
        pages += len(firsts)
    return touched <= max(1, _WORTH_IT * pages)


def take_rows(parquet: pq.ParquetFile, names: Sequence[str], places: Integers, row_groups: Sequence[int] | None = None) -> pa.Table:
    """The rows at ascending places of a file, or of some of its row groups.

    They are read in batches that fit into the processor's cache: a whole row group takes four times as long, nearly all of it to allocate
    memory.
    """
    parts, start = [], 0
    for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=row_groups, columns=list(names)):
        first, last = np.searchsorted(places, (start, start + batch.num_rows))
        if last - first == batch.num_rows:
            parts.append(batch)
        elif last > first:
            parts.append(batch.take(pa.array(places[first:last] - start)))
        start += batch.num_rows
        if last == len(places):
            break
    return pa.Table.from_batches(parts) if parts else parquet.schema_arrow.empty_table().select(list(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """Columns whose pages begin at the same rows: their leaves, their names, and those that are read as dictionary indexes."""

    indexes: Sequence[int]
    names: Sequence[str]
    coded: Sequence[str]


def _read_alike(file: BinaryIO, footer: Footer, columns: _Columns, positions: Integers) -> pa.Table:
    """The rows at these positions, of columns whose pages begin at the same rows."""
    ends = np.cumsum(footer.row_counts)
    owners = np.searchsorted(ends, positions, side="right")
    copied = bytearray(_MAGIC)
    groups, found, start = [], [], 0
    for group in np.unique(owners).tolist():
        firsts = footer.pages[group, columns.indexes[0]][2]
        inside = positions[owners == group] - (ends[group] - footer.row_counts[group])
        own = np.searchsorted(firsts, inside, side="right") - 1
        chosen = np.unique(own)
        lengths = np.diff(np.append(firsts, footer.row_counts[group]))[chosen]
        shifts = start + np.cumsum(lengths) - lengths - firsts[chosen]
        found.append(inside + shifts[np.searchsorted(chosen, own)])
        start += int(lengths.sum())
        groups.append(_copied_group(file, footer, group, columns.indexes, chosen=chosen, row_count=int(lengths.sum()), copied=copied))
    struct: Struct = {**footer.struct, _ROW_GROUPS: (LIST, (STRUCT, groups)), _NUM_ROWS: (I64, start)}
    ending = write_struct(struct)
    copied += ending + len(ending).to_bytes(4, "little") + _MAGIC
    source = pa.BufferReader(pa.py_buffer(copied))
    parquet = pq.ParquetFile(source, read_dictionary=columns.coded, page_checksum_verification=True)
    taken = take_rows(parquet, columns.names, np.concatenate(found))
    return taken.cast(pa.schema([field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in taken.schema]))


def _coded_texts(parquet: pq.ParquetFile, leaves: Mapping[str, Sequence[int]], group: int) -> list[str]:
    """Texts that are written as numbers of a dictionary: it takes longest to write out those that nobody wants."""
    found, schema, row_group = [], parquet.schema_arrow, parquet.metadata.row_group(group)
    for name, columns in leaves.items():
        if schema.field(name).type == pa.string() and len(columns) == 1:
            chunk = row_group.column(columns[0])
            if chunk.total_uncompressed_size < _CODED_BYTES * chunk.num_values:
                found.append(name)
    return found


def _read_footer(file: BinaryIO, parquet: pq.ParquetFile) -> Footer:
    size = parquet.metadata.serialized_size
    file.seek(-size - 8, 2)
    struct, _ = read_struct(file.read(size))
    counts = tuple(group[_GROUP_ROWS][1] for group in struct[_ROW_GROUPS][1][1])
    return Footer(struct=struct, row_counts=counts, pages={})


def _chunk(footer: Footer, group: int, column: int) -> Struct:
    found: Struct = footer.struct[_ROW_GROUPS][1][1][group][_COLUMNS][1][1][column]
    return found


def _firsts(file: BinaryIO, footer: Footer, groups: Sequence[int], column: int) -> list[Integers]:
    """Where the pages of a column begin in each of some row groups; nothing where the file does not say where they lie."""
    found = []
    for group in groups:
        known = footer.pages.get((group, column))
        if known is None:
            chunk = _chunk(footer, group, column)
            if _OFFSET_INDEX not in chunk or _META not in chunk:
                return []
            file.seek(chunk[_OFFSET_INDEX][1])
            try:
                known = footer.pages[group, column] = read_locations(file.read(chunk[_OFFSET_INDEX_LENGTH][1]))
            except (ValueError, IndexError):
                return []  # another writer's, in a form that is not known here
        found.append(known[2])
    return found


def read_locations(data: bytes) -> tuple[Integers, Integers, Integers]:
    """The offsets, sizes and first rows of the pages in an offset index, decoded at once, since there may be ten thousand."""
    tokens = np.frombuffer(data, dtype=np.uint8).astype(np.int64)
    # The head of the list of pages: a field of type list, then its length and the type of its elements.
    head = 2 if tokens[1] >> 4 < 15 else 2 + int(np.argmax(tokens[2:] < 0x80)) + 1
    count = int(tokens[1] >> 4) if head == 2 else sum(int(byte & 0x7F) << 7 * place for place, byte in enumerate(tokens[2:head]))
    tokens = tokens[head:]
    # Each page is three numbers, each after the byte that names its field, and a byte that ends it; all of them end like a varint.
    ends = np.flatnonzero(tokens < 0x80)[: 7 * count]
    starts = np.concatenate([[0], ends[:-1] + 1])
    values = np.zeros(len(ends), dtype=np.int64)
    for place in range(int((ends - starts).max(initial=0)) + 1):
        at = starts + place
        inside = at <= ends
        values[inside] |= (tokens[at[inside]] & 0x7F) << 7 * place
    fields = values.reshape(count, 7)
    if (fields[:, [0, 2, 4, 6]] != (0x16, 0x15, 0x16, 0)).any():
        message = "an offset index with other fields"
        raise ValueError(message)
    offsets, sizes, rows = (fields[:, place] >> 1 for place in (1, 3, 5))
    return offsets, sizes, rows


def _copied_group(
    file: BinaryIO, footer: Footer, group: int, columns: Sequence[int], *, chosen: Integers, row_count: int, copied: bytearray
) -> Struct:
    """A row group of these pages alone, whose bytes are appended to `copied`; columns that nobody wants keep a chunk that is never read."""
    old: Struct = footer.struct[_ROW_GROUPS][1][1][group]
    chunks = list(old[_COLUMNS][1][1])
    for column in columns:
        offsets, sizes, _ = footer.pages[group, column]
        meta: Struct = {number: value for number, value in chunks[column][_META][1].items() if number not in _STALE}
        begin = len(copied)
        dictionary = meta.pop(_DICTIONARY_PAGE, None)
        if dictionary is not None and dictionary[1] < int(offsets[0]) and _is_coded(file, chunks[column], offsets[chosen].tolist()):
            copied += _read_at(file, dictionary[1], int(offsets[0]))
            meta[_DICTIONARY_PAGE] = (I64, begin)
        meta[_DATA_PAGE] = (I64, len(copied))
        # Neighbours are copied together. Of a file elsewhere all between the first and the last is read at once where there are many.
        breaks = np.flatnonzero(np.diff(chosen) > 1)
        begins, ends = offsets[chosen[np.append(0, breaks + 1)]], (offsets + sizes)[chosen[np.append(breaks, len(chosen) - 1)]]
        whole = _read_at(file, int(begins[0]), int(ends[-1])) if len(begins) > _FEW_RUNS and _descriptor(file) is None else None
        for first, last in zip(begins.tolist(), ends.tolist(), strict=True):
            copied += _read_at(file, first, last) if whole is None else whole[first - int(begins[0]) : last - int(begins[0])]
        meta[_VALUES] = (I64, row_count)
        meta[_BYTES] = meta[_PLAIN_BYTES] = (I64, len(copied) - begin)
        chunks[column] = {_FILE_OFFSET: (I64, 0), _META: (STRUCT, meta)}
    return {_COLUMNS: (LIST, (STRUCT, chunks)), _TOTAL_BYTES: old[_TOTAL_BYTES], _GROUP_ROWS: (I64, row_count)}


def _is_coded(file: BinaryIO, chunk: Struct, pages: Sequence[int]) -> bool:
    """Whether some of these pages need the dictionary, which most of a chunk doesn't that has given it up; a megabyte to read otherwise."""
    statistics: Sequence[Struct] = chunk[_META][1].get(_ENCODING_STATISTICS, (LIST, (STRUCT, [])))[1][1]
    kinds = {each[_ENCODING][1] for each in statistics if each[_OF_PAGES][1] in _DATA_PAGES}
    if _PLAIN not in kinds:
        return True
    for page in pages:
        try:
            head, _ = read_struct(_read_at(file, page, page + _HEAD_BYTES))
            field, encoding = _DATA_PAGES[head[_OF_PAGES][1]]
            if head[field][1][encoding][1] != _PLAIN:
                return True
        except (IndexError, KeyError, ValueError):
            return True  # a long head, or a page of another kind
    return False


def _read_at(file: BinaryIO, begin: int, end: int) -> memoryview | bytes:
    descriptor = _descriptor(file)
    if descriptor is not None:
        return os.pread(descriptor, end - begin, begin)
    file.seek(begin)
    return memoryview(file.read(end - begin))


def _descriptor(file: BinaryIO) -> int | None:
    """The number of a file of this machine, of which parts are read without a copy to a buffer in between."""
    try:
        return file.fileno() if hasattr(os, "pread") else None
    except (AttributeError, OSError):
        return None


def _weigh(footer: Footer) -> int:
    # A column of a row group takes some twenty Python objects of the footer; its pages three arrays.
    columns = len(footer.row_counts) * max(1, len(footer.struct))
    return 2_000 * columns + sum(array.nbytes for arrays in footer.pages.values() for array in arrays)


# Files never change.
_FOOTERS: Cache[tuple[str, int], Footer] = Cache("footers of files", weigh=_weigh)
_BOUNDS: Cache[tuple[str, int, int], PageBounds | None] = Cache(
    "bounds of pages", weigh=lambda bounds: 0 if bounds is None else 3 * bounds.starts.nbytes
)
