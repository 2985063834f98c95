"""`run_model` and `run_declared`: make the lake agree with a model, or raise an error that says what is in the way."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any, cast

from platform_plugin.errors import InvalidValue, ObjectExists, PlatformError, UnknownObject, in_file
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation, read_declaration
from platform_plugin.lake.catalogue.tables import Table
from platform_plugin.language.script import parse_statement
from platform_plugin.language.statements.create_schema import CreateSchema
from platform_plugin.language.statements.create_table import CreateTable
from platform_plugin.language.text.counting import count_text
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.language.text.places import locate_offset
from platform_plugin.language.text.writing import identifier
from platform_plugin.orchestration.assets.inventory import LakeRelation, read_changed, read_lake
from platform_plugin.orchestration.components.differences import plan_differences
from platform_plugin.orchestration.components.documentation import DayPartitions
from platform_plugin.orchestration.components.model import suite_option
from platform_plugin.orchestration.shown.drawing import PICTURE, draw_sample
from platform_plugin.orchestration.shown.metadata import engine_metadata
from platform_plugin.quality.gate import hold_to_gate
from platform_plugin.relations.kinds import declarable_kind, kind_name
from platform_plugin.relations.samples.record import find_sample
from platform_plugin.relations.schemas import run_create_schema
from platform_plugin.relations.streams.feeds.ingest import run_ingest
from platform_plugin.relations.tables.exchange import run_exchange
from platform_plugin.relations.target import find_existing
from platform_plugin.relations.views.declaration import is_defined
from platform_plugin.relations.views.kind import VIEW
from platform_plugin.relations.views.record import read_records
from platform_plugin.select.shows import create_statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.lake.catalogue.tables import Name, Snapshot
    from platform_plugin.orchestration.assets.inventory import Inventory
    from platform_plugin.orchestration.components.model import Model
    from platform_plugin.platform import Platform
    from platform_plugin.relations.declarations import Action
    from platform_plugin.relations.kind import DeclarableKind

LAG = "target_lag_seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationRun:
    """What a run did for a relation; `work` has the figures of the rows that it added."""

    name: Name
    kind: str
    action: Action
    metrics: JobMetrics | None = None
    work: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedRelation:
    """What was done, and the relation afterwards; `changed` is the snapshot that last changed its rows, None for a view."""

    action: Action
    snapshot: int
    stored: LakeRelation
    changed: int | None
    metrics: JobMetrics | None = None
    work: Mapping[str, Any] = field(default_factory=dict)
    """The figures of a stream's ingestion."""


def run_model(platform: Platform, model: Model, *, progress: ProgressHandler | None = None) -> AppliedRelation:
    """Create the relation if it is missing, or compute a table of a query again; rows that users have written are never changed."""
    return read_applied(platform, [run_declared(platform, model, progress=progress)])[0]


def run_declared(platform: Platform, model: Model, *, progress: ProgressHandler | None = None) -> RelationRun:
    """The same, without reading the relation afterwards."""
    with hold_to_gate(platform.lake, model.name, model.suite, batches=find_declared_kind(model).has_arrivals, view=model.kind == VIEW.name):
        action, metrics = run_definition(platform, model, progress=progress)
        work = _run_intake(platform, model.name, model.intake, progress)
    return RelationRun(name=model.name, kind=model.kind, action=action, metrics=metrics, work=work)


def run_stored(platform: Platform, name: Name, kind: str, *, progress: ProgressHandler | None = None) -> RelationRun:
    """Let a stream with a feed, or a sample, ingest or draw rows; it needs no file."""
    known = declarable_kind(kind)
    return RelationRun(
        name=name, kind=kind, action="unchanged", work=_run_intake(platform, name, known.intake if known is not None else None, progress)
    )


