"""Samples of views: Spark gives each row a random key, and the rows of each stratum with the lowest keys are drawn.

The first job counts, so that the second one passes on hardly more rows than the sample has, however many tasks there are, and always the
same ones. What a view joins or groups is computed once, and cached between the two.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from platform_plugin.algebra.build.grouping import calls_aggregate
from platform_plugin.algebra.volatility import may_be_volatile
from platform_plugin.errors import PlatformError, UnknownObject
from platform_plugin.lake.catalogue.tables import Name, Table
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.language.text.writing import identifier
from platform_plugin.operators.group.body import read_body
from platform_plugin.relations.bind.names import new_name
from platform_plugin.relations.bind.read import read_named
from platform_plugin.relations.samples.keys.keys import EVERY, sample_seed, spark_key
from platform_plugin.relations.samples.keys.lowest import key_bound
from platform_plugin.relations.samples.record import SampleProgress
from platform_plugin.relations.samples.reservoir.growing import CurrentSample
from platform_plugin.relations.samples.sources import shape_sample_rows
from platform_plugin.relations.samples.strata import group_positions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, View
    from platform_plugin.relations.samples.definition import Key, SampleDefinition
    from platform_plugin.relations.samples.record import SampleRecord

# No column of a user's can have such a name.
KEY, COUNT, STRATUM, RANK = "\x1fkey", "\x1fcount", "\x1fstratum", "\x1frank"
# Where a query does any of these, its rows cost more to make than to keep.
_COSTLY = (exp.Join, exp.Group, exp.Distinct, exp.Window, exp.Order, exp.Limit, exp.Subquery, exp.With, exp.Lateral)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """A stratum of a view: Spark's hash of its values, and its row count."""

    hash: int
    cardinality: int


