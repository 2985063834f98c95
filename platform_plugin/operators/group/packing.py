"""`pack`: the results of many queries as one DataFrame, so that one Spark job computes them all.

Every answer is a branch of a UNION ALL, told from the others by a number. Columns of one type share places, so that the
whole is as wide as the widest answer and not as all of them together.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_BRANCH = "branch"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedColumns:
    """The places of each result's columns in rows of many results, and their names."""

    places: tuple[tuple[int, ...], ...]
    names: tuple[tuple[str, ...], ...]

    def unpack(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Table]]:
        """The rows of each result in a batch, with the result's own column names."""
        numbers = batch.column(0)
        for number in pc.unique(numbers).to_pylist():
            rows = batch.filter(pc.equal(numbers, number))
            columns = [rows.column(1 + place) for place in self.places[number]]
            yield number, pa.table(columns, names=list(self.names[number]))


class PackedRows(NamedTuple):
    """A DataFrame of many results, and where each result's columns are in it."""

    frame: DataFrame
    columns: PackedColumns


def plan_places(types: Sequence[Sequence[str]]) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]:
    """The places of each result's columns, by the names of their types, and the types of all places.

    >>> plan_places([["int", "string", "int"], ["string", "string"]])
    (((0, 1, 2), (1, 3)), ('int', 'string', 'int', 'string'))
    """
    all_types: list[str] = []
    by_type: defaultdict[str, list[int]] = defaultdict(list)
    answers = []
    for columns in types:
        used: defaultdict[str, int] = defaultdict(int)
        places = []
        for kind in columns:
            if used[kind] == len(by_type[kind]):
                by_type[kind].append(len(all_types))
                all_types.append(kind)
            places.append(by_type[kind][used[kind]])
            used[kind] += 1
        answers.append(tuple(places))
    return tuple(answers), tuple(all_types)


def pack(frames: Sequence[DataFrame], schemas: Sequence[StructType]) -> PackedRows:
    """One frame with the rows of all frames; `schemas` are given, since only the server could tell them otherwise."""
    from pyspark.sql.connect import functions as f

    places, _ = plan_places([[field.dataType.simpleString() for field in schema.fields] for schema in schemas])
    width = 1 + max(place for answer in places for place in answer)
    types: list[Any] = [None] * width
    for answer, schema in zip(places, schemas, strict=True):
        for place, field in zip(answer, schema.fields, strict=True):
            types[place] = field.dataType
    branches = []
    for number, (frame, answer) in enumerate(zip(frames, places, strict=True)):
        renamed = frame.toDF(*[f"c{place}" for place in answer])
        filled = [f.col(f"c{place}") if place in answer else f.lit(None).cast(types[place]).alias(f"c{place}") for place in range(width)]
        branches.append(renamed.select(f.lit(number).alias(_BRANCH), *filled))
    whole = branches[0]
    for branch in branches[1:]:
        whole = whole.unionAll(branch)
    return PackedRows(whole, PackedColumns(places=places, names=tuple(tuple(schema.names) for schema in schemas)))
