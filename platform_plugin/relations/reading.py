"""`read_table` and `ReadContext`: the rows of a table as a DataFrame, with a count of what a query reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from platform_plugin.algebra.rules.rule import ScanSize
from platform_plugin.language.query.pruning import ALL_ROWS, BoundFormula
from platform_plugin.relations.follow.arrivals import read_with_arrivals, wants_arrivals

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import DataFrame
    from sqlglot import exp

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Name, Snapshot, Table, View
    from platform_plugin.lake.read.scan import TableScan
    from platform_plugin.relations.arguments import Arguments


@dataclass(slots=True)
class ReadContext:
    """The tables, bytes, files and rows that a query and the views in it read, counted while they are bound."""

    work: Workspace
    snapshot: Snapshot
    streams: frozenset[str] | None = None
    tables: list[Table] = field(default_factory=list)
    bytes_planned: int = 0
    files_planned: int = 0
    rows_planned: int = 0
    is_plain: bool = True
    notes: list[str] = field(default_factory=list)
    """What EXPLAIN says of how some of the relations are read."""

    def count(self, table: Table, scan: TableScan) -> None:
        """Count one more scan."""
        self.tables.append(table)
        self.bytes_planned += scan.size_bytes
        self.files_planned += len(scan.files)
        self.rows_planned += sum(part.record_count for part in scan.files) + sum(part.row_count for part in scan.inlined)

    @property
    def is_small(self) -> bool:
        """Whether little is read, and only once."""
        limits = self.work.limits
        few = self.rows_planned <= limits.small_query_rows and self.bytes_planned <= limits.small_query_bytes
        return self.is_plain and len(self.tables) <= 1 and few


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """What a query needs of a relation; by default all of it."""

    columns: frozenset[str] | None = None
    """At least the columns that are used, in lower case; None for all."""
    formula: BoundFormula = ALL_ROWS
    """What is true of every row that the query can use."""
    conditions: tuple[exp.Expr, ...] = ()
    """The same as conditions, for a relation that is a query itself; their parameters have these `arguments`."""
    arguments: Arguments = ()
    staleness: timedelta | None = None
    """How far the rows may be behind."""
    within: tuple[Name, ...] = ()
    """The views around the query, outermost first."""


class RelationRows(NamedTuple):
    """A relation as a DataFrame, with its size, and its columns where they are known without Spark."""

    frame: DataFrame
    size: ScanSize
    fields: tuple[Field, ...] = ()


def read_table(reading: ReadContext, table: Table, snapshot: Snapshot, need: ReadRequest) -> RelationRows:
    """The rows of a table's own files; for streams and their histories with the hidden columns where the query uses them."""
    from platform_plugin.engine.spark.frames.scan import read_relation

    lake, columns = reading.work.lake, None if need.columns is None else sorted(need.columns)
    hidden = columns is not None and wants_arrivals(lake, table, columns)
    where = need.formula.condition(table.fields)
    scan = lake.scan(table, snapshot, where=where)
    reading.count(table, scan)
    size = ScanSize(scan.size_bytes, is_stream=str(table.uuid) in (reading.streams or ()))
    if hidden and columns is not None:
        return RelationRows(read_with_arrivals(reading.work.session, lake, scan, columns), size, table.fields)
    return RelationRows(read_relation(reading.work.session, lake, scan, columns=columns, where=where), size, table.fields)


class Dependency(NamedTuple):
    """A relation that an answer depends on; with `appends_only`, other changes than added rows don't count."""

    relation: Table | View
    appends_only: bool


class UnknownDependency(Exception):
    """The dependencies of an answer are not known."""
