"""`ask_schemas`: the schemas of many DataFrames from one request to the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from platform_plugin.engine.spark.frames.scan import query_relations
from platform_plugin.errors import QueryFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from platform_plugin.engine.spark.session.session import Session


def ask_schemas(session: Session, frames: Sequence[DataFrame]) -> list[StructType]:
    """The schemas of DataFrames; where the server refuses one of them, the error is that of the first one by itself."""
    if len(frames) < 2:
        with session.job():
            return [frame.schema for frame in frames]
    # A join is analysed as a whole, and this one never runs.
    names = [f"_asked_{number}" for number in range(len(frames))]
    parts = [f"(SELECT struct(*) AS part_{number} FROM {name})" for number, name in enumerate(names)]
    joined = query_relations(session, f"SELECT * FROM {' CROSS JOIN '.join(parts)}", dict(zip(names, frames, strict=True)))
    try:
        with session.job():
            return [cast("StructType", part.dataType) for part in joined.schema.fields]
    except QueryFailed:
        with session.job():
            return [frame.schema for frame in frames]
