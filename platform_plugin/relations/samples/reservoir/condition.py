"""`RowCondition` and `matching_pieces`: a sample's condition over rows in this process, and the files in which rows can pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.algebra.plan.filters import all_of, filter_conditions, split_filters
from platform_plugin.algebra.plan.nodes import Item, Output, Project
from platform_plugin.algebra.plan.relations import RelationFacts
from platform_plugin.algebra.plan.traversal import columns_in
from platform_plugin.engine.kernel_run import compute
from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.errors import PlatformError
from platform_plugin.lake.read.matching import match_mask
from platform_plugin.lake.read.scan import InlinedTable
from platform_plugin.language.query.plan import NotPlanned, plan_query, planned_column, relation_name
from platform_plugin.language.query.pruning import BoundFormula, read_conditions
from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.text.writing import identifier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from platform_plugin.algebra.predicates.conditions import Condition
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.lake import Lake
    from platform_plugin.language.query.plan import QueryPlan
    from platform_plugin.language.query.references import Reference
    from platform_plugin.relations.samples.draw.pieces import Piece, Pieces

_PASSES = "passes"


class RowCondition:
    """A sample's condition, decided by the intervals that it gives columns where these are exact, else by the kernel.

    Raises `RefusedByEngine` where it is left to Spark.
    """

    def __init__(self, table: Table, where: str) -> None:
        plan, reference = _plan(table, where)
        if plan.planned is None or not isinstance(plan.planned.plan, Project):
            raise RefusedByEngine(plan.why or "a condition that only Spark reads")
        self._relation = relation_name(reference)
        self._fields = table.fields
        source, filters = split_filters(plan.planned.plan.source)
        condition = all_of(filter_conditions(filters))
        if condition is None:
            raise RefusedByEngine("a condition that only Spark reads")
        self._plan = Project(source=source, items=(Item(value=condition, name=_PASSES),))
        self.bounds: Condition = BoundFormula(read_conditions([condition.node], planned_column)).condition(table.fields)
        """The rows that can pass, by which files are left out."""
        used = {column.name for column in columns_in(condition)}
        self.columns = [field.name for field in table.fields if field.name in used]

    def mask(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Which rows pass; NULL does not."""
        if self.bounds.is_exact:
            try:
                found = match_mask(rows, self._fields, self.bounds)
            except PlatformError as error:
                raise RefusedByEngine("a comparison that only Spark makes") from error
        else:
            found = compute(self._plan, {self._relation: rows}).column(_PASSES)
            if not pa.types.is_boolean(found.type):
                raise RefusedByEngine(f"a condition of type {found.type}")
        return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), dtype=bool)  # noqa: FBT003


def _plan(table: Table, where: str) -> tuple[QueryPlan, Reference]:
    columns = tuple(Output(name=field.name, type=field.type) for field in table.fields)

    def facts(reference: Reference) -> RelationFacts:
        if reference.index:
            raise NotPlanned("a condition with a sub-query")
        return RelationFacts(name=(relation_name(reference),), kind="table", columns=columns)

    try:
        query = analyse_query(f"SELECT 1 AS one FROM {identifier(table.name.relation)} WHERE ({where})")
        if query.parameters:
            raise RefusedByEngine("a condition with a parameter")
        return plan_query(query, facts), query.relations[0]
    except PlatformError as error:
        raise RefusedByEngine("a condition that only Spark reads") from error


def matching_pieces(lake: Lake, pieces: Pieces, condition: RowCondition | None) -> list[tuple[int, Piece]]:
    """The pieces in which rows may pass, each with the number of its first row; statistics rule out the files of others."""
    numbered = list(zip((np.cumsum(pieces.counts) - pieces.counts).tolist(), pieces.parts, strict=True))
    if condition is None or condition.bounds.is_always:
        return numbered
    scan = pieces.scan
    matching = {file.id for file in lake.scan(scan.table, scan.snapshot, where=condition.bounds).files}
    excluded = {file.id for file in lake.scan(scan.table, scan.snapshot).files if file.id not in matching}
    return [(start, piece) for start, piece in numbered if isinstance(piece.source, InlinedTable) or piece.source.id not in excluded]
