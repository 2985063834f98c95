"""Picking: what becomes of a stream's samples when rows are appended from memory, in the same commit and without another look at them.

A process knows the lowest keys of each sample that it has seen committed. A row whose key is higher is not in the sample, whatever others
have added meanwhile, so writers need not agree: each picks by what it knows, and too much at worst.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from platform_plugin.errors import PlatformError
from platform_plugin.lake.segments import CONSUMER, read_arrivals, read_ring
from platform_plugin.lake.types import arrow_schema
from platform_plugin.samples.growing import held_of, read_stored
from platform_plugin.samples.keys import EVERY, keys_between, low_keys, sample_seed
from platform_plugin.samples.local import margin
from platform_plugin.samples.looking import Condition, lowest_of_rows
from platform_plugin.samples.lowest import Held
from platform_plugin.samples.picks import LARGEST_BYTES, PICK, ROW, encode_rows, insert_picks, pool_picks, read_picks
from platform_plugin.samples.record import all_samples, definitions, read_progress
from platform_plugin.samples.reservoirs import window_bound
from platform_plugin.samples.sources import in_shape
from platform_plugin.views.arrow_values import NotLocal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future
    from uuid import UUID

    from numpy.typing import NDArray

    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.tables import Snapshot, Table
    from platform_plugin.lake.writer import Writer
    from platform_plugin.samples.definition import Key
    from platform_plugin.samples.record import Sample

    Integers = NDArray[np.int64]

_KNOWN_STREAMS = 1000
_LOOK_AGAIN_SECONDS = 30.0
_LET_GO_EVERY = 16
_WORTH_A_THREAD = 2_000
# Of fewer rows of a stratum nobody can say how many of them a window has.
_TELLING_ROWS = 100


@dataclass(slots=True)
class _Known:
    """What this process knows of a sample: the lowest keys of each stratum that are committed, or how large its window is."""

    sample: Sample
    seed: int
    shape: pa.Schema
    condition: Condition | None = None
    lowest: dict[Key, Integers] = field(default_factory=dict)
    bounds: dict[Key, int] = field(default_factory=dict)
    waiting: dict[Key, list[Integers]] = field(default_factory=dict)
    window_rows: int = 0

    def bound(self, key: Key, count: int, rows: int) -> int:
        """Up to which key rows of a stratum are picked, of which an append of so many rows has a number."""
        definition = self.sample.definition
        if not definition.is_windowed:
            return self.bounds.get(key, EVERY)
        size = definition.cap(max(1, len(self.lowest)))
        window = self.window_rows + rows if definition.window_rows is None else min(self.window_rows + rows, definition.window_rows)
        if definition.is_counted:
            return window_bound(size, window)
        return window_bound(size, window * count // rows) if count >= _TELLING_ROWS else EVERY

    def learn(self, key: Key, keys: Integers) -> None:
        """Keys of a stratum were committed."""
        definition = self.sample.definition
        if definition.is_windowed:
            self.lowest.setdefault(key, _NONE)
            return
        size = definition.cap(max(1, len({*self.lowest, key})))
        own = self.waiting.setdefault(key, [])
        own.append(keys)
        # Sorting out a large sample's keys costs more than a few picks too many.
        if key in self.bounds and sum(map(len, own)) < size // 16:
            return
        found = np.concatenate([self.lowest.get(key, _NONE), *own])
        own.clear()
        if len(found) >= size:
            found = np.partition(found, size - 1)[:size] if len(found) > size else found
            self.bounds[key] = int(found.max())
        self.lowest[key] = found


_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picked:
    """What was picked of an append for a sample."""

    known: _Known
    strata: Mapping[Key, Held]
    data: bytes | None


class PickRows:
    """Part of a commit that appends rows to a stream: its samples pick theirs. `settle` when the commit is made."""

    def __init__(self, samples: _Samples, rows: pa.Table) -> None:
        self._samples = samples
        self._rows = rows
        self._first = -1
        self._picked: list[_Picked] = []
        self._made = False
        self._work: Future[None] | None = None

    def start(self) -> None:
        """Pick beside what else is done with the rows, as if they began where the last ones ended: mostly they do."""
        if self._rows.num_rows >= _WORTH_A_THREAD:
            try:
                self._work = _workers().submit(self.prepare, self._samples.next_row_id)
            except RuntimeError:
                pass  # the process is about to end, and has no more threads to give
            else:
                return
        self.prepare(self._samples.next_row_id)

    def wait(self) -> None:
        """Return when the rows are picked."""
        if self._work is not None:
            self._work.result()

    def prepare(self, first_row_id: int) -> None:
        """Pick as if the rows began with this id."""
        self._first = first_row_id
        self._picked = []
        with self._samples.lock:
            for known in self._samples.known:
                picked = _pick(known, self._rows, first_row_id)
                if picked is not None:
                    self._picked.append(picked)

    def apply(self, w: Writer) -> None:
        """Write what was picked, unless relations have changed meanwhile; then a run looks at the rows."""
        self._made = w.head.schema_version == self._samples.schema_version
        if not self._made:
            return
        stream = self._samples.stream
        first = w.first_row_ids[stream]
        if first != self._first:
            self.prepare(first)
        end = first + self._rows.num_rows
        growing = []
        for picked in self._picked:
            table = picked.known.sample.table
            insert_picks(
                w, table.uuid, (first, end), {key: (held.cardinality, held.bound) for key, held in picked.strata.items()}, picked.data
            )
            if not picked.known.sample.definition.is_windowed:
                growing.append(str(table.uuid))
        self._samples.commits += 1
        if growing and self._samples.commits % _LET_GO_EVERY == 0:
            let_go(w, stream, growing)

    def settle(self) -> None:
        """The commit is made: what was picked counts from now on."""
        samples = self._samples
        with samples.lock:
            samples.rows_since += self._rows.num_rows
            samples.next_row_id = self._first + self._rows.num_rows
            for picked in self._picked if self._made else ():
                for key, held in picked.strata.items():
                    picked.known.learn(key, held.keys)
                picked.known.window_rows += self._rows.num_rows


def let_go(w: Writer, stream: UUID, samples: list[str]) -> None:
    """A stream need not keep rows for samples that have picked theirs of all up to there."""
    w.flush()
    n, p = CONSUMER.c, PICK.c
    waiting = sa.select(n.consumer, n.next_row_id).where(n.relation_uuid == str(stream), n.consumer.in_(samples))
    for sample, first in w.connection.execute(waiting).all():
        spans = sa.select(p.first_row_id, p.next_row_id).where(p.sample_uuid == sample, p.end_snapshot.is_(None), p.next_row_id > first)
        end = first
        for start, stop in w.connection.execute(spans.order_by(p.first_row_id)):
            if start > end:
                break
            end = stop
        if end > first:
            own = sa.and_(n.relation_uuid == str(stream), n.consumer == sample)
            w.connection.execute(sa.update(CONSUMER).where(own).values(next_row_id=end))


def _pick(known: _Known, rows: pa.Table, first: int) -> _Picked | None:
    """What a sample picks of rows that begin with a row id; None where that is left to a run."""
    definition = known.sample.definition
    strata: dict[Key, Held] = {}
    try:
        size = definition.cap(max(1, len(known.lowest)))
        end, most = first + rows.num_rows, margin(size) if definition.is_windowed else size
        if definition.is_counted:
            bound = known.bound((), rows.num_rows, rows.num_rows)
            inside, keys = low_keys(known.seed, first, end, bound)
            strata[()] = Held(cardinality=rows.num_rows, bound=bound, keys=keys, places=inside).lowest(most)
        else:
            keys = keys_between(known.seed, first, end)
            found = lowest_of_rows(rows, keys, definition, known.condition, lambda key, count: known.bound(key, count, rows.num_rows))
            strata = {key: held.lowest(most) for key, held in found.items()}
        places = np.sort(np.concatenate([_NONE, *(held.places for held in strata.values())]))
        data = encode_rows(_taken(known, rows, places).append_column(ROW, pa.array(places + first, pa.int64())))
    except (PlatformError, NotLocal):
        return None  # a value that the sample's column can't hold, which the run will tell of, or one that Spark has to judge
    return None if data is not None and len(data) > LARGEST_BYTES else _Picked(known=known, strata=strata, data=data)


def _taken(known: _Known, rows: pa.Table, places: Integers) -> pa.Table:
    """The rows at these places, in the columns of the sample."""
    if rows.schema.equals(known.shape):
        return _take(rows, places)
    there = set(rows.column_names)
    return in_shape(known.sample, _take(rows.select([name for name in known.shape.names if name in there]), places))


def _take(rows: pa.Table, places: Integers) -> pa.Table:
    """Like Arrow's own, which puts all rows into one piece first where they are in several."""
    taken, start = [], 0
    for batch in rows.to_batches():
        low, high = np.searchsorted(places, (start, start + batch.num_rows))
        if high > low:
            taken.append(batch.take(pa.array(places[low:high] - start)))
        start += batch.num_rows
    return pa.Table.from_batches(taken, schema=rows.schema)


