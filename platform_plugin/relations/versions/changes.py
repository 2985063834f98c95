"""`read_changed`: the rows of `changes(relation, after, until)`, with Arrow in the process where they are few, as a DataFrame where not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from platform_plugin.algebra.plan.nodes import Output
from platform_plugin.algebra.predicates.conditions import ALWAYS
from platform_plugin.algebra.predicates.ranges import EVERYTHING
from platform_plugin.algebra.rules.rule import ScanSize
from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.errors import InvalidValue, SnapshotExpired
from platform_plugin.lake.catalogue.relations import STATE
from platform_plugin.lake.catalogue.tables import Table
from platform_plugin.lake.read.changes import chosen_fields, nullable_fields, read_changes
from platform_plugin.lake.read.moves import read_expired_snapshots
from platform_plugin.lake.read.version_rows import find_pairs, remove_equal
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.language.text.counting import count_text
from platform_plugin.relations.arguments import cell_value
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.reading import RelationRows
from platform_plugin.relations.versions.travel import find_snapshot
from platform_plugin.state.change import Change, read_change

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from platform_plugin.algebra.predicates.conditions import Condition
    from platform_plugin.algebra.predicates.ranges import Domain
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Name, Snapshot, View
    from platform_plugin.lake.commit.before_images import BeforeImages
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.changes import Changes
    from platform_plugin.language.query.references import ChangeRange
    from platform_plugin.relations.arguments import Arguments
    from platform_plugin.relations.reading import ReadContext, ReadRequest

CHANGE_TYPE, ROW_ID, SNAPSHOT, WEIGHT = "_change_type", "_row_id", "_snapshot", "_weight"
INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_before", "update_after"
CHANGE_FIELDS = (
    Field(name=CHANGE_TYPE, type=Primitive("varchar")),
    *(Field(name=name, type=Primitive("int64")) for name in (ROW_ID, SNAPSHOT, WEIGHT)),
)
"""The columns that changes have behind those of their relation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRelation:
    """A table or stream whose changes a query reads: its columns are those at `until`; with `steps` every change, not their net."""

    table: Table
    after: Snapshot
    until: Snapshot
    steps: bool
    is_stream: bool

    @property
    def fields(self) -> tuple[Field, ...]:
        """All columns of its changes."""
        return (*nullable_fields(self.table), *CHANGE_FIELDS)

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The same as the plan of a query has them."""
        return tuple(Output(name=field.name, type=field.type) for field in self.fields)

    def plan(self, lake: Lake, where: Condition = ALWAYS, row_ids: Domain = EVERYTHING) -> Change:
        """The net change; files without any of the row ids are left out, and rows that can't be within the condition."""
        with lake.reading() as connection:
            change = read_change(connection, self.table, after=self.after, until=self.until, where=where)
        return change if row_ids.is_everything else Change(places=change.places.within(lake, row_ids))

    def find_steps(self, lake: Lake, where: Condition = ALWAYS, row_ids: Domain = EVERYTHING, *, with_images: bool = True) -> Changes:
        """Every step, in the same way."""
        with lake.reading() as connection:
            steps = read_changes(connection, self.table, after=self.after, until=self.until, where=where, with_images=with_images)
        return steps if row_ids.is_everything else steps.within(lake, row_ids)


