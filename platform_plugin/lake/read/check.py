"""`check`: finds what a catalogue says of files and can't be true; reads do not rely on it."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.algebra.types.data_types import Primitive
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.tables import PartitionKey, read_tables
from platform_plugin.lake.read.scan import resolve_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.tables import Name, Table
    from platform_plugin.lake.lake import Lake

_DATE = re.compile(r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)(?:[ T](?P<hour>\d\d))?")
# Values that are their own text, whoever wrote it.
_EXACT = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "date"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueFinding:
    """One problem of the catalogue's entries for a table's files, with the number of files and an example."""

    table: Name
    problem: str
    files: int
    example: str
    hint: str


def check(lake: Lake) -> list[CatalogueFinding]:
    """All findings for the newest snapshot's files. Only the catalogue is read."""
    snapshot = lake.snapshot()
    with lake.reading() as connection:
        return [found for table in read_tables(connection, snapshot.id) for found in _check_partitions(connection, table, snapshot.id)]


def _check_partitions(connection: Connection, table: Table, snapshot_id: int) -> list[CatalogueFinding]:
    keys = _read_keys(connection, table)
    if not keys:
        return []
    f, p, s = c.DATA_FILE.c, c.FILE_PARTITION_VALUE.c, c.FILE_COLUMN_STATS.c
    live = sa.and_(f.table_id == table.id, f.partition_id.is_not(None), c.is_visible_at(c.DATA_FILE, snapshot_id))
    values: defaultdict[int, dict[int, list[str | None]]] = defaultdict(lambda: defaultdict(list))
    query = sa.select(p.data_file_id, p.partition_key_index, p.partition_value)
    for row in connection.execute(query.join(c.DATA_FILE, f.data_file_id == p.data_file_id).where(live)):
        values[row.data_file_id][row.partition_key_index].append(row.partition_value)
    columns = {key.column_id for parts in keys.values() for key in parts}
    bounds = {
        (row.data_file_id, row.column_id): (row.min_value, row.max_value)
        for row in connection.execute(
            sa.select(s.data_file_id, s.column_id, s.min_value, s.max_value)
            .join(c.DATA_FILE, f.data_file_id == s.data_file_id)
            .where(live, s.table_id == table.id, s.column_id.in_(columns))
        )
    }
    found: defaultdict[str, list[str]] = defaultdict(list)
    files = sa.select(f.data_file_id, f.path, f.path_is_relative, f.partition_id).where(live).order_by(f.data_file_id)
    for file in connection.execute(files):
        known = {column_id: bounds[file.data_file_id, column_id] for column_id in columns if (file.data_file_id, column_id) in bounds}
        problem = _problem(table, keys.get(file.partition_id, ()), values[file.data_file_id], known)
        if problem is not None:
            found[problem].append(resolve_path(table.path, file.path, relative=file.path_is_relative))
    hint = "filters do not rely on these values; write the files' rows anew to have them pruned by partition"
    return [
        CatalogueFinding(table=table.name, problem=what, files=len(paths), example=paths[0], hint=hint) for what, paths in found.items()
    ]


def _read_keys(connection: Connection, table: Table) -> dict[int, tuple[PartitionKey, ...]]:
    """The keys of each partitioning that the table has had."""
    k = c.PARTITION_COLUMN.c
    found: defaultdict[int, list[PartitionKey]] = defaultdict(list)
    query = sa.select(k.partition_id, k.column_id, k.transform).where(k.table_id == table.id)
    for row in connection.execute(query.order_by(k.partition_id, k.partition_key_index)):
        found[row.partition_id].append(PartitionKey(column_id=row.column_id, transform=row.transform))
    return {partition_id: tuple(parts) for partition_id, parts in found.items()}


def _problem(
    table: Table,
    keys: Sequence[PartitionKey],
    values: Mapping[int, Sequence[str | None]],
    bounds: Mapping[int, tuple[str | None, str | None]],
) -> str | None:
    """What is wrong with the partition values of one file, if anything is."""
    if any(len(of_key) > 1 for of_key in values.values()):
        return "several partition values under one key"
    if sorted(values) != list(range(len(keys))):
        return "partition values that do not match the keys"
    fields = {field.id: field for field in table.fields}
    for index, key in enumerate(keys):
        field, (value,) = fields.get(key.column_id), values[index]
        low, high = bounds.get(key.column_id, (None, None))
        if field is not None and low is not None and high is not None and not _may_be(value, key.transform, field, low, high):
            return f'partition values of column "{field.name}" that its statistics contradict'
    return None


def _may_be(value: str | None, transform: str, field: Field, low: str, high: str) -> bool:
    """Whether all values between two bounds, which some rows have, may have this partition value."""
    name = field.type.name if isinstance(field.type, Primitive) else None
    if value is None:
        return False
    if transform == "identity":
        if name == "varchar":
            return low <= value <= high
        return name not in _EXACT or value == low == high
    parts = [_DATE.match(bound) for bound in (low, high)]
    # Whose midnight divides times with a zone is a matter of the session that wrote them.
    if name == "timestamptz" or transform not in _DATE.groupindex or not value.isdecimal():
        return True
    return all(part is None or part[transform] is None or int(part[transform]) == int(value) for part in parts)