def draw_from_view(
    work: Workspace,
    sample: SampleRecord,
    view: View,
    snapshot: Snapshot,
    version: int,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> CurrentSample:
    """A sample of a view's rows at a snapshot; draws of different `version`s are independent."""
    definition = sample.definition
    with _rows_of(work, view, snapshot, definition.where) as rows:
        with work.session.arrow(counting_frame(work, definition, rows), timeout=timeout, progress=progress) as stream:
            strata = read_strata(definition, stream.read_all())
        if not strata:
            none = pa.Table.from_batches([], schema=arrow_schema(sample.table.fields))
            return CurrentSample(rows=none, progress=SampleProgress(of_snapshot=snapshot.id, cardinalities={}))
        seed, size = sample_seed(definition.seed, "draw", version), definition.cap(len(strata))
        for bounds in (plan_bounds(strata.values(), size), {one.hash: EVERY for one in strata.values()}):
            frame = drawing_frame(work, definition, rows, seed=seed, size=size, bounds=bounds)
            with work.session.arrow(frame, timeout=timeout, progress=progress) as stream:
                found = stream.read_all()
            # That a stratum comes short of rows below its bound next to never happens.
            if found.num_rows >= sum(min(size, one.cardinality) for one in strata.values()):
                break
    found = found.take(pc.sort_indices(found.column(KEY)))
    return CurrentSample(
        rows=shape_sample_rows(sample, found.drop_columns([name for name in (KEY, STRATUM, RANK) if name in found.column_names])),
        progress=SampleProgress(of_snapshot=snapshot.id, cardinalities={key: one.cardinality for key, one in strata.items()}),
        fetched=found.num_rows,
    )


@contextmanager
def _rows_of(work: Workspace, view: View, snapshot: Snapshot, where: str | None) -> Iterator[DataFrame]:
    """The rows of a view that pass; they are kept for as long as they are needed if it takes long to make them."""
    from platform_plugin.engine.spark.frames.scan import query_relations

    rows = read_named(work, (view.name.schema, view.name.relation), snapshot)
    if where is not None:
        name = new_name()
        rows = query_relations(work.session, f"SELECT * FROM {name} AS {identifier(view.name.relation)} WHERE ({where})", {name: rows})
    if is_scan(work, view, snapshot):
        yield rows
        return
    with work.session.job():
        kept = rows.persist()
    try:
        yield kept
    finally:
        with work.session.job():
            kept.unpersist()


def is_scan(work: Workspace, view: View, snapshot: Snapshot) -> bool:
    """Whether a view only filters and computes from the rows of one table or stream."""
    try:
        tree = read_body(view.sql)
    except PlatformError:
        return False
    tables = list(tree.find_all(exp.Table))
    if not isinstance(tree, exp.Select) or len(tables) != 1 or tree.find(*_COSTLY) or any(map(calls_aggregate, tree.expressions)):
        return False
    if may_be_volatile(tree):
        return False  # rows that are other ones at every look are not those that were counted
    name = Name(schema=tables[0].db or view.name.schema, relation=tables[0].name)
    try:
        with work.lake.reading() as connection:
            return isinstance(work.lake.find_relation(connection, name, snapshot), Table)
    except UnknownObject:
        return False


def counting_frame(work: Workspace, definition: SampleDefinition, rows: DataFrame) -> DataFrame:
    """The query that counts the rows of each stratum."""
    from platform_plugin.engine.spark.frames.scan import query_relations

    name, shown = new_name(), _shown(definition.strata)
    if not shown:
        return query_relations(work.session, f"SELECT count(*) AS `{COUNT}`, 0L AS `{STRATUM}` FROM {name}", {name: rows})
    text = f"SELECT {shown}, count(*) AS `{COUNT}`, xxhash64({shown}) AS `{STRATUM}` FROM {name} GROUP BY {shown}"
    return query_relations(work.session, text, {name: rows})


def read_strata(definition: SampleDefinition, counted: pa.Table) -> dict[Key, Stratum]:
    """The strata and their counts from the result of `counting_frame`; a view without rows has none."""
    counts, hashes = counted.column(COUNT).to_pylist(), counted.column(STRATUM).to_pylist()
    found = {}
    for key, places in group_positions(counted, definition.strata).items():
        count = sum(counts[place] for place in places)
        if count:
            found[key] = Stratum(hash=hashes[places[0]], cardinality=count)
    return found


def plan_bounds(strata: Iterable[Stratum], size: int) -> dict[int, int]:
    """The highest key that is passed on, by the hashes of strata; different strata may have the same hash.

    >>> plan_bounds([Stratum(hash=7, cardinality=1), Stratum(hash=7, cardinality=1000), Stratum(hash=8, cardinality=1 << 30)], 10)[
    ...     7
    ... ] == EVERY
    True
    """
    bounds: dict[int, int] = {}
    for one in strata:
        bounds[one.hash] = max(bounds.get(one.hash, 0), key_bound(size, one.cardinality))
    return bounds


def drawing_frame(
    work: Workspace, definition: SampleDefinition, rows: DataFrame, *, seed: int, size: int, bounds: Mapping[int, int]
) -> DataFrame:
    """The query for the rows with the lowest keys, at most `size` of each stratum, none above its stratum's bound."""
    from platform_plugin.engine.spark.frames.scan import arrow_frame, query_relations

    name, shown = new_name(), _shown(definition.strata)
    keyed = f"SELECT *, {spark_key(seed, 'monotonically_increasing_id()')} AS `{KEY}` FROM {name}"
    if not shown:
        bound = bounds.get(0, EVERY)
        text = f"SELECT * FROM ({keyed}) WHERE `{KEY}` <= {bound}L ORDER BY `{KEY}` LIMIT {size}"
        return query_relations(work.session, text, {name: rows})
    known = new_name()
    text = f"""
        SELECT * FROM (
          SELECT /*+ BROADCAST(bounds) */ found.*, row_number() OVER (PARTITION BY {shown} ORDER BY `{KEY}`) AS `{RANK}`
          FROM (SELECT *, xxhash64({shown}) AS `{STRATUM}` FROM ({keyed})) AS found JOIN {known} AS bounds
            ON found.`{STRATUM}` = bounds._of AND found.`{KEY}` <= bounds._bound)
        WHERE `{RANK}` <= {size}"""
    table = pa.table({"_of": pa.array(bounds.keys(), pa.int64()), "_bound": pa.array(bounds.values(), pa.int64())})
    return query_relations(work.session, text, {name: rows, known: arrow_frame(work.session, table)})


def _shown(strata: Sequence[str]) -> str:
    return ", ".join("`" + column.replace("`", "``") + "`" for column in strata)
