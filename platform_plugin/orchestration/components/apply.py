"""Applying a model: afterwards the lake holds what its file declares, or an error says what stands against it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, cast

from platform_plugin.errors import InvalidValue, ObjectExists
from platform_plugin.lake.catalogue.tables import View
from platform_plugin.language.script import parse_statement
from platform_plugin.language.statements.create_sample import CreateSample
from platform_plugin.language.statements.create_schema import CreateSchema
from platform_plugin.language.statements.create_stream import CreateStream
from platform_plugin.language.statements.create_table import CreateHistory, CreateTable
from platform_plugin.language.statements.create_view import CreateView
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.language.text.places import at
from platform_plugin.language.text.writing import identifier
from platform_plugin.orchestration.assets.inventory import Stored, read_changed, read_lake
from platform_plugin.orchestration.components.differences import plan_differences
from platform_plugin.orchestration.components.documentation import Days
from platform_plugin.orchestration.components.model import normalised
from platform_plugin.orchestration.shown.drawing import PICTURE, draw_sample
from platform_plugin.quality.gate import gated
from platform_plugin.relations.samples.define import run_create_sample
from platform_plugin.relations.samples.record import find_sample
from platform_plugin.relations.streams.declaration import stored_option
from platform_plugin.relations.streams.feeds.ingest import run_ingest
from platform_plugin.relations.streams.history import run_create_history
from platform_plugin.relations.tables import define
from platform_plugin.relations.tables.exchange import run_exchange
from platform_plugin.relations.target import find_existing
from platform_plugin.relations.views.define import run_create_view
from platform_plugin.relations.views.record import note_options, read_records
from platform_plugin.select.shows import created

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.lake.catalogue.relations import Kind
    from platform_plugin.lake.catalogue.tables import Name, Snapshot, Table
    from platform_plugin.orchestration.assets.inventory import Inventory
    from platform_plugin.orchestration.components.model import Model
    from platform_plugin.platform import Platform
    from platform_plugin.relations.views.record import ViewRecord

Action = Literal["created", "rebuilt", "replaced", "altered", "unchanged"]
LAG = "target_lag_seconds"
# What may change while a view stays what it is, and what makes another view of it.
_CHANGING = (LAG, "batch_rows")
_REMAKING = ("maintenance", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What was done for a relation, before anybody looked at how it stands; `work` are figures of what it took up."""

    name: Name
    kind: Kind
    action: Action
    metrics: JobMetrics | None = None
    work: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What was done, and the relation afterwards; `changed` is the snapshot that last changed its rows, None for a view."""

    action: Action
    snapshot: int
    stored: Stored
    changed: int | None
    metrics: JobMetrics | None = None
    work: Mapping[str, Any] = field(default_factory=dict)
    """What a stream's ingestion did, figure by figure."""


def run_model(platform: Platform, model: Model, *, progress: ProgressHandler | None = None) -> Applied:
    """Create what is missing, rebuild a table that is the result of a query, and never touch rows that people put in."""
    return read_applied(platform, [run_declared(platform, model, progress=progress)])[0]


def run_declared(platform: Platform, model: Model, *, progress: ProgressHandler | None = None) -> Ran:
    """The same, without looking at the relation afterwards."""
    takes = model.kind == "sample" or (isinstance(model.statement, CreateStream) and model.statement.feed is not None)
    with gated(platform.lake, model.name, model.suite, batches=model.kind == "stream"):
        action, metrics = run_definition(platform, model, progress=progress)
        work = _run_intake(platform, model.name, model.kind, progress) if takes else {}
    return Ran(name=model.name, kind=model.kind, action=action, metrics=metrics, work=work)


def run_stored(platform: Platform, name: Name, kind: Kind, *, progress: ProgressHandler | None = None) -> Ran:
    """Let a stream that pulls or a sample take up what there is for it; it needs no file."""
    return Ran(name=name, kind=kind, action="unchanged", work=_run_intake(platform, name, kind, progress))


