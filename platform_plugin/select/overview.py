"""`read_overview`: the figures of a lake for `platform status`, from its catalogue with a few small queries.

A local catalogue is read through Python's own SQLite, because importing SQLAlchemy and Arrow takes longer than the whole answer may.
Whatever is out of the ordinary there is left to `Lake`, which knows what to say about it.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from platform_plugin.lake.values.engine_notes import parse_engine_notes
from platform_plugin.lake.values.stall import Stall
from platform_plugin.relations.kinds import is_hidden, named_kind
from platform_plugin.select.waiting import Catalogue, FeedOffset, Rows, read_feed_offsets, read_moment, read_waiting_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LOCAL = "platform+local://"
# The options of a continuous view that say which tables it read once, and at which snapshot.
_PINNED, _CREATED = "pinned_tables", "created"
# The newest snapshot has what no snapshot has ended, so that both databases read these from an index.
_SNAPSHOT = "SELECT snapshot_id, snapshot_time FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1"
_COUNT = "SELECT count(*) FROM ducklake_snapshot"
_RELATIONS = """
    SELECT s.schema_name, t.table_name, t.table_uuid, t.table_id, t.begin_snapshot
    FROM ducklake_table t JOIN ducklake_schema s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL
    WHERE t.end_snapshot IS NULL ORDER BY s.schema_name, t.table_name
"""
_VIEWS = """
    SELECT s.schema_name, v.view_name, v.view_uuid
    FROM ducklake_view v JOIN ducklake_schema s ON s.schema_id = v.schema_id AND s.end_snapshot IS NULL
    WHERE v.end_snapshot IS NULL ORDER BY s.schema_name, v.view_name
"""
_FILES = """
    SELECT table_id, count(*), sum(record_count), sum(file_size_bytes) FROM ducklake_data_file WHERE end_snapshot IS NULL GROUP BY table_id
"""
_DELETES = "SELECT table_id, sum(delete_count) FROM ducklake_delete_file WHERE end_snapshot IS NULL GROUP BY table_id"
_KINDS = "SELECT relation_uuid, kind FROM platform_relation"
_RATES = """
    SELECT p.relation_uuid, s.first_row_id, sum(p.next_row_id - p.first_row_id), min(p.arrived_at)
    FROM platform_segment p JOIN platform_stream s ON s.relation_uuid = p.relation_uuid
    WHERE p.snapshot_id >= {since} GROUP BY p.relation_uuid, s.first_row_id
"""
_LAST = """
    SELECT s.relation_uuid, (
        SELECT p.arrived_at FROM platform_segment p WHERE p.relation_uuid = s.relation_uuid ORDER BY p.first_row_id DESC LIMIT 1
    ) FROM platform_stream s
"""
_MINUTE_AGO = "SELECT min(snapshot_id) FROM ducklake_snapshot WHERE snapshot_time > '{moment}'"
# Of what is not there yet, and of what is there still; another relation of that name may be fine.
_STALLS = """
    SELECT schema_name, relation_name, relation_uuid, cause, since, tried_at, reason, hint, suite, row_count
    FROM platform_stall ORDER BY schema_name, relation_name, cause
"""
_DEFINITIONS = "SELECT view_uuid, definition FROM platform_view"
# The newest snapshot that changed each table, as far as files tell; a merged file names its newest row.
_CHANGES = """
    SELECT table_id, max(begin_snapshot), max(end_snapshot), max(partial_max) FROM ducklake_data_file GROUP BY table_id
    UNION ALL SELECT table_id, max(begin_snapshot), NULL, max(partial_max) FROM ducklake_delete_file GROUP BY table_id
    UNION ALL SELECT table_id, max(begin_snapshot), NULL, NULL FROM ducklake_schema_versions GROUP BY table_id
"""
_PASSES = "SELECT schema_name, relation_name, max(snapshot_id) FROM platform_gate_pass GROUP BY schema_name, relation_name"
# A sign of LIKE would be a parameter's to PostgreSQL's driver.
_CONSUMERS = """
    SELECT input, position, note FROM platform_cursor
    WHERE end_snapshot IS NULL AND substr(note, 1, 8) = '{"holds"' ORDER BY position, owner
