"""CREATE VIEW and EXPLAIN CREATE VIEW: a plain view, or over a stream a continuous one with its parts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from platform_plugin.errors import CommitConflict, InvalidStatement, InvalidValue, ObjectExists, PlatformError, RefusedView
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.lake.catalogue.tables import Table
from platform_plugin.lake.ring.consumers import has_consumers, read_consumers
from platform_plugin.language.text.counting import count_text
from platform_plugin.language.text.places import locate_offset
from platform_plugin.operators.group.admission import CHANGING
from platform_plugin.operators.group.sharing import ViewParts, plan_sharing
from platform_plugin.relations.bind import bind_query, lake_name, place_errors
from platform_plugin.relations.faults import place_spark_errors, suggest_columns
from platform_plugin.relations.follow.ranges import read_first_row_id
from platform_plugin.relations.hooks import DropBlocker
from platform_plugin.relations.options import stored_option
from platform_plugin.relations.result import Result
from platform_plugin.relations.target import find_existing, statement_result
from platform_plugin.relations.views.build import NewView, first_rows, make_view
from platform_plugin.relations.views.explain import explain_split
from platform_plugin.relations.views.follow.shared_states import find_sharers, sharing_key
from platform_plugin.relations.views.follow.strategy import BATCH, DEFERRED, EAGER, SPLIT
from platform_plugin.relations.views.gates import refuse_gate_of_view
from platform_plugin.relations.views.plans import prepare_plan, read_plans
from platform_plugin.relations.views.read.shared_results import find_shared_results
from platform_plugin.relations.views.read.view import split_name
from platform_plugin.relations.views.relations import describe_relations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Name, Snapshot, View
    from platform_plugin.lake.lake import Lake
    from platform_plugin.language import statements as s
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.relations.arguments import Arguments
    from platform_plugin.relations.views.relations import QueryMeaning


def run_create_view(work: Workspace, statement: s.CreateView, *, since: Snapshot | None = None) -> Result:
    """Store a query under a name. Over a stream it is maintained from now on, or refused with the rule that it breaks.

    Views that are created one after the other and begin with what has arrived `since` the same snapshot can share states.
    """
    name = lake_name(statement.name)
    with work.lake.lease(holder="create view") as lease:
        old = find_existing(work.lake, name, lease.snapshot)
        if old is not None and statement.if_not_exists:
            return statement_result(lease.snapshot, f"view {name} exists already")
        if isinstance(old, Table):
            raise locate_offset(statement.name.span).attach(ObjectExists(f'"{name}" is a table', hint="choose another name"))
        if old is not None and not statement.or_replace:
            raise locate_offset(statement.name.span).attach(
                ObjectExists(f'view "{name}" exists already', hint="choose another name, or write CREATE OR REPLACE")
            )
        # Bound once as it is, so that what Spark can't read is told in the words of any query.
        bound = bind_query(work, statement.query, lease.snapshot, within=(name,))
        with place_spark_errors(bound.rendered), suggest_columns(bound.tables), work.session.job():
            found = bound.frame.schema
        aliases = tuple(alias.name for alias in statement.aliases)
        if aliases and len(aliases) != len(found.fields):
            raise locate_offset(statement.query).attach(
                InvalidValue(
                    f"the view names {count_text(len(aliases), 'column')}, its query gives {len(found.fields)}", hint="name each of them"
                )
            )
        plan, meaning = _prepare_unless_plain(work, statement, lease.snapshot) or (None, None)
        if plan is None or meaning is None or not plan.streams:
            if _asks_for_maintenance(statement):
                raise locate_offset(statement.name.span).attach(
                    InvalidValue(f'view "{name}" reads no stream', hint="leave out CONTINUOUS and WITH: it is computed when it is read")
                )
            return _create_plain(work, statement, name, aliases, lease.snapshot)
        begins = {} if since is None else _begins(work, plan, since)
        return _create_continuous(work, statement, (plan, meaning), lease.snapshot, old, begins=begins)


def explain_create_view(work: Workspace, explain: s.Explain, _arguments: Arguments) -> Result:
    """How a view would be split and what it would share with other views, or the rule that it breaks; nothing is created."""
    statement = cast("s.CreateView", explain.statement)
    snapshot = work.lake.snapshot()
    name = lake_name(statement.name)
    prepared = _prepare_unless_plain(work, statement, snapshot)
    if prepared is None:
        text = f"view {name} groups no stream: it is computed when it is read"
    elif not (plan := prepared[0]).streams:
        text = f"view {name} reads no stream: it is computed when it is read"
    else:
        others = [view for view in read_plans(work, snapshot) if view.view != str(name)]
        mine = ViewParts(view=str(name), plan=plan)
        shared = [
            plan_sharing([*(view for view in others if stream in view.plan.stream_names), mine], stream) for stream in plan.stream_names
        ]
        options = dict(stored_option(option) for option in statement.options)
        begins = first_rows(work, plan, snapshot, earliest=options.get("start") == "earliest")
        same = sharing_key(plan, find_shared_results(work, plan, snapshot, but=None), options)
        twins = [f"made now, it would share the states of view {view.name}" for view, _ in find_sharers(work, same, begins, snapshot)]
        text = "\n".join([explain_split(plan), *(found.explain() for found in shared), *twins[:1]])
    return Result(pa.table({"plan": text.splitlines()}), snapshot=snapshot)


def _create_plain(work: Workspace, statement: s.CreateView, name: Name, aliases: tuple[str, ...], snapshot: Snapshot) -> Result:
    refuse_gate_of_view(work, name)
    with place_errors(statement.name.span), work.lake.commit(f"create view {name}", base=snapshot) as commit:
        uuid = commit.create_view(name, statement.query.text, columns=aliases, comment=statement.comment, or_replace=statement.or_replace)
        if statement.options:
            declare_relation(commit, uuid, Declaration(kind="view", options=dict(stored_option(option) for option in statement.options)))
    return statement_result(commit.made, f"view {name} created; it is computed when it is read")


def _asks_for_maintenance(statement: s.CreateView) -> bool:
    return statement.continuous or any(option.name != "suite" for option in statement.options)


def _prepare_unless_plain(work: Workspace, statement: s.CreateView, snapshot: Snapshot) -> tuple[SplitPlan, QueryMeaning] | None:
    """The plan of a view's query and its meaning; None for a query that groups no stream: the view is the query itself.

    A query that can't be maintained is an error, and so is any that has nothing to maintain if maintenance is asked for.
    """
    try:
        return prepare_plan(work, statement.query, snapshot, columns=tuple(alias.name for alias in statement.aliases))
    except InvalidStatement as refused:
        is_plain = refused.is_plain if isinstance(refused, RefusedView) else _reads_tables_only(work, statement, snapshot)
        if is_plain and not _asks_for_maintenance(statement):
            return None
        raise


def _reads_tables_only(work: Workspace, statement: s.CreateView, snapshot: Snapshot) -> bool:
    """Whether nothing that a query reads changes by itself, so that no plan of it is needed."""
    return not any(found.kind in CHANGING for found in describe_relations(work, statement.query, snapshot).values())


def _begins(work: Workspace, plan: SplitPlan, since: Snapshot) -> dict[str, int]:
    """The rows at which streams ended at a snapshot; nothing if some of what has arrived since was evicted."""
    try:
        return {stream: read_first_row_id(work.lake, work.lake.table(split_name(stream), since), since) for stream in plan.stream_names}
    except PlatformError:
        return {}


def _create_continuous(
    work: Workspace,
    statement: s.CreateView,
    planned: tuple[SplitPlan, QueryMeaning],
    snapshot: Snapshot,
    old: View | None,
    *,
    begins: Mapping[str, int],
) -> Result:
    name = lake_name(statement.name)
    plan, meaning = planned
    options = {option.name: option for option in statement.options}
    if "batch_rows" in options and ("maintenance" not in options or options["maintenance"].value != BATCH):
        raise locate_offset(options["batch_rows"].span).attach(
            InvalidValue("batch_rows is for views that are maintained in batches", hint="add maintenance = 'batch', or leave it out")
        )
    new = NewView(
        name=name,
        query=statement.query.text,
        columns=tuple(alias.name for alias in statement.aliases),
        comment=statement.comment,
        options=dict(stored_option(option) for option in statement.options),
        plan=plan,
        meaning=meaning,
        begins={} if "start" in options and options["start"].value == "earliest" else begins,
    )
    with place_errors(statement.name.span):
        try:
            made = make_view(work, new, snapshot, old=old)
        except CommitConflict:
            if not new.begins:
                raise
            made = make_view(work, replace(new, begins={}), snapshot, old=old)
    said = f"view {name} created; {_MAINTAINED_BY[str(new.options.get('maintenance', SPLIT))]}"
    if tables := plan.static_tables:
        said += f"; {', '.join(tables)} below its grouping was read now and is not read again but by REBUILD VIEW {name}"
    return statement_result(made, said)


_RUNS = "`platform maintain`, REFRESH VIEW or a Dagster sensor"
_MAINTAINED_BY = {
    SPLIT: f"reads are current, and {_RUNS} keeps them cheap",
    DEFERRED: f"reads are current, and {_RUNS} stores its rows",
    EAGER: "whoever adds rows makes its result anew",
    BATCH: "whoever adds rows makes its result anew, once batch_rows of them wait",
}


def find_consuming_views(lake: Lake, stream: Table, snapshot: Snapshot) -> DropBlocker | None:
    """The continuous views that keep a stream from being dropped, or None."""
    with lake.reading() as connection:
        if not has_consumers(connection):
            return None
        consumers = read_consumers(connection, stream.uuid)
    views = sorted(str(view.name) for view in lake.views(snapshot) if str(view.uuid) in consumers)
    return DropBlocker("read by", tuple(views), "DROP VIEW") if views else None