def run_parts(
    platform: Platform, model: Model, spans: Sequence[tuple[date | int, date | int]], *, progress: ProgressHandler | None = None
) -> Applied:
    """Build parts of a table anew, days or numbers of rows, from the first up to but not including the second of each span.

    Its other rows stay as they are.
    """
    statement, parts = model.statement, model.documentation.partitions
    if not isinstance(statement, CreateTable) or statement.query is None or parts is None:
        raise InvalidValue(f'"{model.name}" is not built part by part', hint="only a table that a query builds can be")
    work = platform.work
    action: Action = "rebuilt"
    if find_existing(work.lake, model.name, work.lake.snapshot()) is None:
        empty = f"CREATE TABLE {_written(model.name)} AS\nSELECT * FROM (\n{statement.query.text}\n) WHERE false"
        run_definition(platform, replace(model, statement=cast("CreateTable", parse_statement(empty))), progress=progress)
        action = "created"
    with gated(work.lake, model.name, model.suite, batches=False):
        done = [
            run_exchange(work, model.name, statement.query.text, column=parts.column, first=first, last=last, progress=progress)
            for first, last in spans
        ]
    told: dict[str, Any] = {"rows_in": sum(each.row_count for each in done)}
    if isinstance(parts, Days):
        told["days"] = sum((last - first).days for first, last in spans if isinstance(first, date) and isinstance(last, date))
    metrics = done[0].metrics if len(done) == 1 else None
    return read_applied(platform, [Ran(name=model.name, kind=model.kind, action=action, metrics=metrics, work=told)])[0]


def _written(name: Name) -> str:
    return f"{identifier(name.schema)}.{identifier(name.relation)}"


def run_definition(
    platform: Platform, model: Model, *, since: Snapshot | None = None, progress: ProgressHandler | None = None
) -> tuple[Action, JobMetrics | None]:
    """Make the relation that a file declares as it says; a view whose query has changed starts over.

    Views begin with what has arrived `since` a snapshot, so that those of one run cover the same rows.
    """
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
            result = define.run_create_table(work, replace(statement, or_replace=True, if_not_exists=False), (), progress=progress)
            action, metrics = "created" if old is None else "rebuilt", result.metrics
        case CreateTable() as statement if old is None:
            define.run_create_table(work, statement, ())
            action = "created"
        case CreateStream() as statement if old is None:
            define.run_create_stream(work, statement)
            action = "created"
        case CreateView() as statement:
            record = _read_record(platform, old)
            if not (isinstance(old, View) and _is_same(old, record, statement)):
                run_create_view(work, replace(statement, or_replace=True, if_not_exists=False), since=since)
                action = "created" if old is None else "replaced"
            elif record is not None and (wanted := _wanted(record, statement)) != dict(record.options):
                _set_options(platform, old, record, wanted)
                action = "altered"
        case CreateSample() as statement if old is None:
            run_create_sample(work, statement)
            action = "created"
        case CreateHistory() as statement if old is None:
            run_create_history(work, statement)
            action = "created"
        case CreateTable() | CreateHistory() | CreateStream() | CreateSample():
            _check_same(platform, model)
    return action, metrics


def find_changed(platform: Platform, models: Sequence[Model]) -> list[Model]:
    """The views among some models that the lake has not, or not as their files say; the catalogue is asked once for all of them."""
    lake = platform.lake
    base = lake.snapshot()
    views = {str(view.name).lower(): view for view in lake.views(base)}
    with lake.reading() as connection:
        records = read_records(connection)
    changed = []
    for model in models:
        view, statement = views.get(str(model.name).lower()), model.statement
        record = records.get(view.uuid) if view is not None else None
        known = isinstance(statement, CreateView) and view is not None and _is_same(view, record, statement)
        if not known or (record is not None and _wanted(record, cast("CreateView", statement)) != dict(record.options)):
            changed.append(model)
    return changed


def _read_record(platform: Platform, view: View | Table | None) -> ViewRecord | None:
    if not isinstance(view, View):
        return None
    with platform.lake.reading() as connection:
        return read_records(connection, only=view.uuid).get(view.uuid)