def run_parts(
    platform: Platform, model: Model, spans: Sequence[tuple[date | int, date | int]], *, progress: ProgressHandler | None = None
) -> AppliedRelation:
    """Build parts of a table again, by days or numbers of rows, from the first up to but not including the second of each span.

    Its other rows stay as they are.
    """
    statement, parts = model.statement, model.documentation.partitions
    if not isinstance(statement, CreateTable) or statement.query is None or parts is None:
        raise InvalidValue(f'"{model.name}" is not built part by part', hint="only a table that a query builds can be")
    work = platform.work
    action: Action = "rebuilt"
    if find_existing(work.lake, model.name, work.lake.snapshot()) is None:
        empty = f"CREATE TABLE {_written(model.name)} AS\nSELECT * FROM (\n{statement.query.text}\n) WHERE false"
        first_one = replace(cast("CreateTable", parse_statement(empty)), options=statement.options)
        run_definition(platform, replace(model, statement=first_one), progress=progress)
        action = "created"
    with hold_to_gate(work.lake, model.name, model.suite, batches=False):
        done = [
            run_exchange(work, model.name, statement.query.text, column=parts.column, first=first, last=last, progress=progress)
            for first, last in spans
        ]
    told: dict[str, Any] = {"rows_in": sum(each.row_count for each in done)}
    if isinstance(parts, DayPartitions):
        told["days"] = sum((last - first).days for first, last in spans if isinstance(first, date) and isinstance(last, date))
    metrics = done[0].metrics if len(done) == 1 else None
    return read_applied(platform, [RelationRun(name=model.name, kind=model.kind, action=action, metrics=metrics, work=told)])[0]


def _written(name: Name) -> str:
    return f"{identifier(name.schema)}.{identifier(name.relation)}"


def run_definition(
    platform: Platform, model: Model, *, since: Snapshot | None = None, progress: ProgressHandler | None = None
) -> tuple[Action, JobMetrics | None]:
    """Create or change the relation that a file declares; a view whose query has changed starts over.

    Views begin with what has arrived `since` a snapshot, so that all views of one run cover the same rows.
    """
    work, lake = platform.work, platform.lake
    base = lake.snapshot()
    if model.name.schema not in lake.schemas(base):
        run_create_schema(work, CreateSchema(name=model.name.schema, if_not_exists=True))
    old = find_existing(work.lake, model.name, base)
    if old is not None and (there := kind_name(lake, old, base)) != model.kind:
        raise locate_offset(model.declared.name.span).attach(
            ObjectExists(
                f'{model.kind} "{model.name}" can\'t be made: there is a {there} of that name',
                hint=f"DROP {there.upper()} {model.name}, or choose another name",
            )
        )
    kind = find_declared_kind(model)
    with _in_sql_file(model):
        done = kind.define(work, model.statement, old, since=since, progress=progress)
    if done is None:
        _check_same(platform, model)
        if isinstance(old, Table) and _note_suite(platform, old, model):
            return "altered", None
        return "unchanged", None
    return done


@contextmanager
def _in_sql_file(model: Model) -> Iterator[None]:
    """Name the model's SQL file in errors that have a line of it: one run defines the relations of many files."""
    try:
        yield
    except PlatformError as error:
        if hasattr(error, "line") and model.path.suffix == ".sql":
            # The error stays itself, since callers tell errors apart by their classes.
            error.message = in_file(error, model.file).message
        raise


def _note_suite(platform: Platform, old: Table, model: Model) -> bool:
    """Let the lake name the suite that the file names; whether it named another one."""
    named = suite_option(model.statement)
    with platform.lake.reading() as connection:
        known = read_declaration(connection, old.uuid)
    if known.options.get("suite") == named:
        return False
    options = {name: value for name, value in known.options.items() if name != "suite"} | ({} if named is None else {"suite": named})
    with platform.lake.commit(f"suite of {model.kind} {model.name}") as commit:
        declare_relation(commit, old, Declaration(kind=known.kind, options=options))
    return True


def find_declared_kind(model: Model) -> DeclarableKind[Any]:
    """The kind of relation that a model declares."""
    kind = declarable_kind(model.kind)
    if kind is None:
        raise UnknownObject(f'kind "{model.kind}" of "{model.name}" is not known here', hint="register it where the folder is loaded")
    return kind


def find_changed(platform: Platform, models: Sequence[Model]) -> list[Model]:
    """The views among some models that the lake does not have as their files declare them; the catalogue is read once for all."""
    lake = platform.lake
    base = lake.snapshot()
    views = {str(view.name).lower(): view for view in lake.views(base)}
    with lake.reading() as connection:
        records = read_records(connection)
    changed = []
    for model in models:
        view = views.get(str(model.name).lower())
        if not is_defined(view, records.get(view.uuid) if view is not None else None, model.statement):
            changed.append(model)
    return changed


