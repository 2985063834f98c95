"""CREATE VIEW and EXPLAIN CREATE VIEW: a plain view, or over a stream a continuous one with its parts."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from platform_plugin.errors import CommitConflict, InvalidStatement, InvalidValue, ObjectExists, PlatformError, QueryFailed, RefusedView
from platform_plugin.lake.catalogue.relations import RELATION_TABLES, Declaration, declare_relation
from platform_plugin.lake.catalogue.tables import Table
from platform_plugin.lake.cursors.cursor import has_cursors, read_owners
from platform_plugin.lake.ring.segments import RING_TABLES
from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.text.counting import count_text
from platform_plugin.language.text.places import locate_offset
from platform_plugin.operators.group.admission import CHANGING
from platform_plugin.operators.group.sharing import ViewParts, plan_sharing
from platform_plugin.relations.bind.names import lake_name, place_errors
from platform_plugin.relations.bind.query import bind_query
from platform_plugin.relations.faults import place_spark_errors, suggest_columns
from platform_plugin.relations.follow.ranges import read_first_row_id
from platform_plugin.relations.hooks import DropBlocker
from platform_plugin.relations.options import stored_option
from platform_plugin.relations.result import Result
from platform_plugin.relations.target import find_existing, statement_result
from platform_plugin.relations.views.build import CommitViews, NewView, drop_views, first_rows, make_view, put_view
from platform_plugin.relations.views.explain import explain_split
from platform_plugin.relations.views.follow.progress import read_consuming_views
from platform_plugin.relations.views.follow.shared_states import find_sharers, state_likeness
from platform_plugin.relations.views.follow.strategy import BATCH, DEFERRED, EAGER, SPLIT
from platform_plugin.relations.views.gates import refuse_gate_of_view
from platform_plugin.relations.views.plans import prepare_plan, read_plans
from platform_plugin.relations.views.read.shared_results import find_shared_results
from platform_plugin.relations.views.read.view import split_name
from platform_plugin.relations.views.record import VIEW_TABLES, read_records
from platform_plugin.relations.views.relations import describe_relations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, View
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.lake import Lake
    from platform_plugin.language import statements as s
    from platform_plugin.language.text.names import WrittenName
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.relations.arguments import Arguments
    from platform_plugin.relations.views.relations import QueryMeaning


def run_create_view(work: Workspace, statement: s.CreateView, *, since: Snapshot | None = None) -> Result:
    """Store a query under a name. Over a stream it is maintained from now on, or refused with the rule that it breaks.

    Views that are created one after the other and begin with what has arrived `since` the same snapshot can share states.
    """
    with work.lake.lease(holder="create view") as lease:
        snapshot = lease.snapshot
        name = lake_name(statement.name)
        old = _find_old(work, statement, snapshot)
        if old is not None and statement.if_not_exists:
            return statement_result(snapshot, f"view {name} exists already")
        definition = _prepare_view(work, statement, snapshot)
        if definition is None:
            return _create_plain(work, statement, snapshot, old)
        new = _new_view(work, statement, definition, since=since)
        with _place_refusals(work, statement, snapshot):
            try:
                made = make_view(work, new, snapshot, old=old, whole=_whole_query(work, statement, snapshot))
            except CommitConflict:
                if not new.begins:
                    raise
                made = make_view(work, replace(new, begins={}), snapshot, old=old, whole=_whole_query(work, statement, snapshot))
        return statement_result(made, _message(new))


def run_create_views(work: Workspace, statements: Sequence[s.CreateView]) -> list[Result]:
    """Create the views of several statements in one commit: all of them, or none if one is refused or the process ends before that.

    A view can't read another one of the same commit. Views with equal parts share them as if one were created after the other.
    """
    lake = work.lake
    with lake.lease(holder="create views") as lease:
        snapshot = lease.snapshot
        lake.prepare_tables([*RELATION_TABLES, *RING_TABLES, *VIEW_TABLES])
        _refuse_ties(statements)
        olds = [_find_old(work, statement, snapshot) for statement in statements]
        replaced = [old for old, each in zip(olds, statements, strict=True) if old is not None and not each.if_not_exists]
        views = CommitViews(replaced=tuple(replaced))
        messages: list[str] = []
        try:
            with lake.commit(f"create {count_text(len(statements), 'view')}", base=snapshot) as commit:
                drop_views(work, commit, views.replaced, snapshot)
                for statement, old in zip(statements, olds, strict=True):
                    messages.append(_put_one(work, commit, statement, old, views))
        except PlatformError:
            views.discard(lake)
            raise
    return [statement_result(commit.made, message) for message in messages]


def _refuse_ties(statements: Sequence[s.CreateView]) -> None:
    """Refuse statements of one commit that create the same view, or read what another one creates."""
    names: dict[str, WrittenName] = {}
    for statement in statements:
        key = str(lake_name(statement.name)).lower()
        if key in names:
            raise locate_offset(statement.name.span).attach(
                ObjectExists(f'view "{lake_name(statement.name)}" is created twice by one commit', hint="leave one of the statements out")
            )
        names[key] = statement.name
    for statement in statements:
        for reference in analyse_query(statement.query).relations:
            name = lake_name(reference.name)
            if str(name).lower() in names and name != lake_name(statement.name):
                raise locate_offset(reference.span).attach(
                    InvalidValue(
                        f'view "{name}" is created by the same commit, which can\'t read it yet',
                        hint="create it in a script of its own before, or run the script without one commit for all",
                    )
                )


def _put_one(work: Workspace, commit: Commit, statement: s.CreateView, old: View | None, views: CommitViews) -> str:
    """Add the creation of one view to the commit of several; the message for its statement."""
    name, snapshot = lake_name(statement.name), commit.base
    if old is not None and statement.if_not_exists:
        return f"view {name} exists already"
    definition = _prepare_view(work, statement, snapshot)
    if definition is None:
        with place_errors(statement.name.span):
            _put_plain(work, commit, statement)
        return _PLAIN.format(name)
    new = _new_view(work, statement, definition, since=None)
    with _place_refusals(work, statement, snapshot):
        put_view(work, commit, new, snapshot, views, whole=_whole_query(work, statement, snapshot))
    return _message(new)


def _find_old(work: Workspace, statement: s.CreateView, snapshot: Snapshot) -> View | None:
    """The view that has the name of a new one; it is an error where the statement does not say what becomes of it."""
    name = lake_name(statement.name)
    old = find_existing(work.lake, name, snapshot)
    if isinstance(old, Table) and not statement.if_not_exists:
        raise locate_offset(statement.name.span).attach(ObjectExists(f'"{name}" is a table', hint="choose another name"))
    if old is not None and not statement.or_replace and not statement.if_not_exists:
        raise locate_offset(statement.name.span).attach(
            ObjectExists(f'view "{name}" exists already', hint="choose another name, or write CREATE OR REPLACE")
        )
    return cast("View | None", old)


def _prepare_view(work: Workspace, statement: s.CreateView, snapshot: Snapshot) -> tuple[SplitPlan, QueryMeaning] | None:
    """The plan of a continuous view and the meaning of its query; None for a query that is computed when the view is read."""
    try:
        prepared = _prepare_unless_plain(work, statement, snapshot)
    except PlatformError:
        # What Spark can't read is told in the words of any query.
        _check_query(work, statement, snapshot)
        raise
    own = lake_name(statement.name)
    if prepared is not None and prepared[0].streams:
        if any(found.name == (own.schema, own.relation) for found in prepared[1].relations.values()):
            _check_query(work, statement, snapshot)
        return prepared
    _check_query(work, statement, snapshot)
    if _asks_for_maintenance(statement):
        raise locate_offset(statement.name.span).attach(
            InvalidValue(f'view "{own}" reads no stream', hint="leave out CONTINUOUS and WITH: it is computed when it is read")
        )
    return None


def _asks_for_maintenance(statement: s.CreateView) -> bool:
    return statement.continuous or any(option.name != "suite" for option in statement.options)


def _prepare_unless_plain(work: Workspace, statement: s.CreateView, snapshot: Snapshot) -> tuple[SplitPlan, QueryMeaning] | None:
    """The plan of a view's query and its meaning; None for a query that groups no stream: the view is the query itself.

    A query that can't be maintained is an error, and so is any that has nothing to maintain if maintenance is asked for.
    """
    try:
        return prepare_plan(work, statement.query, snapshot, columns=_aliases(statement))
    except InvalidStatement as refused:
        is_plain = refused.is_plain if isinstance(refused, RefusedView) else _reads_tables_only(work, statement, snapshot)
        if is_plain and not _asks_for_maintenance(statement):
            return None
        raise


def _reads_tables_only(work: Workspace, statement: s.CreateView, snapshot: Snapshot) -> bool:
    """Whether nothing that a query reads changes by itself, so that no plan of it is needed."""
    return not any(found.kind in CHANGING for found in describe_relations(work, statement.query, snapshot).values())


def _aliases(statement: s.CreateView) -> tuple[str, ...]:
    return tuple(alias.name for alias in statement.aliases)


def _check_query(work: Workspace, statement: s.CreateView, snapshot: Snapshot) -> None:
    """Let Spark look at a view's query as it is."""
    bound = bind_query(work, statement.query, snapshot, within=(lake_name(statement.name),))
    with place_spark_errors(bound.rendered), suggest_columns(bound.tables), work.session.job():
        found = bound.frame.schema
    if statement.aliases and len(statement.aliases) != len(found.fields):
        raise locate_offset(statement.query).attach(
            InvalidValue(
                f"the view names {count_text(len(statement.aliases), 'column')}, its query gives {len(found.fields)}",
                hint="name each of them",
            )
        )


