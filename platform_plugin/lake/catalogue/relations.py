"""Declarations: the kind of each relation (table, stream, view, …) and the options that it was declared with."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

import sqlalchemy as sa

from platform_plugin.cache import Cache
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import is_among

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.forgotten import Folding
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.lake import Lake

STATE = "state"
"""The kind of a table that holds a part of a continuous view; lists leave it out, and only maintenance writes it."""

RELATION = sa.Table(
    "platform_relation",
    c.metadata,
    sa.Column("relation_uuid", sa.String, primary_key=True),
    sa.Column("kind", sa.String, nullable=False),
    sa.Column("options", sa.String, nullable=False),
)
RELATION_TABLES = (RELATION,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The kind and the options of a relation; a table that another client made is a history table without options."""

    kind: str = "table"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns that name a row, as declared; rows are not checked against it."""
        return tuple(self.options.get("primary_key", ()))


def declare_relation(commit: Commit, relation: Table | UUID, declaration: Declaration) -> None:
    """Write, in a commit, the declaration of one of its tables, or of the view with this identity."""
    uuid = relation if isinstance(relation, UUID) else relation.uuid
    commit.put(RELATION, relation_uuid=str(uuid), kind=declaration.kind, options=json.dumps(declaration.options))


def read_declarations(connection: Connection, *, only: Collection[str] | None = None) -> dict[str, Declaration]:
    """All declarations, or those of some relations, by the relation's identity as text."""
    if not sa.inspect(connection).has_table(RELATION.name):
        return {}
    query = sa.select(RELATION)
    if only is not None:
        query = query.where(RELATION.c.relation_uuid.in_(only))
    rows = connection.execute(query).all()
    return {row.relation_uuid: Declaration(kind=row.kind, options=json.loads(row.options)) for row in rows}


_KINDS: Cache[tuple[UUID, str, int], dict[str, str]] = Cache("kinds of relations", weigh=lambda kinds: 200 * len(kinds))


def read_kind_names(lake: Lake, snapshot: Snapshot) -> Mapping[str, str]:
    """The kind of every relation at a snapshot, by identity as text; relations of other snapshots may be in it too.

    It is cached, since a relation's kind never changes, and no relation comes or goes within a schema version.
    """
    key = (lake.uuid, str(lake.location), snapshot.schema_version)
    known = _KINDS.get(key)
    if known is None:
        with lake.reading() as connection:
            query = sa.select(RELATION.c.relation_uuid, RELATION.c.kind)
            is_there = sa.inspect(connection).has_table(RELATION.name)
            known = {row.relation_uuid: row.kind for row in connection.execute(query)} if is_there else {}
        _KINDS.put(key, known)
    return known


def read_declaration(connection: Connection, uuid: UUID) -> Declaration:
    """One relation's declaration."""
    return read_declarations(connection, only=[str(uuid)]).get(str(uuid), Declaration())


def read_streams(connection: Connection) -> frozenset[str]:
    """The identities, as text, of all relations that were declared as streams."""
    if not sa.inspect(connection).has_table(RELATION.name):
        return frozenset()
    return frozenset(connection.execute(sa.select(RELATION.c.relation_uuid).where(RELATION.c.kind == "stream")).scalars())


def filter_streams(connection: Connection, uuids: Collection[str]) -> frozenset[str]:
    """Those of some identities that were declared as streams; the lake must have declarations."""
    query = sa.select(RELATION.c.relation_uuid).where(is_among(connection, RELATION.c.relation_uuid, uuids), RELATION.c.kind == "stream")
    return frozenset(connection.execute(query).scalars())


def read_noted_options(connection: Connection, names: Sequence[str], uuids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The values of some options in the declarations of tables, by the table's identity as text."""
    if not sa.inspect(connection).has_table(RELATION.name):
        return {}
    r = RELATION.c
    query = sa.select(r.relation_uuid, r.options).where(r.kind == "table", sa.or_(*(r.options.contains(f'"{name}"') for name in names)))
    if len(uuids) == 1:
        query = query.where(r.relation_uuid == uuids[0])
    return {
        row.relation_uuid: {name: value for name, value in json.loads(row.options).items() if name in names}
        for row in connection.execute(query)
    }


def find_declared(connection: Connection, kind: str, mark: str) -> dict[UUID, Declaration]:
    """The declarations of a kind whose stored options contain a text, by the relation's identity."""
    if not sa.inspect(connection).has_table(RELATION.name):
        return {}
    query = sa.select(RELATION).where(RELATION.c.kind == kind, RELATION.c.options.contains(mark, autoescape=True))
    return {UUID(row.relation_uuid): Declaration(kind=row.kind, options=json.loads(row.options)) for row in connection.execute(query)}


def fold_declarations(rows: Folding) -> int:
    """Delete the declarations of relations that no kept snapshot has."""
    return rows.delete_forgotten(RELATION, RELATION.c.relation_uuid)
