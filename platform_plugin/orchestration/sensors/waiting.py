"""`read_waiting`: the unconsumed rows of every continuous view and their age, from the catalogue alone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from platform_plugin.lake.catalogue.relations import read_declarations
from platform_plugin.lake.cursors.cursor import has_cursors
from platform_plugin.lake.ring.consumers import read_lagging_consumers, read_waiting_since
from platform_plugin.orchestration.components.apply import LAG
from platform_plugin.orchestration.sensors.changes import find_outdated
from platform_plugin.relations.views.follow.progress import read_last_progress, read_view_positions, users_of_owners
from platform_plugin.relations.views.follow.strategy import rows_wanted
from platform_plugin.relations.views.record import ViewRecord, read_options
from platform_plugin.state.node import read_uses

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Name, Snapshot
    from platform_plugin.lake.lake import Lake


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingView:
    """A view and its unconsumed rows. `taken_up` is the snapshot at which it last consumed any.

    `position` counts the rows that it has consumed, of all its streams. `fullness` is the share of unconsumed rows in its fullest stream,
    from 0 to 1: at 1 a stream has no room left.
    """

    view: Name
    streams: frozenset[str] = frozenset()
    rows: int = 0
    since: datetime | None = None
    taken_up: int = 0
    waits_for_first_run: bool = False
    """Whether rows wait for it, and no run has consumed any yet."""
    position: int = 0
    fullness: float = 0.0
    target_lag_seconds: float | None = None
    rows_wanted: int = 1
    """How many rows must wait before it needs a run."""
    looked_up_at: datetime | None = None
    """The time at which a table that it looks up was changed, since its stored result was made."""

    @property
    def wants_run(self) -> bool:
        """Whether a run would have something to do for it."""
        return self.rows >= self.rows_wanted or self.looked_up_at is not None

    def lag_seconds(self, now: datetime) -> float:
        """The age of its oldest unconsumed row, or of the change of a table that it looks up."""
        return max([(now - since).total_seconds() for since in (self.since, self.looked_up_at) if since is not None], default=0.0)


def share_of_ring(rows: int, options: Mapping[str, Any]) -> float:
    """The share of a stream with these options that rows fill which it may not evict before they are consumed.

    >>> share_of_ring(500, {"retention_rows": 1000}), share_of_ring(500, {"retention_rows": 1000, "on_unconsumed": "drop"})
    (0.5, 0.0)
    """
    most = options.get("retention_rows")
    return min(rows / int(most), 1.0) if most and options.get("on_unconsumed") != "drop" else 0.0


@dataclass(slots=True)
class _Sum:
    streams: set[str] = field(default_factory=set)
    rows: int = 0
    since: list[datetime] = field(default_factory=list)
    fullness: float = 0.0


def read_waiting(lake: Lake, snapshot: Snapshot) -> list[WaitingView]:
    """Every continuous view, whether or not rows wait for it; the number of queries does not depend on that of views."""
    with lake.reading() as connection:
        options = read_options(connection)
        if not (options and has_cursors(connection)):
            return []
        uses = read_uses(connection)
        sums = _read_sums(connection, users_of_owners(uses))
        taken_up = read_last_progress(connection, uses)
        positions = read_view_positions(connection, snapshot.id, uses)
        views = {view.uuid: view for view in lake.views(snapshot)}
        records = {uuid: ViewRecord(uuid=uuid, query="", options=options[uuid]) for uuid in views if uuid in options}
        outdated = find_outdated(connection, views, records, snapshot.id, uses)
    found = []
    for view in views.values():
        key = str(view.uuid)
        if view.uuid in options:
            waits = sums.get(key, _Sum())
            found.append(
                WaitingView(
                    view=view.name,
                    streams=frozenset(waits.streams),
                    rows=waits.rows,
                    since=min(waits.since, default=None),
                    taken_up=taken_up.get(key, 0),
                    waits_for_first_run=waits.rows > 0 and taken_up.get(key, 0) <= (view.begin_snapshot or 0),
                    position=sum(positions.get(key, {}).values()),
                    fullness=waits.fullness,
                    target_lag_seconds=options[view.uuid].get(LAG),
                    rows_wanted=rows_wanted(records[view.uuid]),
                    looked_up_at=outdated[view.uuid].at if view.uuid in outdated else None,
                )
            )
    return found


def _read_sums(connection: Connection, users: Mapping[str, Sequence[str]]) -> Mapping[str, _Sum]:
    sums: defaultdict[str, _Sum] = defaultdict(_Sum)
    behind = read_lagging_consumers(connection)
    if not behind:
        return sums
    limits = read_declarations(connection, only={stream for _, stream, _ in behind})
    waiting: defaultdict[tuple[str, str], int] = defaultdict(int)  # by view and stream: of its slowest node
    for owner, stream, count in behind:
        for view in users.get(owner, ()):
            waiting[view, stream] = max(waiting[view, stream], count)
    for (view, stream), count in waiting.items():
        sums[view].streams.add(stream)
        sums[view].rows += count
        if stream in limits:
            sums[view].fullness = max(sums[view].fullness, share_of_ring(count, limits[stream].options))
    for owner, moment in read_waiting_since(connection).items():
        for view in users.get(owner, ()):
            sums[view].since.append(moment)
    return sums
