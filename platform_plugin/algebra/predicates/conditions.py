"""`Condition`: the rows that a condition lets through, as a union of boxes, each of which gives a domain for each of some columns.

A row passes where the condition is true; false and NULL are the same to it. A condition that is not exact describes more rows than pass:
the rows outside of the description certainly don't, and each row inside must still be tested. So a description never loses a row, and
only the complement of an exact one means anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from platform_plugin.algebra.predicates import ranges
from platform_plugin.algebra.predicates.ranges import EVERYTHING, NOTHING, Domain, points, union

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_BOXES = 32
"""A condition of more boxes than this becomes one box round them all: each further box makes every operation and every test longer."""


@dataclass(frozen=True, slots=True)
class Box:
    """Rows by a domain for each of some columns, in the order of their names; a row is in the box if each of its values is in the domain.

    A column that has no domain here may have any value. No domain is empty.
    """

    domains: tuple[tuple[str, Domain], ...] = ()

    def domain(self, column: str) -> Domain:
        """The values of a column."""
        return next((domain for name, domain in self.domains if name == column), EVERYTHING)

    def meet(self, other: Box) -> Box | None:
        """The rows that are in both; None if there are none."""
        mine, theirs = dict(self.domains), dict(other.domains)
        for name, domain in mine.items():
            theirs[name] = domain & theirs.get(name, EVERYTHING)
        return _box(theirs)

    def covers(self, other: Box) -> bool:
        """Whether it has all rows that the other has."""
        return all(domain.covers(other.domain(name)) for name, domain in self.domains)

    def join(self, other: Box) -> Box | None:
        """One box of exactly the rows of both; None if there is none."""
        if self.covers(other):
            return self
        if other.covers(self):
            return other
        names = [name for name, _ in self.domains]
        if names != [name for name, _ in other.domains]:
            return None
        unlike = [name for name in names if self.domain(name) != other.domain(name)]
        return self.hull(other) if len(unlike) == 1 else None

    def hull(self, other: Box) -> Box:
        """The smallest box that has all rows of both."""
        theirs = dict(other.domains)
        both = {name: domain | theirs[name] for name, domain in self.domains if name in theirs}
        return _box(both) or Box()

    def contains(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is in it, by its values; a column that the row lacks may have any value."""
        return all(name not in row or domain.contains(row[name]) for name, domain in self.domains)

    def __str__(self) -> str:
        return " and ".join(f"{name}: {domain}" for name, domain in self.domains) or "every row"


def _box(domains: Mapping[str, Domain]) -> Box | None:
    if any(domain.is_empty for domain in domains.values()):
        return None
    return Box(tuple((name, domains[name]) for name in sorted(domains) if not domains[name].is_everything))


@dataclass(frozen=True, slots=True)
class Condition:
    """Boxes, of which a row must be in one; without `is_exact` some rows in them may fail.

    >>> adults = compare("age", ">=", 18)
    >>> str(adults & is_null("name")), str(adults | compare("age", "=", 3)), str(adults | is_null("name"))
    ('age: [18, inf) and name: NULL', 'age: {3}, [18, inf)', 'age: [18, inf) or name: NULL')
    """

    boxes: tuple[Box, ...] = (Box(),)
    is_exact: bool = True

    @property
    def is_never(self) -> bool:
        """Whether no row passes."""
        return not self.boxes

    @property
    def is_always(self) -> bool:
        """Whether the description leaves out no row."""
        return Box() in self.boxes

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it says something of, in the order of their names."""
        return tuple(sorted({name for box in self.boxes for name, _ in box.domains}))

    def domain(self, column: str) -> Domain:
        """The values of a column in the rows that may pass."""
        return union(box.domain(column) for box in self.boxes)

    def __and__(self, other: Condition) -> Condition:
        one, two = self, other
        if len(one.boxes) * len(two.boxes) > MAX_BOXES:
            one, two = (one.widened(1), two) if len(one.boxes) > len(two.boxes) else (one, two.widened(1))
        met = (box.meet(another) for box in one.boxes for another in two.boxes)
        return _condition((box for box in met if box is not None), is_exact=one.is_exact and two.is_exact)

    def __or__(self, other: Condition) -> Condition:
        return _condition((*self.boxes, *other.boxes), is_exact=self.is_exact and other.is_exact)

    def complement(self) -> Condition:
        """The rows that do not pass, those for which the condition is NULL included; every row if it is not exact."""
        if not self.is_exact:
            return MAYBE
        result = ALWAYS
        for box in self.boxes:
            outside = (Condition((Box(((name, ~domain),)),)) for name, domain in box.domains)
            result = result & _condition(box for one in outside for box in one.boxes)
        return result

    def widened(self, count: int) -> Condition:
        """The same with at most so many boxes: more of them become one box round all."""
        if len(self.boxes) <= count:
            return self
        hull = self.boxes[0]
        for box in self.boxes[1:]:
            hull = hull.hull(box)
        return Condition((hull,), is_exact=False)

    def inexact(self) -> Condition:
        """The same description of a condition that may fail for some of its rows."""
        return Condition(self.boxes, is_exact=self.is_never)

    def contains(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is in the description, by its values."""
        return any(box.contains(row) for box in self.boxes)

    def covers(self, other: Condition) -> bool:
        """Whether each box of the other is within one box of this. It may be false where only several boxes together cover one."""
        return all(any(box.covers(another) for box in self.boxes) for another in other.boxes)

    def __str__(self) -> str:
        return (" or ".join(map(str, self.boxes)) or "no row") + ("" if self.is_exact else ", of which some may fail")


def _condition(boxes: Iterable[Box], *, is_exact: bool = True) -> Condition:
    """Boxes with those joined that make one box, and widened if they are still too many."""
    separate: list[Box] = []
    for box in boxes:
        # A box that has grown may now join one that it could not join before.
        grown, looking = box, True
        while looking:
            looking = False
            for place, other in enumerate(separate):
                if (joined := other.join(grown)) is not None:
                    grown, looking = joined, True
                    del separate[place]
                    break
        separate.append(grown)
    # Nothing is left that could fail.
    return Condition(tuple(separate), is_exact or not separate).widened(MAX_BOXES)


ALWAYS = Condition()
"""Every row passes."""
NEVER = Condition(())
"""No row passes."""
MAYBE = Condition(is_exact=False)
"""Nothing is known of the rows that pass."""


def within(column: str, domain: Domain) -> Condition:
    """The rows with a value of the domain in the column."""
    box = _box({column: domain})
    return NEVER if box is None else Condition((box,))


def compare(column: str, operator: str, value: Any) -> Condition:
    """`column operator value` for =, <>, <, <=, > and >=, which holds for no NULL and for nothing if the value is NULL."""
    return within(column, NOTHING if value is None else comparison(operator, value))


def comparison(operator: str, value: Any) -> Domain:
    """The values that compare so with a value."""
    match operator:
        case "=":
            return points([value])
        case "<>":
            return (~points([value])).without_null()
        case "<" | "<=":
            return ranges.below(value, closed=operator == "<=")
        case ">" | ">=":
            return ranges.above(value, closed=operator == ">=")
    message = f"{operator} is no comparison"
    raise ValueError(message)


def is_in(column: str, values: Iterable[Any]) -> Condition:
    """`column IN (values)`; NULL among them makes it true for no row."""
    return within(column, points(value for value in values if value is not None))


def is_null(column: str) -> Condition:
    """`column IS NULL`."""
    return within(column, ranges.ONLY_NULL)


def is_not_null(column: str) -> Condition:
    """`column IS NOT NULL`."""
    return within(column, ranges.NOT_NULL)
