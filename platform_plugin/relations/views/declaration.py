"""The definition of a view in a file: whether the lake has it, and creating, replacing or altering the view."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from platform_plugin.engine.option import ENGINE
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.language.statements.create_view import CreateView
from platform_plugin.language.text.comparing import normalise_statement
from platform_plugin.relations.declarations import UNCHANGED, DeclaredRelation, DefinitionOutcome, DescribedRelation
from platform_plugin.relations.options import stored_option
from platform_plugin.relations.views.define import run_create_view
from platform_plugin.relations.views.follow.progress import read_last_progress
from platform_plugin.relations.views.follow.strategy import BATCH
from platform_plugin.relations.views.gates import refuse_gate_of_view
from platform_plugin.relations.views.record import change_options, read_records, result_fields
from platform_plugin.state.node import read_uses

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, View
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.lake import Lake
    from platform_plugin.language.statements.statement import Statement
    from platform_plugin.language.text.options import Option
from platform_plugin.relations.views.record import ViewRecord

# What may change while a view stays what it is, and what makes another view of it.
_CHANGING = ("target_lag_seconds", "batch_rows", ENGINE, "suite")
_REMAKING = ("maintenance",)
# A suite stands in the file that declares the view.
_ALTERED = ("target_lag_seconds", "batch_rows", ENGINE)


def read_declared(statement: Statement) -> DeclaredRelation | None:
    """The definition in a CREATE VIEW."""
    if not isinstance(statement, CreateView):
        return None
    return DeclaredRelation(
        name=statement.name,
        comment=statement.comment,
        query=statement.query,
        names=tuple(alias.name for alias in statement.aliases),
        is_continuous=statement.continuous or bool(statement.options),
        has_lag=any(option.name == "target_lag" for option in statement.options),
    )


def define_view(work: Workspace, statement: Statement, old: View | None, *, since: Snapshot | None) -> DefinitionOutcome:
    """Create the view that a file declares, replace it if its definition has changed, or set its lag."""
    declared = cast("CreateView", statement)
    record = None
    if old is not None:
        with work.lake.reading() as connection:
            record = read_records(connection, only=old.uuid).get(old.uuid)
    if old is None or not _is_same(old, record, declared) or (record is None and _names_other_suite(work.lake, old, declared)):
        run_create_view(work, replace(declared, or_replace=True, if_not_exists=False), since=since)
        return DefinitionOutcome("created" if old is None else "replaced")
    if record is not None and (wanted := _wanted(record, declared)) != dict(record.options):
        _set_options(work, old, record, wanted)
        return DefinitionOutcome("altered")
    if record is None:
        refuse_gate_of_view(work, old.name)
    return UNCHANGED


def _names_other_suite(lake: Lake, old: View, statement: CreateView) -> bool:
    """Whether a view that stores nothing has to be made again to name another suite."""
    with lake.reading() as connection:
        known = read_declaration(connection, old.uuid)
    return bool(known.options.get("suite") != _options(statement).get("suite"))


def is_defined(old: View | None, record: ViewRecord | None, statement: Statement) -> bool:
    """Whether the lake has the view that a file declares, so that `define_view` would do nothing."""
    if not isinstance(statement, CreateView) or old is None or not _is_same(old, record, statement):
        return False
    return record is None or _wanted(record, statement) == dict(record.options)


def describe_views(connection: Connection, views: Sequence[View]) -> Iterator[DescribedRelation]:
    """The definitions of views in the lake; only Spark knows the columns of views that are not continuous."""
    records = read_records(connection) if views else {}
    taken_up = read_last_progress(connection, read_uses(connection)) if records else {}
    for view in views:
        record = records.get(view.uuid)
        yield DescribedRelation(
            fields=result_fields(record) if record is not None else (),
            options=record.options if record is not None else {},
            query=view.sql if view.dialect == "spark" else None,
            names=view.columns,
            is_continuous=record is not None,
            is_maintained=taken_up.get(str(view.uuid), 0) > (view.begin_snapshot or 0),
        )


def _wanted(record: ViewRecord, statement: CreateView) -> dict[str, Any]:
    """The options of a view with the target lag and the batch size of its file."""
    others = {name: value for name, value in record.options.items() if name not in _CHANGING}
    return others | {name: value for name, value in _options(statement).items() if name in _CHANGING}


def _set_options(work: Workspace, view: View, record: ViewRecord, options: Mapping[str, Any]) -> None:
    """Give a continuous view other options, keeping what it has."""
    with work.lake.commit(f"target lag of view {view.name}") as commit:
        change_options(commit, record, options)


def alter_options(work: Workspace, commit: Commit, view: View, options: Sequence[Option]) -> None:
    """Change those options of a continuous view that do not make another view of it."""
    with work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
    if record is None:
        raise InvalidValue(f'"{view.name}" is not a continuous view', hint="it stores nothing, so it has no options to alter")
    changed = dict(stored_option(option) for option in options)
    fixed = next((name for name in changed if name not in _ALTERED), None)
    if fixed is not None:
        raise InvalidValue(f'option "{fixed}" of view "{view.name}" is fixed', hint="CREATE OR REPLACE VIEW gives the view others")
    if "batch_rows" in changed and record.options.get("maintenance") != BATCH:
        raise InvalidValue("batch_rows is for views that are maintained in batches", hint="leave it out")
    change_options(commit, record, {**record.options, **changed})


def _options(statement: CreateView) -> dict[str, Any]:
    return dict(stored_option(option) for option in statement.options)


def _is_same(old: View, record: ViewRecord | None, statement: CreateView) -> bool:
    """Whether a view is what its file says, but for its target lag; what it started with is over."""
    if record is not None:
        said = _options(statement)
        if any(name in said and said[name] != record.options.get(name) for name in _REMAKING):
            return False
    same_names = old.columns == tuple(alias.name for alias in statement.aliases)
    written = statement.query.text
    return (
        same_names
        and old.comment == statement.comment
        and (old.sql == written or normalise_statement(old.sql) == normalise_statement(written))
    )
