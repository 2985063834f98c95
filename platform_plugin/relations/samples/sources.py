"""The sources of a sample: its relation, view or parts at a snapshot, its columns, and its CREATE SAMPLE."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa

from platform_plugin.errors import UnknownObject
from platform_plugin.lake.catalogue.tables import Table, View, read_tables
from platform_plugin.lake.files.files import fit_rows
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.language import statements as s
from platform_plugin.language.text.places import Span
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.reading import Dependency, UnknownDependency
from platform_plugin.relations.samples.record import find_sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Name, Snapshot
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.samples.definition import SampleDefinition
    from platform_plugin.relations.samples.record import SampleRecord


def find_table(lake: Lake, sample: SampleRecord, snapshot: Snapshot) -> Table:
    """The stream or table that a sample is drawn from."""
    with lake.reading() as connection:
        found = read_tables(connection, snapshot.id, uuids=[UUID(sample.definition.relation)])
    if not found:
        raise _gone(sample, snapshot)
    return found[0]


def find_view(lake: Lake, sample: SampleRecord, snapshot: Snapshot) -> View:
    """The view that a sample is drawn from."""
    view = next((view for view in lake.views(snapshot) if str(view.uuid) == sample.definition.relation), None)
    if view is None:
        raise _gone(sample, snapshot)
    return view


def find_parts(lake: Lake, sample: SampleRecord, snapshot: Snapshot) -> list[SampleRecord]:
    """The samples that a merged one merges, in their order in its definition."""
    with lake.reading() as connection:
        tables = read_tables(connection, snapshot.id, uuids=[UUID(part) for part in sample.definition.parts])
    by_uuid = {str(table.uuid): find_sample(lake, table, snapshot) for table in tables}
    found = [part for uuid in sample.definition.parts if (part := by_uuid.get(uuid)) is not None]
    if len(found) < len(sample.definition.parts):
        raise _gone(sample, snapshot)
    return found


def source_names(lake: Lake, sample: SampleRecord, snapshot: Snapshot) -> tuple[Name, ...]:
    """The names that a sample's relation or parts have at a snapshot; dropped ones are left out."""
    try:
        match sample.definition.source:
            case "samples":
                return tuple(part.table.name for part in find_parts(lake, sample, snapshot))
            case "view":
                return (find_view(lake, sample, snapshot).name,)
            case _:
                return (find_table(lake, sample, snapshot).name,)
    except UnknownObject:
        return ()


def sample_statement(lake: Lake, name: s.WrittenName, sample: SampleRecord, snapshot: Snapshot) -> s.CreateSample:
    """The statement that creates a sample like this one, with its seed, so that the same rows are drawn."""
    definition = sample.definition
    where = definition.where
    of = [s.WrittenName(parts=(found.schema, found.relation)) for found in source_names(lake, sample, snapshot)]
    return s.CreateSample(
        name=name,
        relation=of[0] if of else s.WrittenName(parts=("dropped",)),
        size=definition.size,
        parts=tuple(of) if definition.parts else (),
        where=None if where is None else Span(where, 0, len(where)),
        # A merged sample has the strata of its parts.
        strata=() if definition.parts else definition.strata,
        size_per_stratum=None if definition.parts else definition.size_per_stratum,
        weight=definition.weight,
        options=(
            *_window_option(definition),
            *_decay_options(definition),
            *([] if definition.engine is None else [s.Option(name="engine", value=definition.engine)]),
            s.Option(name="seed", value=definition.seed),
        ),
    )


def _window_option(definition: SampleDefinition) -> list[s.Option]:
    if definition.window_rows is not None:
        return [s.Option(name="window", value=f"{definition.window_rows} rows")]
    if definition.window_seconds is not None:
        return [s.Option(name="window", value=f"{definition.window_seconds:f} seconds")]
    return [s.Option(name="window", value="retention")] if definition.retained else []


def _decay_options(definition: SampleDefinition) -> list[s.Option]:
    if definition.half_life is None or definition.time is None:
        return []
    return [s.Option(name="half_life", value=f"{definition.half_life:f} seconds"), s.Option(name="time_column", value=definition.time)]


def sampled_fields(sample: SampleRecord, table: Table) -> list[Field]:
    """The columns of a table that its sample has, in the sample's order; dropped columns are left out."""
    found = (table.field(field.name) for field in sample.table.fields)
    return [field for field in found if field is not None]


def shape_sample_rows(sample: SampleRecord, rows: pa.Table, names: Sequence[str] | None = None) -> pa.Table:
    """Rows of the relation with the columns of the sample; dropped columns are NULL, and a value must fit its column."""
    given = rows if names is None else rows.select(names)
    own = {field.name.lower(): field.name for field in sample.table.fields}
    bare = pa.Table.from_arrays(given.columns, names=[own[name.lower()] for name in given.column_names]) if given.num_columns else given
    return fit_rows(bare, sample.table.fields, arrow_schema(sample.table.fields))


def _gone(sample: SampleRecord, snapshot: Snapshot) -> UnknownObject:
    return UnknownObject(
        f'what sample "{sample.name}" is drawn from does not exist at snapshot {snapshot.id}',
        hint=f"it was dropped: DROP SAMPLE {sample.name}, or make it anew",
    )


def find_dependencies(work: Workspace, sample: SampleRecord, snapshot: Snapshot) -> Iterator[Dependency]:
    """The relations that a sample changes with, besides its own table. A window of time moves with every snapshot."""
    definition = sample.definition
    if definition.window_seconds is not None:
        raise UnknownDependency
    if definition.parts:
        for part in find_parts(work.lake, sample, snapshot):
            yield from find_dependencies(work, part, snapshot)
        return
    if definition.source != "view":
        appends_only = definition.source == "stream" and not definition.retained
        yield Dependency(find_table(work.lake, sample, snapshot), appends_only)
        return
    view = find_view(work.lake, sample, snapshot)
    yield from find_kind(work.lake, view, snapshot).dependencies(work, view, snapshot)
