"""Compaction of the states of views in a run: what is due is merged with Arrow or by Spark, and committed with what the run adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.engine.choose import choose_engine
from platform_plugin.engine.engine import Task, TaskInput, TaskPlan
from platform_plugin.engine.file_parts import is_read_by_tasks
from platform_plugin.engine.option import ENGINE
from platform_plugin.engine.refusal import Refusal, RefusedByEngine, accept
from platform_plugin.lake.files.data_folder import DataFolder
from platform_plugin.operators.group.parts import ROWS
from platform_plugin.relations.answers import Answer, StateTarget
from platform_plugin.relations.bind.names import new_name
from platform_plugin.relations.views.follow.strategy import DEFERRED, rows_parts, strategy_of
from platform_plugin.relations.views.stores import rows_store, store_of
from platform_plugin.state.rewriting import Rewrite, RewriteProgram, find_rewrites

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    import pyarrow as pa

    from platform_plugin.engine.spark.tasks.job import JobPart
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.relations.views.follow.pending import PendingView
    from platform_plugin.state.store import Store


def find_additions(work: Workspace, snapshot: Snapshot, views: Sequence[PendingView]) -> list[Rewrite]:
    """The compactions of these views' states that are due; what the present run adds is left for the next."""
    return find_rewrites(work.lake, snapshot, [store for view in views for store in _stores(view)])


def _stores(view: PendingView) -> Iterator[Store]:
    if strategy_of(view.record) == DEFERRED:
        yield from (rows_store(view.tables[part]) for part in rows_parts(view.plan).values())
    else:
        yield from (store_of(state, view.tables[state.name]) for state in view.plan.states)


def compact_locally(work: Workspace, due: Sequence[Rewrite]) -> tuple[list[Rewrite], list[tuple[StateTarget, list[DataFile]]]]:
    """Merge what is small with Arrow; returns what is left to Spark, and the files of the rest."""
    left: list[Rewrite] = []
    written: list[tuple[StateTarget, list[DataFile]]] = []
    try:
        for rewrite in due:
            try:
                rows = _merged(work, rewrite)
            except RefusedByEngine:
                left.append(rewrite)
                continue
            written.append((_target(rewrite), rewrite.write(work.lake, rows)))
    except BaseException:
        work.lake.discard(file for _, files in written for file in files)
        raise
    return left, written


def choose_for_tasks(work: Workspace, rewrites: Sequence[Rewrite], views: Sequence[PendingView]) -> tuple[list[Rewrite], list[Rewrite]]:
    """The merges that tasks on executors may do, in whose memory all of the rows are, and those that are left to Spark's operators.

    The engine of the run decides, else that of the first view with one of its own that stores these rows, else the lake's.
    """
    options: dict[UUID, str] = {}
    for view in views:
        if (engine := view.record.options.get(ENGINE)) is not None:
            for store in _stores(view):
                options.setdefault(store.table.uuid, engine)
    fitting = [
        work.find_engine(options.get(rewrite.store.table.uuid)) in ("auto", "executors")
        and rewrite.scan.size_bytes <= work.limits.task_state_bytes
        and is_read_by_tasks(rewrite.scan)
        for rewrite in rewrites
    ]
    chosen = list(zip(rewrites, fitting, strict=True))
    return [rewrite for rewrite, fits in chosen if fits], [rewrite for rewrite, fits in chosen if not fits]


def compaction_parts(work: Workspace, rewrites: Sequence[Rewrite]) -> list[JobPart]:
    """Merges as part of a job, a task for each."""
    from platform_plugin.engine.spark.tasks.job import JobPart

    folder = DataFolder(work.lake.storage.root, outside=work.lake.location.outside)
    return [JobPart(RewriteProgram(folder=folder), rewrites)] if rewrites else []


def accept_compactions(
    rewrites: Sequence[Rewrite], answers: Sequence[Sequence[list[DataFile] | Refusal]]
) -> tuple[list[Rewrite], list[tuple[StateTarget, list[DataFile]]]]:
    """What tasks refuse to merge, and the files that they wrote."""
    made = [answer for part in answers for answer in part]
    left = [rewrite for rewrite, answer in zip(rewrites, made, strict=True) if isinstance(answer, Refusal)]
    return left, [(_target(rewrite), answer) for rewrite, answer in zip(rewrites, made, strict=True) if not isinstance(answer, Refusal)]


def _merged(work: Workspace, rewrite: Rewrite) -> pa.Table:
    merge = rewrite.store.merge
    task = Task(plans=() if merge is None else (TaskPlan(query=merge),))
    accept(choose_engine(task, {ROWS: TaskInput(role="state", size_bytes=rewrite.scan.size_bytes, scan=rewrite.scan)}, work.engines))
    return rewrite.merge(work.lake)


def _target(rewrite: Rewrite) -> StateTarget:
    return StateTarget(table=rewrite.store.table, store=rewrite.store, replaces=rewrite.replaces, compaction=rewrite.compaction)


def compaction(work: Workspace, rewrite: Rewrite) -> Answer:
    """The Spark query that merges the rows of files."""
    from platform_plugin.engine.spark.frames.scan import query_relations, read_relation

    frame = read_relation(work.session, work.lake, rewrite.scan)
    if rewrite.store.merge is not None:
        name = new_name()
        frame = query_relations(work.session, rewrite.store.merge_sql(name), {name: frame})
    size, limits = rewrite.scan.size_bytes, work.limits
    is_small, is_large = size <= limits.sent_range_bytes, size >= limits.client_state_bytes
    return Answer(frame=frame, targets=(_target(rewrite),), is_small=is_small, is_large=is_large)