@dataclass(slots=True)
class _Samples:
    """The samples of one stream as this process knows them."""

    stream: UUID
    schema_version: int
    known: list[_Known]
    next_row_id: int
    rows_known: int
    looked_at: float
    look_again: float | None
    rows_since: int = 0
    commits: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_stale(self, base: Snapshot) -> bool:
        """Whether it is time to look at what others have made of the samples."""
        if base.schema_version != self.schema_version:
            return True
        if not self.known:
            return False
        late = self.look_again is not None and time.monotonic() > self.looked_at + self.look_again
        return late or self.rows_since > max(self.rows_known, 1_000_000)


_POOL: ThreadPoolExecutor | None = None


def _workers() -> ThreadPoolExecutor:
    """Threads that stay: to start one takes longer than to pick."""
    global _POOL  # noqa: PLW0603  made when first needed, and anew in a forked child
    with _LOCK:
        if _POOL is None:
            _POOL = ThreadPoolExecutor(max_workers=2, thread_name_prefix="platform-pick")
        return _POOL


_STREAMS: OrderedDict[tuple[UUID, str, UUID], _Samples] = OrderedDict()
_LOCK = threading.Lock()


def plan_picks(lake: Lake, base: Snapshot, table: Table, rows: pa.Table) -> PickRows | None:
    """What the samples of a stream pick of rows that are about to be appended; None if it has none."""
    place = (lake.uuid, str(lake.location), table.uuid)
    with _LOCK:
        samples = _STREAMS.get(place)
    if samples is None or samples.is_stale(base):
        samples = _look(lake, base, table)
        with _LOCK:
            _STREAMS[place] = samples
            while len(_STREAMS) > _KNOWN_STREAMS:
                _STREAMS.popitem(last=False)
    return PickRows(samples, rows) if samples.known else None


