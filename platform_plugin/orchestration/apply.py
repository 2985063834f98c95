"""Applying a model: afterwards the lake holds what its file declares, or an error says what stands against it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from platform_plugin.errors import InvalidValue, ObjectExists
from platform_plugin.lake.tables import View
from platform_plugin.language.datatypes import parse_type
from platform_plugin.language.places import at
from platform_plugin.language.render import identifier
from platform_plugin.language.script import parse_statement
from platform_plugin.language.statements import CreateSchema, CreateStream, CreateTable, CreateView
from platform_plugin.orchestration.differences import plan_differences
from platform_plugin.orchestration.inventory import Stored, read_changed, read_lake
from platform_plugin.orchestration.model import normalised
from platform_plugin.queries.shows import created
from platform_plugin.streams.ingest import run_ingest
from platform_plugin.tables import define
from platform_plugin.tables.target import find_existing
from platform_plugin.views.define import run_create_view
from platform_plugin.views.maintain import run_maintenance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.algebra.types import Field
    from platform_plugin.orchestration.model import Model
    from platform_plugin.platform import Platform
    from platform_plugin.spark.metrics import JobMetrics

Action = Literal["created", "rebuilt", "replaced", "unchanged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What was done, and the relation afterwards; `changed` is the snapshot that last changed its rows, None for a view."""

    action: Action
    snapshot: int
    stored: Stored
    changed: int | None
    metrics: JobMetrics | None = None
    work: Mapping[str, Any] = field(default_factory=dict)
    """What a stream's ingestion or a view's maintenance did, figure by figure."""


def run_model(platform: Platform, model: Model) -> Applied:
    """Create what is missing, rebuild a table that is the result of a query, and never touch rows that people put in."""
    work, lake = platform.work, platform.lake
    base = lake.snapshot()
    if model.name.schema not in lake.schemas(base):
        define.run_create_schema(work, CreateSchema(name=model.name.schema, if_not_exists=True))
    old = find_existing(work.lake, model.name, base)
    if old is not None and (kind := define.kind_of(work, old)) != model.kind:
        raise at(model.statement.name.span).attach(
            ObjectExists(
                f'{model.kind} "{model.name}" can\'t be made: there is a {kind} of that name',
                hint=f"DROP {kind.upper()} {model.name}, or choose another name",
            )
        )
    action: Action = "unchanged"
    metrics = None
    match model.statement:
        case CreateTable(query=query) as statement if query is not None:
            result = define.run_create_table(work, replace(statement, or_replace=True, if_not_exists=False), ())
            action, metrics = "created" if old is None else "rebuilt", result.metrics
        case CreateTable() as statement if old is None:
            define.run_create_table(work, statement, ())
            action = "created"
        case CreateStream() as statement if old is None:
            define.run_create_stream(work, statement)
            action = "created"
        case CreateView() as statement if not (isinstance(old, View) and _same_view(old, statement)):
            run_create_view(work, replace(statement, or_replace=True, if_not_exists=False))
            action = "created" if old is None else "replaced"
        case CreateTable() | CreateStream():
            _check_same(platform, model)
    done = _run_upkeep(platform, model)
    return replace(_applied(platform, model, action, metrics), work=done)


def _run_upkeep(platform: Platform, model: Model) -> dict[str, Any]:
    """One bounded batch of a stream's feed, or what has arrived for a continuous view."""
    match model.statement:
        case CreateStream(feed=feed) if feed is not None:
            report = run_ingest(platform.work, model.name)
            told = {"rows_in": report.rows, "files_in": report.files, "quarantined": report.quarantined, "waiting": report.waiting}
            return told | {"jobs": report.jobs, "refused": "\n".join(report.refused) or None, "changed": "\n".join(report.changed) or None}
        case CreateView():
            done = run_maintenance(platform.work, [model.name])
            if done.failed:
                raise next(iter(done.failed.values()))
            return {"rows_in": done.rows, "groups_touched": done.groups, "jobs": done.jobs} if done.views else {}
        case _:
            return {}


def _applied(platform: Platform, model: Model, action: Action, metrics: JobMetrics | None) -> Applied:
    inventory = read_lake(platform.lake)
    stored = inventory.find(model.name)
    if stored is None or inventory.snapshot is None:
        raise InvalidValue(f'{model.kind} "{model.name}" was dropped while it was made', hint="materialize it again")
    if model.kind == "view":
        return Applied(
            action=action, snapshot=inventory.snapshot, stored=replace(stored, fields=_view_fields(platform, model)), changed=None
        )
    table = platform.lake.table(model.name)
    return Applied(action=action, snapshot=inventory.snapshot, stored=stored, changed=read_changed(platform.lake, table), metrics=metrics)


def _view_fields(platform: Platform, model: Model) -> tuple[Field, ...]:
    from platform_plugin.algebra.types import Field

    name = f"{identifier(model.name.schema)}.{identifier(model.name.relation)}"
    return tuple(Field(name=row[0], type=parse_type(row[1])) for row in platform.execute(f"DESCRIBE {name}"))


def _same_view(old: View, statement: CreateView) -> bool:
    same_names = old.columns == tuple(alias.name for alias in statement.aliases)
    return same_names and old.comment == statement.comment and normalised(old.sql) == normalised(statement.query.text)


def _check_same(platform: Platform, model: Model) -> None:
    """A table or stream that holds rows is changed by ALTER only, so a file that says otherwise is refused."""
    lake = platform.lake
    snapshot = lake.snapshot()
    with lake.reading() as connection:
        stored = parse_statement(created(lake, connection, model.statement.name, snapshot))
    found = list(plan_differences(model.statement, stored)) if isinstance(stored, (CreateTable, CreateStream)) else []
    if found:
        raise InvalidValue(
            f'{model.kind} "{model.name}" is not what "{model.file}" declares',
            detail="\n".join(found),
            hint=f"ALTER {model.kind.upper()} {model.name} to match the file, or change the file",
        )
