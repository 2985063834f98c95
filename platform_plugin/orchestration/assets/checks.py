"""Asset checks: the checks of each relation, and the one step that evaluates them."""

# Dagster compares the annotation of a step's context with its own classes, so annotations must not be text in this module.

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pyarrow as pa

from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.catalogue.tables import Name, read_snapshot
from platform_plugin.lake.lake import Lake
from platform_plugin.language.text.counting import count_text
from platform_plugin.language.text.writing import identifier, type_text
from platform_plugin.orchestration.assets.inventory import read_lake
from platform_plugin.orchestration.components.model import Model
from platform_plugin.orchestration.runs.failure import error_metadata
from platform_plugin.orchestration.sensors.refreshing import RefreshPolicy
from platform_plugin.orchestration.sensors.waiting import read_waiting
from platform_plugin.platform import Platform
from platform_plugin.quality.full import run_suite
from platform_plugin.quality.reconcile import run_reconcile
from platform_plugin.quality.suite import Expectation, Suite
from platform_plugin.quality.validate import ExpectationOutcome, run_validation
from platform_plugin.relations.samples.record import find_sample
from platform_plugin.relations.streams.feeds.quarantine import find_quarantine

RESOURCE_KEY = "platform"
MOST_SINGLE = 8
"""A suite with more expectations is one check with a table: to plan thousands of checks takes a run minutes."""
TOGETHER = "expectations"
_REMEMBERED = 5
_MOST_SHOWN = 1_000
_SEVERITY = {"critical": dg.AssetCheckSeverity.ERROR, "warning": dg.AssetCheckSeverity.WARN, "info": dg.AssetCheckSeverity.WARN}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRelation:
    """A relation with checks, the asset that they belong to, and the assets that must be there before."""

    model: Model
    key: dg.AssetKey
    after: tuple[dg.AssetKey, ...] = ()


def check_names(model: Model) -> list[str]:
    """The checks of a relation: those in its YAML file, those that every such relation has, and its expectations.

    A view with a target lag is checked for it, a stream with a feed for its quarantine.
    """
    said = list(model.documentation.checks)
    if model.declared.has_lag:
        said.append("within_lag")
    if model.intake == "ingest":
        said.append("no_quarantine")
    suite = list(model.suite.names) if model.suite is not None else []
    return list(dict.fromkeys([*said, *(suite if len(suite) <= MOST_SINGLE else [TOGETHER])]))


