"""`MIGRATIONS`: the numbered steps that bring the `platform_*` tables of an older lake to the form that this version writes.

The number of the last one is the lake's version, which the row `version` of `platform_lake` holds. A step is never changed once a version
of the package has it, and names tables in the shape that they had then: it keeps copies of their columns beside itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step from a version of the catalogue to the next."""

    number: int
    """The version that the lake has after it."""
    subject: str
    """What it changes, for messages and the documentation."""
    run: str
    """The "module:function" that does it in the caller's transaction: called with the connection, loaded when used."""

    def apply(self, connection: Connection) -> None:
        """Do the step in the caller's transaction."""
        module, _, name = self.run.partition(":")
        cast("Callable[[Connection], None]", getattr(import_module(f"platform_plugin.{module}"), name))(connection)


MIGRATIONS: tuple[Migration, ...] = (
    Migration(number=1, subject="indexes by which expiry finds ended files", run="lake.migrations.expiry_indexes:add_indexes"),
    Migration(number=2, subject="cursors and nodes in place of eight tables", run="lake.migrations.cursors:move_cursors_and_nodes"),
    Migration(number=3, subject="tables of picks for all samples", run="lake.migrations.picks:add_pick_tables"),
    Migration(number=4, subject="logs of arrivals", run="lake.migrations.arrival_logs:add_arrival_logs"),
)
NEWEST = MIGRATIONS[-1].number
"""The version of lakes that this version of the package creates, and the newest one that it reads."""