"""
_NOTES = "SELECT snapshot_id, commit_extra_info FROM ducklake_snapshot_changes ORDER BY snapshot_id DESC LIMIT 200"
_LEASES = "SELECT snapshot_id, holder, expires_at FROM platform_lease"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationSize:
    """A relation and its size, which a view has not; of what is maintained also how many rows wait for it, and since when."""

    schema: str
    name: str
    kind: str
    rows: int | None
    files: int | None
    bytes: int | None
    rows_per_second: float | None = None
    last_arrival: datetime | None = None
    rows_waiting: int | None = None
    waiting_since: datetime | None = None

    def lag_seconds(self, now: datetime) -> float | None:
        """For how long the oldest row that waits has waited; None of what is not maintained."""
        if self.rows_waiting is None:
            return None
        return 0.0 if self.waiting_since is None else max(0.0, (now - self.waiting_since).total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedChange:
    """A view, the snapshot at which it read some tables once, and those of the tables that have changed since."""

    schema: str
    name: str
    read_at: int
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedTable:
    """A table, a consumer of its changes, and the snapshot up to which that has consumed them."""

    schema: str
    name: str
    consumer: str
    snapshot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEngine:
    """What maintained some relations last: the engine, its reason, what it was estimated to take and took, and its tasks."""

    relations: tuple[str, ...]
    snapshot: int
    engine: str
    why: str
    rows: int
    seconds: float
    estimated_seconds: float | None = None
    tasks: int = 0
    executors: int = 0
    skew: float | None = None
    core_rows_per_second: float | None = None
    client_bytes: int = 0
    jobs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The figures of a lake and the sizes of its relations."""

    lake: str
    snapshot: int
    committed_at: datetime
    snapshots: int
    leases: int
    relations: tuple[RelationSize, ...]
    stalls: tuple[Stall, ...] = ()
    pinned: tuple[PinnedChange, ...] = ()
    consumers: tuple[ConsumedTable, ...] = ()
    engines: tuple[LastEngine, ...] = ()
    """The last runs of engines, newest first, each with the relations that none after it maintained; of the newest commits."""
    stored_files: int = 0
    stored_bytes: int = 0
    """Those of the newest snapshot with states and all else that belongs to relations; files of older snapshots are not among them."""
    oldest_leased: int | None = None
    """The oldest snapshot that a lease keeps."""
    offsets: tuple[FeedOffset, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(relation.bytes or 0 for relation in self.relations)


def read_overview(url: str) -> Overview:
    """The overview of a lake; a place that is no lake is refused with the error that opening it gives."""
    return _read_local(url) or _read_any(url)


def _read_local(url: str) -> Overview | None:
    folder = _plain_folder(url)
    file = folder / "lake.sqlite" if folder else None
    if folder is None or file is None or not file.is_file() or not (folder / "data").is_dir():
        return None
    try:
        with closing(sqlite3.connect(file, timeout=0.2, isolation_level=None)) as connection:
            connection.execute("PRAGMA query_only = 1")
            connection.execute("BEGIN")
            metadata = dict(connection.execute("SELECT key, value FROM ducklake_metadata WHERE scope IS NULL").fetchall())
            if metadata.get("version") != "1.0" or metadata.get("data_path") != f"{folder / 'data'}/":
                return None
            return _overview(f"{_LOCAL}{folder}", _Sqlite(connection))
    except (sqlite3.Error, OSError):
        return None


def _plain_folder(url: str) -> Path | None:
    """The folder of a local lake whose URL holds nothing that wants more than cutting off its beginning."""
    if any(mark in url for mark in "%?#"):
        return None
    if url.startswith(_LOCAL + "/"):
        return Path("/" + url.removeprefix(_LOCAL).lstrip("/"))
    return None if "://" in url or url.startswith("platform") else Path(url).expanduser().absolute()


def _read_any(url: str) -> Overview:
    from platform_plugin.lake.lake import Lake

    with Lake.open(url) as lake, lake.reading() as connection:
        import sqlalchemy as sa

        def rows(sql: str) -> Rows:
            return [tuple(row) for row in connection.exec_driver_sql(sql)]

        return _overview(str(lake.location), _Any(rows, sa.inspect(connection).has_table))


@dataclass(frozen=True, slots=True)
class _Sqlite:
    connection: sqlite3.Connection

    def rows(self, sql: str) -> Rows:
        return self.connection.execute(sql).fetchall()

    def has(self, table: str) -> bool:
        return bool(self.connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [table]).fetchall())


@dataclass(frozen=True, slots=True)
class _Any:
    rows: Callable[[str], Rows]
    has: Callable[[str], bool]