def build_checks(checked: Sequence[CheckedRelation], *, step: str | None = None) -> dg.AssetChecksDefinition | None:
    """All checks of some relations as one step, from which any can be selected; None without checks."""
    specs = check_specs(checked)
    if not specs:
        return None

    @dg.multi_asset_check(name=f"check_{step or 'relations'}", specs=specs, can_subset=True, required_resource_keys={RESOURCE_KEY})
    def check_relations(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        platform = getattr(context.resources, RESOURCE_KEY).platform
        yield from evaluate(context.instance, platform, checked, sorted(context.selected_asset_check_keys, key=str))

    return check_relations


def check_specs(checked: Sequence[CheckedRelation]) -> list[dg.AssetCheckSpec]:
    """The specs of the checks of some relations."""
    return [
        dg.AssetCheckSpec(name, asset=each.key, additional_deps=list(each.after), description=_describe(name, each.model))
        for each in checked
        for name in check_names(each.model)
    ]


def evaluate(
    instance: dg.DagsterInstance, platform: Platform, checked: Sequence[CheckedRelation], asked: Sequence[dg.AssetCheckKey]
) -> Iterator[dg.AssetCheckResult]:
    """The results of some checks, one after the other; checks that nobody declares are skipped."""
    models = {each.key: each.model for each in checked} if asked else {}
    known: dict[dg.AssetCheckKey, dg.AssetCheckResult] = {}
    for key in asked:
        model = models.get(key.asset_key)
        if model is None:
            continue
        if key not in known:
            made = _made(instance, platform, model, key)
            known |= {dg.AssetCheckKey(key.asset_key, result.check_name or ""): result for result in made}
        if key in known:
            yield known[key]


def _made(instance: dg.DagsterInstance, platform: Platform, model: Model, key: dg.AssetCheckKey) -> list[dg.AssetCheckResult]:
    """The outcome of a check, with those of a suite that are found at once; what can't be checked has not passed."""
    try:
        own = _OWN.get(key.name)
        if own is not None:
            return [own(platform, model, _before(instance, key), key)]
        return _expectations(platform, model, _before(instance, key), key)
    except PlatformError as error:
        return [
            dg.AssetCheckResult(
                asset_key=key.asset_key,
                check_name=key.name,
                passed=False,
                description=str(error),
                metadata=error_metadata(error),
            )
        ]


def _before(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> dict[str, Any]:
    """What the last evaluation of a check noted; the one that is being made is among the executions already."""
    records = instance.event_log_storage.get_asset_check_execution_history(key, limit=_REMEMBERED)
    evaluations = (_evaluation(record) for record in records)
    found = next((evaluation for evaluation in evaluations if evaluation is not None), None)
    return {name: value.value for name, value in found.metadata.items()} if found is not None else {}


def _evaluation(record: Any) -> dg.AssetCheckEvaluation | None:
    event = record.event.dagster_event if record.event is not None else None
    return event.asset_check_evaluation_data if event is not None and event.event_type_value == "ASSET_CHECK_EVALUATION" else None


def _within_lag(platform: Platform, model: Model, _before: dict[str, Any], key: dg.AssetCheckKey) -> dg.AssetCheckResult:
    now = datetime.now(UTC)
    found = next((each for each in read_waiting(platform.lake, platform.lake.snapshot()) if each.view == model.name), None)
    lag = found.lag_seconds(now) if found is not None else 0.0
    target = (
        found.target_lag_seconds
        if found is not None and found.target_lag_seconds is not None
        else RefreshPolicy().target_lag.total_seconds()
    )
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=lag <= target,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"the oldest unconsumed row has waited {lag:.1f} s of {target:g} s",
        metadata={"lag_seconds": round(lag, 3), "target_lag_seconds": target, "rows_waiting": found.rows if found is not None else 0},
    )


def _reconciles(platform: Platform, model: Model, _before: dict[str, Any], key: dg.AssetCheckKey) -> dg.AssetCheckResult:
    snapshot = platform.lake.snapshot()
    found = next((each for each in read_waiting(platform.lake, snapshot) if each.view == model.name), None)
    # Large views are compared a part at a time, another one with each snapshot.
    parts = max(1, (found.position if found is not None else 0) // platform.work.limits.reconcile_part_rows)
    done = run_reconcile(platform.work, model.name, parts=parts, part=snapshot.id % parts)
    rows = (
        f"its {count_text(done.rows, 'row is the one', 'rows are those')} that its query gives"
        if done.rows
        else "it has no rows, as its query gives none"
    )
    told = done.why_not or f"{rows}, at snapshot {done.snapshot}"
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=done.agrees,
        description=f"not compared: {told}"
        if done.why_not
        else told
        if done.agrees
        else f"{count_text(len(done.differences), 'row differs', 'rows differ')}",
        metadata={"snapshot": done.snapshot, "rows_compared": done.rows, "parts": parts, **_table("differences", done.differences)},
    )


def _schema_stable(platform: Platform, model: Model, before: dict[str, Any], key: dg.AssetCheckKey) -> dg.AssetCheckResult:
    stored = read_lake(platform.lake).find(model.name)
    columns = {field.name: type_text(field.type) for field in stored.fields} if stored is not None else {}
    known: dict[str, str] = before.get("columns") or columns
    gone = [f"{name} {kind} is gone" for name, kind in known.items() if name not in columns]
    other = [f"{name} was {kind}, is {columns[name]}" for name, kind in known.items() if name in columns and columns[name] != kind]
    new = [f"{name} {kind} is new" for name, kind in columns.items() if name not in known]
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        # A new column hurts nobody who names what they read.
        passed=not gone and not other,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join([*gone, *other, *new]) or f"the {len(columns)} columns are those of the last check",
        metadata={"columns": dg.MetadataValue.json(columns)},
    )


def _no_quarantine(platform: Platform, model: Model, _before: dict[str, Any], key: dg.AssetCheckKey) -> dg.AssetCheckResult:
    lake = platform.lake
    snapshot = lake.snapshot()
    table = find_quarantine(lake, lake.table(model.name, snapshot), snapshot)
    rows = lake.read(table.name, snapshot=snapshot) if table is not None else None
    count = rows.num_rows if rows is not None else 0
    newest = rows.slice(max(count - 20, 0)).to_pylist()[::-1] if rows is not None else []
    shown = [
        {name: str(row[name]) for name in ("source", "position", "reason", "arrived_at")} | {"raw": _shown_record(row["raw"])}
        for row in newest
    ]
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=not count,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{_said_misfits(rows)} not fit" if rows is not None and count else "every record fitted",
        metadata={"quarantined": count, **_table("newest", shown)},
    )


def _said_misfits(rows: pa.Table) -> str:
    """How many records and how many whole files are in a quarantine; a file has no record, and no partition as topics have."""
    files = pa.compute.sum(pa.compute.and_(rows["raw"].is_null(), rows["source_partition"].is_null())).as_py() or 0
    records = rows.num_rows - files
    said = [count_text(number, noun) for number, noun in ((records, "record"), (files, "whole file")) if number]
    return f"{' and '.join(said)} did"


