"""`read_source`: a view as a query reads it, from its stored result, its states, or its own query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.algebra.rules.rule import ScanSize
from platform_plugin.errors import InvalidValue
from platform_plugin.relations.bind.query import ViewNeed, bind_part
from platform_plugin.relations.bind.read import read_part
from platform_plugin.relations.reading import RelationRows
from platform_plugin.relations.views.read.local import read_local
from platform_plugin.relations.views.read.stored import find_recent, find_stored
from platform_plugin.relations.views.read.view import read_view
from platform_plugin.relations.views.record import read_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from platform_plugin.lake.catalogue.tables import Snapshot, View
    from platform_plugin.relations.reading import ReadContext, ReadRequest

_DEEPEST_VIEW = 50


def read_source(reading: ReadContext, view: View, snapshot: Snapshot, need: ReadRequest) -> RelationRows:
    """All rows of a view; only Spark knows their columns."""
    before = reading.bytes_planned
    frame = _read(reading, view, snapshot, need)
    return RelationRows(frame, ScanSize(reading.bytes_planned - before))


def _read(reading: ReadContext, view: View, snapshot: Snapshot, need: ReadRequest) -> DataFrame:
    if view.dialect != "spark":
        raise InvalidValue(f'view "{view.name}" is written in the SQL of {view.dialect}', hint="create it again here, in Spark SQL")
    if view.name in need.within or len(need.within) >= _DEEPEST_VIEW:
        chain = " → ".join(str(name) for name in (*need.within, view.name))
        raise InvalidValue(f'view "{view.name}" reads itself', detail=chain, hint="break the circle")
    within = (*need.within, view.name)
    with reading.work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
    if record is not None:
        # What a maintained view holds is not counted here.
        reading.is_plain = False
        from platform_plugin.engine.spark.frames.scan import arrow_relation, read_relation

        stored = find_stored(reading.work, view, snapshot)
        if stored is None and need.staleness is not None:
            recent = find_recent(reading.work, view, snapshot, need.staleness)
            stored = None if recent is None else recent.table
        if stored is not None:
            return read_relation(reading.work.session, reading.work.lake, reading.work.lake.scan(stored, snapshot))
        local = read_local(reading.work, view, snapshot)
        if local is not None and local.rows.nbytes <= reading.work.limits.inline_result_bytes:
            return arrow_relation(reading.work.session, local.table.fields, local.rows)
        return read_view(reading.work, str(view.name), record, snapshot, lambda name: read_part(reading, name, snapshot, within))
    frame = bind_part(reading, view.sql, snapshot, (), within, reader=ViewNeed(tuple(view.columns), need)).frame
    return frame.toDF(*view.columns) if view.columns else frame
