"""`FOLDS`: the functions by which owners of `platform_*` tables fold their rows when snapshots expire.

What is kept for each snapshot, or of each relation that ever was, grows with commits times relations, unless it goes with the snapshots
that it is kept for. An expiry calls each function in its own transaction, when the snapshots and the relations that only they had are gone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.forgotten import Folding

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection

FOLDS: tuple[str, ...] = (
    "lake.catalogue.relations:fold_declarations",
    "lake.catalogue.stalls:fold_stalls",
    "lake.commit.dependents:fold_dependents",
    "lake.commit.passes:fold_passes",
    "lake.ring.folding:fold_rings",
    "lake.ring.folding:fold_segments",
    "lake.ring.ends:fold_ends",
    "lake.cursors.move:fold_cursors",
    "lake.cursors.move:fold_lost_cursors",
    "state.node:fold_nodes",
    "state.node:fold_lost_nodes",
    "relations.batches:fold_batches",
    "relations.streams.feeds.folding:fold_feeds",
    "relations.views.folding:fold_views",
    "relations.samples.folding:fold_samples",
)
"""The "module:function" of each: called with the `Folding`, it returns how many rows it deleted."""


def fold_rows(connection: Connection) -> int:
    """Let each owner fold its rows, in the caller's transaction; returns how many rows went."""
    oldest = int(connection.execute(sa.select(sa.func.min(c.SNAPSHOT.c.snapshot_id))).scalar_one())
    rows = Folding.at(connection, oldest)
    return sum(_load(path)(rows) for path in FOLDS)


def _load(path: str) -> Callable[[Folding], int]:
    module, _, name = path.partition(":")
    return cast("Callable[[Folding], int]", getattr(import_module(f"platform_plugin.{module}"), name))
