"""`read_timeline`: the last minutes as series from the catalogue: arrival rates of streams, and lags of views."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from platform_plugin.lake.ring.arrivals import has_segments, read_all_arrivals
from platform_plugin.relations.views.follow.progress import read_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.lake import Lake

POINTS = 60
_SHORTEST = timedelta(minutes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A segment of a stream: the row id after its last, its time, and its row count."""

    next_row_id: int
    at: datetime
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The rows per second of each stream and the lag of each view at `POINTS` moments up to `until`, the oldest first."""

    since: datetime
    until: datetime
    rows_per_second: Mapping[str, Sequence[float]] = field(default_factory=dict)
    lag_seconds: Mapping[str, Sequence[float]] = field(default_factory=dict)


def read_timeline(lake: Lake, snapshot: Snapshot, now: datetime, window: timedelta = timedelta(minutes=15)) -> Timeline:
    """The timeline of a window from the catalogue alone; of a stream that has evicted rows since, only what it still holds."""
    with lake.reading() as connection:
        if not has_segments(connection):
            return Timeline(since=now - window, until=now)
        arrivals: defaultdict[str, list[Arrival]] = defaultdict(list)
        for row in read_all_arrivals(connection):
            arrivals[row.relation_uuid].append(
                Arrival(next_row_id=row.next_row_id, at=row.arrived_at, rows=row.next_row_id - row.first_row_id)
            )
        positions: defaultdict[tuple[str, str, str], list[tuple[datetime, int]]] = defaultdict(list)
        for view, owner, stream, at, position in read_steps(connection):
            positions[view, owner, stream].append((at, position))
    # A lake that is young fills the picture too.
    first = min((known[0].at for known in arrivals.values()), default=now)
    window = max(_SHORTEST, min(window, now - first))
    since = now - window
    streams = {str(table.uuid): table.name.relation for table in lake.tables(snapshot) if str(table.uuid) in arrivals}
    views = {str(view.uuid): view.name.relation for view in lake.views(snapshot)}
    moments = [since + window * (number + 1) / POINTS for number in range(POINTS)]
    lags: dict[str, list[float]] = {}
    for (view, _, stream), known in positions.items():
        if view in views and stream in arrivals:
            found = plan_lags(arrivals[stream], known, moments)
            before = lags.get(views[view], [0.0] * POINTS)
            lags[views[view]] = [max(pair) for pair in zip(before, found, strict=True)]
    return Timeline(
        since=since,
        until=now,
        rows_per_second={name: plan_rates(arrivals[uuid], since, window) for uuid, name in streams.items()},
        lag_seconds=lags,
    )


def plan_rates(arrivals: Sequence[Arrival], since: datetime, window: timedelta) -> list[float]:
    """The rows per second in each step of a window."""
    step = window / POINTS
    counts = [0] * POINTS
    for arrival in arrivals:
        place = (arrival.at - since) // step
        if 0 <= place < POINTS:
            counts[place] += arrival.rows
    return [round(count / step.total_seconds(), 3) for count in counts]


def plan_lags(arrivals: Sequence[Arrival], known: Sequence[tuple[datetime, int]], moments: Sequence[datetime]) -> list[float]:
    """The age of a view's oldest unconsumed row at each moment.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> second = timedelta(seconds=1)
    >>> came = [Arrival(next_row_id=10, at=noon, rows=10)]
    >>> plan_lags(came, [(noon - second, 0), (noon + 5 * second, 10)], [noon + 4 * second, noon + 6 * second])
    [4.0, 0.0]
    """
    times, ends = [time for time, _ in known], [arrival.next_row_id for arrival in arrivals]
    found = []
    for moment in moments:
        place = bisect_right(times, moment) - 1
        # Before its first note a view had taken up what it began with.
        position = known[max(place, 0)][1]
        first = bisect_right(ends, position)
        waits = first < len(arrivals) and arrivals[first].at <= moment
        found.append(round((moment - arrivals[first].at).total_seconds(), 3) if waits else 0.0)
    return found
