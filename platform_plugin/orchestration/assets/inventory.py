"""The inventory: what the catalogue knows of every relation, read at one snapshot and without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import PlatformError
from platform_plugin.lake.catalogue.relations import Declaration, read_declarations
from platform_plugin.lake.catalogue.snapshots import read_last_note
from platform_plugin.lake.catalogue.tables import Name, Table, View
from platform_plugin.lake.lake import Lake
from platform_plugin.relations.streams.feeds.declaration import feed_declared
from platform_plugin.relations.views.record import read_records, result_fields
from platform_plugin.select.shows import relation_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.relations import Kind
    from platform_plugin.relations.views.record import ViewRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A relation as it is in the lake; the figures of a view are None, for it has no rows of its own.

    `names` are a view's own names for its columns, and `is_pulled` says of a stream that it has a feed.
    """

    name: Name
    kind: Kind
    fields: tuple[Field, ...] = ()
    primary_key: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    comment: str | None = None
    rows: int | None = None
    files: int | None = None
    size_bytes: int | None = None
    query: str | None = None
    names: tuple[str, ...] = ()
    is_continuous: bool = False

    @property
    def is_pulled(self) -> bool:
        """Whether it is a stream that reads a source."""
        return self.kind == "stream" and feed_declared(Declaration(kind="stream", options=self.options)) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The relations of a lake at a snapshot, by lower-case name; `absence` says why there is nothing to see.

    What is `known` is no asset: queries may read it, and its columns are known.
    """

    snapshot: int | None = None
    relations: Mapping[str, Stored] = field(default_factory=dict)
    known: Mapping[str, Stored] = field(default_factory=dict)
    absence: PlatformError | None = None

    def find(self, name: Name) -> Stored | None:
        """The relation of a name, whatever its case."""
        key = str(name).lower()
        return self.relations.get(key) or self.known.get(key)


def read_inventory(url: str) -> Inventory:
    """The inventory of the lake at a URL; a lake that can't be opened gives an empty one that says so."""
    try:
        with Lake.open(url) as lake:
            return read_lake(lake)
    except PlatformError as error:
        return Inventory(absence=error)


def read_lake(lake: Lake) -> Inventory:
    """The inventory of an open lake at its newest snapshot."""
    snapshot = lake.snapshot()
    with lake.reading() as connection:
        declared = read_declarations(connection)
        records = read_records(connection)
        rows = {Name(schema=row["schema"], relation=row["name"]): row for row in relation_rows(lake, connection, snapshot)}
    relations: list[Table | View] = [*lake.tables(snapshot), *lake.views(snapshot)]
    found = (
        _stored_view(relation, records.get(relation.uuid))
        if isinstance(relation, View)
        else _stored_table(relation, rows[relation.name], declared.get(str(relation.uuid), Declaration()))
        for relation in relations
        if relation.name in rows
    )
    return Inventory(snapshot=snapshot.id, relations={str(stored.name).lower(): stored for stored in found})


def _stored_view(view: View, record: ViewRecord | None) -> Stored:
    return Stored(
        name=view.name,
        kind="view",
        fields=result_fields(record) if record is not None else (),
        options=record.options if record is not None else {},
        comment=view.comment,
        query=view.sql if view.dialect == "spark" else None,
        names=view.columns,
        is_continuous=record is not None,
    )


def _stored_table(table: Table, row: Mapping[str, Any], declaration: Declaration) -> Stored:
    return Stored(
        name=table.name,
        kind=declaration.kind,
        fields=table.fields,
        primary_key=declaration.primary_key,
        options=declaration.options,
        comment=table.comment,
        rows=row["rows"],
        files=row["files"],
        size_bytes=row["bytes"],
    )


def read_changed(lake: Lake, table: Table) -> int:
    """The snapshot that last changed a table: its rows or its columns. Later snapshots left it as it is."""
    with lake.reading() as connection:
        found = read_last_note(connection, table.id or -1)
    return max(found or 0, table.begin_snapshot or 0)
