"""`Domain`: a set of values of one column, as a sorted union of intervals, and whether NULL is in it.

Values are compared as they are, not by their Python types: the numbers 1, 1.0 and 1.00 are equal, -0.0 is 0.0, and NaN equals itself and
is larger than every other number, as in Spark and in DuckDB, so that what is larger than infinity is NaN alone. Texts are compared by
their code points, which is the order of their bytes in UTF-8. Values of different families (numbers, texts, booleans, bytes, dates, times,
timestamps with and without a zone) are never equal.
They have an order too, so that no operation fails.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from heapq import merge
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Cut = tuple[Any, ...]
"""A place between values: the family and the value that it is next to, and 0 if it is before that value, 1 if it is after it."""

_START: Cut = (-1, 0, 0)
_END: Cut = (99, 0, 0)
_NUMBER, _NAN = 1, 2


def _place(value: Any) -> tuple[int, Any]:
    """A value's family, and the value as it compares within its family."""
    match value:
        case bool():
            return 0, value
        case int():
            return _NUMBER, value
        case float() | Decimal():
            # NaN is the one number that differs from itself.
            return (_NUMBER, value) if value == value else (_NAN, 0)  # noqa: PLR0124
        case str():
            return 3, value
        case bytes():
            return 4, value
        case datetime():
            return (5, value) if value.tzinfo is None else (6, value)
        case date():
            return 7, value
        case time():
            return (8, value) if value.tzinfo is None else (9, value)
    message = f"values of type {type(value).__name__} have no order"
    raise TypeError(message)


def _cut(value: Any, side: int) -> Cut:
    family, inner = _place(value)
    # Nothing is between infinity and NaN, so that both places are one.
    return (_NUMBER, float("inf"), 1) if (family, side) == (_NAN, 0) else (family, inner, side)


def has_order(value: Any) -> bool:
    """Whether a value can be in a domain.

    >>> has_order(1.5), has_order([1])
    (True, False)
    """
    return isinstance(value, (bool, int, float, Decimal, str, bytes, date, time))


def _value(cut: Cut) -> Any:
    return float("nan") if cut[0] == _NAN else cut[1]


class Interval(NamedTuple):
    """The values between two ends. An end that is None is infinite; an end that is closed is part of the interval."""

    low: Any
    high: Any
    low_closed: bool
    high_closed: bool

    @property
    def is_point(self) -> bool:
        """Whether it has one value."""
        return self.low is not None and self.low_closed and self.high_closed and _place(self.low) == _place(self.high)


