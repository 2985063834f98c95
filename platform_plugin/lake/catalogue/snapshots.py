"""Queries about snapshots: their times, the oldest one, and the changes and notes of their commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import split_chunks

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from sqlalchemy.engine import Connection


def oldest_snapshot() -> sa.ScalarSelect[int]:
    """The id of the oldest snapshot that has not expired, as part of a query."""
    return sa.select(sa.func.min(c.SNAPSHOT.c.snapshot_id)).scalar_subquery()


def snapshot_times() -> sa.Subquery:
    """Ids and times of snapshots, to be joined with other rows."""
    return sa.select(c.SNAPSHOT.c.snapshot_id, c.SNAPSHOT.c.snapshot_time).subquery()


def list_snapshots(connection: Connection, *, after: int, until: int) -> list[int]:
    """The kept snapshots after one, up to and including another."""
    s = c.SNAPSHOT.c
    query = sa.select(s.snapshot_id).where(s.snapshot_id > after, s.snapshot_id <= until)
    return list(connection.execute(query.order_by(s.snapshot_id)).scalars())


def read_times(connection: Connection, ids: Collection[int]) -> dict[int, datetime]:
    """The times of some snapshots, without those that have expired."""
    s = c.SNAPSHOT.c
    query = sa.select(s.snapshot_id, s.snapshot_time)
    return {row[0]: row[1] for part in split_chunks(list(ids)) for row in connection.execute(query.where(s.snapshot_id.in_(part)))}


def read_notes(connection: Connection, *, after: int, until: int) -> Sequence[c.AnyRow]:
    """The id, the list of changes and the time of each snapshot in a range, oldest first."""
    x, s = c.SNAPSHOT_CHANGES.c, c.SNAPSHOT.c
    query = sa.select(x.snapshot_id, x.changes_made, s.snapshot_time).join(c.SNAPSHOT, s.snapshot_id == x.snapshot_id)
    return connection.execute(query.where(x.snapshot_id > after, x.snapshot_id <= until).order_by(x.snapshot_id)).all()


def read_last_note(connection: Connection, table_id: int) -> int | None:
    """The newest snapshot whose list of changes names a table."""
    changes = c.SNAPSHOT_CHANGES.c
    # An entry is `verb:id`, and entries are separated by commas; a comma at the end makes the last one like the others.
    mentions = (changes.changes_made + ",").like(f"%:{table_id},%")
    return connection.execute(sa.select(sa.func.max(changes.snapshot_id)).where(mentions)).scalar()


def find_marked(connection: Connection, mark: str, *, after: int) -> int | None:
    """The snapshot whose commit has this mark among its notes, or None."""
    changes = c.SNAPSHOT_CHANGES.c
    query = sa.select(changes.snapshot_id).where(changes.snapshot_id > after, changes.commit_extra_info.contains(mark, autoescape=True))
    return connection.execute(query).scalar()
