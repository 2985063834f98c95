"""The local phase: for a part of a relation, the reservoir of each stratum and how many rows it stands for.

Where only rows are counted the catalogue knows the number, and no row is looked at before it is drawn. Otherwise one Spark job looks at
the columns of the condition and the strata, each task keeps reservoirs of row numbers, and the rows themselves are fetched after the draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from platform_plugin.language.query import analyse_expression
from platform_plugin.language.render import identifier
from platform_plugin.language.statements import Name as WrittenName
from platform_plugin.queries.bind import new_name
from platform_plugin.samples.strata import Local, group, merge_locals
from platform_plugin.samples.task import CARDINALITY, TASK, sampler
from platform_plugin.views.parts import ROW_ID

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from platform_plugin.lake.tables import Table
    from platform_plugin.samples.definition import Definition, Key
    from platform_plugin.samples.pieces import Pieces
    from platform_plugin.spark.job import ProgressHandler
    from platform_plugin.spark.workspace import Workspace

FILE, PLACE = "_file", "_place"


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
    picked = picking_frame(work, definition, part, rows)
    with work.session.arrow(picked, timeout=timeout, progress=progress) as stream:
        return read_picked(definition, part, stream.read_all())


def read_picked(definition: Definition, part: Part, picked: pa.Table) -> dict[Key, Local]:
    """The local reservoirs that tasks have handed out, made one for each stratum."""
    from platform_plugin.samples.seeds import generator

    found: list[tuple[Key, Local]] = []
    numbers = part.pieces.number(picked.column(FILE).to_pylist(), picked.column(PLACE).to_pylist())
    tasks, counts = picked.column(TASK).to_numpy(), picked.column(CARDINALITY).to_numpy()
    for key, places in group(picked, definition.strata).items():
        for task in np.unique(tasks[places]):
            own = places[tasks[places] == task]
            found.append((key, Local(cardinality=int(counts[own[0]]), numbers=numbers[own])))
    return merge_locals(found, part.size, generator(definition.seed, "merge tasks", *part.words))


def picking_frame(work: Workspace, definition: Definition, part: Part, rows: DataFrame | None) -> DataFrame:
    """The query whose rows are numbers of rows: where each row is found again that a task has drawn."""
    from pyspark.sql import types as t

    from platform_plugin.spark.relation import FILE as HIDDEN_FILE
    from platform_plugin.spark.relation import POSITION, ROWID, query_relations, read_relation
    from platform_plugin.spark.schema import to_spark_schema

    table = part.pieces.scan.table
    if rows is None:
        rows = read_relation(work.session, work.lake, part.pieces.scan, hidden=True)
        file, place = _quoted(HIDDEN_FILE), f"coalesce({_quoted(POSITION)}, {_quoted(ROWID)})"
    else:
        file, place = "CAST(NULL AS STRING)", ROW_ID
    name = new_name()
    shown = "".join(f"{_quoted(column)}, " for column in definition.strata)
    text = f"SELECT {shown}{file} AS {FILE}, CAST({place} AS BIGINT) AS {PLACE} FROM {name} AS {identifier(table.name.relation)}"
    if definition.where is not None:
        text += f" WHERE ({condition_text(table, definition.where)})"
    frame = query_relations(work.session, text, {name: rows})
    fields = [field for column in definition.strata if (field := table.field(column)) is not None]
    schema = t.StructType([t.StructField(field.name, field.dataType) for field in to_spark_schema(fields).fields])
    for column, kind in ((FILE, t.StringType()), (PLACE, t.LongType()), (TASK, t.IntegerType()), (CARDINALITY, t.LongType())):
        schema = schema.add(t.StructField(column, kind))
    return frame.mapInArrow(sampler(definition.strata, part.size, definition.seed, *part.words), schema)


def condition_text(table: Table, where: str) -> str:
    """The condition for Spark, over rows that are called by the table's name."""
    written = WrittenName(parts=(table.name.schema, table.name.relation))
    return analyse_expression(where, written).render({}).text


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
