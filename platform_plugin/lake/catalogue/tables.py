"""Snapshots, schemas, tables, views and their names as values, and the functions that read them from the catalogue."""

from __future__ import annotations

import difflib
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.algebra.types.data_types import Field
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.interval_columns import read_intervals
from platform_plugin.lake.files.file_options import STANDARD, FileOptions, read_file_options
from platform_plugin.lake.values.types import from_catalogue

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.catalogue import AnyRow

DEFAULT_SCHEMA = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One numbered state of the whole lake."""

    id: int
    time: datetime
    schema_version: int
    next_catalog_id: int
    next_file_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """What the catalogue says of the commit that made a snapshot: its time, changes, author, message and notes."""

    id: int
    time: datetime
    changes: str
    author: str | None
    message: str | None
    notes: str | None

    def __str__(self) -> str:
        by = f" by {self.author}" if self.author else ""
        said = f' "{self.message}"' if self.message else ""
        return f"snapshot {self.id}{said}{by} ({self.changes or 'no changes to relations'})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A relation's schema and name, in their exact spelling.

    >>> str(Name.of("users")), str(Name.of(("raw", "odd.name")))
    ('main.users', 'raw."odd.name"')
    """

    schema: str
    relation: str

    @classmethod
    def of(cls, name: str | tuple[str, str] | Name) -> Name:
        """The name for a plain string, which is a relation of the schema `main`, or for a pair of schema and relation."""
        match name:
            case Name():
                return name
            case str():
                return cls(schema=DEFAULT_SCHEMA, relation=name)
            case (schema, relation):
                return cls(schema=schema, relation=relation)

    def __str__(self) -> str:
        return f"{display_name(self.schema)}.{display_name(self.relation)}"


def display_name(name: str) -> str:
    """A name as messages show it: quoted only where it would be ambiguous."""
    return name if name.isidentifier() else '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionKey:
    """One key of a table's partitioning: a transform of one column."""

    column_id: int
    transform: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table at one snapshot. `id` is None until the commit that creates it has ended."""

    id: int | None
    uuid: UUID
    name: Name
    path: str
    fields: tuple[Field, ...]
    comment: str | None = None
    begin_snapshot: int | None = None
    partition_id: int | None = None
    partition_keys: tuple[PartitionKey, ...] = ()
    file_options: FileOptions = STANDARD

    def field(self, name: str) -> Field | None:
        """The column of that name; names are compared without case, as in Spark SQL."""
        exact = next((field for field in self.fields if field.name == name), None)
        return exact or next((field for field in self.fields if field.name.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A stored query; `dialect` names the SQL dialect of its text."""

    id: int
    uuid: UUID
    name: Name
    dialect: str
    sql: str
    columns: tuple[str, ...]
    comment: str | None = None
    begin_snapshot: int | None = None


def read_snapshot(connection: Connection, *, id: int | None = None, at: datetime | None = None) -> Snapshot | None:  # noqa: A002
    """The newest snapshot, the one with an id, or the newest one at a time."""
    s = c.SNAPSHOT.c
    query = sa.select(s.snapshot_id, s.snapshot_time, s.schema_version, s.next_catalog_id, s.next_file_id)
    if id is not None:
        query = query.where(s.snapshot_id == id)
    if at is not None:
        query = query.where(s.snapshot_time <= at)
    row = connection.execute(query.order_by(s.snapshot_id.desc()).limit(1)).first()
    return _snapshot(row) if row else None


def _snapshot(row: AnyRow) -> Snapshot:
    return Snapshot(
        id=row.snapshot_id,
        time=row.snapshot_time,
        schema_version=row.schema_version,
        next_catalog_id=row.next_catalog_id,
        next_file_id=row.next_file_id,
    )