def _shown_record(raw: bytes | None) -> str:
    """The record as it was written, as far as it is text; no more of it than fits into a table."""
    return "" if raw is None else raw[:_MOST_SHOWN].decode(errors="backslashreplace")


def _expectations(platform: Platform, model: Model, before: dict[str, Any], key: dg.AssetCheckKey) -> list[dg.AssetCheckResult]:
    suite = model.suite or Suite(expectations=())
    if suite.rows == "full":
        judged = run_suite(platform, model.name, suite)
        found, common = list(judged.findings), {"snapshot": judged.snapshot, "of": suite.rows, **judged.cost}
    else:
        snapshot = platform.lake.snapshot().id
        rows = _rows(platform, model, suite, before.get("snapshot"))
        found = run_validation(suite, rows)
        common = {"snapshot": snapshot, "rows": rows.num_rows, "of": suite.rows}
    if key.name == TOGETHER:
        failed = [each for each in found if not each.passed]
        table = [{"expectation": each.name, "severity": each.expectation.severity, "told": _told(each)} for each in failed]
        worst = any(each.expectation.severity == "critical" for each in failed)
        return [
            dg.AssetCheckResult(
                asset_key=key.asset_key,
                check_name=key.name,
                passed=not failed,
                severity=dg.AssetCheckSeverity.ERROR if worst or not failed else dg.AssetCheckSeverity.WARN,
                description=f"{len(failed)} of {count_text(len(found), 'expectation')} not met"
                if failed
                else f"{count_text(len(found), 'expectation')} met",
                metadata={**common, **_table("not_met", table)},
            )
        ]
    return [
        dg.AssetCheckResult(
            asset_key=key.asset_key,
            check_name=each.name,
            passed=each.passed,
            severity=_SEVERITY[each.expectation.severity],
            description=_told(each),
            metadata={**common, **each.figures, **_table("unexpected_rows", each.rows)},
        )
        for each in found
    ]


def _told(finding: ExpectationOutcome) -> str:
    if finding.trouble is not None:
        return finding.trouble
    return f"{_asked(finding.expectation)}: {'met' if finding.passed else 'not met'}"


def _asked(expectation: Expectation) -> str:
    return f"{expectation.type} {json.dumps(dict(expectation.kwargs), default=str)}"


def _describe(name: str, model: Model) -> str | None:
    """What a check asserts."""
    suite = model.suite.names if model.suite is not None else {}
    if name == TOGETHER:
        return f"The {len(suite)} expectations of its suite are met."
    return f"{_asked(suite[name])} ({suite[name].severity})" if name in suite else _DESCRIPTIONS.get(name)


def _rows(platform: Platform, model: Model, suite: Suite, seen: Any) -> pa.Table:
    """The rows that a suite is about, at one snapshot and no more than it allows."""
    lake = platform.lake
    name = model.name
    if suite.rows == "changes" and model.kind in ("table", "stream") and isinstance(seen, int) and _has_snapshot(lake, seen):
        columns = ", ".join(identifier(field.name) for field in lake.table(name).fields)
        came = f"changes({identifier(name.schema)}.{identifier(name.relation)}, {seen}) WHERE _weight > 0"
        return platform.execute(f"SELECT {columns} FROM {came} LIMIT {suite.most_rows}").arrow()
    if suite.rows == "sample" and suite.sample:
        name = Name.of(suite.sample)
        snapshot = lake.snapshot()
        sample = find_sample(lake, lake.table(name, snapshot), snapshot)
        if sample is not None and sample.definition.is_weighted:
            raise InvalidValue(
                f'sample "{name}" is weighted: its rows are not as those of "{model.name}" are', hint="name a uniform sample"
            )
    sql = f"SELECT * FROM {identifier(name.schema)}.{identifier(name.relation)} LIMIT {suite.most_rows}"
    return platform.execute(sql).arrow()


def _has_snapshot(lake: Lake, number: int) -> bool:
    """Whether a snapshot is still kept; what came since one that has expired is not known, and all rows are judged."""
    with lake.reading() as connection:
        return read_snapshot(connection, id=number) is not None


def _table(name: str, rows: Sequence[Any]) -> dict[str, Any]:
    return {name: dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in rows])} if rows else {}


_OWN: dict[str, Callable[[Platform, Model, dict[str, Any], dg.AssetCheckKey], dg.AssetCheckResult]] = {
    "within_lag": _within_lag,
    "reconciles": _reconciles,
    "schema_stable": _schema_stable,
    "no_quarantine": _no_quarantine,
}
_DESCRIPTIONS = {
    "within_lag": "The oldest unconsumed row has waited no longer than the target lag of the view.",
    "reconciles": "The view says what its query says over all its rows, at one snapshot.",
    "schema_stable": "No column is gone or has another type than at the last check.",
    "no_quarantine": "Every record of the feed fits the stream.",
}
