"""Arrivals: a sensor that tells Dagster of new rows in streams, with their rates, so that the interface can draw them over time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from platform_plugin.errors import PlatformError
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.relations import Declaration, read_declarations
from platform_plugin.streams.figures import read_figures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from platform_plugin.lake.tables import Snapshot, Table
    from platform_plugin.orchestration.translator import Translator
    from platform_plugin.streams.figures import StreamFigures

_INTERVAL_SECONDS = 30
_CURSOR_VERSION = 1


def build_arrivals_sensor(url: str, translator: Translator) -> dg.SensorDefinition:
    """The sensor for all streams of a lake. A tick reads only the catalogue, starts no run and no Spark."""

    @dg.sensor(
        name="stream_arrivals",
        description="Reports new rows of streams as materializations, with rates, lag and retention.",
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def stream_arrivals(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        try:
            with Lake.open(url) as lake:
                snapshot = lake.snapshot()
                known = read_cursor(context.cursor)
                found = dict(_read_streams(lake, snapshot))
        except PlatformError as error:
            return dg.SensorResult(skip_reason=dg.SkipReason(str(error)))
        new = {table: figures for table, figures in found.items() if figures.next_row_id > known.get(str(table.uuid), 0)}
        cursor = {"v": _CURSOR_VERSION, "rows": {str(table.uuid): figures.next_row_id for table, figures in found.items()}}
        if not new:
            said = f"no new rows in {len(found)} streams at snapshot {snapshot.id}"
            return dg.SensorResult(skip_reason=dg.SkipReason(said), cursor=json.dumps(cursor))
        events = [
            dg.AssetMaterialization(
                asset_key=translator.asset_key(table.name),
                metadata=arrival_metadata(figures, figures.next_row_id - known.get(str(table.uuid), figures.first_row_id), snapshot),
                tags={"dagster/data_version": str(snapshot.id)},
            )
            for table, figures in new.items()
        ]
        return dg.SensorResult(asset_events=events, cursor=json.dumps(cursor))

    return stream_arrivals


def read_cursor(text: str | None) -> dict[str, int]:
    """The row ids that have been reported, by stream; a cursor of another version counts as none."""
    try:
        known = json.loads(text or "{}")
    except ValueError:
        return {}
    return dict(known.get("rows", {})) if isinstance(known, dict) and known.get("v") == _CURSOR_VERSION else {}


def _read_streams(lake: Lake, snapshot: Snapshot) -> Iterator[tuple[Table, StreamFigures]]:
    with lake.reading() as connection:
        declared = read_declarations(connection)
        for table in lake.tables(snapshot):
            if declared.get(str(table.uuid), Declaration()).kind == "stream":
                figures = read_figures(connection, table, snapshot)
                if figures is not None:
                    yield table, figures


def arrival_metadata(figures: StreamFigures, rows_in: int, snapshot: Snapshot) -> Mapping[str, Any]:
    """A stream's figures under names that stay, so that they make lines over time."""
    return {
        "snapshot": snapshot.id,
        "rows_in": rows_in,
        "rows_per_second": round(figures.rows_per_second, 3),
        "lag_seconds": round(figures.lag_seconds(datetime.now(UTC)) or 0.0, 3),
        "dagster/row_count": figures.rows,
        "segments": figures.segments,
        "bytes": figures.bytes,
        "unconsumed_rows": figures.unconsumed_rows,
        "writers": figures.writers,
    }
