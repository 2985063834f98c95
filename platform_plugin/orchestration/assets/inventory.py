"""`Inventory`: the definition and size of every relation of a lake, from the catalogue at one snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import NoLake, PlatformError
from platform_plugin.lake.catalogue.location import Location
from platform_plugin.lake.catalogue.relations import read_declarations
from platform_plugin.lake.catalogue.snapshots import read_last_note
from platform_plugin.lake.catalogue.tables import Name, Table, View
from platform_plugin.lake.lake import Lake
from platform_plugin.relations.kinds import declarable_kind, is_hidden, kind_name, named_kind
from platform_plugin.select.shows import relation_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.relations.declarations import DescribedRelation


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeRelation:
    """A relation in the lake; the sizes of a view are None, since it has no rows of its own.

    `names` are a view's own names for its columns, and `takes_in` says that a run ingests or draws rows for it.
    """

    name: Name
    kind: str
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
    takes_in: bool = False
    is_maintained: bool = False
    """Whether a run has consumed rows for it, if it is a continuous view."""

    @property
    def intake(self) -> str | None:
        """How a run adds rows to it: `ingest` or `sample`; None if no run does."""
        kind = declarable_kind(self.kind)
        return kind.intake if kind is not None and self.takes_in else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The relations of a lake at a snapshot, by lower-case name; `absence` is the error of a lake that can't be read.

    Relations in `known` are no assets: queries may read them, and their columns are known.
    """

    snapshot: int | None = None
    relations: Mapping[str, LakeRelation] = field(default_factory=dict)
    known: Mapping[str, LakeRelation] = field(default_factory=dict)
    absence: PlatformError | None = None
    endpoint: str | None = field(default=None, repr=False)
    """The Spark that the lake's URL names."""

    def find(self, name: Name) -> LakeRelation | None:
        """The relation with a name, whatever its case."""
        key = str(name).lower()
        return self.relations.get(key) or self.known.get(key)


def read_inventory(url: str) -> Inventory:
    """The inventory of the lake at a URL; for a lake that can't be opened an empty one with the error."""
    try:
        with Lake.open(url) as lake:
            return read_lake(lake)
    except PlatformError as error:
        return Inventory(absence=error, endpoint=_endpoint(url))


def _endpoint(url: str) -> str | None:
    try:
        return Location.parse(url).spark
    except PlatformError:
        return None


def absence_text(error: PlatformError) -> str:
    """Why a lake could not be read, in one line; a lake that does not exist yet is no error, since a run creates it."""
    if isinstance(error, NoLake):
        return f"{error.message} yet; the first run creates it, or {error.hint}"
    return f"{error.message}; {error.hint}" if error.hint else error.message


def read_lake(lake: Lake) -> Inventory:
    """The inventory of an open lake at its newest snapshot."""
    snapshot = lake.snapshot()
    relations: list[Table | View] = [*lake.tables(snapshot), *lake.views(snapshot)]
    by_kind: dict[str, list[Table | View]] = {}
    for relation in relations:
        by_kind.setdefault(kind_name(lake, relation, snapshot), []).append(relation)
    stored: dict[Name, LakeRelation] = {}
    known: dict[str, LakeRelation] = {}
    with lake.reading() as connection:
        declarations = read_declarations(connection)
        rows = {Name(schema=row["schema"], relation=row["name"]): row for row in relation_rows(lake, connection, snapshot)}
        for name, own in by_kind.items():
            if named_kind(name) is None or is_hidden(name):
                continue
            kind = declarable_kind(name)
            if kind is None:
                known |= {str(each.name).lower(): _known(each, name) for each in own}
                continue
            for relation, described in zip(own, kind.describe(connection, own, declarations), strict=True):
                stored[relation.name] = _stored(relation, name, rows[relation.name], described)
    found = (stored[relation.name] for relation in relations if relation.name in stored)
    return Inventory(
        snapshot=snapshot.id, relations={str(each.name).lower(): each for each in found}, known=known, endpoint=lake.location.spark
    )


def _known(relation: Table | View, kind: str) -> LakeRelation:
    """A relation that is no asset, with the columns that queries may read."""
    return LakeRelation(
        name=relation.name, kind=kind, fields=relation.fields if isinstance(relation, Table) else (), comment=relation.comment
    )


def _stored(relation: Table | View, kind: str, row: Mapping[str, Any], described: DescribedRelation) -> LakeRelation:
    return LakeRelation(
        name=relation.name,
        kind=kind,
        fields=described.fields,
        primary_key=described.primary_key,
        options=described.options,
        comment=relation.comment,
        rows=row["rows"],
        files=row["files"],
        size_bytes=row["bytes"],
        query=described.query,
        names=described.names,
        is_continuous=described.is_continuous,
        is_maintained=described.is_maintained,
        takes_in=described.takes_in,
    )


def read_changed(lake: Lake, table: Table) -> int:
    """The snapshot that last changed a table's rows or columns."""
    with lake.reading() as connection:
        found = read_last_note(connection, table.id or -1)
    return max(found or 0, table.begin_snapshot or 0)
