"""`range_queries`: the Spark queries over one range of a stream for all views that consume it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.nodes import Aggregate
from platform_plugin.algebra.plan.traversal import column_of, columns_in
from platform_plugin.cache import Cache
from platform_plugin.lake.read.scan import read_file_sizes
from platform_plugin.operators.group.sharing import SharedPass, ViewParts, plan_sharing
from platform_plugin.relations.answers import Answer, StateTarget
from platform_plugin.relations.bind.names import new_name
from platform_plugin.relations.follow.ranges import ROW_IDS, estimate_distinct, rows_of, send_rows
from platform_plugin.relations.views.follow.strategy import hidden_columns, rows_parts
from platform_plugin.relations.views.stores import rows_store, store_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from uuid import UUID

    from pyspark.sql import DataFrame

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.operators.group.sharing import SharedPart
    from platform_plugin.relations.follow.maintained import JointScan
    from platform_plugin.relations.follow.ranges import Range
    from platform_plugin.relations.follow.shared_rows import SharedFrame

_PASSES: Cache[tuple[object, ...], SharedPass] = Cache("shared passes", weigh=lambda shared: 60_000 * len(shared.queries))


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewTask:
    """A view in a run: its ranges, the tables of its parts, and the results that it looks up."""

    name: str
    uuid: UUID
    plan: SplitPlan
    tables: Mapping[str, Table]
    ranges: Mapping[str, Range]
    statics: Mapping[str, DataFrame]
    is_deferred: bool = False

    @property
    def identity(self) -> tuple[str, ...]:
        """What tells the parts that are to run from those of other views and other runs."""
        return (str(self.uuid), *(part.name for part in self.plan.streams))


def range_queries(
    work: Workspace,
    snapshot: Snapshot,
    stream: str,
    views: Sequence[ViewTask],
    cached: list[DataFrame],
    *,
    wide: SharedFrame | None = None,
    guests: Sequence[JointScan] = (),
) -> list[Answer]:
    """The queries over the range of a stream that all these views consume; frames to release after the run are added to `cached`.

    `guests` read the same rows in the same scan, and `wide` has the rows of all ranges of the stream that Spark reads.
    """
    from platform_plugin.engine.spark.frames.scan import query_relations

    tail = views[0].ranges[stream]
    is_small = tail.row_count <= work.limits.sent_range_rows and tail.scan.size_bytes <= work.limits.sent_range_bytes
    is_large = tail.row_count >= work.limits.task_least_rows
    answers = [_stored_rows(work, stream, view, is_small=is_small, is_large=is_large) for view in views if view.is_deferred]
    views = [view for view in views if not view.is_deferred]
    if not views:
        return answers + [guest.answer(work, rows_of(work.session, work.lake, tail, hidden=ROW_IDS)) for guest in guests]
    by_name = {view.name: view for view in views}
    statics = {_result_name(view, part): frame for view in views for part, frame in view.statics.items() if part in _looked_up(view)}
    known, shared = find_sharing(work, snapshot, stream, views)
    hidden = (ROW_IDS if guests else frozenset()).union(*(query.hidden for query in shared.queries))
    used = find_columns(shared)
    rows = None if guests else send_rows(work, tail, used, hidden=hidden)
    is_small = rows is not None and _look_up_little(work, snapshot, views)
    if rows is None and wide is not None:
        rows = wide.rows_of(tail, cached)
    if rows is None and len(shared.queries) + len(guests) > 1:
        # Decoded once and kept until the run has ended.
        columns = None if guests else own_columns(tail, used)
        rows = rows_of(work.session, work.lake, tail, columns=columns, hidden=hidden).persist()
        cached.append(rows)
    for number, query in enumerate(shared.queries):
        names = {relation: new_name() for relation in query.relations}
        frames = {name: statics[relation] for relation, name in names.items() if relation in statics}
        frames[names[stream]] = rows if rows is not None else rows_of(work.session, work.lake, tail, hidden=query.hidden)
        targets = tuple(_target(by_name[part.view], part) for part in query.parts)
        frame = query_relations(work.session, query.sql(names), frames)
        answers.append(Answer(frame=frame, targets=targets, cached_as=(*known, number), is_small=is_small, is_large=is_large))
    if rows is not None:
        answers += [guest.answer(work, rows) for guest in guests]
    return answers


def find_sharing(work: Workspace, snapshot: Snapshot, stream: str, views: Sequence[ViewTask]) -> tuple[tuple[object, ...], SharedPass]:
    """The queries that these views share over a range, and what they are known by.

    They depend on plans, and on about how many rows and different values the range has.
    """
    tail = views[0].ranges[stream]
    parts = sum(part.stream == stream for view in views for part in view.plan.streams)
    distinct = estimate_distinct(work.lake, tail, _key_columns(stream, views)) if parts > 1 else {}
    sizes = tuple(sorted((name, count.bit_length()) for name, count in distinct.items()))
    known = (
        work.lake.uuid,
        snapshot.schema_version,
        stream,
        tuple(sorted(view.identity for view in views)),
        *((tail.row_count.bit_length(), sizes) if sizes else ()),
    )

    def plan() -> SharedPass:
        parts = []
        for view in views:
            # A result that several views look up is one relation, so that they share what is made of it.
            called = {part: _result_name(view, part) for part in _looked_up(view)}
            parts.append(ViewParts(view=view.name, plan=view.plan, statics=called))
        return plan_sharing(parts, stream, rows=tail.row_count, distinct=distinct)

    return known, _PASSES.find(known, plan)


def find_columns(shared: SharedPass) -> frozenset[str]:
    """The names of all columns that the queries mention."""
    return frozenset(column.name for query in shared.queries for column in columns_in(query.query))


def own_columns(tail: Range, names: Collection[str]) -> list[str]:
    """Those of a stream's columns that have these names; one at least, since a frame without columns has no rows."""
    fields = tail.stream.fields
    return [field.name for field in fields if field.name in names] or [fields[0].name]


