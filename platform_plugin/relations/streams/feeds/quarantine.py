"""The quarantine of a stream: its table, which is created when needed, and the rows for records that do not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.errors import InvalidValue, UnknownObject
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.lake.catalogue.tables import Name, Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame

    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.lake import Lake

COLUMNS = (
    Field(name="source", type=Primitive("varchar"), nullable=False),
    Field(name="source_partition", type=Primitive("int32")),
    Field(name="position", type=Primitive("int64")),
    Field(name="raw", type=Primitive("blob")),
    Field(name="reason", type=Primitive("varchar"), nullable=False),
    Field(name="arrived_at", type=Primitive("timestamptz"), nullable=False),
)
_SUFFIX = "__quarantine"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNote:
    """A problem of a whole file, for the quarantine."""

    source: str
    reason: str


def quarantine_name(stream: Name) -> Name:
    """The name of a stream's quarantine.

    >>> str(quarantine_name(Name.of("posts")))
    'main.posts__quarantine'
    """
    return Name(schema=stream.schema, relation=stream.relation + _SUFFIX)


def find_quarantine(lake: Lake, stream: Table, snapshot: Snapshot) -> Table | None:
    """The quarantine of a stream, or None if it has none yet."""
    name = quarantine_name(stream.name)
    try:
        found = lake.table(name, snapshot)
    except UnknownObject:
        return None
    if [(field.name, field.type) for field in found.fields[: len(COLUMNS)]] != [(field.name, field.type) for field in COLUMNS]:
        raise InvalidValue(f'table "{name}" is in the place of the quarantine of stream "{stream.name}"', hint="rename that table")
    return found


def open_quarantine(lake: Lake, commit: Commit, stream: Table) -> Table:
    """The quarantine of a stream, created in this commit if there is none."""
    found = find_quarantine(lake, stream, commit.base)
    if found is not None:
        return found
    table = commit.create_table(quarantine_name(stream.name), COLUMNS, comment=f"records that stream {stream.name} could not take")
    declare_relation(commit, table, Declaration(kind="table"))
    return table


def quarantine_frame(frame: DataFrame, sources: dict[str, str], arrived_at: datetime) -> DataFrame:
    """The marked records of a frame as rows of a quarantine; `sources` has the shown names of their sources."""
    from pyspark.sql.connect import functions as f

    from platform_plugin.relations.streams.feeds.screening import BAD, PARTITION, POSITION, RAW, REASON, SOURCE, column

    source = column(SOURCE)
    if sources:
        names = f.create_map(*[f.lit(part) for pair in sources.items() for part in pair])
        source = f.coalesce(f.element_at(names, source), source)
    return frame.where(column(BAD)).select(
        source.alias("source"),
        column(PARTITION).alias("source_partition"),
        column(POSITION).alias("position"),
        column(RAW).alias("raw"),
        column(REASON).alias("reason"),
        f.lit(arrived_at).cast("timestamp").alias("arrived_at"),
    )


def note_rows(notes: Sequence[FileNote], arrived_at: datetime) -> pa.Table:
    """Notes as rows of a quarantine."""
    return pa.table(
        {
            "source": pa.array([note.source for note in notes], pa.string()),
            "reason": pa.array([note.reason for note in notes], pa.string()),
            "arrived_at": pa.array([arrived_at] * len(notes), pa.timestamp("us", tz="UTC")),
        }
    )
