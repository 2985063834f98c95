"""`touch`: the merged rows of some keys of a store at a snapshot, for which little else of the store is read."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.cache import Cache
from platform_plugin.engine.arrow.group_keys import encode_rows, is_grouped
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.files.page_search import search_pages
from platform_plugin.lake.read.read import read_file, read_rows
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.state.hot import HotCopies
from platform_plugin.state.store import ADDRESS
from platform_plugin.state.stored_file import read_place

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.read.scan import FileScan, TableScan
    from platform_plugin.state.store import Store

    Integers = NDArray[np.int64]

# Files of fewer bytes are sorted in memory; a copy on disk would cost more than it saves.
_SMALL_BYTES = 256 << 10
_SORTED: Cache[tuple[Any, ...], pa.Table] = Cache("sorted files of stores", weigh=lambda rows: rows.nbytes)


def touch(work: Workspace, store: Store, keys: pa.Table, at: Snapshot) -> pa.Table:
    """One row for each group of a store that has one of the keys, which may come in any order and more than once.

    NULL is a key like others. `RefusedByEngine` where merging is left to Spark.
    """
    return store.merge_rows([touch_rows(work, store, keys, work.lake.scan(store.table, at))])


def touch_rows(work: Workspace, store: Store, keys: pa.Table, scan: TableScan) -> pa.Table:
    """The rows of a scan that have one of the keys, not merged yet."""
    names = [field.name for field in store.fields]
    wanted = _fit_keys(keys, store)
    if store.address is None or scan.inlined or not all(file.is_whole for file in scan.files):
        return _having(read_rows(work.lake, scan, columns=names), wanted)
    asked = np.unique(store.addresses_of(wanted))
    reader = _AddressReader(work, store, scan)
    parts = [part for file in scan.files if (part := reader.rows_at(file, asked)) is not None]
    empty = pa.Table.from_batches([], schema=arrow_schema(store.fields))
    return _having(pa.concat_tables([empty, *(part.select(names) for part in parts)]), wanted)


class _AddressReader:
    """Reads rows of a scan's files by address."""

    def __init__(self, work: Workspace, store: Store, scan: TableScan) -> None:
        self._work, self._store, self._scan = work, store, scan
        self._hot = hot_copies(work)
        self._likeness = likeness(store)

    def rows_at(self, file: FileScan, asked: Integers) -> pa.Table | None:
        """The rows of a file at these addresses, which ascend; None if there are none."""
        place = read_place(file.path)
        if place is not None and place.prefix:
            asked = asked[slice(*np.searchsorted(asked, place.addresses))]
        if not len(asked):
            return None
        rows = self._find_sorted(file)
        if rows is None:
            return self._read_at(file, asked)
        positions = _positions(rows.column(ADDRESS).chunk(0).to_numpy(), asked) if rows.num_rows else np.empty(0, dtype=np.int64)
        return rows.take(pa.array(positions)) if len(positions) else None

    def _find_sorted(self, file: FileScan) -> pa.Table | None:
        """All rows of a file with their addresses and sorted by these: from memory, or a copy on disk. None if there can be no copy."""
        if file.size_bytes < _SMALL_BYTES:
            key = (self._work.lake.uuid, file.path, self._likeness)
            return _SORTED.find(key, lambda: self._read_sorted(file))
        if not self._hot.is_on:
            return None
        name = copy_name(file.path)
        found = self._hot.find(name, self._likeness)
        return found if found is not None else self._hot.put(name, self._likeness, self._read_sorted(file))

    def _read_sorted(self, file: FileScan) -> pa.Table:
        rows, _ = read_file(self._work.lake, self._store.table, file, self._scan.snapshot)
        return self._store.arrange(rows).combine_chunks()

    def _read_at(self, file: FileScan, asked: Integers) -> pa.Table:
        """Rows at these addresses, read from the file itself: by pages if it has addresses, otherwise all of it."""
        work, store, snapshot = self._work, self._store, self._scan.snapshot
        field = store.table.field(ADDRESS)
        if field is not None:
            places = search_pages(work.lake, file, snapshot, field, asked)
            return read_file(work.lake, store.table, file, snapshot, fields=store.fields, positions=places)[0]
        rows, _ = read_file(work.lake, store.table, file, snapshot, fields=store.fields)
        addresses = store.addresses_of(rows)
        at = np.minimum(np.searchsorted(asked, addresses), len(asked) - 1)
        return rows.filter(pa.array(asked[at] == addresses))