def _run_intake(platform: Platform, name: Name, intake: str | None, progress: ProgressHandler | None) -> dict[str, Any]:
    """One bounded batch of a stream's feed, or what has arrived for a sample."""
    if intake is None:
        return {}
    if intake == "sample":
        with platform.work.noting_engines() as noted:
            platform.execute(f"REFRESH SAMPLE {_written(name)}", progress=progress).close()
        snapshot = platform.lake.snapshot()
        stored = find_sample(platform.lake, platform.lake.table(name, snapshot), snapshot)
        size = stored.definition.size if stored is not None else None
        own = (name.schema, name.relation)
        told = {"cardinality": platform.sample(own).cardinality, "size": size, PICTURE: draw_sample(platform.work, name)}
        return told | engine_metadata(noted)
    report = run_ingest(platform.work, name, progress=progress)
    told = {"rows_in": report.rows, "files_in": report.files, "quarantined": report.quarantined, "waiting": report.waiting}
    files = {"refused": report.refused, "changed": report.changed, "late": report.late}
    return told | {"jobs": report.jobs} | {name: "\n".join(uris) or None for name, uris in files.items()}


def applied_text(ran: RelationRun | AppliedRelation, kind: str, name: Name) -> str:
    """What a run did for a relation, in a few words: "unchanged" only where it has not ingested anything either.

    >>> from platform_plugin.lake.catalogue.tables import Name
    >>> work = {"rows_in": 1, "files_in": 1, "quarantined": 0, "waiting": 0}
    >>> applied_text(RelationRun(name=Name.of("orders"), kind="stream", action="unchanged", work=work), "stream", Name.of("orders"))
    'stream main.orders: 1 row ingested from 1 file'
    """
    read = intake_text(ran.work)
    if ran.action == "unchanged" and (ran.work.get("rows_in") or ran.work.get("quarantined")):
        return f"{kind} {name}: {read}"
    return f"{kind} {name} {ran.action}" + (f", {read}" if read else "")


def intake_text(work: Mapping[str, Any]) -> str:
    """What a stream has ingested, in a few words; empty for a relation without a feed.

    >>> intake_text({"rows_in": 200, "files_in": 1, "quarantined": 2, "waiting": 0})
    '200 rows ingested from 1 file, 2 in quarantine'
    """
    if "files_in" not in work:
        return ""
    parts = [
        f"{count_text(work['rows_in'], 'row')} ingested" + (f" from {count_text(work['files_in'], 'file')}" if work["files_in"] else "")
    ]
    parts += [
        f"{work[name]:,} {told}" for name, told in (("quarantined", "in quarantine"), ("waiting", "not ingested yet")) if work.get(name)
    ]
    return ", ".join(parts)


def read_applied(platform: Platform, done: Sequence[RelationRun]) -> list[AppliedRelation]:
    """The relations after something was done for them; the catalogue is read once for all."""
    inventory = read_lake(platform.lake)
    return [_applied(platform, ran, inventory) for ran in done]


def _applied(platform: Platform, ran: RelationRun, inventory: Inventory) -> AppliedRelation:
    stored = inventory.find(ran.name)
    if stored is None or inventory.snapshot is None:
        raise InvalidValue(f'{ran.kind} "{ran.name}" was dropped while it was made', hint="materialize it again")
    changed = None
    if ran.kind == VIEW.name:
        stored = replace(stored, fields=_view_fields(platform, ran.name))
    else:
        changed = read_changed(platform.lake, platform.lake.table(ran.name))
    return AppliedRelation(
        action=ran.action, snapshot=inventory.snapshot, stored=stored, changed=changed, metrics=ran.metrics, work=ran.work
    )


def _view_fields(platform: Platform, name: Name) -> tuple[Field, ...]:
    from platform_plugin.algebra.types.data_types import Field

    return tuple(Field(name=row[0], type=parse_type(row[1])) for row in platform.execute(f"DESCRIBE {_written(name)}"))


def _check_same(platform: Platform, model: Model) -> None:
    """What holds rows is changed by ALTER only, and a sample not at all, so a file that says otherwise is refused."""
    lake = platform.lake
    snapshot = lake.snapshot()
    with lake.reading() as connection:
        stored = parse_statement(create_statement(lake, connection, model.declared.name, snapshot))
    found = list(plan_differences(model.statement, stored))
    if found:
        what = f"{model.kind.upper()} {model.name}"
        is_alterable = find_declared_kind(model).is_alterable
        change = f"ALTER {what} to match the file" if is_alterable else f"DROP {what} and materialize it again"
        raise InvalidValue(
            f'{model.kind} "{model.name}" is not what "{model.file}" declares',
            detail="\n".join(found),
            hint=f"{change}, or change the file",
        )
