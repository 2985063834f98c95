"""`sample_facts`: the figures of a sample in DESCRIBE EXTENDED: its cardinality, strata, window and age."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from platform_plugin.engine.option import narrow_engine
from platform_plugin.errors import PlatformError, SnapshotExpired, UnknownObject
from platform_plugin.relations.samples.record import read_progress
from platform_plugin.relations.samples.reservoir.growing import find_pending
from platform_plugin.relations.samples.reservoir.sliding import find_window
from platform_plugin.relations.samples.sources import find_parts, source_names

if TYPE_CHECKING:
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.relations.samples.definition import Key
    from platform_plugin.relations.samples.record import SampleRecord

_SHOWN_STRATA = 20
_A = {"stream": "a stream", "table": "a table", "view": "a view", "samples": "a sample"}


def sample_facts(work: Workspace, sample: SampleRecord, snapshot: Snapshot) -> dict[str, Any]:
    """The figures of a sample for DESCRIBE EXTENDED, from the catalogue alone."""
    lake, definition = work.lake, sample.definition
    names = source_names(lake, sample, snapshot)
    facts: dict[str, Any] = {
        "of": f"{definition.source} {', '.join(map(str, names))}" if names else f"{_A[definition.source]} that was dropped",
        "size": definition.size,
        "where": definition.where,
        "stratified by": ", ".join(definition.strata) or None,
        "size per stratum": definition.size_per_stratum,
        "weighted by": definition.weight,
        "half-life": None if definition.half_life is None else f"{definition.half_life:g} seconds of {definition.time}",
        "seed": definition.seed,
        "engine": str(narrow_engine(work.engine_option, relation=definition.engine, run=None)),
    }
    with lake.reading() as connection:
        progress = read_progress(connection, sample.table.uuid, snapshot.id)
    counts = dict(progress.cardinalities)
    if definition.source == "stream" and not definition.is_windowed and names:
        facts |= _growing(work, sample, snapshot, counts)
    elif progress.of_snapshot < 0:
        facts["cardinality"] = "nothing is stored yet"
    else:
        held, total = min(lake.scan(sample.table, snapshot).record_count, definition.size), sum(counts.values())
        facts["cardinality"] = f"{held} stored rows stand for {total}"
        facts["coverage"] = _coverage(held, total)
    if progress.of_snapshot >= 0:
        facts["age"] = _age(work, progress.of_snapshot, snapshot)
    if definition.strata:
        largest = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
        facts["strata"] = len(largest)
        for key, count in largest[:_SHOWN_STRATA]:
            facts[f"stratum {', '.join('NULL' if value is None else value for value in key)}"] = f"{count} rows"
    if definition.parts and names:
        facts |= _parts(work, sample, snapshot)
    elif definition.is_windowed and names:
        facts |= _window(work, sample, snapshot)
    return facts


def _parts(work: Workspace, sample: SampleRecord, snapshot: Snapshot) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for part in find_parts(work.lake, sample, snapshot):
        own = sample_facts(work, part, snapshot)
        said = [f"{part.definition.size} rows at most of {own['of']}", own["cardinality"], own.get("consumed")]
        facts[f"part {part.name}"] = "; ".join(filter(None, said))
    return facts


def _window(work: Workspace, sample: SampleRecord, snapshot: Snapshot) -> dict[str, Any]:
    try:
        window = find_window(work, sample, snapshot)
    except PlatformError as error:
        return {"trouble": str(error)}
    whole = window.whole
    return {
        "window": f"rows {whole.first_row_id} to {whole.next_row_id - 1}" if whole.row_count else "no rows",
        "picked": f"{sum(each.rows.num_rows for each in window.picks)} rows of {len(window.picks)} ranges",
        "consumed": _consumed(window.progress.next_row_id, window.gap_rows),
    }


def _growing(work: Workspace, sample: SampleRecord, snapshot: Snapshot, counts: dict[Key, int]) -> dict[str, Any]:
    """What a sample of all rows of a stream stands for: what was picked since it was stored is added to the counts of its strata."""
    try:
        behind = find_pending(work, sample, snapshot)
    except PlatformError as error:
        return {"trouble": str(error)}
    for each in behind.picks:
        for key, (count, _) in each.strata.items():
            counts[key] = counts.get(key, 0) + count
    definition, unseen = sample.definition, behind.gap_rows
    if definition.is_counted and unseen:
        counts[()] = counts.get((), 0) + unseen
        unseen = 0
    cap = definition.cap(max(1, len(counts))) - definition.is_weighted
    held, total = sum(min(cap, count) for count in counts.values()), sum(counts.values())
    return {
        "cardinality": f"{held} rows stand for {total}" + (f", and for what counts of {unseen} more" if unseen else ""),
        "coverage": None if unseen else _coverage(held, total),
        "consumed": _consumed(behind.progress.next_row_id, behind.gap_rows),
        "picked": f"{sum(each.rows.num_rows for each in behind.picks)} rows of {len(behind.picks)} ranges since",
    }


def _consumed(next_row_id: int, waiting: int) -> str:
    """How far a sample is stored, and how many rows have to be looked for when it is read."""
    seen = f"up to row {next_row_id - 1}" if next_row_id else "nothing"
    return f"{seen}, {waiting} rows wait and join when it is read"


def _coverage(held: int, total: int) -> str | None:
    return f"{held / total:.6%} of the rows" if total else None


def _age(work: Workspace, of_snapshot: int, snapshot: Snapshot) -> str:
    try:
        then = work.lake.snapshot(of_snapshot).time
    except (SnapshotExpired, UnknownObject):
        return f"of snapshot {of_snapshot}, which is no longer kept"
    seconds = (datetime.now(UTC) - then.astimezone(UTC)).total_seconds()
    return f"of snapshot {of_snapshot}, {seconds:.1f} seconds and {snapshot.id - of_snapshot} snapshots ago"
