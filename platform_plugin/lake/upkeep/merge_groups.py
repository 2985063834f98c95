"""`find_groups`: the files that a merge makes into one: small neighbours with equal columns and partitions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.tables import read_fields
from platform_plugin.lake.read.scan import FileScan, read_scan
from platform_plugin.lake.upkeep.merge_edges import SegmentEdges, read_edges

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.tables import Snapshot, Table

# Files at least this full are left alone: rewriting them again and again would cost more than it gives.
_FULL_ENOUGH = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeGroup:
    """The files that become one; their rows have the same columns and the same partition."""

    fields: tuple[Field, ...]
    files: tuple[FileScan, ...]
    partition_id: int | None
    partition_values: tuple[str | None, ...]


def find_groups(connection: Connection, table: Table, base: Snapshot, *, target_bytes: int) -> list[MergeGroup]:
    """Runs of small neighbouring files with equal columns and partitions, each run no larger than one target file.

    Runs of a stream also end at the edges where its rows are evicted.
    """
    edges = read_edges(connection, table)
    files = read_scan(connection, table, base).files
    versions = _versions(connection, table)
    partitions, doubtful = _partition_values(connection, table)
    kinds: defaultdict[Any, list[FileScan]] = defaultdict(list)
    for file in files:
        if file.mapping_id is None and file.id not in doubtful:
            kinds[_version_at(versions, file.begin_snapshot), file.partition_id, partitions.get(file.id, ())].append(file)
    groups = []
    for (version, partition_id, values), members in kinds.items():
        fields = _fields_kept(connection, table, versions, version)
        groups += [
            MergeGroup(fields=fields, files=tuple(run), partition_id=partition_id, partition_values=values)
            for run in _runs(members, target_bytes, edges)
        ]
    return groups


def _runs(files: Sequence[FileScan], target_bytes: int, edges: SegmentEdges | None) -> Iterable[list[FileScan]]:
    run: list[FileScan] = []
    size = 0
    for file in sorted(files, key=lambda file: (file.row_id_start or 0, file.id)):
        full = file.size_bytes >= target_bytes * _FULL_ENOUGH and file.is_whole
        full = full or (edges is not None and not edges.may_shed(file))
        apart = bool(run) and edges is not None and not edges.may_join(run, file)
        if full or apart or (run and size + file.size_bytes > target_bytes):
            if _worth_it(run):
                yield run
            run, size = [], 0
        if not full:
            run.append(file)
            size += file.size_bytes
    if _worth_it(run):
        yield run


def _worth_it(run: Sequence[FileScan]) -> bool:
    """Several files become one, or one sheds rows that nobody can read any more."""
    return len(run) > 1 or any(not file.is_whole for file in run)


def _versions(connection: Connection, table: Table) -> list[tuple[int, int]]:
    v = c.SCHEMA_VERSIONS.c
    query = sa.select(v.begin_snapshot, v.schema_version).where(v.table_id == table.id).order_by(v.begin_snapshot)
    return [(row.begin_snapshot, row.schema_version) for row in connection.execute(query)]


def _version_at(versions: Sequence[tuple[int, int]], snapshot_id: int) -> int | None:
    return next((version for begin, version in reversed(versions) if begin <= snapshot_id), None)


def _fields_kept(connection: Connection, table: Table, versions: Sequence[tuple[int, int]], version: int | None) -> tuple[Field, ...]:
    """The columns that files of a schema version have for the oldest kept snapshot that reads them; what is older was forgotten."""
    begin = next((begin for begin, number in versions if number == version), None)
    if begin is None:
        return table.fields
    s = c.SNAPSHOT.c.snapshot_id
    oldest = connection.execute(sa.select(sa.func.min(s)).where(s >= begin)).scalar_one()
    return read_fields(connection, oldest, [table.id or 0])[table.id or 0] or table.fields


def _partition_values(connection: Connection, table: Table) -> tuple[dict[int, tuple[str | None, ...]], set[int]]:
    """The partition values of files, and the files that do not have one value for each key, whose partition is not known."""
    p = c.FILE_PARTITION_VALUE.c
    query = (
        sa.select(p.data_file_id, p.partition_key_index, p.partition_value)
        .where(p.table_id == table.id)
        .order_by(p.data_file_id, p.partition_key_index)
    )
    found: defaultdict[int, list[str | None]] = defaultdict(list)
    doubtful = set()
    for row in connection.execute(query):
        if row.partition_key_index != len(found[row.data_file_id]):
            doubtful.add(row.data_file_id)
        found[row.data_file_id].append(row.partition_value)
    return {file_id: tuple(values) for file_id, values in found.items()}, doubtful