def _wanted(record: ViewRecord, statement: CreateView) -> dict[str, Any]:
    """The options of a view with the target lag and the batch size of its file."""
    others = {name: value for name, value in record.options.items() if name not in _CHANGING}
    return others | {name: value for name, value in _options(statement).items() if name in _CHANGING}


def _set_options(platform: Platform, view: View, record: ViewRecord, options: Mapping[str, Any]) -> None:
    """Give a continuous view other options, keeping what it has."""
    with platform.lake.commit(f"target lag of view {view.name}") as commit:
        note_options(commit, record, options)


def _options(statement: CreateView) -> dict[str, Any]:
    return dict(stored_option(option) for option in statement.options)


def _run_intake(platform: Platform, name: Name, kind: Kind, progress: ProgressHandler | None) -> dict[str, Any]:
    """One bounded batch of a stream's feed, or what has arrived for a sample."""
    if kind == "sample":
        platform.execute(f"REFRESH SAMPLE {_written(name)}", progress=progress).close()
        snapshot = platform.lake.snapshot()
        stored = find_sample(platform.lake, platform.lake.table(name, snapshot), snapshot)
        size = stored.definition.size if stored is not None else None
        own = (name.schema, name.relation)
        return {"cardinality": platform.sample(own).cardinality, "size": size, PICTURE: draw_sample(platform.work, name)}
    report = run_ingest(platform.work, name, progress=progress)
    told = {"rows_in": report.rows, "files_in": report.files, "quarantined": report.quarantined, "waiting": report.waiting}
    files = {"refused": report.refused, "changed": report.changed, "late": report.late}
    return told | {"jobs": report.jobs} | {name: "\n".join(uris) or None for name, uris in files.items()}


def read_applied(platform: Platform, done: Sequence[Ran]) -> list[Applied]:
    """How relations stand after something was done for them; the catalogue is read once for all of them."""
    inventory = read_lake(platform.lake)
    return [_applied(platform, ran, inventory) for ran in done]


def _applied(platform: Platform, ran: Ran, inventory: Inventory) -> Applied:
    stored = inventory.find(ran.name)
    if stored is None or inventory.snapshot is None:
        raise InvalidValue(f'{ran.kind} "{ran.name}" was dropped while it was made', hint="materialize it again")
    changed = None
    if ran.kind == "view":
        stored = replace(stored, fields=_view_fields(platform, ran.name))
    else:
        changed = read_changed(platform.lake, platform.lake.table(ran.name))
    return Applied(action=ran.action, snapshot=inventory.snapshot, stored=stored, changed=changed, metrics=ran.metrics, work=ran.work)


def _view_fields(platform: Platform, name: Name) -> tuple[Field, ...]:
    from platform_plugin.algebra.types.data_types import Field

    return tuple(Field(name=row[0], type=parse_type(row[1])) for row in platform.execute(f"DESCRIBE {_written(name)}"))


def _is_same(old: View, record: ViewRecord | None, statement: CreateView) -> bool:
    """Whether a view is what its file says, but for its target lag; what it started with is over."""
    if record is not None:
        said = _options(statement)
        if any(name in said and said[name] != record.options.get(name) for name in _REMAKING):
            return False
    same_names = old.columns == tuple(alias.name for alias in statement.aliases)
    written = statement.query.text
    return same_names and old.comment == statement.comment and (old.sql == written or normalised(old.sql) == normalised(written))


def _check_same(platform: Platform, model: Model) -> None:
    """What holds rows is changed by ALTER only, and a sample not at all, so a file that says otherwise is refused."""
    lake = platform.lake
    snapshot = lake.snapshot()
    with lake.reading() as connection:
        stored = parse_statement(created(lake, connection, model.statement.name, snapshot))
    found = list(plan_differences(model.statement, stored))
    if found:
        alter = f"ALTER {model.kind.upper()} {model.name} to match the file"
        change = f"DROP SAMPLE {model.name} and materialize it again" if model.kind == "sample" else alter
        raise InvalidValue(
            f'{model.kind} "{model.name}" is not what "{model.file}" declares',
            detail="\n".join(found),
            hint=f"{change}, or change the file",
        )