def find_changed(lake: Lake, name: Name, given: ChangeRange, snapshot: Snapshot, arguments: Arguments) -> ChangedRelation:
    """The relation and the snapshots of a range; an error for whatever has no feed of changes there."""
    until = snapshot if given.until is None else find_snapshot(lake, cell_value(given.until, arguments))
    try:
        after = find_snapshot(lake, cell_value(given.after, arguments))
    except SnapshotExpired as error:
        hint = f"{error.hint}; read the relation whole, and its changes from that snapshot on"
        raise SnapshotExpired(f"{error.message}, so that changes since it are not known", hint=hint) from error
    if after.id > until.id:
        raise InvalidValue(f"snapshot {after.id} is newer than snapshot {until.id}", hint="name the older one first")
    with lake.reading() as connection:
        relation = lake.find_relation(connection, name, until)
        before = lake.seek_relation(connection, name, after)
        expired = read_expired_snapshots(connection, after=after.id, until=until.id) if given.steps else ()
    table, kind = _require_feed(lake, relation, until)
    if before is not None and before.uuid != table.uuid and (table.begin_snapshot or 0) > after.id:
        raise InvalidValue(
            f'{kind} "{table.name}" is another one at snapshot {until.id} than at snapshot {after.id}',
            detail=f"it was created anew in snapshot {_created(lake, table, after, until)}",
            hint="ask for its changes since then",
        )
    own = {field.name.lower() for field in table.fields}
    if clash := next((field.name for field in CHANGE_FIELDS if field.name in own), None):
        raise InvalidValue(f'{kind} "{table.name}" has a column "{clash}" of its own', hint="rename it to read changes")
    if expired:
        raise SnapshotExpired(
            f"{count_text(len(expired), 'snapshot')} between {after.id} and {until.id} expired, so that not every step is known",
            hint="leave out steps => true: the net changes are known",
        )
    return ChangedRelation(table=table, after=after, until=until, steps=given.steps, is_stream=kind == "stream")


def _require_feed(lake: Lake, relation: Table | View, snapshot: Snapshot) -> tuple[Table, str]:
    kind = find_kind(lake, relation, snapshot).name
    if not isinstance(relation, Table) or kind not in ("table", "stream"):
        what = "view" if kind == STATE else kind
        raise InvalidValue(
            f'{what} "{relation.name}" has no feed of changes',
            hint="ask for those of the tables and streams that it is made from",
        )
    return relation, kind


def _created(lake: Lake, table: Table, after: Snapshot, until: Snapshot) -> int:
    """The first snapshot in a range that has the table."""
    low, high = after.id, until.id
    with lake.reading() as connection:
        known = read_expired_snapshots(connection, after=low, until=high)
    numbers = [number for number in range(low + 1, high + 1) if number not in known]
    for number in numbers:
        found = next((each for each in lake.tables(lake.snapshot(number)) if each.uuid == table.uuid), None)
        if found is not None:
            return number
    return until.id


def read_changed(reading: ReadContext, changed: ChangedRelation, need: ReadRequest) -> RelationRows:
    """The changes that a query needs, as a DataFrame."""
    work = reading.work
    names = None if need.columns is None else [field.name for field in changed.table.fields if field.name.lower() in need.columns]
    where = need.formula.condition(changed.table.fields)
    # A row's other half has the same id, so that files without the ids are left out even where conditions on values leave in all.
    row_ids = need.formula.condition(CHANGE_FIELDS).domain(ROW_ID)
    whole = changed.plan(work.lake, row_ids=row_ids)
    if whole.is_append_only and not where.is_always:
        # Which other row went or came with it makes a row a change of its kind, but here none went.
        whole = changed.plan(work.lake, where, row_ids)
    steps = changed.find_steps(work.lake, row_ids=row_ids) if changed.steps and not changed.is_stream else None
    reading.tables.append(changed.table)
    reading.bytes_planned += whole.size_bytes
    reading.files_planned += _file_count(whole)
    reading.rows_planned += whole.row_count
    size = ScanSize(whole.size_bytes)
    is_spark = not is_small(work, steps or whole) and is_read_by_spark(whole) and (steps is None or _is_mapped(steps))
    reading.notes.append(_describe(changed, whole, by_spark=is_spark))
    if is_spark:
        from platform_plugin.engine.spark.frames.changes import change_frame, step_frame

        fields, _ = chosen_fields(changed.table, names, ALWAYS)
        if steps is not None:
            if not _are_there(work.lake, steps.images):
                steps = changed.find_steps(work.lake, row_ids=row_ids, with_images=False)
            return RelationRows(step_frame(work.session, work.lake, steps, fields), size, changed.fields)
        return RelationRows(
            change_frame(work.session, work.lake, without_missing_images(work.lake, whole).places, fields), size, changed.fields
        )
    from platform_plugin.engine.spark.frames.scan import arrow_relation

    rows = read_change_rows(work.lake, changed, columns=names, where=where, row_ids=row_ids)
    fields, _ = chosen_fields(changed.table, names, ALWAYS)
    return RelationRows(arrow_relation(work.session, (*fields, *CHANGE_FIELDS), rows), size, changed.fields)


