"""`store_of`: the store that holds a part of a continuous view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.state.store import Store

if TYPE_CHECKING:
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.operators.group.parts import State


def store_of(state: State, table: Table) -> Store:
    """The store of a state. Nothing finds its rows by key, so that they are written as they come."""
    return Store(table=table, keys=tuple(key.name for key in state.keys), merge=state.merge)


def rows_store(table: Table) -> Store:
    """The store of the rows that a deferred view keeps of a stream."""
    return Store(table=table, keys=(), merge=None)
