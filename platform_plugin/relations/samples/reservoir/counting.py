"""The local phase in Spark: one job counts the rows of each stratum and finds those with the lowest keys.

Rows with low keys are groups of one row beside the group of all others, so that Spark's fast aggregation, which handles numbers only,
counts and picks at once. The bound of low keys is estimated before anything is counted; strata with too few rows get a second query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.algebra.plan.relations import ROW_ID
from platform_plugin.language.query.query import analyse_expression
from platform_plugin.language.text.names import WrittenName
from platform_plugin.language.text.writing import identifier
from platform_plugin.relations.bind.names import new_name
from platform_plugin.relations.samples.keys.keys import EVERY, spark_key
from platform_plugin.relations.samples.keys.lowest import LowestRows, key_bound
from platform_plugin.relations.samples.strata import group_positions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.relations.samples.definition import Key, SampleDefinition
    from platform_plugin.relations.samples.reservoir.local import RelationPart

# No column of a user's can have such a name.
PLACE, KEY, CARDINALITY, STRATUM = "\x1fof", "\x1fkey", "\x1fcount", "\x1fstratum"
_PLACE, _KEY, _CARDINALITY, _STRATUM = (f"`{name}`" for name in (PLACE, KEY, CARDINALITY, STRATUM))
# Of a hundredth of the rows each may be a group of its own: that costs next to nothing, and conditions that few rows pass need it.
_SHARE, _MOST_GROUPS = 100, 1_000_000
_MARGIN = 4
# What Spark's `min_by` keeps at most.
_MOST_KEPT = 100_000


def count_in_spark(
    work: Workspace,
    definition: SampleDefinition,
    part: RelationPart,
    rows: Callable[[], DataFrame] | None = None,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> dict[Key, LowestRows]:
    """The local reservoirs of a part; `rows` makes its rows, with `_row_id`, where it is a range of a stream."""
    frame = picking_frame(work, definition, part, None if rows is None else rows())
    with work.session.arrow(frame, timeout=timeout, progress=progress) as stream:
        picked = stream.read_all()
    return complete_reservoirs(work, definition, part, picked, rows, timeout=timeout, progress=progress)


def complete_reservoirs(
    work: Workspace,
    definition: SampleDefinition,
    part: RelationPart,
    picked: pa.Table,
    rows: Callable[[], DataFrame] | None = None,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> dict[Key, LowestRows]:
    """The local reservoirs of a part, from the result of its `picking_frame`; strata with too few rows get another query."""
    read = read_picked(definition, part, picked)
    found, short = dict(read.held), read.short
    while short:
        frame = _filling_frame(work, definition, part, None if rows is None else rows(), short)
        with work.session.arrow(frame, timeout=timeout, progress=progress) as stream:
            more = stream.read_all()
        found |= _filled(definition, part, more, short)
        short = [again for one in short if (again := one.again(found[one.key], read.size, part.bounds.get((), EVERY))) is not None]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortStratum:
    """A stratum with fewer picked rows than its reservoir needs: its row count, and the bound for the next query."""

    key: Key
    stratum: int
    cardinality: int
    bound: int

    def again(self, held: LowestRows, size: int, last: int) -> ShortStratum | None:
        """The next query for the stratum: for all rows that may be needed if even the bound that almost surely suffices did not."""
        if self.bound >= last or len(held.keys) >= min(size, self.cardinality):
            return None
        return replace(self, bound=last)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkReservoirs:
    """What Spark has returned: the local reservoirs, and the strata whose reservoirs are not full."""

    held: dict[Key, LowestRows]
    short: list[ShortStratum]
    size: int
    """The number of rows that each stratum needs."""


def picking_frame(work: Workspace, definition: SampleDefinition, part: RelationPart, rows: DataFrame | None) -> DataFrame:
    """The query for the places of each stratum's rows with the lowest keys, and the stratum's row count."""
    from platform_plugin.engine.spark.frames.scan import query_relations

    name, source = new_name(), _Source.of(work, definition, part, rows)
    shown = "".join(f"{_quoted(column)}, " for column in definition.strata)
    by = f" GROUP BY {shown.removesuffix(', ')}" if definition.strata else ""
    low = f"CASE WHEN {_PLACE} <> -1 THEN {_KEY} END"
    one = f"CASE WHEN {_PLACE} <> -1 THEN named_struct('p', {_PLACE}, 'k', {_KEY}) END"
    taken = f"min_by({one}, {low}, {part.size})" if part.size <= _MOST_KEPT else f"collect_list({one})"
    stratum = f"xxhash64({shown.removesuffix(', ')})" if definition.strata else "0L"
    text = f"""
        SELECT {shown}taken.p AS {_PLACE}, taken.k AS {_KEY}, n AS {_CARDINALITY}, {stratum} AS {_STRATUM}
        FROM (
          SELECT {shown}sum({_CARDINALITY}) AS n, {taken} AS t
          FROM (
            SELECT {shown}{_PLACE}, min({_KEY}) AS {_KEY}, count(*) AS {_CARDINALITY}
            FROM (
              SELECT {shown}{_KEY}, CASE WHEN {_KEY} <= {_first_bound(part)}L THEN {_PLACE} ELSE -1L END AS {_PLACE}
              FROM ({source.text(shown, name)}))
            GROUP BY {shown}{_PLACE}){by})
        LATERAL VIEW OUTER explode(t) AS taken"""
    return query_relations(work.session, text, {name: source.frame})


def _filling_frame(
    work: Workspace, definition: SampleDefinition, part: RelationPart, rows: DataFrame | None, short: Sequence[ShortStratum]
) -> DataFrame:
    """The rows of strata that came short, up to their bounds. What they are called is not told to Spark, only the hashes of it."""
    from platform_plugin.engine.spark.frames.scan import arrow_frame, query_relations

    name, source = new_name(), _Source.of(work, definition, part, rows)
    shown = "".join(f"{_quoted(column)}, " for column in definition.strata)
    highest = max(one.bound for one in short)
    low = f"SELECT {shown}{_PLACE}, {_KEY} FROM ({source.text(shown, name)}) WHERE {_KEY} <= {highest}L"
    if not definition.strata:
        return query_relations(work.session, low, {name: source.frame})
    bounds: dict[int, int] = {}
    for one in short:
        bounds[one.stratum] = max(one.bound, bounds.get(one.stratum, -1))
    known = pa.table({"_of": pa.array(bounds.keys(), pa.int64()), "_bound": pa.array(bounds.values(), pa.int64())})
    names = new_name()
    text = f"""
        SELECT /*+ BROADCAST(bounds) */ {shown}{_PLACE}, {_KEY}
        FROM (SELECT *, xxhash64({shown.removesuffix(", ")}) AS {_STRATUM} FROM ({low})) JOIN {names} AS bounds
          ON {_STRATUM} = bounds._of AND {_KEY} <= bounds._bound"""
    return query_relations(work.session, text, {name: source.frame, names: arrow_frame(work.session, known)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """The rows that a sample is drawn from, with their name and the expressions for each row's place and key."""

    frame: DataFrame
    called: str
    where: str
    place: str
    key: str

    @classmethod
    def of(cls, work: Workspace, definition: SampleDefinition, part: RelationPart, rows: DataFrame | None) -> _Source:
        from platform_plugin.engine.spark.frames.scan import PLACE as HIDDEN_PLACE
        from platform_plugin.engine.spark.frames.scan import ROWID, read_relation

        table = part.pieces.scan.table
        if rows is None:
            rows = read_relation(work.session, work.lake, part.pieces.scan, hidden=True)
            row_id, place = _quoted(ROWID), f"{_quoted(HIDDEN_PLACE)}, "
        else:
            row_id, place = ROW_ID, ""
        where = "" if definition.where is None else f" WHERE ({condition_text(table, definition.where)})"
        # That neither can be NULL makes Spark's code shorter.
        return cls(
            frame=rows,
            called=identifier(table.name.relation),
            where=where,
            place=f"coalesce({place}-2L - {row_id}, -1L)",
            key=spark_key(part.seed, f"coalesce({row_id}, 0L)"),
        )

    def text(self, shown: str, name: str) -> str:
        """The query for the rows that pass the condition."""
        return f"SELECT {shown}{self.place} AS {_PLACE}, {self.key} AS {_KEY} FROM {name} AS {self.called}{self.where}"


