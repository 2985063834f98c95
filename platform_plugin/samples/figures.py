"""The figures of a sample: what it stands for, how its strata are covered, and how old it is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import PlatformError, SnapshotExpired, UnknownObject
from platform_plugin.samples.growing import find_behind
from platform_plugin.samples.record import read_progress
from platform_plugin.samples.sliding import find_window
from platform_plugin.samples.sources import find_parts, source_names

if TYPE_CHECKING:
    from platform_plugin.lake.tables import Snapshot
    from platform_plugin.samples.record import Sample
    from platform_plugin.spark.workspace import Workspace

_SHOWN_STRATA = 20
_A = {"stream": "a stream", "table": "a table", "view": "a view", "samples": "a sample"}


def sample_facts(work: Workspace, sample: Sample, snapshot: Snapshot) -> dict[str, Any]:
    """What DESCRIBE EXTENDED says of a sample, from the catalogue alone."""
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
    }
    with lake.reading() as connection:
        progress = read_progress(connection, sample.table.uuid, snapshot.id)
    held = min(lake.scan(sample.table, snapshot).record_count, definition.size)
    total = sum(progress.cardinalities.values())
    if progress.of_snapshot < 0:
        facts["cardinality"] = "nothing is stored yet"
    else:
        facts["cardinality"] = f"{held} stored rows stand for {total}"
        facts["coverage"] = f"{held / total:.6%} of the rows" if total else None
        facts["age"] = _age(work, progress.of_snapshot, snapshot)
    if definition.strata:
        largest = sorted(progress.cardinalities.items(), key=lambda item: (-item[1], str(item[0])))
        facts["strata"] = len(largest)
        for key, count in largest[:_SHOWN_STRATA]:
            facts[f"stratum {', '.join('NULL' if value is None else value for value in key)}"] = f"{count} rows"
    if definition.parts and names:
        facts |= _parts(work, sample, snapshot)
    elif definition.is_windowed and names:
        facts |= _window(work, sample, snapshot)
    elif definition.source == "stream" and names:
        facts |= _tail(work, sample, snapshot)
    return facts


def _parts(work: Workspace, sample: Sample, snapshot: Snapshot) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for part in find_parts(work.lake, sample, snapshot):
        own = sample_facts(work, part, snapshot)
        said = [f"{part.definition.size} rows at most of {own['of']}", own["cardinality"], own.get("taken up")]
        facts[f"part {part.name}"] = "; ".join(filter(None, said))
    return facts


def _window(work: Workspace, sample: Sample, snapshot: Snapshot) -> dict[str, Any]:
    try:
        window = find_window(work, sample, snapshot)
    except PlatformError as error:
        return {"trouble": str(error)}
    whole = window.whole
    return {
        "window": f"rows {whole.first_row_id} to {whole.next_row_id - 1}" if whole.row_count else "no rows",
        "picked": f"{sum(each.rows.num_rows for each in window.picks)} rows of {len(window.picks)} ranges",
        "taken up": f"up to row {window.progress.next_row_id - 1}, {window.gap_rows} rows wait and join when it is read",
    }


def _tail(work: Workspace, sample: Sample, snapshot: Snapshot) -> dict[str, Any]:
    try:
        behind = find_behind(work, sample, snapshot)
    except PlatformError as error:
        return {"trouble": str(error)}
    return {
        "taken up": f"up to row {behind.progress.next_row_id - 1}, {behind.gap_rows} rows wait and join when it is read",
        "picked": f"{sum(each.rows.num_rows for each in behind.picks)} rows of {len(behind.picks)} ranges since",
    }


def _age(work: Workspace, of_snapshot: int, snapshot: Snapshot) -> str:
    try:
        then = work.lake.snapshot(of_snapshot).time
    except (SnapshotExpired, UnknownObject):
        return f"of snapshot {of_snapshot}, which is no longer kept"
    seconds = (datetime.now(UTC) - then.astimezone(UTC)).total_seconds()
    return f"of snapshot {of_snapshot}, {seconds:.1f} seconds and {snapshot.id - of_snapshot} snapshots ago"
