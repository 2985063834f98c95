"""Arrivals: a sensor that tells Dagster of new rows in streams, with their rates, so that the interface can draw them over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from platform_plugin.lake.relations import Declaration, read_declarations
from platform_plugin.orchestration.firing import Decision, build_sensor
from platform_plugin.orchestration.overview import KEY, overview_metadata
from platform_plugin.streams.figures import read_figures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from platform_plugin.lake.tables import Snapshot, Table
    from platform_plugin.orchestration.firing import Moment
    from platform_plugin.orchestration.translator import Translator
from platform_plugin.streams.figures import StreamFigures

_INTERVAL_SECONDS = 30
# A picture is some kilobytes in Dagster's database.
_DRAWN_EVERY_SECONDS = 120


def build_arrivals_sensor(url: str, translator: Translator, *, overview: bool = True, running: bool = True) -> dg.SensorDefinition:
    """The sensor for all streams of a lake, which also draws the overview anew now and then. It starts no run and no Spark."""

    def decide(moment: Moment) -> Decision:
        known: Mapping[str, int] = moment.memory.get("rows", {})
        found = dict(_read_streams(moment))
        memory: dict[str, Any] = {"rows": {str(table.uuid): figures.next_row_id for table, figures in found.items()}}
        events = [
            dg.AssetMaterialization(
                asset_key=translator.asset_key(table.name),
                metadata=arrival_metadata(
                    figures, figures.next_row_id - known.get(str(table.uuid), figures.first_row_id), moment.snapshot, moment.now
                ),
                tags={"dagster/data_version": str(moment.snapshot.id)},
            )
            for table, figures in found.items()
            if figures.next_row_id > known.get(str(table.uuid), 0)
        ]
        drawn_at = float(moment.memory.get("drawn_at", 0.0))
        if events and overview and moment.now.timestamp() - drawn_at >= _DRAWN_EVERY_SECONDS:
            events.append(dg.AssetMaterialization(KEY, metadata=overview_metadata(moment.lake, moment.snapshot, moment.now)))
            drawn_at = moment.now.timestamp()
        memory["drawn_at"] = drawn_at
        return Decision(events=events, memory=memory, reason=f"no new rows in {len(found)} streams at snapshot {moment.snapshot.id}")

    return build_sensor(
        "stream_arrivals",
        url,
        decide,
        description="Reports new rows of streams as materializations, with rates, lag and retention.",
        interval_seconds=_INTERVAL_SECONDS,
        running=running,
    )


def _read_streams(moment: Moment) -> Iterator[tuple[Table, StreamFigures]]:
    with moment.lake.reading() as connection:
        declared = read_declarations(connection)
        for table in moment.lake.tables(moment.snapshot):
            if declared.get(str(table.uuid), Declaration()).kind == "stream":
                figures = read_figures(connection, table, moment.snapshot, moment.now)
                if figures is not None:
                    yield table, figures


def arrival_metadata(figures: StreamFigures, rows_in: int, snapshot: Snapshot, now: datetime) -> Mapping[str, Any]:
    """A stream's figures under names that stay, so that they make lines over time."""
    return {
        "snapshot": snapshot.id,
        "rows_in": rows_in,
        "rows_per_second": round(figures.rows_per_second, 3),
        "lag_seconds": round(figures.lag_seconds(now) or 0.0, 3),
        "dagster/row_count": figures.rows,
        "segments": figures.segments,
        "bytes": figures.bytes,
        "unconsumed_rows": figures.unconsumed_rows,
        "writers": figures.writers,
    }
