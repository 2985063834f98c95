"""What the catalogue stores of continuous views: definitions, parts, meanings, results, and how commits change it."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.algebra.types.data_types import Field
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import is_among, split_chunks
from platform_plugin.lake.commit.data_operations import has_table
from platform_plugin.lake.commit.dependents import DEPENDENT_TABLES
from platform_plugin.lake.ring.consumers import is_consumer, remove_consumer
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.language.text.writing import type_text
from platform_plugin.relations.views.follow.progress import PROGRESS_TABLES, forget_unneeded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.commit.writer import Writer

VIEW = sa.Table(
    "platform_view",
    c.metadata,
    sa.Column("view_uuid", sa.String, primary_key=True),
    sa.Column("definition", sa.String, nullable=False),
)
PART = sa.Table(
    "platform_view_part",
    c.metadata,
    sa.Column("view_uuid", sa.String, primary_key=True),
    sa.Column("part", sa.String, primary_key=True),
    sa.Column("table_uuid", sa.String, nullable=False),
)
# Which snapshot a stored result is the answer of, by the snapshot that stored it.
RESULT = sa.Table(
    "platform_view_result",
    c.metadata,
    sa.Column("view_uuid", sa.String, primary_key=True),
    sa.Column("snapshot_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("of_snapshot", sa.BigInteger, nullable=False),
)
# What the names in a view's query stood for when it was made.
MEANING = sa.Table(
    "platform_view_meaning",
    c.metadata,
    sa.Column("view_uuid", sa.String, primary_key=True),
    sa.Column("meaning", sa.String, nullable=False),
)
# Views that want what arrives with the statement that adds it, as soon as so many rows wait.
PROPAGATED = sa.Table(
    "platform_view_propagated",
    c.metadata,
    sa.Column("stream_uuid", sa.String, primary_key=True),
    sa.Column("view_uuid", sa.String, primary_key=True),
    sa.Column("row_count", sa.BigInteger, nullable=False),
)
# By a digest of what a part of a view is made by: the views whose part it is, so that a new view finds what it can share.
LIKENESS = sa.Table(
    "platform_view_likeness",
    c.metadata,
    sa.Column("likeness", sa.String, primary_key=True),
    sa.Column("view_uuid", sa.String, primary_key=True),
    sa.Column("part", sa.String, primary_key=True),
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
# One that can be shared is enough.
_MOST_ALIKE = 16
VIEW_TABLES = (VIEW, PART, *PROGRESS_TABLES, RESULT, MEANING, PROPAGATED, LIKENESS, *DEPENDENT_TABLES)


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


def note_view(commit: Commit, record: ViewRecord) -> None:
    """Write the definition of a view that this commit creates."""
    commit.put(VIEW, expected=None, view_uuid=str(record.uuid), definition=_definition(record))
    for name, table in record.parts.items():
        commit.put(PART, expected=None, view_uuid=str(record.uuid), part=name, table_uuid=str(table))


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
    views, parts = sa.select(VIEW), sa.select(PART)
    if only is not None:
        wanted = [str(only)] if isinstance(only, UUID) else [str(uuid) for uuid in only]
        views = views.where(is_among(connection, VIEW.c.view_uuid, wanted))
        parts = parts.where(is_among(connection, PART.c.view_uuid, wanted))
    tables: dict[str, dict[str, UUID]] = {}
    for row in connection.execute(parts):
        tables.setdefault(row.view_uuid, {})[row.part] = UUID(row.table_uuid)
    found = {}
    for row in connection.execute(views):
        known = json.loads(row.definition)
        uuid = UUID(row.view_uuid)
        found[uuid] = ViewRecord(
            uuid=uuid,
            query=known["query"],
            columns=tuple(known["columns"]),
            options=known["options"],
            parts=tables.get(row.view_uuid, {}),
        )
    return found


def note_likeness(commit: Commit, view: UUID, likeness: Mapping[str, str]) -> None:
    """Write the digests of what a new view's parts are made by, by part; the empty name is for all of its states together."""
    for part, digest in likeness.items():
        commit.put(LIKENESS, expected=None, likeness=digest, view_uuid=str(view), part=part)


def read_alike(connection: Connection, likeness: str, *, newest_first: bool = False) -> list[tuple[UUID, str]]:
    """Some views, dropped ones excluded, that have a part with this digest, with the name of that part; by default the oldest."""
    from uuid import UUID

    if not has_table(connection, LIKENESS.name):
        return []
    found = sa.select(LIKENESS.c.view_uuid, LIKENESS.c.part).where(LIKENESS.c.likeness == likeness)
    order = LIKENESS.c.view_uuid.desc() if newest_first else LIKENESS.c.view_uuid
    return [(UUID(uuid), part) for uuid, part in connection.execute(found.order_by(order).limit(_MOST_ALIKE))]


