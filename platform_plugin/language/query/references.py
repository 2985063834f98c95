"""`Reference`: one mention of a relation in a query, with its snapshot and session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

    from platform_plugin.language.text.names import WrittenName
    from platform_plugin.language.text.places import Span
    from platform_plugin.language.text.values import Cell, Parameter


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
class ChangeRange:
    """The changes of a relation after one snapshot, up to another or the one that the query reads; net ones, or every step."""

    after: Cell
    until: Cell | None = None
    steps: bool = False
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One mention of a relation in a query, told from all others of that query by `index`."""

    index: int
    name: WrittenName
    alias: str | None = field(default=None, compare=False)
    travel: TimeTravel | None = field(default=None, compare=False)
    session: SessionWindow | None = field(default=None, compare=False)
    changes: ChangeRange | None = field(default=None, compare=False)
    span: Span = field(compare=False, repr=False)

    @property
    def is_special(self) -> bool:
        """Whether it stands for something else than the relation's rows at the snapshot of the query."""
        return self.travel is not None or self.session is not None or self.changes is not None
