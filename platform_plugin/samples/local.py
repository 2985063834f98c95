"""The local phase: for a part of a relation, the reservoir of each stratum and how many rows it stands for.

Where only rows are counted the catalogue knows the number, and no row is looked at before it is drawn. Otherwise one Spark job looks at
the columns of the condition and the strata, each task keeps reservoirs of row numbers, and the rows themselves are fetched after the draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from platform_plugin.language.query import analyse_expression
from platform_plugin.language.render import identifier
from platform_plugin.language.statements import Name as WrittenName
from platform_plugin.queries.bind import new_name
from platform_plugin.samples.seeds import derive, generator
from platform_plugin.samples.strata import Local, group, merge_locals
from platform_plugin.samples.task import CARDINALITY, FILE, PLACE, TASK, sampler
from platform_plugin.views.parts import ROW_ID

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from platform_plugin.lake.tables import Table
    from platform_plugin.samples.definition import Definition, Key
    from platform_plugin.samples.pieces import Pieces
    from platform_plugin.spark.job import ProgressHandler
    from platform_plugin.spark.workspace import Workspace

_HASH_BITS = 53
# How many times as many rows are taken as are needed while nobody knows how many pass the condition.
_MARGIN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a relation: its rows in pieces, as a DataFrame on demand, and the words that its random numbers come from."""

    pieces: Pieces
    size: int
    words: tuple[Any, ...]


def find_local(
    work: Workspace,
    definition: Definition,
    part: Part,
    rows: DataFrame | None = None,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> dict[Key, Local]:
    """The local reservoirs of a part; `rows` may bring its rows, with `_row_id`, where they are at hand already."""
    if definition.is_counted:
        return {(): Local(cardinality=part.pieces.row_count)} if part.pieces.row_count else {}
    if not part.pieces.row_count:
        return {}
    few: TooFew | None = None
    while True:
        picked = picking_frame(work, definition, part, rows, few)
        with work.session.arrow(picked, timeout=timeout, progress=progress) as stream:
            table = stream.read_all()
        try:
            return read_picked(definition, part, table)
        except TooFew as shortage:
            few = shortage


class TooFew(Exception):
    """Fewer rows were taken than a reservoir needs; now it is known how many there are."""

    def __init__(self, cardinality: int, taken: int) -> None:
        super().__init__(cardinality, taken)
        self.cardinality = cardinality


def read_picked(definition: Definition, part: Part, picked: pa.Table) -> dict[Key, Local]:
    """The local reservoirs that tasks have handed out, made one for each stratum."""
    found: list[tuple[Key, Local]] = []
    held = picked.filter(picked.column(PLACE).is_valid())
    if not definition.strata:
        # One row at least, without a place if nothing was taken.
        cardinality = int(picked.column(CARDINALITY)[0].as_py()) if picked.num_rows else 0
        if held.num_rows < min(part.size, cardinality):
            raise TooFew(cardinality, held.num_rows)
    numbers = part.pieces.number(held.column(FILE).to_pylist(), held.column(PLACE).to_pylist())
    tasks, counts = held.column(TASK).to_numpy(), held.column(CARDINALITY).to_numpy()
    for key, places in group(held, definition.strata).items():
        for task in np.unique(tasks[places]):
            own = places[tasks[places] == task]
            found.append((key, Local(cardinality=int(counts[own[0]]), numbers=numbers[own])))
    return merge_locals(found, part.size, generator(definition.seed, "merge tasks", *part.words))


def picking_frame(work: Workspace, definition: Definition, part: Part, rows: DataFrame | None, few: TooFew | None = None) -> DataFrame:
    """The query whose rows are numbers of rows: where each row is found again that is taken.

    With strata each task keeps reservoirs. Without, Spark itself takes the rows whose number's hash is low, of which a few more than
    needed are expected, and counts all: whose hash is low does not depend on the row, so what is drawn of those taken is uniform.
    """
    from platform_plugin.spark.relation import FILE as HIDDEN_FILE
    from platform_plugin.spark.relation import POSITION, ROWID, query_relations, read_relation

    table = part.pieces.scan.table
    if rows is None:
        rows = read_relation(work.session, work.lake, part.pieces.scan, hidden=True)
        file, place = _quoted(HIDDEN_FILE), f"coalesce({_quoted(POSITION)}, {_quoted(ROWID)})"
    else:
        file, place = "CAST(NULL AS STRING)", ROW_ID
    name = new_name()
    source = f"{name} AS {identifier(table.name.relation)}"
    if definition.where is not None:
        source += f" WHERE ({condition_text(table, definition.where)})"
    place = f"CAST({place} AS BIGINT)"
    if definition.strata:
        shown = ", ".join(_quoted(column) for column in definition.strata)
        frame = query_relations(work.session, f"SELECT {shown}, {file} AS {FILE}, {place} AS {PLACE} FROM {source}", {name: rows})
        return frame.mapInArrow(sampler(definition.strata, part.size, definition.seed, *part.words), _picked_schema(table, definition))
    hashed = f"shiftrightunsigned(xxhash64({derive(definition.seed, *part.words) >> 65}L, {file}, {place}), {64 - _HASH_BITS})"
    taken = f"collect_list(named_struct('f', {file}, 'p', {place})) FILTER (WHERE {hashed} < {_threshold(part, few)}L)"
    text = f"""
        SELECT taken.f AS {FILE}, taken.p AS {PLACE}, 0 AS {TASK}, n AS {CARDINALITY}
        FROM (SELECT count(*) AS n, {taken} AS t FROM {source})
        LATERAL VIEW OUTER explode(t) AS taken"""
    return query_relations(work.session, text, {name: rows})


def _threshold(part: Part, few: TooFew | None) -> int:
    """Below which hash a row is taken. At first nobody knows how many rows pass the condition; a quarter of them will do."""
    known = part.pieces.row_count if few is None else few.cardinality
    wanted = _MARGIN * part.size + 1000 if few is None else part.size + 8 * part.size**0.5 + 40
    return min(1 << _HASH_BITS, ceil(wanted / max(known, 1) * (1 << _HASH_BITS)))


def _picked_schema(table: Table, definition: Definition) -> StructType:
    from pyspark.sql import types as t

    from platform_plugin.spark.schema import to_spark_schema

    fields = [field for column in definition.strata if (field := table.field(column)) is not None]
    schema = t.StructType([t.StructField(field.name, field.dataType) for field in to_spark_schema(fields).fields])
    for column, kind in ((FILE, t.StringType()), (PLACE, t.LongType()), (TASK, t.IntegerType()), (CARDINALITY, t.LongType())):
        schema = schema.add(t.StructField(column, kind))
    return schema


def condition_text(table: Table, where: str) -> str:
    """The condition for Spark, over rows that are called by the table's name."""
    written = WrittenName(parts=(table.name.schema, table.name.relation))
    return analyse_expression(where, written).render({}).text


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