def _look(lake: Lake, base: Snapshot, table: Table) -> _Samples:
    """The samples of a stream as they are at a snapshot."""
    own = {uuid for uuid, found in definitions(lake, base).items() if found.relation == str(table.uuid) and found.source == "stream"}
    samples = _Samples(
        stream=table.uuid,
        schema_version=base.schema_version,
        known=[],
        next_row_id=0,
        rows_known=0,
        looked_at=time.monotonic(),
        look_again=None,
    )
    if not own:
        return samples
    with lake.reading() as connection:
        ring = read_ring(connection, table.uuid)
    samples.next_row_id, samples.rows_known = ring.next_row_id, ring.row_count
    for sample in all_samples(lake, base):
        if str(sample.table.uuid) not in own:
            continue
        try:
            condition = None if sample.definition.where is None else Condition(table, sample.definition.where)
        except NotLocal:
            continue  # Spark looks at the rows
        known = _Known(
            sample=sample, seed=sample_seed(sample.definition.seed), shape=arrow_schema(sample.table.fields), condition=condition
        )
        if sample.definition.is_windowed:
            seconds = sample.definition.window_seconds
            known.window_rows = ring.row_count if seconds is None else _rows_of_window(lake, base, table, seconds)
            pause = _LOOK_AGAIN_SECONDS if seconds is None else max(1.0, min(_LOOK_AGAIN_SECONDS, seconds / 4))
            samples.look_again = min(pause, samples.look_again or pause)
        else:
            _learn_all(lake, base, known)
        samples.known.append(known)
    return samples


def _rows_of_window(lake: Lake, base: Snapshot, table: Table, seconds: float) -> int:
    with lake.reading() as connection:
        arrivals = read_arrivals(connection, table.uuid)
    since = base.time - timedelta(seconds=seconds)
    return sum(end - first for first, end, arrived_at in arrivals if arrived_at > since)


def _learn_all(lake: Lake, base: Snapshot, known: _Known) -> None:
    """The keys of a sample's rows, stored and picked; those of both are the lowest that there are."""
    sample = known.sample
    with lake.reading() as connection:
        progress = read_progress(connection, sample.table.uuid, base.id)
        picks = read_picks(connection, sample, base.id, first_row_id=progress.next_row_id)
    stored = read_stored(lake, sample, lake.scan(sample.table, base))
    for part in (held_of(sample, stored, progress), pool_picks(sample, picks).held):
        for key, held in part.items():
            known.learn(key, held.keys)


def _after_fork() -> None:
    # The parent's lock may be held for ever, and its threads are not here.
    global _LOCK, _POOL
    _LOCK, _POOL = threading.Lock(), None
    _STREAMS.clear()


os.register_at_fork(after_in_child=_after_fork)