def _whole_query(work: Workspace, statement: s.CreateView, snapshot: Snapshot) -> Callable[[], DataFrame]:
    return lambda: bind_query(work, statement.query, snapshot, within=(lake_name(statement.name),)).frame


@contextmanager
def _place_refusals(work: Workspace, statement: s.CreateView, snapshot: Snapshot) -> Iterator[None]:
    """Give errors of a view's creation the place of its name; what Spark refuses of its parts may be wrong in its query."""
    try:
        with place_errors(statement.name.span):
            yield
    except (RefusedView, QueryFailed):
        _check_query(work, statement, snapshot)
        raise


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
        streams = {stream: str(work.lake.table(split_name(stream), snapshot).uuid) for stream in plan.stream_names}
        at = {stream: (uuid, begins[uuid]) for stream, uuid in streams.items()}
        likeness = state_likeness(plan, find_shared_results(work, plan, snapshot), options, at)
        twins = [f"made now, it would share states of view {view}" for view in find_sharers(work, likeness, snapshot)]
        text = "\n".join([explain_split(plan), *(found.explain() for found in shared), *twins[:1]])
    return Result(pa.table({"plan": text.splitlines()}), snapshot=snapshot)


def _create_plain(work: Workspace, statement: s.CreateView, snapshot: Snapshot, old: View | None) -> Result:
    name = lake_name(statement.name)
    with place_errors(statement.name.span), work.lake.commit(f"create view {name}", base=snapshot) as commit:
        if old is not None and _is_continuous(work, old):
            drop_views(work, commit, [old], snapshot)
        _put_plain(work, commit, statement)
    return statement_result(commit.made, _PLAIN.format(name))


