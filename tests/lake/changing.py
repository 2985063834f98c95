"""Random changes of a table by every writer there is: commits of ours with and without before-images, merges, and DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from platform_plugin.lake.files.files import ROW_ID
from platform_plugin.lake.read.deletes import write_replacing_deletes
from platform_plugin.lake.read.read import find_column, read_file, read_raw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import TableScan
    from tests.independent_reader import Duck


def places_of(lake: Lake, scan: TableScan, ids: Sequence[int]) -> dict[int, list[int]]:
    """The positions of rows by their column `id`, in each file that has some."""
    found = {}
    for file in scan.files:
        rows, kept = read_file(lake, scan.table, file, scan.snapshot)
        mine = [place for value, place in zip(rows.column("id").to_pylist(), kept.to_pylist(), strict=True) if value in set(ids)]
        if mine:
            found[file.id] = mine
    return found


def end_rows(lake: Lake, table: Table, ids: Sequence[int], *, images: bool, new: dict[str, Any] | None = None) -> Snapshot:
    """Delete rows by their column `id`, or give them new values in some columns; with before-images or without."""
    table = lake.table(table.name)
    scan = lake.scan(table, lake.snapshot())
    places = places_of(lake, scan, ids)
    if not places:
        return scan.snapshot
    kept = lake.write_before_images(scan, places) if images else []
    deletes = write_replacing_deletes(lake, scan, places)
    with lake.commit("end rows", base=scan.snapshot) as commit:
        commit.delete(table, deletes)
        commit.keep_before_images(table, kept)
        if new is not None:
            commit.append(table, [rewrite_rows(lake, scan, places, new)])
    return commit.made


def rewrite_rows(lake: Lake, scan: TableScan, places: dict[int, list[int]], new: dict[str, Any]) -> DataFile:
    """A file with the rows at some places under their row ids, with new values in some columns."""
    rows, row_ids = [], []
    for file in scan.files:
        if file.id in places:
            positions = np.sort(np.array(places[file.id]))
            found, _ = read_file(lake, scan.table, file, scan.snapshot, positions=positions)
            raw, _ = read_raw(lake, file, scan.snapshot, fields=(), hidden=(ROW_ID,), positions=positions)
            own = find_column(raw, ROW_ID)
            rows.append(found)
            row_ids.append((file.row_id_start or 0) + positions if own is None else own.to_numpy())
    whole = pa.concat_tables(rows)
    for name, value in new.items():
        place = whole.schema.get_field_index(name)
        field = whole.schema.field(place)
        whole = whole.set_column(place, field, pa.array([value] * whole.num_rows, field.type))
    return lake.write(scan.table, whole, row_ids=pa.array(np.concatenate(row_ids)))


def rows_by_id(reader: Duck, relation: str, version: int) -> dict[int, tuple[Any, ...]]:
    """The rows of a table at a snapshot by their row ids, as DuckDB reads them."""
    return {row[0]: row[1:] for row in reader.rows(f"SELECT rowid, * FROM {relation} AT (VERSION => {version})")}


def difference(older: dict[int, tuple[Any, ...]], newer: dict[int, tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The net changes between two snapshots in plain Python: row id, weight, values."""
    went = [(row_id, -1, *row) for row_id, row in older.items() if newer.get(row_id) != row]
    came = [(row_id, 1, *row) for row_id, row in newer.items() if older.get(row_id) != row]
    return sorted(went + came, key=repr)
