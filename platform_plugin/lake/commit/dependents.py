"""Dependents: which relations and columns stored queries need, and the check that no commit takes these away."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.forgotten import is_forgotten_id
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.catalogue.tables import Name, Table
from platform_plugin.lake.commit.data_operations import has_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.forgotten import Folding
    from platform_plugin.lake.catalogue.tables import View
    from platform_plugin.lake.commit.writer import Writer

    _Kind = tuple[sa.Table, sa.ColumnElement[int], sa.ColumnElement[str]]

# By the catalogue's ids, which belong to a relation for life; those of tables and of views are never the same.
DEPENDENT = sa.Table(
    "platform_dependent",
    c.metadata,
    sa.Column("relation_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("dependent_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("needs", sa.String, nullable=False),
)
DEPENDENT_TABLES = (DEPENDENT,)
_TABLES = (c.TABLE, c.TABLE.c.table_id, c.TABLE.c.table_name)
_VIEWS = (c.VIEW, c.VIEW.c.view_id, c.VIEW.c.view_name)
_OTHER_ROWS = ("inserted_into_table", "deleted_from_table", "dropped_table")


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a stored query needs of a relation: its name and these columns.

    With `itself` no other relation may take its name, and its columns keep their ids. With `rows` neither its rows nor its columns may
    change.
    """

    relation: Table | View
    columns: tuple[str, ...] = ()
    itself: bool = False
    rows: bool = False


@dataclass(frozen=True, slots=True)
class AddDependent:
    """Records what a view of this commit needs; a conflict if a relation is not as it was at the commit's base."""

    view: UUID
    needs: tuple[Need, ...]

    def apply(self, w: Writer) -> None:
        w.flush()
        view = w.connection.execute(
            sa.select(c.VIEW.c.view_id).where(c.VIEW.c.view_uuid == self.view, c.is_visible_at(c.VIEW, w.id))
        ).scalar_one()
        for need in self.needs:
            relation = need.relation
            columns: dict[str, int | None] = {}
            if isinstance(relation, Table):
                relation_id = w.table_id(relation)
                found = {field.name: field.id for field in relation.fields}
                columns = {name: found[name] for name in need.columns if name in found}
            else:
                relation_id = relation.id
            wanted = _NeededColumns(relation.name, columns, itself=need.itself, rows=need.rows)
            if _broken(w.connection, relation_id, wanted, w.id) is not None:
                raise w.conflict(f'"{relation.name}" was altered, renamed or dropped')
            w.insert(DEPENDENT, relation_id=relation_id, dependent_id=view, needs=wanted.text())


@dataclass(frozen=True, slots=True)
class RemoveDependent:
    """Removes the needs of a view that is dropped."""

    view: View

    def apply(self, w: Writer) -> None:
        w.connection.execute(sa.delete(DEPENDENT).where(DEPENDENT.c.dependent_id == self.view.id))


def check_needs(w: Writer) -> None:
    """Refuse a commit that takes from stored queries what they need. It reads the commit's effects, so that every operation is covered."""
    words = w.changes().split(",")
    numbered = {int(number) for _, number in (word.split(":", 1) for word in words if ":" in word) if number.isdigit()}
    touched = numbered | w.reshaped
    if not touched:
        return
    d = DEPENDENT.c
    concerned = w.connection.execute(sa.select(d.relation_id, d.dependent_id, d.needs).where(d.relation_id.in_(touched))).all()
    if concerned:
        w.flush()
    # A stream has hundreds of views, and each commit of a few rows comes by here.
    shapes = {relation_id: _read_shape(w.connection, relation_id, w.id) for relation_id in {row.relation_id for row in concerned}}
    for row in concerned:
        wanted = _NeededColumns.read(row.needs)
        changed = wanted.rows and (row.relation_id in w.reshaped or any(f"{kind}:{row.relation_id}" in words for kind in _OTHER_ROWS))
        if not changed and wanted.fits(shapes[row.relation_id]):
            continue
        holder = _name_of(w.connection, _VIEWS, row.dependent_id, w.id)
        if holder is None:
            continue  # another client dropped the view
        if changed:
            raise _changed(w.connection, row.relation_id, wanted.name, holder)
        broken = _broken(w.connection, row.relation_id, wanted, w.id)
        follower = None if wanted.itself else _find_follower(w.connection, wanted, w.id)
        if follower is None:
            raise InvalidValue(
                f'{broken} can\'t be dropped or renamed: view "{holder}" reads it', hint=f"drop what reads it first: DROP VIEW {holder}"
            )
        own = sa.and_(d.relation_id == row.relation_id, d.dependent_id == row.dependent_id)
        w.connection.execute(sa.update(DEPENDENT).where(own).values(relation_id=follower))


def find_protector(connection: Connection, table: Table, snapshot_id: int) -> Name | None:
    """The name of a view that needs a table's rows to stay as they are, or None."""
    if not has_table(connection, DEPENDENT.name):
        return None
    query = sa.select(DEPENDENT.c.dependent_id, DEPENDENT.c.needs).where(DEPENDENT.c.relation_id == table.id)
    for row in connection.execute(query).all():
        holder = _name_of(connection, _VIEWS, row.dependent_id, snapshot_id)
        if holder is not None and _NeededColumns.read(row.needs).rows:
            return holder
    return None


