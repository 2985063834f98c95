"""`read_changes` and `find_outdated`: the tables that snapshots changed, and the stored results that this outdates."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.lake.catalogue.snapshots import read_notes
from platform_plugin.lake.catalogue.tables import read_identities
from platform_plugin.lake.commit.dependents import read_dependents
from platform_plugin.lake.ring.arrivals import read_ends
from platform_plugin.relations.views.follow.strategy import BATCH, keeps_result, strategy_of
from platform_plugin.relations.views.record import read_results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.catalogue import AnyRow
    from platform_plugin.lake.catalogue.tables import View
    from platform_plugin.relations.views.record import ViewRecord

_OTHER_ROWS = ("inserted", "deleted", "altered", "inlined")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """The first and the last snapshot of a range that changed a table, and the time of the first."""

    first: int
    last: int
    at: datetime


def read_changes(connection: Connection, *, after: int, until: int) -> dict[int, TableChange]:
    """The tables that snapshots changed, by their ids in the catalogue."""
    found: dict[int, TableChange] = {}
    for number, made, time in read_notes(connection, after=after, until=until):
        # An entry is `verb:id`; one that makes something names it instead.
        for word in (made or "").split(","):
            verb, _, told = word.partition(":")
            if told.isdigit() and verb.startswith(_OTHER_ROWS):
                first = found.get(int(told), TableChange(first=number, last=number, at=time))
                found[int(told)] = TableChange(first=first.first, last=number, at=first.at)
    return found


def find_outdated(
    connection: Connection, views: Mapping[UUID, View], records: Mapping[UUID, ViewRecord], until: int, uses: Sequence[AnyRow]
) -> dict[UUID, TableChange]:
    """The views whose stored result is older than a change of a table that they look up, each with the oldest such change."""
    of = read_results(connection, until, uses)
    kept = {view.id: uuid for uuid, view in views.items() if str(uuid) in of and uuid in records and _is_kept(records[uuid])}
    if not kept:
        return {}
    read: defaultdict[UUID, set[int]] = defaultdict(set)
    for relation, dependent in read_dependents(connection):
        if dependent in kept:
            read[kept[dependent]].add(relation)
    # What arrives in a stream is told by its ring.
    streams = read_ends(connection)
    ids = {number for number, uuid in read_identities(connection).items() if str(uuid) in streams}
    changes = read_changes(connection, after=min(of[str(uuid)] for uuid in kept.values()), until=until)
    found = {}
    for uuid, relations in read.items():
        later = [changes[each] for each in relations - ids if each in changes and changes[each].last > of[str(uuid)]]
        if later:
            found[uuid] = min(later, key=lambda change: change.at)
    return found


def _is_kept(record: ViewRecord) -> bool:
    """Whether a run that consumes no rows would store the result again."""
    return keeps_result(record) and strategy_of(record) != BATCH