def _key_columns(stream: str, views: Sequence[ViewTask]) -> list[str]:
    """The columns of a stream by which views group it."""
    queries = [part.query for view in views for part in view.plan.streams if part.stream == stream]
    columns = [column_of(item.value.node) for query in queries if isinstance(query, Aggregate) for item in query.keys]
    own = {field.name for field in views[0].ranges[stream].stream.fields}
    return sorted({column.name for column in columns if column is not None and column.name in own})


def _looked_up(view: ViewTask) -> list[str]:
    """The static parts whose results a view looks up."""
    return [part.name for part in view.plan.statics if part.feeds is None]


def _result_name(view: ViewTask, part: str) -> str:
    return f"static_{view.tables[part].uuid.hex}"


def _target(view: ViewTask, part: SharedPart) -> StateTarget:
    """Where the rows of a part are added."""
    table = view.tables[part.state]
    state = next(state for state in view.plan.states if state.name == part.state)
    return StateTarget(table=table, part=part, store=store_of(state, table))


def _look_up_little(work: Workspace, snapshot: Snapshot, views: Sequence[ViewTask]) -> bool:
    """Whether the tables that views look up are small, too."""
    tables = {view.tables[part].uuid: view.tables[part] for view in views for part in view.statics}
    if any(table.id is None for table in tables.values()):
        return False  # a table that the commit of this run creates
    with work.lake.reading() as connection:
        sizes = read_file_sizes(connection, list(tables.values()), snapshot)
    return all(sum(found) <= work.limits.sent_range_bytes for found in sizes.values())


def _stored_rows(work: Workspace, stream: str, view: ViewTask, *, is_small: bool, is_large: bool) -> Answer:
    """The rows of a range as a deferred view keeps them."""
    table = view.tables[rows_parts(view.plan)[stream]]
    rows = rows_of(work.session, work.lake, view.ranges[stream], hidden=hidden_columns(view.plan, stream))
    frame = rows.select([field.name for field in table.fields])
    return Answer(frame=frame, targets=(StateTarget(table=table, store=rows_store(table)),), is_small=is_small, is_large=is_large)
