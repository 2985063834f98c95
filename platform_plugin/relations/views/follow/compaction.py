"""Compaction of the states of views in a run: what is due is merged with Arrow or by Spark, and committed with what the run adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.engine.arrow.values import NotSupportedByArrow
from platform_plugin.relations.answers import Answer, StateTarget
from platform_plugin.relations.bind import new_name
from platform_plugin.relations.views.follow.strategy import DEFERRED, rows_parts, strategy_of
from platform_plugin.relations.views.stores import rows_store, store_of
from platform_plugin.state.rewriting import Rewrite, find_rewrites

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
                if rewrite.scan.size_bytes >= work.limits.client_state_bytes:
                    raise NotSupportedByArrow("a large state", for_good=False)
                rows = rewrite.merge(work.lake)
            except NotSupportedByArrow:
                left.append(rewrite)
                continue
            written.append((_target(rewrite), rewrite.write(work.lake, rows)))
    except BaseException:
        work.lake.discard(file for _, files in written for file in files)
        raise
    return left, written


def _target(rewrite: Rewrite) -> StateTarget:
    return StateTarget(table=rewrite.store.table, store=rewrite.store, replaces=rewrite.replaces, compaction=rewrite.compaction)


def compaction(work: Workspace, rewrite: Rewrite) -> Answer:
    """The Spark query that merges the rows of files."""
    from platform_plugin.engine.spark.frames.scan import query_relations, read_relation

    frame = read_relation(work.session, work.lake, rewrite.scan)
    if rewrite.store.merge is not None:
        name = new_name()
        frame = query_relations(work.session, rewrite.store.merge_sql(name), {name: frame})
    return Answer(frame=frame, targets=(_target(rewrite),), is_small=rewrite.scan.size_bytes <= work.limits.sent_range_bytes)
