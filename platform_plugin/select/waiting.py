"""`read_waiting_rows` and `read_feed_offsets`: how far what is maintained has come, for the overview of a lake; imports nothing slow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

Rows = list[tuple[Any, ...]]

# What the input of a cursor in a topic begins with.
_PARTITION = "partition "
# How far the slowest node of each view has come, and since when the oldest row that it has not consumed is there.
_POSITIONS = """
    SELECT u.user_uuid AS view_uuid, c.input AS stream_uuid, min(c.position) AS position
    FROM platform_node_use u JOIN platform_cursor c ON c.owner = u.node_uuid AND c.end_snapshot IS NULL
    WHERE u.end_snapshot IS NULL AND u.part <> 'result' GROUP BY u.user_uuid, c.input
"""
# The same of relations that have a cursor of their own in a stream.
_OWN_WAITING = """
    SELECT c.owner, s.next_row_id - c.position, (
        SELECT min(g.arrived_at) FROM platform_segment g WHERE g.relation_uuid = c.input AND g.next_row_id > c.position
    )
    FROM platform_cursor c JOIN platform_relation r ON r.relation_uuid = c.owner JOIN platform_stream s ON s.relation_uuid = c.input
    WHERE c.end_snapshot IS NULL AND c.note IS NULL
"""
# Cursors of feeds: of one that follows a table, the note says how many rows it has of that; of a topic, the input is a partition.
_FEEDS = """
    SELECT c.owner, c.input, c.position, c.note FROM platform_cursor c JOIN platform_stream o ON o.relation_uuid = c.owner
    WHERE c.end_snapshot IS NULL ORDER BY c.owner, c.input
"""
_ENDS = """
    SELECT t.table_uuid, s.next_row_id FROM ducklake_table t JOIN ducklake_table_stats s ON s.table_id = t.table_id
    WHERE t.end_snapshot IS NULL
"""
_NEXT = "SELECT min(snapshot_time) FROM ducklake_snapshot WHERE snapshot_id > {snapshot}"
_WAITING = f"""
    SELECT w.view_uuid, coalesce(s.next_row_id, w.position) - w.position, (
        SELECT min(g.arrived_at) FROM platform_segment g WHERE g.relation_uuid = w.stream_uuid AND g.next_row_id > w.position
    )
    FROM ({_POSITIONS}) w LEFT JOIN platform_stream s ON s.relation_uuid = w.stream_uuid
"""
# Rows after its cursor that a relation has already drawn from when they came.
_PICKED = """
    SELECT p.sample_uuid, sum(p.next_row_id - p.first_row_id) FROM platform_pick p
    JOIN platform_cursor c ON c.owner = p.sample_uuid AND c.end_snapshot IS NULL
    WHERE p.end_snapshot IS NULL AND p.first_row_id >= c.position GROUP BY p.sample_uuid
"""
# How old waiting rows are of those in arrival logs; of each log it is known when its first rows came.
_LOGGED = f"""
    SELECT w.view_uuid, min(l.oldest_arrival)
    FROM ({_POSITIONS}) w JOIN platform_arrival_log l ON l.relation_uuid = w.stream_uuid AND l.next_row_id > w.position GROUP BY w.view_uuid
"""


class Catalogue(Protocol):
    """An open read transaction on either database."""

    def rows(self, sql: str) -> Rows: ...

    def has(self, table: str) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedOffset:
    """A stream that reads a topic, a partition of this, and the offset of the next record that it reads there."""

    schema: str
    name: str
    partition: str
    offset: int


def read_waiting_rows(catalogue: Catalogue) -> dict[str, tuple[int, datetime | None]]:
    """How many rows of its streams each maintained relation has not consumed, and when the oldest of them came."""
    # Of a lake that nobody has written to since an earlier version it is not known.
    if not catalogue.has("platform_cursor"):
        return {}
    has_views = catalogue.has("platform_node_use")
    if not catalogue.has("platform_segment"):
        return {str(view): (0, None) for view, *_ in catalogue.rows(_POSITIONS)} if has_views else {}
    found: dict[str, tuple[int, datetime | None]] = {}
    picked = {str(owner): int(rows) for owner, rows in catalogue.rows(_PICKED)} if catalogue.has("platform_ended_pick") else {}
    own = catalogue.rows(_OWN_WAITING) if catalogue.has("platform_relation") else []
    own = [(owner, rows - picked.get(str(owner), 0), since) for owner, rows, since in own]
    views = catalogue.rows(_WAITING) if has_views else []
    for view, rows, since in [*views, *own, *_feeds_waiting(catalogue)]:
        count, oldest = found.get(str(view), (0, None))
        moment = read_moment(since) if since is not None and rows > 0 else None
        known = [each for each in (oldest, moment) if each is not None]
        found[str(view)] = count + max(0, int(rows)), min(known, default=None)
    for view, since in catalogue.rows(_LOGGED) if has_views and catalogue.has("platform_arrival_log") else []:
        rows, oldest = found[str(view)]
        found[str(view)] = rows, min(each for each in (oldest, read_moment(since)) if each is not None)
    return found


def _feeds_waiting(catalogue: Catalogue) -> Rows:
    """The same of streams that follow the rows of tables; the oldest has waited since the first commit after theirs, or for less."""
    feeds = [(owner, of, position, note) for owner, of, position, note in catalogue.rows(_FEEDS) if not of.startswith(_PARTITION) and note]
    ends = {str(uuid): int(end) for uuid, end in catalogue.rows(_ENDS)} if feeds else {}
    found: Rows = []
    for owner, of, position, note in feeds:
        reached = json.loads(note).get("next_row_id")
        if reached is not None and of in ends:
            waiting = max(0, ends[of] - int(reached))
            found.append((owner, waiting, catalogue.rows(_NEXT.format(snapshot=int(position)))[0][0] if waiting else None))
    return found


def read_feed_offsets(catalogue: Catalogue, names: Mapping[str, tuple[str, str]]) -> tuple[FeedOffset, ...]:
    """How far streams have read their topics, by the names of relations that are there."""
    if not catalogue.has("platform_cursor") or not catalogue.has("platform_stream"):
        return ()
    return tuple(
        FeedOffset(schema=names[owner][0], name=names[owner][1], partition=of.removeprefix(_PARTITION), offset=int(position))
        for owner, of, position, _ in catalogue.rows(_FEEDS)
        if of.startswith(_PARTITION) and owner in names
    )


def read_moment(value: datetime | str) -> datetime:
    """A moment of the catalogue, which SQLite gives as text."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.astimezone(UTC)