def hot_copies(work: Workspace) -> HotCopies:
    """The hot copies of a workspace's lake."""
    return HotCopies(work.lake.uuid, budget=work.limits.hot_bytes)


def copy_name(path: str) -> str:
    """The name of the copy of a stored file."""
    return posixpath.basename(path).removesuffix(".parquet")


def likeness(store: Store) -> str:
    """What a copy depends on beside its file: columns, keys, order."""
    return f"{arrow_schema(store.table.fields)} {store.address} {store.order}"


def _positions(addresses: Integers, asked: Integers) -> Integers:
    """The positions of these addresses among others; both ascend."""
    first = np.searchsorted(addresses, asked)
    inside = first < len(addresses)
    first, asked = first[inside], asked[inside]
    hit = addresses[first] == asked
    first, asked = first[hit], asked[hit]
    sizes = np.searchsorted(addresses, asked, side="right") - first
    found: Integers = np.repeat(first - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()), dtype=np.int64)
    return found


def _fit_keys(keys: pa.Table, store: Store) -> pa.Table:
    """The keys with the types of the store's columns; those that no value of these types is equal to are left out."""
    schema = arrow_schema(store.fields)
    missing = [name for name in store.keys if name not in keys.column_names]
    if missing:
        raise InvalidValue(f'column "{missing[0]}" is not among the keys', hint=f"rows are found by {', '.join(store.keys)}")
    found = keys.select(list(store.keys))
    for place, name in enumerate(store.keys):
        kind = schema.field(name).type
        if found.column(place).type != kind:
            values, fits = _fit_values(found.column(place).combine_chunks(), kind, name)
            found = found.set_column(place, name, values)
            found = found if fits is None else found.filter(fits)
    return found


def _fit_values(values: pa.Array, kind: pa.DataType, name: str) -> tuple[pa.Array, pa.Array | None]:
    """Values as those of a type, and which of them are equal to one; None for all of them."""
    try:
        return values.cast(kind), None
    except pa.ArrowInvalid:
        pass  # some are none
    except pa.ArrowException as error:
        hint = "give keys of the column's type"
        raise InvalidValue(f'column "{name}" is {kind}, and its keys are {values.type}', hint=hint) from error
    fitted = []
    for value in values:
        try:
            fitted.append(value.cast(kind).as_py())
        except pa.ArrowInvalid:
            fitted.append(None)
    fits = [is_there is not None or value is None for is_there, value in zip(fitted, values.to_pylist(), strict=True)]
    return pa.array(fitted, kind), pa.array(fits)


def _having(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """The rows that have one of the keys; rows of one address may have other keys."""
    if not rows.num_rows or not keys.num_rows:
        return rows.slice(0, 0)
    names = keys.column_names
    if len(names) == 1 and is_grouped(keys.column(0).type):
        return rows.filter(pc.is_in(rows.column(names[0]), value_set=keys.column(0).combine_chunks()))
    together = [_comparable(pa.concat_arrays([keys.column(name).combine_chunks(), rows.column(name).combine_chunks()])) for name in names]
    codes = encode_rows(together, keys.num_rows + rows.num_rows)
    return rows.filter(pa.array(np.isin(codes[keys.num_rows :], codes[: keys.num_rows])))


def _comparable(values: pa.Array) -> pa.Array:
    """Values that Arrow finds equal exactly where they are."""
    if pa.types.is_floating(values.type):
        wide = pc.add(values.cast(pa.float64()), 0.0)
        return pc.if_else(pc.is_nan(wide), float("nan"), wide)
    return values.cast(pa.string()) if isinstance(values.type, pa.BaseExtensionType) else values