def read_commits(
    connection: Connection, *, after: int = -1, until: int | None = None, limit: int | None = None, of: Table | View | None = None
) -> list[CommitRecord]:
    """The commits after one snapshot and up to another, oldest first; with a limit, the newest; with `of`, those that changed it."""
    s, changes = c.SNAPSHOT, c.SNAPSHOT_CHANGES
    query = (
        sa.select(
            s.c.snapshot_id,
            s.c.snapshot_time,
            changes.c.changes_made,
            changes.c.author,
            changes.c.commit_message,
            changes.c.commit_extra_info,
        )
        .outerjoin(changes, s.c.snapshot_id == changes.c.snapshot_id)
        .where(s.c.snapshot_id > after)
    )
    if until is not None:
        query = query.where(s.c.snapshot_id <= until)
    if of is not None:
        versions, number = (c.TABLE, c.TABLE.c.table_id) if isinstance(of, Table) else (c.VIEW, c.VIEW.c.view_id)
        made = sa.select(versions.c.begin_snapshot).where(number == of.id)
        named = (sa.literal(",") + changes.c.changes_made + ",").contains(f":{of.id},")
        query = query.where(sa.or_(s.c.snapshot_id.in_(made), named))
    if limit is not None:
        query = query.limit(limit)
    rows = connection.execute(query.order_by(s.c.snapshot_id.desc())).all()
    return [CommitRecord(id=r[0], time=r[1], changes=r[2] or "", author=r[3], message=r[4], notes=r[5]) for r in reversed(rows)]


def read_schemas(connection: Connection, snapshot_id: int) -> dict[str, tuple[int, str]]:
    """The id and the folder of every schema at a snapshot, by name."""
    s = c.SCHEMA.c
    rows = connection.execute(
        sa.select(s.schema_id, s.schema_name, s.path).where(c.is_visible_at(c.SCHEMA, snapshot_id)).order_by(s.schema_id)
    )
    return {row.schema_name: (row.schema_id, row.path or "") for row in rows}


def read_tables(
    connection: Connection,
    snapshot_id: int,
    *,
    name: Name | None = None,
    ids: Sequence[int] | None = None,
    uuids: Sequence[UUID] | None = None,
) -> list[Table]:
    """The tables at a snapshot: all of them, the one of a name, or those with some ids or identities."""
    t, s = c.TABLE, c.SCHEMA
    query = (
        sa.select(
            t.c.table_id,
            t.c.table_uuid,
            t.c.table_name,
            t.c.path,
            t.c.begin_snapshot,
            s.c.schema_id,
            s.c.schema_name,
            s.c.path.label("schema_path"),
        )
        .join(s, sa.and_(s.c.schema_id == t.c.schema_id, c.is_visible_at(s, snapshot_id)))
        .where(c.is_visible_at(t, snapshot_id))
        .order_by(s.c.schema_name, t.c.table_name)
    )
    if name is not None:
        query = query.where(t.c.table_name == name.relation, s.c.schema_name == name.schema)
    if ids is not None:
        query = query.where(t.c.table_id.in_(ids))
    if uuids is not None:
        query = query.where(t.c.table_uuid.in_(uuids))
    rows = connection.execute(query).all()
    if not rows:
        return []
    found = [row.table_id for row in rows]
    fields = read_fields(connection, snapshot_id, found)
    comments = _read_comments(connection, snapshot_id, found)
    partitions = _read_partitions(connection, snapshot_id, found)
    options = read_file_options(connection, {row.table_id: (row.table_uuid, row.schema_id) for row in rows})
    return [
        Table(
            id=row.table_id,
            uuid=row.table_uuid,
            name=Name(schema=row.schema_name, relation=row.table_name),
            path=f"{row.schema_path or ''}{row.path or ''}",
            fields=fields.get(row.table_id, ()),
            comment=comments.get(row.table_id),
            begin_snapshot=row.begin_snapshot,
            partition_id=partitions.get(row.table_id, (None, ()))[0],
            partition_keys=partitions.get(row.table_id, (None, ()))[1],
            file_options=options.get(row.table_id, STANDARD),
        )
        for row in rows
    ]