def _first_bound(part: RelationPart) -> int:
    """The first bound of keys, before it is known how many rows pass the condition, or how many a stratum has."""
    known = part.pieces.row_count
    wanted = max(_MARGIN * part.size + 1000, min(known // _SHARE, _MOST_GROUPS))
    return min(part.bounds.get((), EVERY), ceil(wanted / max(known, 1) * EVERY))


def read_picked(definition: SampleDefinition, part: RelationPart, picked: pa.Table) -> SparkReservoirs:
    """The local reservoirs from the rows of a part's `picking_frame`."""
    first, last = _first_bound(part), part.bounds.get((), EVERY)
    counts, strata = picked.column(CARDINALITY).fill_null(0).to_numpy(), picked.column(STRATUM).to_numpy()
    lows = np.asarray(picked.column(PLACE).is_valid().to_numpy(), dtype=bool)
    keys, places = picked.column(KEY).fill_null(0).to_numpy(), np.zeros(picked.num_rows, dtype=np.int64)
    places[lows] = part.pieces.number(picked.column(PLACE).drop_null().to_numpy())
    held, short = {}, []
    by_key = group_positions(picked, definition.strata)
    # The more strata there are, the fewer rows each needs, which nobody knew before. Picks of a window hold more than a sample has.
    size = min(part.size, definition.cap(len(by_key))) if part.size <= definition.cap(1) else part.size
    for key, inside in by_key.items():
        count, stratum = int(counts[inside[0]]), int(strata[inside[0]])
        if not count:
            continue  # of a plain sample there is one row at least
        own = inside[lows[inside]]
        found = _held(part, count, keys[own], places[own], first)
        held[key] = found
        if first < last and len(own) < min(size, count):
            short.append(ShortStratum(key=key, stratum=stratum, cardinality=count, bound=min(last, key_bound(size, count))))
    return SparkReservoirs(held=held, short=short, size=size)


def _filled(definition: SampleDefinition, part: RelationPart, rows: pa.Table, short: Sequence[ShortStratum]) -> dict[Key, LowestRows]:
    keys, places = rows.column(KEY).to_numpy(), part.pieces.number(rows.column(PLACE).to_numpy())
    by_key = group_positions(rows, definition.strata)
    found = {}
    for one in short:
        inside = by_key.get(one.key, _NONE)
        inside = inside[keys[inside] <= one.bound]
        found[one.key] = _held(part, one.cardinality, keys[inside], places[inside], one.bound)
    return found


_NONE = np.empty(0, dtype=np.int64)


def _held(part: RelationPart, count: int, keys: np.ndarray, places: np.ndarray, bound: int) -> LowestRows:
    """A reservoir of rows that were picked up to a bound, or so many that only the lowest came."""
    bound = EVERY if len(keys) == count else int(keys.max()) if len(keys) >= part.size else bound
    return LowestRows(cardinality=count, bound=bound, keys=keys, places=places).lowest(part.size)


def condition_text(table: Table, where: str) -> str:
    """The condition for Spark, over rows that have the table's name."""
    written = WrittenName(parts=(table.name.schema, table.name.relation))
    return analyse_expression(where, written).render({}).text


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
