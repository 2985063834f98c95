"""Poison: relations that fail on the same changes again and again are tried at growing intervals, so that they do not hold up others."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from platform_plugin.cache import Cache
from platform_plugin.errors import PlatformError, QueryFailed
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.commit.gates import GateRefusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.follow.maintained import Maintained

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 600.0

FailureKey = tuple[UUID, UUID, tuple[tuple[str, int], ...]]
"""A lake, what failed, and where it stood in its inputs: the number of changes that wait grows, their first one stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    error: PlatformError
    times: int
    again_at: float


# What is forgotten is tried again at once.
_FAILURES: Cache[FailureKey, _Failure] = Cache("relations that failed", weigh=lambda _: 10_000)


def find_poisoned(lake: Lake, pending: Iterable[Maintained]) -> dict[str, PlatformError]:
    """The errors of relations that failed on the same changes a short time ago.

    One that a gate refused is tried at once if it has no gate any more.
    """
    now = time.monotonic()
    failures = {each.name: known for each in pending if (known := _FAILURES.get(_key(lake, each))) is not None and known.again_at > now}
    return {name: known.error for name, known in failures.items() if not _is_lifted(lake, name, known.error)}


def _is_lifted(lake: Lake, name: str, error: PlatformError) -> bool:
    schema, _, relation = name.partition(".")
    return isinstance(error, GateRefusal) and lake.gates.find(Name.of((schema, relation))) is None


def note_failure(lake: Lake, pending: Maintained, error: PlatformError, locate: Callable[[PlatformError], PlatformError]) -> PlatformError:
    """Remember that a relation failed; `locate` adds the rows for which it does, and is called at the first failure only."""
    key = _key(lake, pending)
    known = _FAILURES.get(key)
    if known is None:
        error = locate(error)
    elif isinstance(error, QueryFailed):
        error = known.error
    times = 1 if known is None else known.times + 1
    pause = min(FIRST_PAUSE_SECONDS * 2 ** min(times - 1, 20), LONGEST_PAUSE_SECONDS)
    _FAILURES.put(key, _Failure(error=error, times=times, again_at=time.monotonic() + pause))
    return error


def _key(lake: Lake, pending: Maintained) -> FailureKey:
    return lake.uuid, pending.uuid, tuple(sorted((waiting.relation, waiting.first) for waiting in pending.inputs))