def read_identities(connection: Connection) -> dict[int, UUID]:
    """The identities by id of all tables that ever existed."""
    return {int(number): uuid for number, uuid in connection.execute(sa.select(c.TABLE.c.table_id, c.TABLE.c.table_uuid))}


def read_table_names(connection: Connection, snapshot_id: int, uuids: Sequence[UUID]) -> list[str]:
    """The names of those of some tables that exist at a snapshot, sorted; cheaper than the tables themselves."""
    t = c.TABLE.c
    query = sa.select(t.table_name).where(t.table_uuid.in_(uuids), c.is_visible_at(c.TABLE, snapshot_id))
    return sorted(connection.execute(query).scalars())


def read_fields(connection: Connection, snapshot_id: int, table_ids: Sequence[int]) -> dict[int, tuple[Field, ...]]:
    """The columns of some tables at a snapshot, nested parts in place."""
    col, tag = c.COLUMN, c.COLUMN_TAG
    rows = connection.execute(
        sa.select(col).where(col.c.table_id.in_(table_ids), c.is_visible_at(col, snapshot_id)).order_by(col.c.table_id, col.c.column_order)
    ).all()
    tags = connection.execute(
        sa.select(tag.c.table_id, tag.c.column_id, tag.c.value).where(
            tag.c.table_id.in_(table_ids), tag.c.key == "comment", c.is_visible_at(tag, snapshot_id)
        )
    )
    comments = {(row.table_id, row.column_id): row.value for row in tags}
    intervals = read_intervals(connection, table_ids)
    parts: defaultdict[tuple[int, int | None], list[AnyRow]] = defaultdict(list)
    for row in rows:
        parts[row.table_id, row.parent_column].append(row)

    def build(row: AnyRow) -> Field:
        children = [build(part) for part in parts.get((row.table_id, row.column_id), ())]
        return Field(
            name=row.column_name,
            type=intervals.get((row.table_id, row.column_id)) or from_catalogue(row.column_type, children, column=row.column_name),
            nullable=bool(row.nulls_allowed),
            default=None if row.default_value in (None, "NULL") else row.default_value,
            initial_default=row.initial_default,
            computed_default=row.default_value_type == "expression" and row.default_value not in (None, "NULL"),
            comment=comments.get((row.table_id, row.column_id)),
            id=row.column_id,
        )

    return {table_id: tuple(build(row) for row in parts.get((table_id, None), ())) for table_id in table_ids}


def _read_comments(connection: Connection, snapshot_id: int, object_ids: Sequence[int]) -> dict[int, str]:
    tag = c.TAG
    query = sa.select(tag.c.object_id, tag.c.value).where(
        tag.c.object_id.in_(object_ids), tag.c.key == "comment", c.is_visible_at(tag, snapshot_id)
    )
    return {row.object_id: row.value for row in connection.execute(query)}


def _read_partitions(connection: Connection, snapshot_id: int, table_ids: Sequence[int]) -> dict[int, tuple[int, tuple[PartitionKey, ...]]]:
    info, col = c.PARTITION_INFO, c.PARTITION_COLUMN
    query = (
        sa.select(info.c.table_id, info.c.partition_id, col.c.column_id, col.c.transform)
        .join(col, col.c.partition_id == info.c.partition_id)
        .where(info.c.table_id.in_(table_ids), c.is_visible_at(info, snapshot_id))
        .order_by(info.c.table_id, col.c.partition_key_index)
    )
    found: dict[int, tuple[int, tuple[PartitionKey, ...]]] = {}
    for row in connection.execute(query):
        _, keys = found.get(row.table_id, (0, ()))
        found[row.table_id] = (row.partition_id, (*keys, PartitionKey(column_id=row.column_id, transform=row.transform)))
    return found


