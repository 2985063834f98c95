"""`Cache`: what a process keeps in memory for later use; all caches share one budget in bytes.

A module that keeps something names a `Cache` and says how many bytes a value takes. The entries of all caches share the budget: when it is
spent, entries that were not used since the last round go first, whichever cache they are of. Keys name what never changes: a lake, and a
snapshot, a schema version or files; so nothing is ever wrong here, only no longer needed.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

BUDGET_VARIABLE = "PLATFORM_CACHE_BYTES"
DEFAULT_BYTES = 768 << 20
# What an entry takes beside its value: the key, and its places in two dictionaries. Measured with keys of three parts.
ENTRY_BYTES = 600
# One value may not drive out all others.
_LARGEST_SHARE = 2

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFigures:
    """The size of a cache, and its hits and misses since the process began."""

    name: str
    entries: int
    bytes: int
    hits: int
    misses: int


class _Entry:
    __slots__ = ("bytes", "is_used", "owner", "value")

    def __init__(self, owner: Cache[Any, Any], value: Any, count: int) -> None:
        self.owner = owner
        self.value = value
        self.bytes = count
        self.is_used = False


class Budget:
    """The bytes that all caches of a process may take together.

    Entries leave in the order in which they came, but one that was used since it was last looked at is passed over once. So a hit costs no
    lock and moves nothing.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._entries: OrderedDict[tuple[int, Any], _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, owner: Cache[K, V], key: K, value: V, count: int) -> None:
        """Add an entry, and drop others until all fit; a value larger than the budget is not stored."""
        with self._lock:
            self._remove((id(owner), key))
            if count * _LARGEST_SHARE <= self.limit:
                self._entries[id(owner), key] = owner.entries[key] = _Entry(owner, value, count)
                self.bytes += count
                self._evict()

    def set_limit(self, limit: int) -> None:
        """Change the budget; entries that no longer fit are dropped at once."""
        with self._lock:
            self.limit = limit
            self._evict()

    def clear(self, owner: Cache[Any, Any]) -> None:
        """Drop all entries of a cache."""
        with self._lock:
            for key in list(owner.entries):
                self._remove((id(owner), key))

    def sum_bytes(self, owner: Cache[Any, Any]) -> int:
        """The bytes that the entries of a cache take."""
        with self._lock:
            return sum(entry.bytes for entry in owner.entries.values())

    def reset_lock(self) -> None:
        """Make a new lock in a forked child, where the thread that held the old one does not exist."""
        self._lock = threading.Lock()

    def _evict(self) -> None:
        while self.bytes > self.limit:
            place, oldest = next(iter(self._entries.items()))
            if oldest.is_used:
                oldest.is_used = False
                self._entries.move_to_end(place)
            else:
                self._remove(place)

    def _remove(self, place: tuple[int, Any]) -> None:
        entry = self._entries.pop(place, None)
        if entry is not None:
            self.bytes -= entry.bytes
            del entry.owner.entries[place[1]]


class Cache(Generic[K, V]):
    """Values of one kind by their keys. `weigh` gives the bytes of a value without its key; it is called once for each value.

    >>> squares = Cache("squares of a docstring")
    >>> squares.find(7, lambda: 49), squares.find(7, lambda: 0), squares.get(8)
    (49, 49, None)
    """

    def __init__(self, name: str, *, weigh: Callable[[V], int] = lambda _: 0, budget: Budget | None = None) -> None:
        self.name = name
        self.entries: dict[K, _Entry] = {}
        self._budget = BUDGET if budget is None else budget
        self._weigh = weigh
        self._hits = self._misses = 0
        if budget is None:
            _CACHES.append(self)

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        entry = self.entries.get(key)
        if entry is None:
            self._misses += 1
            return None
        entry.is_used = True
        self._hits += 1
        return entry.value  # type: ignore[no-any-return]

    def has(self, key: K) -> bool:
        """Whether there is a value for a key, even None."""
        entry = self.entries.get(key)
        if entry is not None:
            entry.is_used = True
        return entry is not None

    def put(self, key: K, value: V) -> V:
        """Store the value of a key in place of an earlier one, and return it."""
        self._budget.put(self, key, value, ENTRY_BYTES + self._weigh(value))
        return value

    def find(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made when there is none. Two threads may make it at once; an error is not stored."""
        entry = self.entries.get(key)
        if entry is None:
            self._misses += 1
            return self.put(key, make())
        entry.is_used = True
        self._hits += 1
        return entry.value  # type: ignore[no-any-return]

    def clear(self) -> None:
        """Drop all values."""
        self._budget.clear(self)

    def figures(self) -> CacheFigures:
        """The present figures of the cache."""
        return CacheFigures(
            name=self.name, entries=len(self.entries), bytes=self._budget.sum_bytes(self), hits=self._hits, misses=self._misses
        )


def read_limit(text: str | None) -> int:
    """The budget in bytes for the text of an environment variable: a number, perhaps with K, M or G behind it.

    >>> read_limit("64M"), read_limit(None) == DEFAULT_BYTES
    (67108864, True)
    """
    from platform_plugin.errors import InvalidValue

    if not text:
        return DEFAULT_BYTES
    digits, factor = text.strip(), 1
    if digits[-1:].upper() in {"K", "M", "G"}:
        digits, factor = digits[:-1].strip(), 1 << (10 * ("KMG".index(digits[-1].upper()) + 1))
    if not digits.isdigit():
        raise InvalidValue(
            f'{BUDGET_VARIABLE} is "{text}", which is no number of bytes', hint="write 512M, 2G or a number; 0 keeps nothing"
        )
    return int(digits) * factor


def set_budget(environment: Mapping[str, str] = os.environ) -> None:
    """Set the budget of this process's caches from the environment."""
    limit = read_limit(environment.get(BUDGET_VARIABLE))
    if limit != BUDGET.limit:
        BUDGET.set_limit(limit)


def list_figures() -> list[CacheFigures]:
    """The figures of all caches of this process, the largest first."""
    return sorted((cache.figures() for cache in _CACHES), key=lambda figures: (-figures.bytes, figures.name))


_CACHES: list[Cache[Any, Any]] = []
BUDGET = Budget(DEFAULT_BYTES)
os.register_at_fork(after_in_child=BUDGET.reset_lock)
