"""A view as a file declares it, and what is done so that the lake holds just that."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from platform_plugin.language.statements.create_view import CreateView
from platform_plugin.language.text.comparing import normalised
from platform_plugin.relations.declared import UNCHANGED, Declared, Defined, Described
from platform_plugin.relations.options import stored_option
from platform_plugin.relations.views.define import run_create_view
from platform_plugin.relations.views.record import note_options, read_records, result_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, View
    from platform_plugin.language.statements.statement import Statement
    from platform_plugin.relations.views.record import ViewRecord

# What may change while a view stays what it is, and what makes another view of it.
_CHANGING = ("target_lag_seconds", "batch_rows")
_REMAKING = ("maintenance", "key")


def read_declared(statement: Statement) -> Declared | None:
    """What CREATE VIEW declares."""
    if not isinstance(statement, CreateView):
        return None
    return Declared(
        name=statement.name,
        comment=statement.comment,
        query=statement.query,
        names=tuple(alias.name for alias in statement.aliases),
        is_continuous=statement.continuous or bool(statement.options),
        has_lag=any(option.name == "target_lag" for option in statement.options),
    )


def define_view(work: Workspace, statement: Statement, old: View | None, *, since: Snapshot | None) -> Defined:
    """Create the view that a file declares, make it anew if it is another one, or set its lag."""
    declared = cast("CreateView", statement)
    record = None
    if old is not None:
        with work.lake.reading() as connection:
            record = read_records(connection, only=old.uuid).get(old.uuid)
    if old is None or not _is_same(old, record, declared):
        run_create_view(work, replace(declared, or_replace=True, if_not_exists=False), since=since)
        return Defined("created" if old is None else "replaced")
    if record is not None and (wanted := _wanted(record, declared)) != dict(record.options):
        _set_options(work, old, record, wanted)
        return Defined("altered")
    return UNCHANGED


def is_defined(old: View | None, record: ViewRecord | None, statement: Statement) -> bool:
    """Whether the lake holds what a file declares, so that `define_view` would do nothing."""
    if not isinstance(statement, CreateView) or old is None or not _is_same(old, record, statement):
        return False
    return record is None or _wanted(record, statement) == dict(record.options)


def describe_views(connection: Connection, views: Sequence[View]) -> Iterator[Described]:
    """Views as they are in the lake; of those that are not continuous only Spark knows the columns."""
    records = read_records(connection) if views else {}
    for view in views:
        record = records.get(view.uuid)
        yield Described(
            fields=result_fields(record) if record is not None else (),
            options=record.options if record is not None else {},
            query=view.sql if view.dialect == "spark" else None,
            names=view.columns,
            is_continuous=record is not None,
        )


def _wanted(record: ViewRecord, statement: CreateView) -> dict[str, Any]:
    """The options of a view with the target lag and the batch size of its file."""
    others = {name: value for name, value in record.options.items() if name not in _CHANGING}
    return others | {name: value for name, value in _options(statement).items() if name in _CHANGING}


def _set_options(work: Workspace, view: View, record: ViewRecord, options: Mapping[str, Any]) -> None:
    """Give a continuous view other options, keeping what it has."""
    with work.lake.commit(f"target lag of view {view.name}") as commit:
        note_options(commit, record, options)


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
    return same_names and old.comment == statement.comment and (old.sql == written or normalised(old.sql) == normalised(written))
