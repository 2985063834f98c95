"""The local phase: of a part of a relation, the rows of each stratum whose keys are lowest, and how many rows the stratum has.

Where only rows are counted the catalogue knows the number, and no row is looked at before it is drawn. Otherwise one Spark job looks at
the columns of the condition and the strata and hands out numbers of rows, and the rows themselves are fetched after the draw.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, isqrt
from typing import TYPE_CHECKING

import numpy as np

from platform_plugin.language.query import analyse_expression
from platform_plugin.language.render import identifier
from platform_plugin.language.statements import Name as WrittenName
from platform_plugin.queries.bind import new_name
from platform_plugin.samples.keys import EVERY, keys_of_ids, low_keys, spark_key
from platform_plugin.samples.looking import look_here
from platform_plugin.samples.lowest import Held
from platform_plugin.samples.strata import group
from platform_plugin.samples.weighing import weigh_part
from platform_plugin.views.parts import ROW_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from platform_plugin.lake.tables import Table
    from platform_plugin.samples.definition import Definition, Key
    from platform_plugin.samples.pieces import Piece, Pieces
    from platform_plugin.spark.job import ProgressHandler
    from platform_plugin.spark.workspace import Workspace

    Integers = NDArray[np.int64]

FILE, PLACE, KEY, CARDINALITY = "_file", "_place", "_key", "_cardinality"
# How many times as many rows are taken as are needed while nobody knows how many pass the condition.
_MARGIN = 4
_BLOCK = 1 << 20
# What Spark's `min_by` keeps at most.
_MOST_KEPT = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a relation: its rows in pieces, and which of them are wanted, at most `size` of each stratum.

    Rows whose keys are above the bound of their stratum are not in the sample whatever else there is.
    """

    pieces: Pieces
    size: int
    seed: int
    bounds: Mapping[Key, int] = field(default_factory=dict)


def margin(size: int) -> int:
    """So many rows have to be expected below a bound for it to be nearly sure that there are `size` of them."""
    return size + 8 * isqrt(size) + 48


