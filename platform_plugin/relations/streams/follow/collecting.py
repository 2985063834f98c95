"""`CollectedAnswer`: a session query that runs once over the files of all rows, when the session has ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.relations import ARRIVED_AT, ROW_ID
from platform_plugin.algebra.rules.rule import ScanSize
from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.lake.read.scan import TableScan
from platform_plugin.language.query.plan import QueryPlan, apply_sizes, relation_name
from platform_plugin.relations.bind.names import place_errors
from platform_plugin.relations.bind.query import bind_frames
from platform_plugin.relations.bind.read import read_beside_sessions
from platform_plugin.relations.faults import TextPlaces, place_spark_errors
from platform_plugin.relations.follow.arrivals import read_with_arrivals
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.streams.follow.rows import ArrivedRows

if TYPE_CHECKING:
    from datetime import timedelta

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.streams import ArrowStream
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.language.query.query import Query
    from platform_plugin.language.query.references import Reference
    from platform_plugin.relations.arguments import Arguments
    from platform_plugin.relations.bind.resolve import Resolver
    from platform_plugin.relations.lookups import SmallRelation
    from platform_plugin.relations.reading import RelationRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """A session query with all that it reads: streams as they arrive, other relations at the snapshot at which it began."""

    work: Workspace
    query: Query
    plan: QueryPlan
    arguments: Arguments
    names: dict[Reference, str]
    streams: dict[Reference, Table]
    snapshot: Snapshot
    resolver: Resolver
    _frames: list[dict[Reference, RelationRows]] = field(default_factory=list)
    _small: dict[Reference, SmallRelation | None] = field(default_factory=dict)

    @property
    def others(self) -> dict[Reference, RelationRows]:
        """The other relations as DataFrames, made when they are asked for first: Spark is started for them."""
        if not self._frames:
            self._frames.append(read_beside_sessions(self.work, self.query, self.plan, self.snapshot, self.arguments))
        return self._frames[0]

    def small_of(self, reference: Reference) -> SmallRelation | None:
        """Another relation with its rows, if it is small and read as it is at a snapshot."""
        if reference not in self._small:
            self._small[reference] = None if reference.changes is not None or reference.travel is not None else self._find_small(reference)
        return self._small[reference]

    def _find_small(self, reference: Reference) -> SmallRelation | None:
        with place_errors(reference.span):
            relation, moment, _ = self.resolver(reference)
        found = find_kind(self.work.lake, relation, moment).find_small(self.work, relation, moment)
        return None if found is None or found.rows is None else found

    def read_small(self) -> dict[str, pa.Table]:
        """The rows of all other relations by their names in plans; raises `RefusedByEngine` if one is not small."""
        rows: dict[str, pa.Table] = {}
        for reference, name in self.names.items():
            if reference in self.streams:
                continue
            small = self.small_of(reference)
            if small is None or small.rows is None:
                raise RefusedByEngine("a large relation beside the session", for_good=False)
            rows[name] = small.rows
        return rows

    def fields_of(self, reference: Reference) -> tuple[Field, ...]:
        """The columns of a relation; none of a view, whose columns only Spark tells."""
        if reference in self.streams:
            return self.streams[reference].fields
        small = self.small_of(reference)
        return self.others[reference].fields if small is None else small.table.fields

    def nothing_of(self, reference: Reference) -> ArrivedRows:
        """The empty range of a stream before its first arrival."""
        return ArrivedRows(scan=TableScan(table=self.streams[reference], snapshot=self.snapshot, files=()), first_row_id=0, next_row_id=0)

    def columns_of(self, reference: Reference) -> list[str] | None:
        """The columns of a stream that the query may need."""
        columns = self.plan.columns_of(self.query, reference)
        return None if columns is None else sorted(columns)

    def wants_hidden(self, reference: Reference) -> bool:
        """Whether the query uses the hidden columns of a stream."""
        columns = self.plan.columns_of(self.query, reference)
        return columns is not None and bool({ROW_ID, ARRIVED_AT}.intersection(columns))

    def frame_of(self, reference: Reference, arrived: ArrivedRows) -> DataFrame:
        """Rows that have arrived, with the columns that the query needs."""
        work, columns = self.work, self.columns_of(reference)
        if self.wants_hidden(reference) and columns is not None:
            from pyspark.sql.connect import functions as f

            rows = read_with_arrivals(work.session, work.lake, arrived.scan, columns)
            return rows.where((f.col(ROW_ID) >= arrived.first_row_id) & (f.col(ROW_ID) < arrived.next_row_id))
        return arrived.read(work.session, work.lake, columns)

    def whole(self, arrived: dict[Reference, ArrivedRows]) -> tuple[DataFrame, TextPlaces]:
        """The query over all rows that have arrived."""
        frames = {reference: rows.frame for reference, rows in self.others.items()}
        sizes = {relation_name(reference): rows.size for reference, rows in self.others.items()}
        for reference in self.streams:
            sizes[relation_name(reference)] = ScanSize(arrived[reference].scan.size_bytes, is_stream=True)
            frames[reference] = self.frame_of(reference, arrived[reference])
        limit = self.work.limits.broadcast_bytes
        plan = apply_sizes(self.query, self.plan, sizes, broadcast_bytes=limit, off=self.work.rules_off)
        bound = bind_frames(self.work.session, self.query, plan, frames, self.arguments)
        return bound.frame, bound.rendered

    def check(self, timeout: timedelta | None) -> None:
        """Let Spark analyse the query before anything arrives, so that a misspelt column fails at once and not at a session's end."""
        frame, rendered = self.whole({reference: self.nothing_of(reference) for reference in self.streams})
        with place_spark_errors(rendered), self.work.session.job(timeout=timeout):
            frame.schema  # noqa: B018  asks for the analysis


class CollectedAnswer:
    """A session query that runs once; what arrives is kept as files until then."""

    is_certain = False

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._arrived: dict[Reference, ArrivedRows] = {}

    def add(self, reference: Reference, arrived: ArrivedRows, *, timeout: timedelta | None) -> None:
        """Remember the files that have arrived."""
        before = self._arrived.get(reference)
        if before is not None:
            # A file that was merged meanwhile may hold rows of both: it is read for those that no file before it had.
            files = {file.path: file for file in (*before.scan.files, *arrived.scan.files)}
            scan = replace(arrived.scan, files=tuple(files.values()))
            arrived = ArrivedRows(scan=scan, first_row_id=before.first_row_id, next_row_id=arrived.next_row_id)
        self._arrived[reference] = arrived

    def answer(self, *tags: str, timeout: timedelta | None, progress: ProgressHandler | None) -> ArrowStream:
        """The rows of the query over all that has arrived."""
        inputs = self._inputs
        found = {reference: self._arrived.get(reference) or inputs.nothing_of(reference) for reference in inputs.streams}
        frame, rendered = inputs.whole(found)
        with place_spark_errors(rendered):
            return inputs.work.session.arrow(frame, *tags, timeout=timeout, progress=progress)
