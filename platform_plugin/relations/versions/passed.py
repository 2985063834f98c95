"""`read_passed`: the version of a relation that passed its gate last, for AT (GATE => 'passed')."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.tables import read_tables
from platform_plugin.lake.commit.passes import read_pass
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.reading import read_table

if TYPE_CHECKING:
    from platform_plugin.lake.catalogue.tables import Name, Snapshot
    from platform_plugin.relations.reading import ReadContext, ReadRequest, RelationRows


def read_passed(reading: ReadContext, name: Name, snapshot: Snapshot, need: ReadRequest) -> RelationRows:
    """The rows for AT (GATE => 'passed'); refused if no version has passed, since any other rows may be ones that have not."""
    lake = reading.work.lake
    with lake.reading() as connection:
        relation = lake.find_relation(connection, name, snapshot)
        found = read_pass(connection, relation.name, snapshot)
    if found is None:
        kind = find_kind(lake, relation, snapshot).name
        if kind == "stream":
            raise InvalidValue(
                f'stream "{relation.name}" has no versions that pass a gate: each batch of rows passes by itself',
                hint="leave out AT (GATE => 'passed'), or ask a table or a continuous view that is made from the stream and has a gate",
            )
        raise InvalidValue(
            f'no version of {kind} "{relation.name}" has passed a gate',
            hint="give it a suite with `gate: true` and run Dagster, or add `--gate` to the command that builds the table or maintains the"
            " continuous view",
        )
    at = lake.snapshot(found.readable_at)
    with lake.reading() as connection:
        (table,) = read_tables(connection, at.id, uuids=[found.table_uuid])
    return read_table(reading, table, at, need)
