"""The sensor `stream_arrivals`: reports new rows in streams, with their rates, and changes of tables, without a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from platform_plugin.lake.catalogue.relations import Declaration, read_declarations
from platform_plugin.lake.ring.arrivals import read_ends, read_last_arrival
from platform_plugin.language.text.counting import count_text
from platform_plugin.orchestration.assets.overview import KEY, overview_metadata
from platform_plugin.orchestration.assets.ranges import plan_keys
from platform_plugin.orchestration.sensors.changes import read_changes
from platform_plugin.orchestration.sensors.firing import Decision, build_sensor
from platform_plugin.relations.streams.figures import read_figures

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.orchestration.assets.translator import Translator
    from platform_plugin.orchestration.sensors.firing import Moment
    from platform_plugin.relations.streams.figures import StreamFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPartitionedTable:
    """A table that is built from `size` rows of a stream at a time; the stream's name is in lower case."""

    table: str
    stream: str
    size: int


_INTERVAL_SECONDS = 30
# A picture is some kilobytes in Dagster's database.
_DRAWN_EVERY_SECONDS = 120


def build_arrivals_sensor(
    url: str,
    translator: Translator,
    *,
    built: Collection[dg.AssetKey] = (),
    ranged: Collection[RowPartitionedTable] = (),
    overview: bool = True,
    running: bool = True,
) -> dg.SensorDefinition:
    """The sensor for all streams of a lake, and for tables that users write to; those that runs build are `built`.

    It adds a partition to each table in `ranged` when the rows of its stream reach it. It also draws the overview again from time to time.
    It starts no run and no Spark.
    """

    def decide(moment: Moment) -> Decision:
        known: Mapping[str, int] = moment.memory.get("rows", {})
        streams = _read_streams(moment)
        grown = {uuid for uuid, (_, rows) in streams.items() if rows > known.get(uuid, 0)}
        memory: dict[str, Any] = {"rows": {uuid: rows for uuid, (_, rows) in streams.items()}}
        events = [
            dg.AssetMaterialization(
                asset_key=translator.asset_key(table.name),
                metadata=arrival_metadata(
                    figures, figures.next_row_id - known.get(str(table.uuid), figures.first_row_id), moment.snapshot, moment.now
                ),
                # As a run tells of a stream that it fed itself, so that one arrival is one version.
                tags={"dagster/data_version": str(arrived_at)},
            )
            for table, figures, arrived_at in _read_figures(moment, [streams[uuid][0] for uuid in sorted(grown)])
        ]
        arrived = len(events)
        events += _told_of_tables(moment, int(moment.memory.get("seen", moment.snapshot.id)), translator, built)
        memory["seen"] = moment.snapshot.id
        drawn_at = float(moment.memory.get("drawn_at", 0.0))
        if arrived and overview and moment.now.timestamp() - drawn_at >= _DRAWN_EVERY_SECONDS:
            events.append(dg.AssetMaterialization(KEY, metadata=overview_metadata(moment.lake, moment.snapshot, moment.now)))
            drawn_at = moment.now.timestamp()
        memory["drawn_at"] = drawn_at
        came = {str(table.name).lower(): rows for table, rows in streams.values()}
        counts: Mapping[str, int] = moment.memory.get("ranges", {})
        added = {each.table: plan_keys(each.size, known=counts.get(each.table, 0), rows=came.get(each.stream, 0)) for each in ranged}
        memory["ranges"] = {table: counts.get(table, 0) + len(keys) for table, keys in added.items()}
        return Decision(
            events=events,
            memory=memory,
            partitions=added,
            reason=f"no new rows in {count_text(len(streams), 'stream')} at snapshot {moment.snapshot.id}",
        )

    return build_sensor(
        "stream_arrivals",
        url,
        decide,
        description="Notifies Dagster of new rows of streams, with rates, lag and retention, and of tables that were written to.",
        interval_seconds=_INTERVAL_SECONDS,
        running=running,
    )


def _read_streams(moment: Moment) -> dict[str, tuple[Table, int]]:
    """The streams of the lake by what they are known by, each with the number of rows that ever came."""
    with moment.lake.reading() as connection:
        declared = read_declarations(connection)
        came = read_ends(connection)
    tables = ((str(table.uuid), table) for table in moment.lake.tables(moment.snapshot))
    return {uuid: (table, came.get(uuid, 0)) for uuid, table in tables if declared.get(uuid, Declaration()).kind == "stream"}


def _told_of_tables(moment: Moment, seen: int, translator: Translator, built: Collection[dg.AssetKey]) -> Iterator[dg.AssetMaterialization]:
    """The tables that others wrote to since a snapshot; a run tells of what it builds itself, with the same version."""
    if seen >= moment.snapshot.id:
        return
    with moment.lake.reading() as connection:
        changes = read_changes(connection, after=seen, until=moment.snapshot.id)
        declared = read_declarations(connection)
    for table in moment.lake.tables(moment.snapshot) if changes else ():
        key, change = translator.asset_key(table.name), changes.get(table.id or -1)
        if change is not None and key not in built and declared.get(str(table.uuid), Declaration()).kind == "table":
            yield dg.AssetMaterialization(key, metadata={"snapshot": change.last}, tags={"dagster/data_version": str(change.last)})


def _read_figures(moment: Moment, streams: Sequence[Table]) -> Iterator[tuple[Table, StreamFigures, int]]:
    """Streams with their figures, and the snapshot of the last arrival of each."""
    with moment.lake.reading() as connection:
        for table in streams:
            figures = read_figures(connection, table, moment.snapshot, moment.now)
            if figures is not None:
                yield table, figures, read_last_arrival(connection, table.uuid) or moment.snapshot.id


def arrival_metadata(figures: StreamFigures, rows_in: int, snapshot: Snapshot, now: datetime) -> Mapping[str, Any]:
    """A stream's figures under names that never change, so that Dagster plots them over time."""
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
