"""The target of a statement that writes: its table, what refuses the write, and the commit of what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.errors import InvalidValue, OutcomeUnknown, PlatformError, UnknownObject
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.commit.dependents import find_protector, protected_table_error
from platform_plugin.language.text.places import suggest_word
from platform_plugin.relations import hooks
from platform_plugin.relations.batches import BatchAlreadyTaken, TakeBatches, check_batch_id, read_batches
from platform_plugin.relations.bind.names import lake_name, place_errors
from platform_plugin.relations.kinds import declared_kind
from platform_plugin.relations.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Name as LakeName
    from platform_plugin.lake.catalogue.tables import Snapshot, Table, View
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.language.text.names import WrittenName


def find_target(lake: Lake, name: WrittenName, snapshot: Snapshot | None = None) -> Table:
    """The table of a written name; an unknown name is an error with its place."""
    with place_errors(name.span):
        return lake.table(lake_name(name), snapshot)


def statement_name(relation: Table | View) -> WrittenName:
    """The name of a relation as statements write it."""
    from platform_plugin.language.text.names import WrittenName

    return WrittenName(parts=(relation.name.schema, relation.name.relation))


def find_existing(lake: Lake, name: LakeName, snapshot: Snapshot) -> Table | View | None:
    """The relation of a name, or None."""
    with lake.reading() as connection:
        return lake.seek_relation(connection, name, snapshot)


def refuse_append(lake: Lake, table: Table, name: WrittenName) -> None:
    """Refuse to append to a relation that takes its rows from elsewhere, or that a view needs unchanged."""
    with lake.reading() as connection:
        declaration = read_declaration(connection, table.uuid)
    with place_errors(name.span):
        declared_kind(table, declaration).refuse_append(table, declaration)
        refuse_protected(lake, table)


def refuse_protected(lake: Lake, table: Table) -> None:
    """Refuse to change a table that a view needs unchanged."""
    snapshot = lake.snapshot()
    with lake.reading() as connection:
        protector = find_protector(connection, table, snapshot.id)
    if protector is not None:
        raise protected_table_error(table.name, protector)


def refuse_partitioned(table: Table, name: WrittenName) -> None:
    """Refuse to write to a partitioned table: each partition would need a file, which this version does not write."""
    if table.partition_keys:
        with place_errors(name.span):
            raise InvalidValue(
                f'table "{table.name}" is partitioned, which this version can read and delete from but not write',
                hint="write to it with the client that partitioned it, or take the partitioning off there",
            )


def find_changeable(lake: Lake, name: WrittenName, snapshot: Snapshot) -> Table:
    """The table of a written name, if statements can change its rows."""
    table = find_target(lake, name, snapshot)
    with lake.reading() as connection:
        declaration = read_declaration(connection, table.uuid)
    with place_errors(name.span):
        declared_kind(table, declaration).refuse_change(table, declaration)
        refuse_protected(lake, table)
    return table


def named_fields(table: Table, names: Sequence[str]) -> tuple[Field, ...]:
    """The columns that a statement names, in its order; all of them if it names none."""
    if not names:
        return table.fields
    found = []
    for name in names:
        field = table.field(name)
        if field is None:
            known = [other.name for other in table.fields]
            hint = suggest_word(name, known) or f"its columns are {', '.join(known)}"
            raise UnknownObject(f'column "{name}" does not exist in table "{table.name}"', hint=hint)
        found.append(field)
    return tuple(found)


def append_files(
    work: Workspace,
    table: Table,
    files: Sequence[DataFile],
    *,
    message: str,
    metrics: JobMetrics | None = None,
    batch_id: str | None = None,
    held: pa.Table | None = None,
) -> Result:
    """Commit written files to a table; if the commit is refused, they are removed. A batch that was taken before adds nothing.

    Where this process still has the rows in memory, with the table's columns and in the order of the files, it gives them as `held` to the
    listeners of appends.
    """
    lake = work.lake
    rows = sum(file.record_count for file in files)
    if not files and batch_id is None:
        return statement_result(lake.snapshot(), f"{message}: no rows", rows=0, metrics=metrics)
    try:
        base = lake.snapshot()
        # Rows in a shape that the table no longer has are left to a run.
        is_shaped = held is not None and find_existing(lake, table.name, base) == table
        parts = hooks.ask_append_parts(lake, base, table, held) if held is not None and is_shaped else []
        for part in parts:
            part.prepare()
        with lake.commit(message, base=base) as commit:
            if files:
                commit.append(table, files)
            if batch_id is not None:
                commit.also(TakeBatches(table, {batch_id: rows}, forgets=True))
            for part in parts:
                commit.follow(part)
        for part in parts:
            part.settle()
    except OutcomeUnknown:
        raise  # the files may be part of a snapshot
    except BatchAlreadyTaken:
        lake.discard(files)
        return find_repeat(lake, table, batch_id) or statement_result(lake.snapshot(), message, rows=0)
    except PlatformError:
        lake.discard(files)
        raise
    hooks.notify_appended(work, table, commit.made)
    return statement_result(commit.made, f"{rows} {'row' if rows == 1 else 'rows'} written to {table.name}", rows=rows, metrics=metrics)


def find_repeat(lake: Lake, table: Table, batch_id: str | None) -> Result | None:
    """The outcome of the earlier statement that has taken this batch, or None."""
    if batch_id is None:
        return None
    check_batch_id(batch_id)
    taken = read_batches(lake, table.uuid, [batch_id]).get(batch_id)
    if taken is None:
        return None
    said = f'batch "{batch_id}" of {table.name} was taken before, with {taken.row_count} rows in snapshot {taken.snapshot_id}'
    return statement_result(lake.snapshot(), f"{said}; nothing was added", rows=0)


def statement_result(snapshot: Snapshot, message: str, *, rows: int | None = None, metrics: JobMetrics | None = None) -> Result:
    """The result of a statement without rows."""
    return Result(pa.table({}), snapshot=snapshot, message=message, row_count=rows, metrics=metrics)
