"""The figures of a stream: its size, its arrival rates, its writers and its slowest consumer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from platform_plugin.lake.cursors.cursor import read_lowest
from platform_plugin.lake.read.sizes import count_tables
from platform_plugin.lake.ring.arrivals import has_rings, read_arrival_span, read_evicted_bytes, read_recent
from platform_plugin.lake.ring.history import read_history
from platform_plugin.lake.ring.segments import read_ring
from platform_plugin.language.statements.create_stream import feed_text
from platform_plugin.relations.streams.declaration import stream_statement
from platform_plugin.relations.streams.feeds.quarantine import find_quarantine
from platform_plugin.relations.target import statement_name

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.relations import Declaration
    from platform_plugin.lake.catalogue.tables import Snapshot, Table

_RECENT = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFigures:
    """The figures of a stream at one moment. Rates and writers are of the last minute, or of less if the stream holds less."""

    rows: int
    bytes: int
    segments: int
    first_row_id: int
    next_row_id: int
    rows_per_second: float
    segments_per_second: float
    writers: int
    last_arrival: datetime | None
    oldest_arrival: datetime | None
    bytes_held_by_readers: int
    unconsumed_rows: int
    history: str | None

    def lag_seconds(self, now: datetime) -> float | None:
        """The seconds since the last arrival."""
        return None if self.last_arrival is None else max((now - self.last_arrival).total_seconds(), 0.0)


def read_figures(connection: Connection, stream: Table, snapshot: Snapshot, now: datetime | None = None) -> StreamFigures | None:
    """The figures of a stream, from the catalogue alone; None if nothing was ever appended to a stream of this lake."""
    if not has_rings(connection):
        return None
    now = now or datetime.now(UTC)
    ring = read_ring(connection, stream.uuid)
    oldest, newest = read_arrival_span(connection, stream.uuid)
    recent = read_recent(connection, stream.uuid, now - _RECENT)
    # Of a ring that turns in less than a minute only what it still holds is known.
    span = _RECENT if not ring.first_row_id or oldest is None else min(_RECENT, max(now - oldest, timedelta(seconds=1)))
    furthest_behind = read_lowest(connection, stream.uuid)
    history = read_history(connection, stream, snapshot.id)
    return StreamFigures(
        rows=ring.row_count,
        bytes=ring.size_bytes,
        segments=ring.segment_count,
        first_row_id=ring.first_row_id,
        next_row_id=ring.next_row_id,
        rows_per_second=recent.rows / span.total_seconds(),
        segments_per_second=recent.segments / span.total_seconds(),
        writers=recent.writers,
        last_arrival=newest,
        oldest_arrival=oldest,
        bytes_held_by_readers=read_evicted_bytes(connection, stream.uuid),
        unconsumed_rows=0 if furthest_behind is None else max(ring.next_row_id - furthest_behind, 0),
        history=None if history is None else str(history.name),
    )


def stream_facts(work: Workspace, stream: Table, declaration: Declaration, snapshot: Snapshot) -> dict[str, Any]:
    """The figures of a stream for DESCRIBE EXTENDED, with its feed, but without its limits."""
    now = datetime.now(UTC)
    feed = stream_statement(statement_name(stream), stream, declaration).feed
    facts: dict[str, Any] = {} if feed is None else {"feed": feed_text(feed)}
    quarantine = find_quarantine(work.lake, stream, snapshot)
    with work.lake.reading() as connection:
        figures = read_figures(connection, stream, snapshot, now)
        quarantined = 0 if quarantine is None else count_tables(connection, snapshot).get(quarantine.id or -1, (0, 0, 0))[1]
    if figures is not None:
        lag = figures.lag_seconds(now)
        facts |= {
            "segments": figures.segments,
            "row ids": f"{figures.first_row_id} to {figures.next_row_id - 1}" if figures.rows else "none",
            "rows a second": f"{figures.rows_per_second:.1f} in the last minute, in {figures.segments_per_second:.1f} segments a second",
            "writers": f"{figures.writers} in the last minute",
            "last arrival": None if lag is None else f"{figures.last_arrival}, {lag:.1f} seconds ago",
            "oldest arrival": figures.oldest_arrival,
            "bytes held by readers": figures.bytes_held_by_readers or None,
            "unconsumed rows": figures.unconsumed_rows or None,
            "history": figures.history,
        }
    if quarantine is not None:
        facts["quarantine"] = f"{quarantined} records in {quarantine.name}"
    return facts