def _overview(lake: str, catalogue: Catalogue) -> Overview:
    now = datetime.now(UTC)
    snapshot, committed_at = catalogue.rows(_SNAPSHOT)[0]
    kinds = {str(uuid): kind for uuid, kind in catalogue.rows(_KINDS)} if catalogue.has("platform_relation") else {}
    leases = catalogue.rows(_LEASES) if catalogue.has("platform_lease") else []
    files = {table: (int(count), int(rows or 0), int(size or 0)) for table, count, rows, size in catalogue.rows(_FILES)}
    changed = _inlined(catalogue)
    for table, count in catalogue.rows(_DELETES):
        changed[table] -= int(count or 0)
    relations = []
    arrivals = _arrivals(catalogue, now)
    waiting = read_waiting_rows(catalogue)
    for schema, name, uuid, table, _ in catalogue.rows(_RELATIONS):
        count, rows, size = files.get(table, (0, 0, 0))
        kind = kinds.get(str(uuid), "table")
        if is_hidden(kind):
            continue
        known = named_kind(kind)
        speed, last = arrivals.get(str(uuid), (0.0, None)) if known is not None and known.has_arrivals else (None, None)
        unconsumed, since = waiting.get(str(uuid), (None, None))
        relations.append(
            RelationSize(
                schema=schema,
                name=name,
                kind=kind,
                rows=rows + changed[table],
                files=count,
                bytes=size,
                rows_per_second=speed,
                last_arrival=last,
                rows_waiting=unconsumed,
                waiting_since=since,
            )
        )
    names = {str(uuid): (str(schema), str(name)) for schema, name, uuid, *_ in catalogue.rows(_RELATIONS)}
    uuids = {(str(schema).lower(), str(name).lower()): str(uuid) for schema, name, uuid, *_ in catalogue.rows(_RELATIONS)}
    for schema, name, uuid in catalogue.rows(_VIEWS):
        uuids[str(schema).lower(), str(name).lower()] = str(uuid)
        count, since = waiting.get(str(uuid), (None, None))
        relations.append(
            RelationSize(schema=schema, name=name, kind="view", rows=None, files=None, bytes=None, rows_waiting=count, waiting_since=since)
        )
    return Overview(
        lake=lake,
        snapshot=int(snapshot),
        committed_at=read_moment(committed_at),
        snapshots=int(catalogue.rows(_COUNT)[0][0]),
        leases=sum(read_moment(expires_at) > now for _, _, expires_at in leases),
        oldest_leased=min((int(snapshot) for snapshot, _, expires_at in leases if read_moment(expires_at) > now), default=None),
        stored_files=sum(count for count, _, _ in files.values()),
        stored_bytes=sum(size for _, _, size in files.values()),
        relations=tuple(relations),
        engines=read_engine_notes(catalogue.rows(_NOTES)),
        stalls=_stalls(catalogue, uuids),
        pinned=_pinned(catalogue),
        consumers=_consumers(catalogue),
        offsets=read_feed_offsets(catalogue, names),
    )


def _consumers(catalogue: Catalogue) -> tuple[ConsumedTable, ...]:
    """The consumers of the changes of tables that are there, those that are furthest behind first."""
    found = catalogue.rows(_CONSUMERS) if catalogue.has("platform_cursor") else []
    names = {str(uuid): (schema, name) for schema, name, uuid, *_ in catalogue.rows(_RELATIONS)} if found else {}
    return tuple(
        ConsumedTable(schema=names[of][0], name=names[of][1], consumer=json.loads(note)["holds"], snapshot=int(position))
        for of, position, note in found
        if of in names
    )


def _pinned(catalogue: Catalogue) -> tuple[PinnedChange, ...]:
    """The views with tables below their grouping that have changed; a table that is gone, or another one now, has changed too."""
    if not catalogue.has("platform_view"):
        return ()
    options = {str(uuid): json.loads(definition)["options"] for uuid, definition in catalogue.rows(_DEFINITIONS)}
    if not any(each.get(_PINNED) for each in options.values()):
        return ()
    changed = _changed_at(catalogue)
    found = []
    for schema, name, uuid in catalogue.rows(_VIEWS):
        own = options.get(str(uuid), {})
        read_at = int(own.get(_CREATED, 0))
        if tables := tuple(each for each in own.get(_PINNED, ()) if changed.get(each.lower(), read_at + 1) > read_at):
            found.append(PinnedChange(schema=schema, name=name, read_at=read_at, tables=tables))
    return tuple(found)