def read_views(connection: Connection, snapshot_id: int, *, name: Name | None = None, uuids: Collection[UUID] | None = None) -> list[View]:
    """The stored queries at a snapshot: all of them, the one with a name, or those with some identities."""
    v, s = c.VIEW, c.SCHEMA
    query = (
        sa.select(v.c.view_id, v.c.view_uuid, v.c.view_name, v.c.dialect, v.c.sql, v.c.column_aliases, v.c.begin_snapshot, s.c.schema_name)
        .join(s, sa.and_(s.c.schema_id == v.c.schema_id, c.is_visible_at(s, snapshot_id)))
        .where(c.is_visible_at(v, snapshot_id))
        .order_by(s.c.schema_name, v.c.view_name)
    )
    if name is not None:
        query = query.where(v.c.view_name == name.relation, s.c.schema_name == name.schema)
    if uuids is not None:
        query = query.where(v.c.view_uuid.in_(uuids))
    rows = connection.execute(query).all()
    comments = _read_comments(connection, snapshot_id, [row.view_id for row in rows]) if rows else {}
    return [
        View(
            id=row.view_id,
            uuid=row.view_uuid,
            name=Name(schema=row.schema_name, relation=row.view_name),
            dialect=row.dialect,
            sql=row.sql,
            columns=split_aliases(row.column_aliases or ""),
            comment=comments.get(row.view_id),
            begin_snapshot=row.begin_snapshot,
        )
        for row in rows
    ]


def find_nearest_name(name: Name, known: Iterable[Name]) -> Name | None:
    """The name that is most like an unknown one, or None; only the relation's part is compared.

    >>> find_nearest_name(Name.of("user"), [Name.of("posts"), Name.of("users")])
    Name(schema='main', relation='users')
    >>> find_nearest_name(Name.of("nosuch"), [Name.of("posts")])
    """
    best, like = None, 0.6
    for other in known:
        if other.schema.lower() != name.schema.lower() and other.relation.lower() != name.relation.lower():
            continue
        found = difflib.SequenceMatcher(None, other.relation.lower(), name.relation.lower()).ratio()
        if found > like:
            best, like = other, found
    return best


def read_names(connection: Connection, snapshot_id: int, *, like: Name | None = None) -> list[Name]:
    """The names of all tables and views at a snapshot, or those that the database does not tell from a name by their letters' case."""
    s = c.SCHEMA
    names = []
    for relation, column in ((c.TABLE, c.TABLE.c.table_name), (c.VIEW, c.VIEW.c.view_name)):
        query = (
            sa.select(s.c.schema_name, column)
            .join(s, sa.and_(s.c.schema_id == relation.c.schema_id, c.is_visible_at(s, snapshot_id)))
            .where(c.is_visible_at(relation, snapshot_id))
        )
        if like is not None and like.relation.isascii():
            query = query.where(sa.func.lower(column) == like.relation.lower())
        names += [Name(schema=row[0], relation=row[1]) for row in connection.execute(query)]
    return names


def split_aliases(text: str) -> tuple[str, ...]:
    """The column aliases in a text of the catalogue, where names may be quoted.

    >>> split_aliases('a, "b,""c"')
    ('a', 'b,"c')
    """
    names, name, inside = [], "", False
    for index, char in enumerate(text):
        if char == '"':
            if not inside and name and text[index - 1] == '"':
                name += char
            inside = not inside
        elif char == "," and not inside:
            names.append(name.strip())
            name = ""
        elif inside or not char.isspace():
            name += char
    return (*names, name) if name else tuple(names)


def number_fields(fields: Sequence[Field], *, first: int = 1) -> tuple[Field, ...]:
    """The fields with column ids in DuckLake's order: each column, then its parts, depth first."""
    counter = iter(range(first, 1 << 62))

    def number(field: Field) -> Field:
        field = replace(field, id=next(counter))
        return field.with_children(tuple(number(child) for child in field.children))

    return tuple(number(field) for field in fields)
