"""`Reference`: one mention of a relation in a query, with its snapshot, session, columns and predicates."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.predicates import Comparison, IsNotNull, IsNull, OneOf, Predicate
from platform_plugin.language.text.values import Literal, Parameter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from platform_plugin.language.text.names import WrittenName
    from platform_plugin.language.text.places import Span
    from platform_plugin.language.text.values import Cell

_PLAIN = (bool, int, float, Decimal, str, date)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeTravel:
    """The snapshot that a reference asks for: a version, the newest at a time, any within a staleness, or the last that passed a gate.

    Exactly one is given.
    """

    version: int | Parameter | None = None
    timestamp: Cell | None = None
    staleness: Cell | None = None
    passed: bool = False
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindow:
    """A session over a stream: the rows that arrive until none has come for `idle`, from now on, or with those it holds if `earliest`."""

    idle: timedelta
    earliest: bool = False
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One mention of a relation, told from all others of its query by `index`.

    `columns` are all that the query may need, in lower case; some of them may be no columns of this relation, and None stands for every
    column. `predicates` hold for every row that the query can use; their values are literals and parameters until `filter` binds them. A
    predicate on a name that is no column of this relation is to be ignored.
    """

    index: int
    name: WrittenName
    alias: str | None = field(default=None, compare=False)
    travel: TimeTravel | None = field(default=None, compare=False)
    session: SessionWindow | None = field(default=None, compare=False)
    columns: frozenset[str] | None = field(default=None, compare=False)
    predicates: tuple[Predicate, ...] = field(default=(), compare=False, repr=False)
    span: Span = field(compare=False, repr=False)

    def filter(self, arguments: Mapping[str, object] | Sequence[object] = (), zone: tzinfo = UTC) -> tuple[Predicate, ...]:
        """The predicates with Python values bound; those that can't be bound are left out.

        Integers, decimals, floats, strings, booleans, dates and datetimes; timestamps without a zone get `zone`.
        """
        bound = (_bind(predicate, arguments, zone) for predicate in self.predicates)
        return tuple(predicate for predicate in bound if predicate is not None)


def _bind(predicate: Predicate, arguments: Mapping[str, object] | Sequence[object], zone: tzinfo) -> Predicate | None:
    match predicate:
        case Comparison(value=value):
            plain = _plain(value, arguments, zone)
            return None if plain is None else replace(predicate, value=plain)
        case OneOf(values=values):
            plains = tuple(_plain(value, arguments, zone) for value in values)
            return None if any(plain is None for plain in plains) else replace(predicate, values=plains)
        case IsNull() | IsNotNull():
            return predicate


def _plain(value: object, arguments: Mapping[str, object] | Sequence[object], zone: tzinfo) -> object:
    match value:
        case Parameter(name=str(name)) if not isinstance(arguments, (list, tuple)):
            found: object = arguments.get(name)  # type: ignore[union-attr]
        case Parameter(index=int(index)) if isinstance(arguments, (list, tuple)):
            found = arguments[index] if index < len(arguments) else None
        case Literal(kind="timestamp", value=datetime() as moment):
            found = moment if moment.tzinfo else moment.replace(tzinfo=zone)
        case Literal(value=inner):
            found = inner
        case _:
            found = None
    # NaN compares unlike any statistics say, so it prunes nothing.
    return found if isinstance(found, _PLAIN) and found == found else None  # noqa: PLR0124