def _changed_at(catalogue: Catalogue) -> dict[str, int]:
    """The newest snapshot that changed each table, by its name in lower case."""
    changed: dict[int, int] = {}
    rows = catalogue.rows(_CHANGES)
    for table, name in catalogue.rows("SELECT table_id, table_name FROM ducklake_inlined_data_tables"):
        if catalogue.has(name):
            rows += [(table, *each) for each in catalogue.rows(f'SELECT max(begin_snapshot), max(end_snapshot) FROM "{name}"')]
    for table, *moments in rows:
        changed[table] = max(changed.get(table, 0), *(int(moment) for moment in moments if moment is not None), 0)
    found = {}
    for schema, name, _, table, begin in catalogue.rows(_RELATIONS):
        deletes = f"ducklake_inlined_delete_{int(table)}"
        inlined = catalogue.rows(f"SELECT max(begin_snapshot) FROM {deletes}")[0][0] if catalogue.has(deletes) else None
        found[f"{schema}.{name}".lower()] = max(changed.get(table, 0), int(begin), int(inlined or 0))
    return found


def _stalls(catalogue: Catalogue, uuids: Mapping[tuple[str, str], str]) -> tuple[Stall, ...]:
    """What stalls relations by the identities of those that are there; what a gate keeps from being created is not there."""
    if not catalogue.has("platform_stall"):
        return ()
    passes = {(schema, name): int(at) for schema, name, at in catalogue.rows(_PASSES)} if catalogue.has("platform_gate_pass") else {}
    return tuple(
        Stall(
            schema=schema,
            name=name,
            cause=cause,
            since=read_moment(since),
            tried_at=read_moment(tried_at),
            reason=reason,
            hint=hint,
            suite=suite,
            row_count=row_count,
            passed=passes.get((schema, name)) if cause == "gate" else None,
        )
        for schema, name, uuid, cause, since, tried_at, reason, hint, suite, row_count in catalogue.rows(_STALLS)
        if uuids.get((schema, name)) == uuid
    )


def _arrivals(catalogue: Catalogue, now: datetime) -> dict[str, tuple[float, datetime]]:
    """Rows a second over the last minute and the last arrival of the streams that hold rows."""
    if not catalogue.has("platform_segment"):
        return {}
    moment = f"{now - timedelta(minutes=1):%Y-%m-%d %H:%M:%S.%f}+00"
    since = catalogue.rows(_MINUTE_AGO.format(moment=moment))[0][0]
    found = {str(uuid): (0.0, read_moment(last)) for uuid, last in catalogue.rows(_LAST) if last is not None}
    for uuid, first, rows, oldest in catalogue.rows(_RATES.format(since=int(since))) if since is not None else []:
        # Of a ring that turns in less than a minute only what it still holds is known.
        seconds = min(60.0, max((now - read_moment(oldest)).total_seconds(), 1.0)) if first else 60.0
        found[str(uuid)] = (int(rows) / seconds, found[str(uuid)][1])
    return found


def _inlined(catalogue: Catalogue) -> Counter[int]:
    """Rows that other clients keep in the catalogue, less the deletes that they keep there, by table."""
    changed: Counter[int] = Counter()
    tables = catalogue.rows("SELECT table_id, table_name FROM ducklake_inlined_data_tables")
    for table, name in tables:
        if catalogue.has(name):
            changed[table] += int(catalogue.rows(f'SELECT count(*) FROM "{name}" WHERE end_snapshot IS NULL')[0][0])
    for table, *_ in catalogue.rows("SELECT DISTINCT table_id FROM ducklake_data_file WHERE end_snapshot IS NULL"):
        name = f"ducklake_inlined_delete_{int(table)}"
        if catalogue.has(name):
            live = "SELECT data_file_id FROM ducklake_data_file WHERE end_snapshot IS NULL"
            changed[table] -= int(catalogue.rows(f"SELECT count(*) FROM {name} WHERE file_id IN ({live})")[0][0])
    return changed


def read_engine_notes(rows: Rows) -> tuple[LastEngine, ...]:
    """The last engine of each relation, from the notes of commits, newest first.

    >>> note = '{"engines": [{"relations": ["main.v"], "engine": "local", "why": "few", "rows": 2, "seconds": 0.1}]}'
    >>> [(each.snapshot, each.relations, each.engine) for each in read_engine_notes([(9, note), (8, note), (7, None), (6, "{}")])]
    [(9, ('main.v',), 'local')]
    """
    found: list[LastEngine] = []
    told: set[str] = set()
    for snapshot, notes in rows:
        for run in parse_engine_notes(notes):
            names = tuple(name for name in run["relations"] if name not in told)
            told.update(names)
            if names:
                known = {name: run[name] for name in LastEngine.__dataclass_fields__ if name in run and name != "relations"}
                found.append(LastEngine(relations=names, snapshot=int(snapshot), **known))
    return tuple(found)