def _is_continuous(work: Workspace, view: View) -> bool:
    with work.lake.reading() as connection:
        return view.uuid in read_records(connection, only=view.uuid)


def _put_plain(work: Workspace, commit: Commit, statement: s.CreateView) -> None:
    name = lake_name(statement.name)
    refuse_gate_of_view(work, name)
    uuid = commit.create_view(
        name, statement.query.text, columns=_aliases(statement), comment=statement.comment, or_replace=statement.or_replace
    )
    if statement.options:
        declare_relation(commit, uuid, Declaration(kind="view", options=dict(stored_option(option) for option in statement.options)))


def _begins(work: Workspace, plan: SplitPlan, since: Snapshot) -> dict[str, int]:
    """The rows at which streams ended at a snapshot; nothing if some of what has arrived since was evicted."""
    try:
        return {stream: read_first_row_id(work.lake, work.lake.table(split_name(stream), since), since) for stream in plan.stream_names}
    except PlatformError:
        return {}


def _new_view(work: Workspace, statement: s.CreateView, definition: tuple[SplitPlan, QueryMeaning], *, since: Snapshot | None) -> NewView:
    """The continuous view that a statement defines."""
    plan, meaning = definition
    options = {option.name: option for option in statement.options}
    if "batch_rows" in options and ("maintenance" not in options or options["maintenance"].value != BATCH):
        raise locate_offset(options["batch_rows"].span).attach(
            InvalidValue("batch_rows is for views that are maintained in batches", hint="add maintenance = 'batch', or leave it out")
        )
    earliest = "start" in options and options["start"].value == "earliest"
    return NewView(
        name=lake_name(statement.name),
        query=statement.query.text,
        columns=_aliases(statement),
        comment=statement.comment,
        options=dict(stored_option(option) for option in statement.options),
        plan=plan,
        meaning=meaning,
        begins={} if since is None or earliest else _begins(work, plan, since),
    )


def _message(new: NewView) -> str:
    said = f"view {new.name} created; {_MAINTAINED_BY[str(new.options.get('maintenance', SPLIT))]}"
    if tables := new.plan.static_tables:
        said += f"; {', '.join(tables)} below its grouping was read now and is not read again but by REBUILD VIEW {new.name}"
    return said


_PLAIN = "view {} created; it is computed when it is read"
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
        if not has_cursors(connection):
            return None
        consumers = read_consuming_views(connection, list(read_owners(connection, stream.uuid)))
    views = sorted(str(view.name) for view in lake.views(snapshot) if view.uuid in consumers)
    return DropBlocker("read by", tuple(views), "DROP VIEW") if views else None
