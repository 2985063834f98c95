"""The metadata of assets and events: figures and columns under the names that Dagster's web interface shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, cast

import dagster as dg

from platform_plugin.algebra.types.data_types import Field
from platform_plugin.engine.figures import total_figures
from platform_plugin.errors import UnknownObject
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.language.text.writing import type_text
from platform_plugin.orchestration.preview import source_link
from platform_plugin.orchestration.shown.drawing import PICTURE, draw_lineage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from platform_plugin.engine.figures import EngineRun
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.orchestration.assets.inventory import LakeRelation
    from platform_plugin.orchestration.assets.tracing import TracedRelation
    from platform_plugin.orchestration.assets.translator import Relation, Translator
    from platform_plugin.orchestration.components.apply import AppliedRelation
    from platform_plugin.orchestration.components.model import Model
    from platform_plugin.orchestration.runs.upkeep import UpkeepResult

STATUS = "status"


def column_schema(columns: tuple[Field, ...], primary_key: tuple[str, ...], said: Mapping[str, str]) -> dg.TableSchema:
    """Columns with their SQL types, keys and comments; descriptions in the YAML file come first."""
    keys = {name.lower() for name in primary_key}
    descriptions = {name.lower(): text for name, text in said.items()}
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=field.name,
                type=type_text(field.type).lower(),
                description=descriptions.get(field.name.lower(), field.comment),
                constraints=dg.TableColumnConstraints(
                    nullable=field.nullable and field.name.lower() not in keys,
                    other=[*(["primary key"] if field.name.lower() in keys else []), *_default(field)],
                ),
            )
            for field in columns
        ]
    )


def _default(field: Field) -> list[str]:
    return [] if field.default is None else [f"default {field.default}"]


def model_metadata(model: Model) -> dict[str, Any]:
    """The metadata of a relation from its file alone."""
    found: dict[str, Any] = {
        "dagster/table_name": str(model.name),
        "dagster/code_references": source_link(model.path),
    }
    if model.columns:
        found["dagster/column_schema"] = column_schema(model.columns, model.primary_key, model.documentation.columns)
    return found


def stored_metadata(stored: LakeRelation, snapshot: int | None, said: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The metadata of a relation from the catalogue; a view has no figures."""
    found: dict[str, Any] = {
        "dagster/table_name": str(stored.name),
        "dagster/row_count": stored.rows,
        "snapshot": snapshot,
        "files": stored.files,
        "bytes": stored.size_bytes,
    }
    if stored.fields:
        found["dagster/column_schema"] = column_schema(stored.fields, stored.primary_key, said or {})
    return {name: value for name, value in found.items() if value is not None}


def traced_metadata(relation: Relation, traced: TracedRelation, translator: Translator) -> dict[str, Any]:
    """The metadata of a query's result from its text: its columns, and the origins of each."""
    found: dict[str, Any] = {}
    if traced.columns and all(column.type is not None for column in traced.columns):
        columns = tuple(Field(name=column.name, type=cast("Any", column.type)) for column in traced.columns)
        known = {field.name: field.comment for field in relation.stored.fields if field.comment} if relation.stored is not None else {}
        said = relation.model.documentation.columns if relation.model is not None else {}
        found["dagster/column_schema"] = column_schema(columns, (), {**known, **said})
    if traced.lineage:
        found["dagster/column_lineage"] = dg.TableColumnLineage(
            {
                column: [
                    dg.TableColumnDep(
                        asset_key=translator.asset_key(Name(schema=origin.schema, relation=origin.relation)), column_name=origin.column
                    )
                    for origin in sorted(origins)
                ]
                for column, origins in traced.lineage.items()
            }
        )
    if drawn := draw_lineage(relation.name.relation, traced):
        found["lineage"] = dg.MetadataValue.md(drawn)
    # What is missing may be made by the same run.
    if traced.trouble is not None and not isinstance(traced.trouble, UnknownObject):
        found["trouble"] = dg.MetadataValue.md(f"```text\n{traced.trouble}\n```")
    return found


def status_metadata(stored: LakeRelation | None) -> dict[str, Any]:
    """The status of a continuous view that waits for its first run; what a run reports of the view later has the same name."""
    if stored is None:
        return {STATUS: "waits for its first run, which creates it"}
    return {} if stored.is_maintained else {STATUS: "waits for its first run; reads are current without it"}


def upkeep_metadata(kept: UpkeepResult) -> dict[str, Any]:
    """What a run did for one view, under names that never change, so that Dagster plots them over time."""
    names = [each.name for each in fields(kept) if each.name not in ("name", "taken_up", "action", "columns")]
    figures = {name: getattr(kept, name) for name in names}
    rounded = {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}
    return {"snapshot": kept.taken_up, "action": kept.action, STATUS: f"maintained at snapshot {kept.taken_up}", **rounded}


def applied_metadata(applied: AppliedRelation, said: Mapping[str, str], *, seconds: float) -> dict[str, Any]:
    """A relation's metadata after its file was applied, and the cost of that."""
    return {
        **stored_metadata(applied.stored, applied.snapshot, said),
        **job_metadata(applied.metrics),
        **{name: value for name, value in applied.work.items() if value is not None and name != PICTURE},
        **({PICTURE: dg.MetadataValue.md(applied.work[PICTURE])} if PICTURE in applied.work else {}),
        "action": applied.action,
        "seconds": round(seconds, 3),
    }


def view_metadata(kept: UpkeepResult, said: Mapping[str, str]) -> dict[str, Any]:
    """The metadata of a view for its readers."""
    return {"dagster/table_name": str(kept.name), "dagster/column_schema": column_schema(kept.columns, (), said)}


def task_metadata(tasks: list[dict[str, Any]]) -> dict[str, Any]:
    """The tasks of the stage that worked longest, as a table, which shows how even the work was."""
    return {"task_list": dg.MetadataValue.table([dg.TableRecord(task) for task in tasks])} if tasks else {}


def engine_metadata(runs: Sequence[EngineRun]) -> dict[str, Any]:
    """The figures of engines as numbers that plot, and the tasks of each executor as a table."""
    executors: Counter[str] = Counter()
    for run in runs:
        executors.update(run.executors)
    records = [dg.TableRecord({"executor": name, "tasks": count}) for name, count in sorted(executors.items())]
    return {**total_figures(runs), **({"executor_list": dg.MetadataValue.table(records)} if records else {})}


def link_metadata(links: Mapping[str, str]) -> dict[str, Any]:
    """Links in the form that the interface opens; other texts stay as they are."""
    return {name: dg.MetadataValue.url(text) if "://" in text else text for name, text in links.items()}


def job_metadata(metrics: JobMetrics | None) -> dict[str, Any]:
    """The cost of Spark's jobs, under names that never change, so that Dagster plots them from run to run."""
    if metrics is None:
        return {}
    wanted = ("jobs", "tasks", "task_skew", "rows_read", "bytes_read", "bytes_written", "shuffle_bytes", "task_seconds")
    return {name: value for name, value in asdict(metrics).items() if name in wanted and value is not None}