def read_options(connection: Connection) -> dict[UUID, Mapping[str, Any]]:
    """The options of all continuous views, dropped ones included."""
    from uuid import UUID

    if not has_table(connection, VIEW.name):
        return {}
    found = connection.execute(sa.select(VIEW.c.view_uuid, VIEW.c.definition))
    return {UUID(uuid): json.loads(definition)["options"] for uuid, definition in found}


def read_sharing(connection: Connection, tables: Iterable[UUID]) -> dict[str, list[str]]:
    """The views, dropped ones included, that have or had one of these tables as a part, by the table's identity."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for part in split_chunks(sorted(str(table) for table in tables)):
        query = sa.select(PART.c.table_uuid, PART.c.view_uuid).where(is_among(connection, PART.c.table_uuid, part))
        for row in connection.execute(query):
            found[row.table_uuid].append(row.view_uuid)
    return found


def has_sharer(connection: Connection, tables: Iterable[UUID], *, but: UUID) -> bool:
    """Whether a view other than `but`, and not dropped, has one of these tables as a part."""
    used = is_among(connection, PART.c.table_uuid, [str(table) for table in tables])
    query = sa.select(PART.c.view_uuid).where(used, PART.c.view_uuid != str(but), is_consumer(PART.c.view_uuid)).limit(1)
    return connection.execute(query).first() is not None


def read_result(connection: Connection, view: UUID, snapshot_id: int) -> int | None:
    """The snapshot whose answer a view's stored result is, read at a snapshot; None without a stored result."""
    if not has_table(connection, RESULT.name):
        return None
    r = RESULT.c
    newest = sa.select(r.of_snapshot).where(r.view_uuid == str(view), r.snapshot_id <= snapshot_id)
    return connection.execute(newest.order_by(r.snapshot_id.desc()).limit(1)).scalar()


def read_results(connection: Connection, snapshot_id: int) -> dict[str, int]:
    """The newest snapshot whose answer is stored for each view, by the view's identity."""
    if not has_table(connection, RESULT.name):
        return {}
    r = RESULT.c
    answers = sa.select(r.view_uuid, sa.func.max(r.of_snapshot)).where(r.snapshot_id <= snapshot_id).group_by(r.view_uuid)
    return {uuid: int(snapshot) for uuid, snapshot in connection.execute(answers)}


def note_meaning_text(commit: Commit, view: UUID, text: str) -> None:
    """Write the meaning of the names in a new view's query."""
    commit.put(MEANING, expected=None, view_uuid=str(view), meaning=text)


def read_meaning_text(connection: Connection, view: UUID) -> str | None:
    """The stored meaning of the names in a view's query; None for a view of an earlier version."""
    if not has_table(connection, MEANING.name):
        return None
    return connection.execute(sa.select(MEANING.c.meaning).where(MEANING.c.view_uuid == str(view))).scalar()


def note_propagated(commit: Commit, stream: UUID, view: UUID, row_count: int) -> None:
    """Let appends to a stream maintain a new view, when so many rows wait."""
    commit.put(PROPAGATED, expected=None, stream_uuid=str(stream), view_uuid=str(view), row_count=row_count)


def read_propagated(connection: Connection, stream: UUID) -> list[tuple[UUID, int]]:
    """The views that appends to a stream maintain, each with the number of rows that must wait."""
    from uuid import UUID

    if not has_table(connection, PROPAGATED.name):
        return []
    query = sa.select(PROPAGATED.c.view_uuid, PROPAGATED.c.row_count).where(PROPAGATED.c.stream_uuid == str(stream))
    return [(UUID(row.view_uuid), row.row_count) for row in connection.execute(query)]


def note_result(commit: Commit, view: UUID, of: Snapshot) -> None:
    """Record that the result which a commit stores is a view's answer at a snapshot."""
    commit.also(_Stored(view, of.id))


@dataclass(frozen=True, slots=True)
class _Stored:
    view: UUID
    of_snapshot: int

    def apply(self, w: Writer) -> None:
        forget_unneeded(w, RESULT, (RESULT.c.view_uuid,), RESULT.c.view_uuid == str(self.view))
        w.insert(RESULT, view_uuid=str(self.view), snapshot_id=w.id, of_snapshot=self.of_snapshot)


@dataclass(frozen=True, slots=True)
class DetachView:
    """Removes the cursors of a dropped view, so that no stream keeps rows for it. Its progress stays for reads at older snapshots."""

    view: UUID

    def apply(self, w: Writer) -> None:
        w.connection.execute(sa.delete(PROPAGATED).where(PROPAGATED.c.view_uuid == str(self.view)))
        if has_table(w.connection, LIKENESS.name):
            w.connection.execute(sa.delete(LIKENESS).where(LIKENESS.c.view_uuid == str(self.view)))
        remove_consumer(w, self.view)
