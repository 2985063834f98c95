"""Whether we and the independent reader see the same rows, whatever form each gives them."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from platform_plugin.lake.read.deletes import write_replacing_deletes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.lake import Lake
    from tests.independent_reader import Duck


def plain(value: Any) -> Any:
    """A value that compares and hashes: NaN equals itself, a map is its pairs, a UUID its text, a struct its values by name."""
    match value:
        case float():
            return "NaN" if value != value else value  # noqa: PLR0124
        case list() | tuple():
            return tuple(plain(part) for part in value)
        case dict():
            return tuple((plain(name), plain(part)) for name, part in value.items())
        case UUID():
            return str(value)
        case Decimal():
            return value.normalize() if value else Decimal(0)
        case bytearray() | memoryview():
            return bytes(value)
        case _:
            return value


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Arrow rows as plain tuples."""
    return [plain(tuple(row)) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def ours(lake: Lake, name: Any, *, snapshot: Snapshot | None = None, **options: Any) -> Counter[tuple[Any, ...]]:
    """A table's rows as we read them, order aside."""
    return Counter(rows_of(lake.read(name, snapshot=snapshot, **options)))


def theirs(reader: Duck, relation: str, *, version: int | None = None, where: str = "") -> Counter[tuple[Any, ...]]:
    """A table's rows as DuckDB reads them, order aside."""
    at = "" if version is None else f" AT (VERSION => {version})"
    return Counter(plain(row) for row in reader.rows(f"SELECT * FROM {relation}{at}" + (f" WHERE {where}" if where else "")))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def relation_of(table: Table) -> str:
    return f"{quoted(table.name.schema)}.{quoted(table.name.relation)}"


def assert_agree(lake: Lake, reader: Duck, *, snapshots: Iterable[Snapshot] | None = None) -> None:
    """We and DuckDB see the same tables, columns and rows: now, or at each of some snapshots."""
    for snapshot in [None] if snapshots is None else snapshots:
        at = snapshot or lake.snapshot()
        tables = lake.tables(at)
        # DuckDB lists what there is now; older snapshots are asked for table by table.
        if snapshot is None:
            known = reader.rows("SELECT schema_name, table_name, comment FROM duckdb_tables() WHERE database_name = 'lake' ORDER BY ALL")
            assert known == sorted((table.name.schema, table.name.relation, table.comment) for table in tables)
        for table in tables:
            described = reader.rows(f"DESCRIBE SELECT * FROM {relation_of(table)} AT (VERSION => {at.id})")
            assert [row[0] for row in described] == [field.name for field in table.fields], (table.name, at.id)
            mine, other = ours(lake, table.name, snapshot=at), theirs(reader, relation_of(table), version=at.id)
            assert mine == other, (str(table.name), at.id, list((mine - other).items())[:3], list((other - mine).items())[:3])


def assert_changes_agree(lake: Lake, reader: Duck, name: str, *, after: Snapshot, until: Snapshot) -> None:
    """The change feed is the same.

    DuckDB calls the two halves of an update by names of their own. It is asked snapshot by snapshot: over several at once it repeats
    the deletes of delete files that were superseded, which its own files never are.
    """
    halves = {"update_preimage": "delete", "update_postimage": "insert"}
    other: Counter[tuple[Any, ...]] = Counter()
    for number in range(after.id + 1, until.id + 1):
        found = reader.rows(f"FROM ducklake_table_changes('lake', 'main', '{name}', {number}, {number})")
        other.update(plain((row[0], row[1], halves.get(row[2], row[2]), *row[3:])) for row in found)
    mine = Counter(rows_of(lake.changes(name, after=after, until=until).read(lake)))
    assert mine == other, (name, after.id, until.id, list((mine - other).items())[:4], list((other - mine).items())[:4])


def kept(lake: Lake) -> list[Snapshot]:
    """All snapshots that are still there."""
    return [lake.snapshot(record.id) for record in lake.commits()]


def passes(value: Any, op: str, other: Any = None) -> bool:
    """A comparison in plain Python, as SQL has it: NULL passes only IS NULL, NaN equals itself and is larger than all else."""
    match op:
        case "is null":
            return value is None
        case "is not null":
            return value is not None
        case "in":
            return any(passes(value, "=", one) for one in other)
    if value is None or other is None:
        return False
    left, right = ((each != each, 0 if each != each else each) for each in (value, other))  # noqa: PLR0124
    return {
        "=": left == right,
        "<>": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[op]


def append(lake: Lake, table: Table, *batches: pa.Table) -> Snapshot:
    """One commit that appends each batch as a file."""
    with lake.commit("append") as commit:
        commit.append(table, [lake.write(table, batch) for batch in batches])
    assert commit.snapshot is not None
    return commit.snapshot


def create(lake: Lake, name: Any, *batches: pa.Table, fields: Sequence[Any] | None = None, **options: Any) -> Table:
    """One commit that creates a table for these rows and appends each batch as a file."""
    with lake.commit(f"create {name}") as commit:
        table = commit.create_table(name, fields or lake.columns_of(batches[0]), **options)
        commit.append(table, [lake.write(table, batch) for batch in batches])
    return lake.table(name)


def delete_positions(lake: Lake, table: Table, wanted: dict[int, Sequence[int]]) -> Snapshot:
    """One commit that deletes positions of files, on top of those deleted before."""
    scan = lake.scan(table, lake.snapshot())
    with lake.commit("delete", base=scan.snapshot) as commit:
        commit.delete(table, write_replacing_deletes(lake, scan, wanted))
    assert commit.snapshot is not None
    return commit.snapshot
