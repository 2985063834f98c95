"""`note_stall` and `read_stalls`: the catalogue's notes of relations that a gate or an error stalls at present."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

import sqlalchemy as sa

from platform_plugin.errors import UnknownObject
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.forgotten import is_forgotten
from platform_plugin.lake.values.stall import Cause, Stall

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.engine import Connection

    from platform_plugin.errors import PlatformError
    from platform_plugin.lake.catalogue.forgotten import Folding
    from platform_plugin.lake.catalogue.tables import Name, Table, View
    from platform_plugin.lake.lake import Lake

# By name, since what a gate holds back may be a relation that is not there yet; by identity too, since another one may take the name.
STALL = sa.Table(
    "platform_stall",
    c.metadata,
    sa.Column("schema_name", sa.String, primary_key=True),
    sa.Column("relation_name", sa.String, primary_key=True),
    sa.Column("cause", sa.String, primary_key=True),
    sa.Column("relation_uuid", sa.String),
    sa.Column("since", c.UtcTimestamp, nullable=False),
    sa.Column("tried_at", c.UtcTimestamp, nullable=False),
    sa.Column("reason", sa.String, nullable=False),
    sa.Column("hint", sa.String),
    sa.Column("suite", sa.String),
    sa.Column("row_count", sa.BigInteger),
)
STALL_TABLES = (STALL,)
_MOST_CHARACTERS = 2_000
# What a service tries each second need not be written each time.
_SAME_FOR = timedelta(minutes=1)


def note_stall(
    lake: Lake, name: Name, *, cause: Cause, error: PlatformError, suite: str | None = None, row_count: int | None = None
) -> None:
    """Note in the catalogue that an error stalls a relation, or still does."""
    reason = error.message if error.detail is None else f"{error.message}: {error.detail}"
    now = datetime.now(UTC)
    values = {"reason": reason[:_MOST_CHARACTERS], "hint": error.hint, "suite": suite, "row_count": row_count}
    lake.prepare_tables(STALL_TABLES)
    with lake.reading() as connection:
        uuid = _find_uuid(lake, connection, name)
        old = connection.execute(sa.select(STALL).where(_own(name, cause))).first()
    if old is not None and old.relation_uuid != uuid:
        old = None
    if old is not None and (old.reason, old.row_count) == (values["reason"], row_count) and now - old.tried_at < _SAME_FOR:
        return
    key = {"schema_name": name.schema.lower(), "relation_name": name.relation.lower(), "cause": cause}
    with lake.writing() as connection:
        connection.execute(sa.delete(STALL).where(_own(name, cause)))
        since = now if old is None else old.since
        connection.execute(sa.insert(STALL).values(**key, **values, relation_uuid=uuid, since=since, tried_at=now))


def read_stalled_names(lake: Lake, cause: Cause) -> set[tuple[str, str]]:
    """The schema and the name, in lower case, of each relation that a cause stalls."""
    with lake.reading() as connection:
        if not sa.inspect(connection).has_table(STALL.name):
            return set()
        rows = connection.execute(sa.select(STALL.c.schema_name, STALL.c.relation_name).where(STALL.c.cause == cause)).all()
    return {(row.schema_name, row.relation_name) for row in rows}


def end_stalls(lake: Lake, names: Collection[Name], *, cause: Cause) -> None:
    """Note that relations are no longer stalled; one query if none was."""
    noted = read_stalled_names(lake, cause)
    ended = [name for name in names if (name.schema.lower(), name.relation.lower()) in noted]
    if ended:
        with lake.writing() as connection:
            delete_stalls(connection, ended, cause=cause)


def delete_stalls(connection: Connection, names: Collection[Name], *, cause: Cause) -> None:
    """Delete the notes of relations, in the caller's transaction."""
    for name in names:
        connection.execute(sa.delete(STALL).where(_own(name, cause)))


def read_gate_stalls(lake: Lake, names: Collection[Name]) -> list[Stall]:
    """The stalls by gates of relations, by name: also of one that is not there yet. One query if nothing is stalled."""
    noted = read_stalled_names(lake, "gate")
    found = []
    for name in names:
        if (name.schema.lower(), name.relation.lower()) in noted:
            with lake.reading() as connection:
                row = connection.execute(sa.select(STALL).where(_own(name, "gate"))).first()
                if row is not None and row.relation_uuid == _find_uuid(lake, connection, name):
                    found.append(_stall(row, name))
    return found


def read_stalls(connection: Connection, relation: Table | View) -> list[Stall]:
    """The stalls of a relation."""
    if not sa.inspect(connection).has_table(STALL.name):
        return []
    rows = connection.execute(sa.select(STALL).where(STALL.c.relation_uuid == str(relation.uuid)).order_by(STALL.c.cause)).all()
    return [_stall(row, relation.name) for row in rows]


def _stall(row: c.AnyRow, name: Name) -> Stall:
    return Stall(
        schema=name.schema,
        name=name.relation,
        cause=cast("Cause", row.cause),
        since=row.since,
        tried_at=row.tried_at,
        reason=row.reason,
        hint=row.hint,
        suite=row.suite,
        row_count=row.row_count,
    )


def _find_uuid(lake: Lake, connection: Connection, name: Name) -> str | None:
    try:
        return str(lake.find_relation(connection, name, lake.snapshot()).uuid)
    except UnknownObject:
        return None


def _own(name: Name, cause: Cause) -> sa.ColumnElement[bool]:
    s = STALL.c
    return sa.and_(s.schema_name == name.schema.lower(), s.relation_name == name.relation.lower(), s.cause == cause)


def fold_stalls(rows: Folding) -> int:
    """Delete the stalls of relations that no kept snapshot has; those of relations that are not there yet stay."""
    return rows.delete(STALL, STALL.c.relation_uuid.is_not(None), is_forgotten(STALL.c.relation_uuid))