def _is_mapped(steps: Changes) -> bool:
    """Whether all files have field ids."""
    return all(part.file.mapping_id is None for part in steps.files)


def _are_there(lake: Lake, images: Sequence[BeforeImages]) -> bool:
    return all(lake.storage.exists(each.path) for each in images)


def fits_client(work: Workspace, changed: ChangedRelation) -> bool:
    """Whether the process reads what is asked of a relation's changes itself."""
    if not is_small(work, changed.plan(work.lake)):
        return False
    return not changed.steps or changed.is_stream or is_small(work, changed.find_steps(work.lake))


def is_small(work: Workspace, change: Change | Changes) -> bool:
    """Whether the process reads a change itself."""
    return change.row_count <= work.limits.client_change_rows and change.size_bytes <= work.limits.client_change_bytes


def is_read_by_spark(change: Change) -> bool:
    """Whether Spark can read the files of a change: it lacks a few types, and files without field ids are the client's."""
    from platform_plugin.engine.spark.frames.schema import has_spark_type

    own = {field.name.lower() for field in change.relation.fields}
    if own.intersection(field.name for field in CHANGE_FIELDS):
        return False
    files = (*change.places.added, *(part.file for part in change.places.losing))
    return all(has_spark_type(field.type) for field in change.relation.fields) and all(file.mapping_id is None for file in files)


def without_missing_images(lake: Lake, change: Change) -> Change:
    """The same without before-images if one of their files is missing, which Spark would find too late."""
    from platform_plugin.lake.read.net_changes import read_net_changes

    if _are_there(lake, change.places.images):
        return change
    with lake.reading() as connection:
        return Change(places=read_net_changes(connection, change.relation, after=change.after, until=change.until, with_images=False))


def read_change_rows(
    lake: Lake,
    changed: ChangedRelation,
    *,
    columns: Collection[str] | None = None,
    where: Condition = ALWAYS,
    row_ids: Domain = EVERYTHING,
) -> pa.Table:
    """The changes as Arrow, in the order of row ids; rows that can't be within a condition are left out, and files without the row ids.

    What kind of change a row is does not depend on the condition.
    """
    names = None if columns is None else [field.name for field in changed.table.fields if field.name in columns]
    if changed.steps and not changed.is_stream:
        return _read_steps(lake, changed, names, where, row_ids)
    change = changed.plan(lake, where, row_ids).places
    wanted, fields = chosen_fields(changed.table, names, where)
    if not change.is_append_only and change.added:
        # Whether a row came back as it was, all of its columns tell.
        fields = nullable_fields(changed.table)
    went, came = change.read_fields(lake, fields)
    went, came = remove_equal(went, came) if len(find_pairs(went, came)[0]) else (went, came)
    old, new = went.row_ids, came.row_ids
    if not where.is_always and not change.is_append_only:
        before, after = changed.plan(lake, row_ids=row_ids).places.read_fields(lake, ())
        old, new = before.row_ids, after.row_ids
    kinds = np.where(np.isin(went.row_ids, new), BEFORE, DELETE), np.where(np.isin(came.row_ids, old), AFTER, INSERT)
    selected = [part.select([field.name for field in wanted]) for part in (went, came)]
    rows = pa.concat_tables([part.rows for part in selected])
    ids, snapshots = (np.concatenate(each) for each in ((went.row_ids, came.row_ids), (went.snapshots, came.snapshots)))
    weights = np.repeat([-1, 1], [len(went.row_ids), len(came.row_ids)])
    return _ordered(wanted, rows, kinds=np.concatenate(kinds), row_ids=ids, snapshots=snapshots, weights=weights)


