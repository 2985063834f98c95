"""Nodes: the stored operators of maintained relations, and the relations that use each of them.

A node is a table of the lake with what one operator has stored, and has the table's identity: the state of a view, the rows of a deferred
view, a static part, a result. Relations with the same operator use one node, which goes with its last user, in that commit. Cursors say how
far a node has come. What ends stays on record for reads at older snapshots.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import is_among, split_chunks
from platform_plugin.lake.cursors.cursor import CURSOR_TABLES
from platform_plugin.lake.cursors.move import end_cursors
from platform_plugin.lake.migrations.cursors import VERSION, former_uses
from platform_plugin.lake.migrations.version import read_version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.forgotten import Folding
    from platform_plugin.lake.commit.writer import Writer

NODE = sa.Table(
    "platform_node",
    c.metadata,
    sa.Column("node_uuid", sa.String, primary_key=True),
    sa.Column("kind", sa.String, nullable=False),
    sa.Column("likeness", sa.String),
    sa.Column("plan", sa.String),
    sa.Column("options", sa.String, nullable=False),
    sa.Index("platform_node_by_likeness", "likeness"),
)
USE = sa.Table(
    "platform_node_use",
    c.metadata,
    sa.Column("user_uuid", sa.String, primary_key=True),
    sa.Column("part", sa.String, primary_key=True),
    sa.Column("node_uuid", sa.String, nullable=False),
    sa.Column("end_snapshot", sa.BigInteger),
    sa.Index("platform_node_use_by_node", "node_uuid"),
)
NODE_TABLES = (NODE, USE, *CURSOR_TABLES)
# One that can be shared is enough.
_MOST_ALIKE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A stored operator: the identity of its table, its kind, and its plan as text.

    Nodes with the same `likeness` hold the same, where that can be told; None for one that nobody shares.
    """

    uuid: UUID
    kind: str
    likeness: str | None = None
    plan: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddNodes:
    """Adds nodes whose tables the same commit creates, and lets a relation use these and others, by part.

    It is a conflict if one of the others has lost its last user meanwhile.
    """

    user: UUID
    parts: Mapping[str, UUID]
    nodes: Sequence[Node] = ()

    def apply(self, w: Writer) -> None:
        made = {node.uuid for node in self.nodes}
        shared = {uuid for uuid in self.parts.values() if uuid not in made}
        if shared:
            w.flush()  # another relation of the same commit may have brought it
            lost = shared - read_users(w.connection, shared).keys()
            if lost:
                raise w.conflict("a stored operator that was to be shared was dropped")
        for node in self.nodes:
            options = json.dumps(dict(node.options))
            w.insert(NODE, node_uuid=str(node.uuid), kind=node.kind, likeness=node.likeness, plan=node.plan, options=options)
        for part, uuid in self.parts.items():
            w.insert(USE, user_uuid=str(self.user), part=part, node_uuid=str(uuid), end_snapshot=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseNodes:
    """Ends all that relations use, and the cursors of the nodes `going`, whose tables the commit drops.

    It is a conflict if these are not just the nodes without another user by now.
    """

    users: Collection[UUID]
    going: Collection[UUID]

    def apply(self, w: Writer) -> None:
        w.flush()
        own = is_among(w.connection, USE.c.user_uuid, [str(user) for user in self.users]), USE.c.end_snapshot.is_(None)
        used = {UUID(node) for node in w.connection.execute(sa.select(USE.c.node_uuid).where(*own)).scalars()}
        w.connection.execute(sa.update(USE).where(*own).values(end_snapshot=w.id))
        if used - read_users(w.connection, used).keys() != set(self.going):
            raise w.conflict("the relations that share what is dropped have changed")
        for uuid in self.going:
            end_cursors(w, uuid)


def has_nodes(connection: Connection) -> bool:
    """Whether the catalogue has the tables of nodes, which come with the first continuous view."""
    return sa.inspect(connection).has_table(NODE.name)


def _uses(connection: Connection) -> sa.FromClause:
    """The table of uses; of a lake that nobody has written to since an earlier version, what stands for it there."""
    return USE if read_version(connection) >= VERSION else former_uses(connection)


def read_uses(connection: Connection) -> Sequence[c.AnyRow]:
    """User, part, node and end of every use of a node, those of dropped relations included, with identities as text: they may be many."""
    t = _uses(connection).c
    return connection.execute(sa.select(t.user_uuid, t.part, t.node_uuid, t.end_snapshot)).all()


def read_parts(connection: Connection, users: Collection[UUID] | None = None) -> dict[str, dict[str, UUID]]:
    """The nodes of all relations, or of some, by relation and part; those of dropped relations are included."""
    t = _uses(connection).c
    query = sa.select(t.user_uuid, t.part, t.node_uuid)
    if users is not None:
        query = query.where(is_among(connection, t.user_uuid, [str(user) for user in users]))
    found: defaultdict[str, dict[str, UUID]] = defaultdict(dict)
    for row in connection.execute(query):
        found[row.user_uuid][row.part] = UUID(row.node_uuid)
    return dict(found)


def read_users(connection: Connection, nodes: Iterable[UUID] | None = None) -> dict[UUID, list[UUID]]:
    """The present users of all nodes, or of some, by node; a node without users is left out."""
    if read_version(connection) >= VERSION and not has_nodes(connection):
        return {}
    t = _uses(connection).c
    query = sa.select(t.node_uuid, t.user_uuid).where(t.end_snapshot.is_(None))
    if nodes is None:
        rows: Iterable[Any] = connection.execute(query)
    else:
        parts = split_chunks(sorted(str(node) for node in nodes))
        rows = (row for part in parts for row in connection.execute(query.where(is_among(connection, t.node_uuid, part))))
    found: defaultdict[UUID, list[UUID]] = defaultdict(list)
    for row in rows:
        found[UUID(row.node_uuid)].append(UUID(row.user_uuid))
    return dict(found)


def find_alike(connection: Connection, likeness: str, *, newest_first: bool = False) -> list[Node]:
    """Some nodes in use with a likeness; by default the oldest first."""
    order = NODE.c.node_uuid.desc() if newest_first else NODE.c.node_uuid
    used = sa.exists().where(USE.c.node_uuid == NODE.c.node_uuid, USE.c.end_snapshot.is_(None))
    query = sa.select(NODE).where(NODE.c.likeness == likeness, used).order_by(order).limit(_MOST_ALIKE)
    return [_node(row) for row in connection.execute(query)]


def read_nodes(connection: Connection, uuids: Iterable[UUID]) -> dict[UUID, Node]:
    """Nodes by their identity."""
    return {
        UUID(row.node_uuid): _node(row)
        for part in split_chunks(sorted(str(uuid) for uuid in uuids))
        for row in connection.execute(sa.select(NODE).where(is_among(connection, NODE.c.node_uuid, part)))
    }


def _node(row: Any) -> Node:
    return Node(uuid=UUID(row.node_uuid), kind=row.kind, likeness=row.likeness, plan=row.plan, options=json.loads(row.options))


def fold_nodes(rows: Folding) -> int:
    """Delete uses that ended at or before the oldest snapshot that is kept, and nodes without any; returns how many uses there were."""
    ended = rows.delete(USE, USE.c.end_snapshot <= rows.oldest)
    _fold_unused(rows)
    return ended


def fold_lost_nodes(rows: Folding) -> int:
    """Delete what relations that no kept snapshot has use, and nodes without any use: another client that drops a view ends none."""
    return rows.delete_forgotten(USE, USE.c.user_uuid) + _fold_unused(rows)


def _fold_unused(rows: Folding) -> int:
    return rows.delete(NODE, ~sa.exists().where(USE.c.node_uuid == NODE.c.node_uuid))
