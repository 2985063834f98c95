"""`plan_compaction`: which files of a store become one, so that reads stay cheap and each added row is written at most four times more.

Each row that is added brings four credits, and each row that is written costs one. Deltas are merged to runs, runs to larger ones, and
these with the base once they are enough to pay for it. Credits are left where rows of the same groups were merged; by these the largest
runs are merged with each other. A large store is divided by the first bits of addresses, and a merge with the base takes one part. So what
a run of maintenance writes does not grow with the store.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from platform_plugin.state.stored_file import CREDITS, LAST_RUN, FilePlace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.state.stored_file import StoredFile

# From so many additions on they are looked at.
_LEAST = 8
# Parts of the base have so many bytes and up to twice as many; of additions that are divided at once the files have the latter.
_PART_BYTES = 16 << 20
_LARGE_BYTES = 2 * _PART_BYTES
_DEEPEST = 6
# Rows without keys are put together in files of at least this, once there are so many smaller ones.
_SMALL_FILE, _TOO_MANY = 16 << 20, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Files to merge, the place of the merged rows, and by how many bits of addresses these are divided into files."""

    files: tuple[StoredFile, ...]
    place: FilePlace
    depth: int = 0

    def place_of(self, prefix: str, rows: int, whole: int) -> FilePlace:
        """The place of a file with `rows` of the `whole` number of merged rows, and its share of the credits that are left."""
        if self.place.is_base:
            return replace(self.place, prefix=prefix)
        left = sum(file.credit for file in self.files) - whole
        return replace(self.place, prefix=prefix, credit=left * rows // max(1, whole))


def plan_compaction(files: Sequence[StoredFile], *, is_divisible: bool) -> Compaction | None:
    """The next merge of a store's files, if one is due."""
    base, added = _split(files)
    depth = _depth(sum(file.bytes for file in files)) if is_divisible else 0
    fan = _fan(base, added)
    return _plan_divided(base, added, fan, depth) if depth else _plan_whole(base, added, fan)


def is_compact(count: int, size: int) -> bool:
    """Whether no merge can be due for so many files of so many bytes."""
    return count < _LEAST and size < _LARGE_BYTES


def plan_gathering(files: Sequence[StoredFile]) -> Compaction | None:
    """The small files of rows without keys that become one, if they are too many."""
    small = tuple(file for file in files if file.bytes < _SMALL_FILE)
    return Compaction(files=small, place=FilePlace(run=1)) if len(small) >= _TOO_MANY else None


def _split(files: Sequence[StoredFile]) -> tuple[list[StoredFile], list[StoredFile]]:
    """The base and the additions; where no file says that it is of the base, the largest of those that say nothing is."""
    base = [file for file in files if file.place.is_base]
    unnamed = [file for file in files if not file.is_named]
    if not base and unnamed:
        base = [max(unnamed, key=lambda file: file.rows)]
    return base, [file for file in files if file not in base]


def _depth(size: int) -> int:
    """The number of bits that divide a store of so many bytes."""
    return min(_DEEPEST, max(0, int(math.log2(max(size, 1) / _PART_BYTES))))


def _fan(base: Sequence[StoredFile], added: Sequence[StoredFile]) -> int:
    """So many files become one, at least eight: few enough that with two generations of runs all additions weigh as much as the base."""
    deltas = [file.rows for file in added if not file.place.run] or [file.rows for file in added]
    typical = max(1.0, sum(deltas) / max(1, len(deltas)))
    return max(_LEAST, math.ceil(math.cbrt(sum(file.rows for file in base) / typical)))


def _is_paid(base: Sequence[StoredFile], added: Sequence[StoredFile]) -> bool:
    """Whether additions pay for writing them and the base, which one credit fewer for each generation of their run must do."""
    rows = sum(file.rows for file in added)
    return sum(file.rows * (CREDITS - file.place.run) for file in added) >= rows + sum(file.rows for file in base)


def _plan_whole(base: Sequence[StoredFile], added: Sequence[StoredFile], fan: int) -> Compaction | None:
    if len(added) < _LEAST:
        return None
    if _is_paid(base, added):
        return Compaction(files=(*base, *added), place=FilePlace(is_base=True))
    return _plan_again(added, fan, "") or _plan_run(added, fan)


def _plan_run(added: Sequence[StoredFile], fan: int) -> Compaction | None:
    """A merge of enough runs of one generation, or deltas, with those of earlier ones."""
    for run in reversed(range(LAST_RUN)):
        if sum(file.place.run == run for file in added) >= fan:
            return Compaction(files=tuple(file for file in added if file.place.run <= run), place=FilePlace(run=run + 1))
    return None


def _plan_again(added: Sequence[StoredFile], fan: int, prefix: str) -> Compaction | None:
    """A merge of the largest runs with each other, if they can still pay for the base after it, as with many rows of the same groups."""
    runs = tuple(file for file in added if file.place.run == LAST_RUN)
    rows = sum(file.rows for file in runs)
    if len(runs) < fan or sum(file.credit for file in runs) < rows * (1 + CREDITS - LAST_RUN):
        return None
    return Compaction(files=runs, place=FilePlace(run=LAST_RUN, prefix=prefix))


def _plan_divided(base: Sequence[StoredFile], added: Sequence[StoredFile], fan: int, depth: int) -> Compaction | None:
    undivided = [file for file in added if not file.place.prefix and file.place.run < LAST_RUN]
    part = _plan_part(base, [file for file in added if file not in undivided], fan, depth)
    if part is not None:
        return part
    size = sum(file.bytes for file in undivided)
    if size < _LARGE_BYTES and sum(not file.place.run for file in undivided) < fan:
        return None
    if size < _PART_BYTES and sum(file.place.run == 1 for file in undivided) + 1 < fan:
        return _plan_run([file for file in undivided if not file.place.run], fan)
    taken = _take_bytes(undivided, _LARGE_BYTES)
    return Compaction(files=taken, place=FilePlace(run=1 + max(file.place.run for file in taken)), depth=depth)


def _plan_part(base: Sequence[StoredFile], divided: Sequence[StoredFile], fan: int, depth: int) -> Compaction | None:
    """The merge of the part of the base that has most additions, among those whose additions pay for it."""
    prefixes = {file.place.prefix for file in (*base, *divided)}
    best: tuple[float, Compaction] | None = None
    for root in sorted(prefixes):
        if any(root != other and root.startswith(other) for other in prefixes):
            continue
        below = [file for file in base if file.place.prefix.startswith(root)]
        above = [file for file in divided if file.place.prefix.startswith(root)]
        weight = sum(file.rows for file in above) / max(1, sum(file.rows for file in below))
        if not above or (best is not None and weight <= best[0]):
            continue
        if _is_paid(below, above):
            best = weight, Compaction(files=(*below, *above), place=FilePlace(is_base=True, prefix=root), depth=depth)
        elif again := _plan_again(above, fan, root):
            best = weight, again
    return None if best is None else best[1]


def _take_bytes(files: Sequence[StoredFile], size: int) -> tuple[StoredFile, ...]:
    """The oldest files up to so many bytes, at least one."""
    taken: list[StoredFile] = []
    for file in sorted(files, key=lambda file: file.id):
        if taken and sum(other.bytes for other in taken) + file.bytes > size:
            break
        taken.append(file)
    return tuple(taken)