def _read_steps(lake: Lake, changed: ChangedRelation, names: Sequence[str] | None, where: Condition, row_ids: Domain) -> pa.Table:
    """Every step: of an update both halves."""

    def read(where: Condition, columns: Sequence[str] | None) -> pa.Table:
        return changed.find_steps(lake, where, row_ids).read(lake, columns=columns)

    wanted, _ = chosen_fields(changed.table, names, where)
    steps = read(where, None if names is None else [field.name for field in wanted])
    every = steps if where.is_always else read(ALWAYS, ())
    both = _updated(every)
    row_ids, snapshots = (steps.column(place).to_numpy() for place in (1, 0))
    is_insert = np.asarray(steps.column(2).to_numpy() == INSERT)
    paired = np.isin(_keys(row_ids, snapshots), both)
    kinds = np.where(paired, np.where(is_insert, AFTER, BEFORE), np.where(is_insert, INSERT, DELETE))
    rows = steps.select(list(range(3, steps.num_columns)))
    return _ordered(wanted, rows, kinds=kinds, row_ids=row_ids, snapshots=snapshots, weights=np.where(is_insert, 1, -1))


def _keys(row_ids: Any, snapshots: Any) -> Any:
    """One value for each pair of a row id and a snapshot."""
    pairs = np.empty(len(row_ids), dtype=[("row", np.int64), ("snapshot", np.int64)])
    pairs["row"], pairs["snapshot"] = row_ids, snapshots
    return pairs


def _updated(steps: pa.Table) -> Any:
    """The rows and snapshots at which a row both went and came."""
    found, counts = np.unique(_keys(steps.column(1).to_numpy(), steps.column(0).to_numpy()), return_counts=True)
    return found[counts > 1]


def _ordered(fields: Sequence[Field], rows: pa.Table, *, kinds: Any, row_ids: Any, snapshots: Any, weights: Any) -> pa.Table:
    order = np.lexsort((weights, snapshots, row_ids))
    marks = [pa.array(kinds[order].tolist(), pa.string()), *(pa.array(each[order], pa.int64()) for each in (row_ids, snapshots, weights))]
    columns = rows.take(pa.array(order)).columns if rows.num_columns else []
    return pa.Table.from_arrays([*columns, *marks], schema=arrow_schema((*fields, *CHANGE_FIELDS)))


def _file_count(change: Change) -> int:
    return len(change.places.added) + len(change.places.losing) + len(change.places.images)


def _describe(changed: ChangedRelation, change: Change, *, by_spark: bool) -> str:
    """What is read for the changes, as EXPLAIN says it."""
    places = change.places
    parts = [f"{count_text(len(places.added), 'file')} with rows that came"] if places.added else []
    if places.images:
        parts.append(f"before-images of {count_text(sum(images.row_count for images in places.images), 'row')}")
    if places.losing:
        parts.append(f"{count_text(len(places.losing), 'data file')} with rows that went")
    if places.inlined:
        parts.append("rows in the catalogue")
    kind = "every step" if changed.steps else "net changes"
    where = "as a Spark frame" if by_spark else "with Arrow in this process"
    found = ", ".join(parts) or "nothing"
    return f"{kind} of {changed.table.name} after snapshot {changed.after.id}, up to {changed.until.id}: reads {found}, {where}"


def with_columns(changed: ChangedRelation) -> Table:
    """The table as one with the columns of its changes."""
    return replace(changed.table, fields=changed.fields)
