"""`merge_rows`: the rows of a state merged to one for each group with Arrow, and cached for the next read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.cache import Cache
from platform_plugin.engine.local import compute, is_grouped
from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.lake.read.read import read_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.read.scan import TableScan
    from platform_plugin.operators.group.parts import State

# From so many groups on, those that an addition does not touch are set apart, if it has few against them.
_MANY_GROUPS, _FEW = 50_000, 8


def merge_rows(state: State, rows: pa.Table, added: Sequence[pa.Table], fields: tuple[Field, ...]) -> pa.Table:
    """One row for each group, from merged rows and new partial aggregates; groups without new ones stay as they are."""
    few = sum(part.num_rows for part in added)
    key = state.keys[0].name if len(state.keys) == 1 else None
    if key is None or rows.num_rows < _MANY_GROUPS or few * _FEW > rows.num_rows or not is_grouped(rows.column(key).type):
        return compute(state.merge, {"rows": pa.concat_tables([rows, *added])}, fields)
    kind = rows.column(key).type
    new = pa.chunked_array([chunk for part in added for chunk in part.column(key).chunks], type=kind)  # no chunk at all, if no row is new
    touched = pc.is_in(rows.column(key), value_set=new)
    changed = compute(state.merge, {"rows": pa.concat_tables([rows.filter(touched), *added])}, fields)
    return pa.concat_tables([rows.filter(pc.invert(touched)), changed])


# Merged states by the files that they are of.
_MERGED: Cache[tuple[Any, ...], tuple[frozenset[int], pa.Table]] = Cache("merged states of views", weigh=lambda merged: merged[1].nbytes)


def read_merged(work: Workspace, state: State, scan: TableScan) -> pa.Table:
    """One row for each group of a state's files; of files that came since the last read, only these are read."""
    if scan.inlined or not all(file.is_whole for file in scan.files):
        raise RefusedByEngine("deleted or inlined rows in a state", for_good=False)
    files = frozenset(file.id for file in scan.files)
    key = (work.lake.uuid, str(work.lake.location), scan.table.uuid, scan.snapshot.schema_version)
    known = _MERGED.get(key)
    if known is not None and known[0] == files:
        return known[1]
    before: list[pa.Table] = []
    if known is not None and known[0] < files:
        before.append(known[1])
        scan = replace(scan, files=tuple(file for file in scan.files if file.id not in known[0]))
    rows = read_rows(work.lake, scan)
    if before:
        rows = merge_rows(state, before[0], [rows], scan.table.fields).combine_chunks()
    elif len(scan.files) > 1:
        rows = merge_rows(state, rows.slice(0, 0), [rows], scan.table.fields).combine_chunks()
    _MERGED.put(key, (files, rows))
    return rows