def read_dependents(connection: Connection) -> list[tuple[int, int]]:
    """Pairs of relation id and view id, one for each relation that a stored query needs."""
    if not has_table(connection, DEPENDENT.name):
        return []
    return [
        (int(relation), int(view)) for relation, view in connection.execute(sa.select(DEPENDENT.c.relation_id, DEPENDENT.c.dependent_id))
    ]


def fold_dependents(rows: Folding) -> int:
    """Delete the needs of and for relations that no kept snapshot has; another client removes none when it drops a view."""
    gone = sa.or_(is_forgotten_id(DEPENDENT.c.relation_id), is_forgotten_id(DEPENDENT.c.dependent_id))
    return rows.delete(DEPENDENT, gone)


def protected_table_error(table: Name, view: Name) -> InvalidValue:
    """The error for a change to a table that a view needs unchanged."""
    return InvalidValue(
        f'table "{table}" can\'t be changed: view "{view}" looks it up below its grouping',
        hint="drop the view first, or make it WITH (on_table_change = 'pin')",
    )


@dataclass(frozen=True, slots=True)
class _Shape:
    """A relation's name, and the ids of its columns if it is a table; of one that is not there neither."""

    name: Name | None
    columns: Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class _NeededColumns:
    name: Name
    columns: Mapping[str, int | None]
    itself: bool
    rows: bool

    def text(self) -> str:
        known = {"name": [self.name.schema, self.name.relation], "columns": dict(self.columns), "itself": self.itself, "rows": self.rows}
        return json.dumps(known)

    def fits(self, shape: _Shape) -> bool:
        """Whether the relation is as it is needed."""
        return self.name == shape.name and self.missing_column(shape) is None

    def missing_column(self, shape: _Shape) -> str | None:
        """The first column that is needed of a table and is not there, or is another."""
        if shape.columns is None:
            return None
        for name, column_id in self.columns.items():
            if (shape.columns.get(name) != column_id) if self.itself else (name not in shape.columns):
                return name
        return None

    @classmethod
    def read(cls, text: str) -> _NeededColumns:
        known = json.loads(text)
        schema, relation = known["name"]
        return cls(Name(schema=schema, relation=relation), known["columns"], itself=known["itself"], rows=known["rows"])


def _changed(connection: Connection, table_id: int, known: Name, view: Name) -> InvalidValue:
    return protected_table_error(_name_of(connection, _TABLES, table_id, None) or known, view)


def _read_shape(connection: Connection, relation_id: int, snapshot_id: int) -> _Shape:
    table = _name_of(connection, _TABLES, relation_id, snapshot_id)
    if table is None:
        return _Shape(_name_of(connection, _VIEWS, relation_id, snapshot_id), None)
    q = c.COLUMN.c
    live = sa.select(q.column_id, q.column_name).where(
        q.table_id == relation_id, c.is_visible_at(c.COLUMN, snapshot_id), q.parent_column.is_(None)
    )
    return _Shape(table, {row.column_name: row.column_id for row in connection.execute(live)})


def _broken(connection: Connection, relation_id: int, wanted: _NeededColumns, snapshot_id: int) -> str | None:
    """What is no more as it is needed, in the words of a message; None if all is."""
    shape = _read_shape(connection, relation_id, snapshot_id)
    if wanted.fits(shape):
        return None
    relation = f'{_kind(connection, relation_id)} "{wanted.name}"'
    column = wanted.missing_column(shape) if wanted.name == shape.name else None
    return relation if column is None else f'column "{column}" of {relation}'


def _find_follower(connection: Connection, wanted: _NeededColumns, snapshot_id: int) -> int | None:
    """The id of another relation that has the name and the columns now."""
    for rows, ids, names in (_TABLES, _VIEWS):
        query = (
            sa.select(ids)
            .join(c.SCHEMA, sa.and_(c.SCHEMA.c.schema_id == rows.c.schema_id, c.is_visible_at(c.SCHEMA, snapshot_id)))
            .where(c.is_visible_at(rows, snapshot_id), names == wanted.name.relation, c.SCHEMA.c.schema_name == wanted.name.schema)
        )
        found = connection.execute(query).scalar()
        if found is not None:
            return found if _broken(connection, found, wanted, snapshot_id) is None else None
    return None


def _name_of(connection: Connection, kind: _Kind, relation_id: int, snapshot_id: int | None) -> Name | None:
    """The name that a relation has at a snapshot, or had at first; None if it is not one of that kind."""
    rows, ids, names = kind
    query = sa.select(c.SCHEMA.c.schema_name, names.label("name")).where(ids == relation_id, c.SCHEMA.c.schema_id == rows.c.schema_id)
    if snapshot_id is not None:
        query = query.where(c.is_visible_at(rows, snapshot_id), c.is_visible_at(c.SCHEMA, snapshot_id))
    row = connection.execute(query.order_by(rows.c.begin_snapshot).limit(1)).first()
    return None if row is None else Name(schema=row.schema_name, relation=row.name)


def _kind(connection: Connection, relation_id: int) -> str:
    uuid = connection.execute(sa.select(c.TABLE.c.table_uuid).where(c.TABLE.c.table_id == relation_id).limit(1)).scalar()
    return "view" if uuid is None else read_declaration(connection, uuid).kind
