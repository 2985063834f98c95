"""Row partitions: the partition keys of a table that is built from a stream so many rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def plan_keys(size: int, *, known: int, rows: int) -> list[str]:
    """The keys for so many rows, without the `known` first ones; the last range may be partial.

    >>> plan_keys(100, known=1, rows=250)
    ['100-199', '200-299']
    """
    return [f"{number * size}-{number * size + size - 1}" for number in range(known, -(-rows // size))]


def plan_spans(keys: Iterable[str]) -> list[tuple[int, int]]:
    """The rows of some keys, from a first row up to but not including a second; adjacent ranges are joined.

    >>> plan_spans(["200-299", "0-99", "100-199", "500-599"])
    [(0, 300), (500, 600)]
    """
    spans: list[tuple[int, int]] = []
    for first, last in sorted((int(first), int(last) + 1) for first, _, last in (key.partition("-") for key in keys)):
        if spans and spans[-1][1] == first:
            spans[-1] = (spans[-1][0], last)
        else:
            spans.append((first, last))
    return spans
