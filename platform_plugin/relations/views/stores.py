"""`store_of`: the store that holds a part of a continuous view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.algebra.types.data_types import Struct
from platform_plugin.state.store import Store

if TYPE_CHECKING:
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.operators.group.parts import State


def store_of(state: State, table: Table) -> Store:
    """The store of a state. Nothing finds its rows by key, so that they are written as they come.

    The merge of a state with sessions joins rows of different keys, those of sessions that meet, and so is given all rows at once.
    """
    keys = () if any(isinstance(key.type, Struct) for key in state.keys) else tuple(key.name for key in state.keys)
    return Store(table=table, keys=keys, merge=state.merge)


def rows_store(table: Table) -> Store:
    """The store of the rows that a deferred view keeps of a stream."""
    return Store(table=table, keys=(), merge=None)
