"""What the catalogue stores of continuous views: definitions, parts, meanings, results, and how commits change it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.algebra.types.data_types import Field
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import is_among
from platform_plugin.lake.commit.data_operations import has_table
from platform_plugin.lake.commit.dependents import DEPENDENT_TABLES
from platform_plugin.lake.cursors.cursor import read_cursors_at
from platform_plugin.lake.cursors.move import MoveCursor
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.language.text.writing import type_text
from platform_plugin.state.node import NODE_TABLES, AddNodes, read_parts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Name, Snapshot
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.state.node import Node

VIEW = sa.Table(
    "platform_view",
    c.metadata,
    sa.Column("view_uuid", sa.String, primary_key=True),
    sa.Column("definition", sa.String, nullable=False),
)
# What the names in a view's query stood for when it was made.
MEANING = sa.Table(
    "platform_view_meaning",
    c.metadata,
    sa.Column("view_uuid", sa.String, primary_key=True),
    sa.Column("meaning", sa.String, nullable=False),
)
RESULT_PART = "result"
"""The part with a view's stored result, and the option with the result's columns."""
CREATED = "created"
"""The option with the snapshot at which a view's static parts were read."""
PINNED_TABLES = "pinned_tables"
"""The option under which a view keeps the names of the tables that its static parts read, for those who have no plan of it."""
FROM = "from"
"""The option with the first row of each stream that a view covers."""
ON_TABLE_CHANGE, REFUSE = "on_table_change", "refuse"
"""The option that says what becomes of tables below a grouping, and its value that they may not change."""
VIEW_TABLES = (VIEW, MEANING, *NODE_TABLES, *DEPENDENT_TABLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRecord:
    """A continuous view in the catalogue; `parts` are the tables of its states, static parts and result, by name."""

    uuid: UUID
    query: str
    columns: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, UUID] = field(default_factory=dict)

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the parts that are states."""
        return tuple(sorted(part for part in self.parts if part.startswith("state_")))


def note_view(commit: Commit, record: ViewRecord, nodes: Sequence[Node]) -> None:
    """Write the definition of a view that this commit creates, with its new `nodes`; its other parts are nodes that others brought."""
    commit.put(VIEW, expected=None, view_uuid=str(record.uuid), definition=_definition(record))
    commit.also(AddNodes(user=record.uuid, parts=record.parts, nodes=nodes))


def note_columns(commit: Commit, record: ViewRecord, fields: Sequence[Field]) -> None:
    """Write the columns of a view's result after they were widened."""
    change_options(commit, record, {**record.options, RESULT_PART: shown_columns(fields)})


def change_options(commit: Commit, record: ViewRecord, options: Mapping[str, Any]) -> None:
    """Change a view's options and nothing else."""
    changed = replace(record, options=dict(options))
    commit.put(VIEW, expected={"definition": _definition(record)}, view_uuid=str(record.uuid), definition=_definition(changed))


def shown_columns(fields: Sequence[Field]) -> list[list[str]]:
    """Columns in the form of a view's record."""
    return [[field.name, type_text(field.type)] for field in fields]


def result_fields(record: ViewRecord) -> tuple[Field, ...]:
    """The columns of a continuous view's result, as they were at its creation or widened since."""
    return tuple(Field(name=name, type=parse_type(kind)) for name, kind in record.options.get(RESULT_PART, ()))


def _definition(record: ViewRecord) -> str:
    return json.dumps({"query": record.query, "columns": list(record.columns), "options": dict(record.options)})


def read_records(connection: Connection, *, only: UUID | Collection[UUID] | None = None) -> dict[UUID, ViewRecord]:
    """All continuous views, dropped ones included, or one or some of them."""
    from uuid import UUID

    if not has_table(connection, VIEW.name):
        return {}
    views = sa.select(VIEW)
    uuids = None if only is None else [only] if isinstance(only, UUID) else list(only)
    if uuids is not None:
        views = views.where(is_among(connection, VIEW.c.view_uuid, [str(uuid) for uuid in uuids]))
    parts = read_parts(connection, uuids)
    found = {}
    for row in connection.execute(views):
        known = json.loads(row.definition)
        uuid = UUID(row.view_uuid)
        found[uuid] = ViewRecord(
            uuid=uuid,
            query=known["query"],
            columns=tuple(known["columns"]),
            options=known["options"],
            parts=parts.get(row.view_uuid, {}),
        )
    return found


def read_options(connection: Connection) -> dict[UUID, Mapping[str, Any]]:
    """The options of all continuous views, dropped ones included."""
    from uuid import UUID

    if not has_table(connection, VIEW.name):
        return {}
    found = connection.execute(sa.select(VIEW.c.view_uuid, VIEW.c.definition))
    return {UUID(uuid): json.loads(definition)["options"] for uuid, definition in found}


def read_result(connection: Connection, record: ViewRecord, snapshot_id: int) -> int | None:
    """The snapshot whose answer a view's stored result is, read at a snapshot; None without a stored result."""
    node = record.parts.get(RESULT_PART)
    return None if node is None else read_cursors_at(connection, snapshot_id, [node]).get(str(node), {}).get(str(record.uuid))


def read_results(connection: Connection, snapshot_id: int, uses: Iterable[c.AnyRow]) -> dict[str, int]:
    """The newest snapshot whose answer is stored for each view, by the view's identity."""
    nodes = {node: user for user, part, node, _ in uses if part == RESULT_PART}
    positions = read_cursors_at(connection, snapshot_id, nodes)
    return {user: positions[node][user] for node, user in nodes.items() if user in positions.get(node, {})}


def note_meaning_text(commit: Commit, view: UUID, text: str) -> None:
    """Write the meaning of the names in a new view's query."""
    commit.put(MEANING, expected=None, view_uuid=str(view), meaning=text)


def read_meaning_text(connection: Connection, view: UUID) -> str | None:
    """The stored meaning of the names in a view's query; None for a view of an earlier version."""
    if not has_table(connection, MEANING.name):
        return None
    return connection.execute(sa.select(MEANING.c.meaning).where(MEANING.c.view_uuid == str(view))).scalar()


def note_result(commit: Commit, view: UUID, result: UUID, of: Snapshot, *, name: Name, expected: int | None) -> None:
    """Record that the `result` which a commit stores is a view's answer at a snapshot; `expected` is that of the result before."""
    consumer = f'the stored result of view "{name}"'
    commit.also(MoveCursor(owner=result, input=view, expected=expected, position=of.id, consumer=consumer))