def find_local(
    work: Workspace,
    definition: Definition,
    part: Part,
    rows: Callable[[], DataFrame] | None = None,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> dict[Key, Held]:
    """The local reservoirs of a part; `rows` makes its rows, with `_row_id`, where Spark has to look at a range of a stream."""
    if not part.pieces.row_count:
        return {}
    if definition.is_counted:
        return {(): lowest_of_pieces(part)}
    if definition.is_weighted:
        return weigh_part(work.lake, definition, part)
    here = look_here(work.lake, definition, part)
    if here is not None and not _lacks(definition, part, here):
        return here
    few: TooFew | None = None
    while True:
        picked = picking_frame(work, definition, part, None if rows is None else rows(), few)
        with work.session.arrow(picked, timeout=timeout, progress=progress) as stream:
            table = stream.read_all()
        try:
            return read_picked(definition, part, table)
        except TooFew as shortage:
            few = shortage


def _lacks(definition: Definition, part: Part, found: Mapping[Key, Held]) -> bool:
    """Whether a stratum has fewer rows than it should, which next to never happens: they were taken up to a bound."""
    return any(
        len(held.keys) < min(part.size, held.cardinality) and held.bound < part.bounds.get(key if definition.strata else (), EVERY)
        for key, held in found.items()
    )


def lowest_of_pieces(part: Part) -> Held:
    """The rows of a stream whose keys are lowest, without a look at any of them."""
    found = Held(cardinality=part.pieces.row_count, bound=part.bounds.get((), EVERY), keys=_NONE, places=_NONE)
    start = 0
    for piece in part.pieces.parts:
        for low in range(0, piece.count, _BLOCK):
            places, keys = _low_rows(part.seed, piece, low, min(piece.count, low + _BLOCK), found.bound)
            joined = np.concatenate([found.keys, keys]), np.concatenate([found.places, places + (start + low)])
            found = replace(found, keys=joined[0], places=joined[1])
            if len(found.keys) > 4 * part.size:
                found = found.lowest(part.size)
        start += piece.count
    return found.lowest(part.size)


def _low_rows(seed: int, piece: Piece, low: int, end: int, bound: int) -> tuple[Integers, Integers]:
    """Of some rows of a piece those with low keys, counted from the first of them, and their keys."""
    if piece.positions is None and piece.row_ids is None:
        return low_keys(seed, piece.first_row_id + low, piece.first_row_id + end, bound)
    keys = keys_of_ids(seed, piece.row_ids_of(np.arange(low, end, dtype=np.int64)))
    inside = np.flatnonzero(keys <= bound)
    return inside, keys[inside]


_NONE = np.empty(0, dtype=np.int64)


class TooFew(Exception):
    """Fewer rows were taken than a reservoir needs; now it is known how many there are."""

    def __init__(self, cardinality: int, taken: int) -> None:
        super().__init__(cardinality, taken)
        self.cardinality = cardinality


def read_picked(definition: Definition, part: Part, picked: pa.Table) -> dict[Key, Held]:
    """The local reservoirs that Spark has handed out."""
    held = picked.filter(picked.column(PLACE).is_valid())
    counts = picked.column(CARDINALITY).to_numpy()
    if not definition.strata and picked.num_rows and held.num_rows < picked.num_rows:
        # Of a plain sample there is one row at least, without a place if nothing was taken.
        if not counts[0]:
            return {}
        if () in part.bounds:
            return {(): Held(cardinality=int(counts[0]), bound=part.bounds[()], keys=_NONE, places=_NONE)}
        raise TooFew(int(counts[0]), 0)
    numbers = part.pieces.number(held.column(FILE).to_pylist(), held.column(PLACE).to_pylist())
    keys = held.column(KEY).to_numpy()
    found = {}
    for key, places in group(held, definition.strata).items():
        count = int(counts[places[0]])
        if not definition.strata and not part.bounds and len(places) < min(part.size, count):
            raise TooFew(count, len(places))
        # All up to the highest key that came are there, and up to the bound where there was one.
        bound = EVERY if len(places) == count else max(int(keys[places].max()), part.bounds.get(key, -1) if not definition.strata else -1)
        found[key] = Held(cardinality=count, bound=bound, keys=keys[places], places=numbers[places]).lowest(part.size)
    return found


def picking_frame(work: Workspace, definition: Definition, part: Part, rows: DataFrame | None, few: TooFew | None = None) -> DataFrame:
    """The query whose rows are numbers of rows: where each is found again that may be in the sample, with its key.

    Spark counts all and takes those whose keys are low, of each stratum as many as the sample may need. A plain sample takes those below a
    bound, of which a few more than needed are expected: that costs less than to keep the lowest.
    """
    from platform_plugin.spark.relation import FILE as HIDDEN_FILE
    from platform_plugin.spark.relation import POSITION, ROWID, query_relations, read_relation

    table = part.pieces.scan.table
    if rows is None:
        rows = read_relation(work.session, work.lake, part.pieces.scan, hidden=True)
        file, place = _quoted(HIDDEN_FILE), f"CAST(coalesce({_quoted(POSITION)}, {_quoted(ROWID)}) AS BIGINT)"
        key = spark_key(part.seed, _quoted(ROWID))
    else:
        file, place = "CAST(NULL AS STRING)", f"CAST({ROW_ID} AS BIGINT)"
        key = spark_key(part.seed, place)
    name = new_name()
    source = f"{name} AS {identifier(table.name.relation)}"
    if definition.where is not None:
        source += f" WHERE ({condition_text(table, definition.where)})"
    one = f"named_struct('f', {file}, 'p', {place}, 'k', {key})"
    shown = "".join(f"{_quoted(column)}, " for column in definition.strata)
    if definition.strata:
        taken = f"min_by({one}, {key}, {part.size})" if part.size <= _MOST_KEPT else f"collect_list({one})"
        by = f" GROUP BY {shown.rstrip(', ')}"
    else:
        taken, by = f"collect_list({one}) FILTER (WHERE {key} <= {_threshold(part, few)}L)", ""
    text = f"""
        SELECT {shown}taken.f AS {FILE}, taken.p AS {PLACE}, taken.k AS {KEY}, n AS {CARDINALITY}
        FROM (SELECT {shown}count(*) AS n, {taken} AS t FROM {source}{by})
        LATERAL VIEW OUTER explode(t) AS taken"""
    return query_relations(work.session, text, {name: rows})


def _threshold(part: Part, few: TooFew | None) -> int:
    """Up to which key a row is taken. At first nobody knows how many rows pass the condition; a quarter of them will do."""
    if () in part.bounds:
        return part.bounds[()]
    known = part.pieces.row_count if few is None else few.cardinality
    wanted = _MARGIN * part.size + 1000 if few is None else margin(part.size)
    return min(EVERY, ceil(wanted / max(known, 1) * EVERY))


def condition_text(table: Table, where: str) -> str:
    """The condition for Spark, over rows that are called by the table's name."""
    written = WrittenName(parts=(table.name.schema, table.name.relation))
    return analyse_expression(where, written).render({}).text


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
