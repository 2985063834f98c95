"""The table that a statement writes to, and how what it wrote becomes visible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.errors import InvalidValue, OutcomeUnknown, PlatformError, UnknownObject
from platform_plugin.lake.catalogue.relations import STATE, read_declaration
from platform_plugin.lake.commit.dependents import find_protector, protected
from platform_plugin.language.text.places import did_you_mean
from platform_plugin.relations.bind import lake_name, pointing_at
from platform_plugin.relations.result import Result
from platform_plugin.relations.samples.reservoir.picking import prepare_picks
from platform_plugin.relations.streams.batches import BatchTaken, TakeBatches, check_batch_id, read_batches
from platform_plugin.relations.views.follow.propagate import propagate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.relations import Declaration
    from platform_plugin.lake.catalogue.tables import Name as LakeName
    from platform_plugin.lake.catalogue.tables import Snapshot, Table, View
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.language.text.names import Name


def find_target(lake: Lake, name: Name, snapshot: Snapshot | None = None) -> Table:
    """The table of a written name; an unknown one is pointed at."""
    with pointing_at(name.span):
        return lake.table(lake_name(name), snapshot)


def find_existing(lake: Lake, name: LakeName, snapshot: Snapshot) -> Table | View | None:
    """The relation of a name, or None."""
    with lake.reading() as connection:
        try:
            return lake.find_relation(connection, name, snapshot)
        except UnknownObject:
            return None


def refuse_history(lake: Lake, table: Table, name: Name) -> None:
    """Refuse to append to a history, which takes its rows from its stream, and to what belongs to a view."""
    with lake.reading() as connection:
        declaration = read_declaration(connection, table.uuid)
    if declaration.kind == STATE:
        with pointing_at(name.span):
            raise InvalidValue(f'table "{table.name}" is part of a continuous view', hint="only maintenance writes it")
    _refuse_sample(declaration, table, name)
    with pointing_at(name.span):
        refuse_protected(lake, table)
    if "history_of" in declaration.options:
        with pointing_at(name.span):
            raise InvalidValue(
                f'table "{table.name}" takes its rows from its stream', hint="write to the stream; its rows come here when they leave it"
            )


def _refuse_sample(declaration: Declaration, table: Table, name: Name) -> None:
    if declaration.kind == "sample":
        with pointing_at(name.span):
            raise InvalidValue(f'"{table.name}" is a sample', hint="write to what it is drawn from")


def refuse_protected(lake: Lake, table: Table) -> None:
    """Refuse to change a table that a view was promised will stay as it is."""
    snapshot = lake.snapshot()
    with lake.reading() as connection:
        protector = find_protector(connection, table, snapshot.id)
    if protector is not None:
        raise protected(table.name, protector)


def refuse_partitioned(table: Table, name: Name) -> None:
    """Rows of a partitioned table go into a file each partition, which this version does not write."""
    if table.partition_keys:
        with pointing_at(name.span):
            raise InvalidValue(
                f'table "{table.name}" is partitioned, which this version can read and delete from but not write',
                hint="write to it with the client that partitioned it, or take the partitioning off there",
            )


def find_changeable(lake: Lake, name: Name, snapshot: Snapshot) -> Table:
    """The history table of a written name: rows of a stream only ever leave with their segment."""
    table = find_target(lake, name, snapshot)
    with lake.reading() as connection:
        declaration = read_declaration(connection, table.uuid)
    kind = declaration.kind
    _refuse_sample(declaration, table, name)
    if kind == STATE:
        with pointing_at(name.span):
            raise InvalidValue(f'table "{table.name}" is part of a continuous view', hint="only maintenance writes it")
    if kind == "stream":
        with pointing_at(name.span):
            raise InvalidValue(
                f'rows of stream "{table.name}" can\'t be changed', hint="streams only take new rows; keep what changes in a history table"
            )
    with pointing_at(name.span):
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
            hint = did_you_mean(name, known) or f"its columns are {', '.join(known)}"
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

    Where this process still holds the rows, in the shape of the table and the order of the files, a stream's samples pick theirs of them.
    """
    lake = work.lake
    rows = sum(file.record_count for file in files)
    if not files and batch_id is None:
        return outcome(lake.snapshot(), f"{message}: no rows", rows=0, metrics=metrics)
    try:
        base = lake.snapshot()
        # Rows in a shape that the table no longer has are left to a run.
        is_shaped = held is not None and find_existing(lake, table.name, base) == table
        picks = prepare_picks(lake, base, table, held) if is_shaped else None
        if picks is not None:
            picks.prepare()
        with lake.commit(message, base=base) as commit:
            if files:
                commit.append(table, files)
            if batch_id is not None:
                commit.also(TakeBatches(table, {batch_id: rows}, forgets=True))
            if picks is not None:
                commit.follow(picks)
        if picks is not None:
            picks.settle()
    except OutcomeUnknown:
        raise  # the files may be part of a snapshot
    except BatchTaken:
        lake.discard(files)
        return find_repeat(lake, table, batch_id) or outcome(lake.snapshot(), message, rows=0)
    except PlatformError:
        lake.discard(files)
        raise
    propagate(work, table, commit.made)
    return outcome(commit.made, f"{rows} {'row' if rows == 1 else 'rows'} written to {table.name}", rows=rows, metrics=metrics)


def find_repeat(lake: Lake, table: Table, batch_id: str | None) -> Result | None:
    """The outcome of a statement whose batch was taken by an earlier one; None if this one is the first."""
    if batch_id is None:
        return None
    check_batch_id(batch_id)
    taken = read_batches(lake, table.uuid, [batch_id]).get(batch_id)
    if taken is None:
        return None
    said = f'batch "{batch_id}" of {table.name} was taken before, with {taken.row_count} rows in snapshot {taken.snapshot_id}'
    return outcome(lake.snapshot(), f"{said}; nothing was added", rows=0)


def outcome(snapshot: Snapshot, message: str, *, rows: int | None = None, metrics: JobMetrics | None = None) -> Result:
    """The result of a statement that gives no rows."""
    return Result(pa.table({}), snapshot=snapshot, message=message, row_count=rows, metrics=metrics)