@dataclass(frozen=True, slots=True)
class Domain:
    """A set of values: `cuts` are the ends of its intervals in ascending order, a begin and an end in turn; `null` is whether it has NULL.

    >>> small, some = below(10, closed=False), points([3, 10, 12])
    >>> str(small & some), str(small | some), str(~small)
    ('{3}', '(-inf, 10], {12}', '[10, inf), NULL')
    """

    cuts: tuple[Cut, ...]
    null: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it has no value, and not NULL."""
        return not self.cuts and not self.null

    @property
    def is_everything(self) -> bool:
        """Whether it has every value, and NULL."""
        return self.null and self.cuts == EVERYTHING.cuts

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """Its intervals in ascending order; two of them never touch."""
        return tuple(
            Interval(
                None if begin == _START else _value(begin),
                None if end == _END else _value(end),
                begin != _START and begin[2] == 0,
                end != _END and end[2] == 1,
            )
            for begin, end in self._pairs()
        )

    @property
    def values(self) -> tuple[Any, ...] | None:
        """Its values if it is a list of them, in ascending order and without NULL; None if it has an interval."""
        if any(begin[:2] != end[:2] for begin, end in self._pairs()):
            return None
        return tuple(_value(begin) for begin in self.cuts[::2])

    def _pairs(self) -> Iterator[tuple[Cut, Cut]]:
        return zip(self.cuts[::2], self.cuts[1::2], strict=True)

    def __and__(self, other: Domain) -> Domain:
        return Domain(_sweep(self.cuts, other.cuts, 2), self.null and other.null)

    def __or__(self, other: Domain) -> Domain:
        return Domain(_sweep(self.cuts, other.cuts, 1), self.null or other.null)

    def __invert__(self) -> Domain:
        """What is not in it; NULL is, where it is not in this domain."""
        begin = self.cuts[1:] if self.cuts[:1] == (_START,) else (_START, *self.cuts)
        return Domain(begin[:-1] if begin[-1:] == (_END,) else (*begin, _END), not self.null)

    def without_null(self) -> Domain:
        """The same without NULL."""
        return Domain(self.cuts) if self.null else self

    def contains(self, value: Any) -> bool:
        """Whether a value is in it; None is NULL."""
        if value is None:
            return self.null
        # The cuts up to the place right before the value: an odd number of them means that an interval has begun and not ended.
        return bisect_right(self.cuts, _cut(value, 0)) % 2 == 1

    def covers(self, other: Domain) -> bool:
        """Whether it has all that the other has."""
        return (self | other) == self

    def overlaps(self, low: Any = None, high: Any = None, *, has_null: bool = True, has_values: bool = True) -> bool:
        """Whether a column may have something of it, by the column's bounds and whether it has NULL; a bound that is None is not known."""
        if self.null and has_null:
            return True
        if not has_values:
            return False
        begin = _START if low is None else _cut(low, 0)
        end = _END if high is None else _cut(high, 1)
        return bool(_sweep(self.cuts, (begin, end), 2))

    def widened(self, count: int) -> Domain:
        """The same with at most so many intervals: of more of them, several that follow each other become the one round them."""
        size = -(-len(self.cuts) // 2 // count)
        if size <= 1:
            return self
        pairs = list(self._pairs())
        groups = [pairs[start : start + size] for start in range(0, len(pairs), size)]
        return Domain(tuple(cut for group in groups for cut in (group[0][0], group[-1][1])), self.null)

    def __str__(self) -> str:
        texts = [_text(interval) for interval in self.intervals]
        return ", ".join([*texts, *(["NULL"] if self.null else [])]) or "nothing"


def _text(interval: Interval) -> str:
    if interval.is_point:
        return f"{{{interval.low}}}"
    low = "-inf" if interval.low is None else str(interval.low)
    high = "inf" if interval.high is None else str(interval.high)
    return f"{'[' if interval.low_closed else '('}{low}, {high}{']' if interval.high_closed else ')'}"


def _sweep(one: tuple[Cut, ...], other: tuple[Cut, ...], depth: int) -> tuple[Cut, ...]:
    """The places where the number of sets that one is within reaches `depth` or leaves it."""
    cuts: list[Cut] = []
    begins = merge(((cut, 1) for cut in one[::2]), ((cut, 1) for cut in other[::2]))
    ends = merge(((cut, -1) for cut in one[1::2]), ((cut, -1) for cut in other[1::2]))
    inside = 0
    # Where one interval ends and the next begins at the same place, the begin is counted first, so that they become one.
    for cut, step in merge(begins, ends, key=lambda item: (item[0], -item[1])):
        before, inside = inside >= depth, inside + step
        if before == (inside >= depth):
            continue
        if cuts and cuts[-1] == cut:
            cuts.pop()
        else:
            cuts.append(cut)
    return tuple(cuts)


EVERYTHING = Domain((_START, _END), null=True)
"""Every value, and NULL."""
NOT_NULL = Domain((_START, _END))
"""Every value."""
ONLY_NULL = Domain((), null=True)
"""NULL."""
NOTHING = Domain(())
"""No value, and not NULL."""


def points(values: Iterable[Any], *, null: bool = False) -> Domain:
    """The domain of some values; None among them is NULL."""
    values = list(values)
    begins = {_cut(value, 0): _cut(value, 1) for value in values if value is not None}
    cuts: list[Cut] = []
    for begin in sorted(begins):
        if cuts and cuts[-1] == begin:
            cuts.pop()
        else:
            cuts.append(begin)
        cuts.append(begins[begin])
    return Domain(tuple(cuts), null or None in values)


def join_intervals(intervals: Iterable[Interval], *, null: bool = False) -> Domain:
    """The domain of intervals in ascending order, none of which touches the next; those without a value are left out."""
    cuts: list[Cut] = []
    for interval in intervals:
        begin = _START if interval.low is None else _cut(interval.low, int(not interval.low_closed))
        end = _END if interval.high is None else _cut(interval.high, int(interval.high_closed))
        if begin < end:
            cuts += (begin, end)
    return Domain(tuple(cuts), null)


def below(value: Any, *, closed: bool) -> Domain:
    """The values below one, and that one too if `closed`."""
    return Domain((_START, _cut(value, int(closed))))


def above(value: Any, *, closed: bool) -> Domain:
    """The values above one, and that one too if `closed`."""
    return Domain((_cut(value, int(not closed)), _END))


def between(low: Any, high: Any) -> Domain:
    """The values from one to another, both included."""
    return above(low, closed=True) & below(high, closed=True)


def union(domains: Iterable[Domain]) -> Domain:
    """What is in any of them."""
    result = NOTHING
    for domain in domains:
        result = result | domain
    return result
