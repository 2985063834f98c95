"""`Stall` and `pinned_text`: why a relation is not what its readers may expect, and since when; imports nothing slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

Cause = Literal["gate", "maintenance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A gate that holds back a version of a relation, or an error that stops the maintenance of a view.

    `row_count` rows were judged or wait; `passed` is the snapshot of the version that passed the gate last.
    """

    schema: str
    name: str
    cause: Cause
    since: datetime
    tried_at: datetime
    reason: str
    hint: str | None = None
    suite: str | None = None
    row_count: int | None = None
    passed: int | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """What is stalled, the reason, and what to do.

        >>> from datetime import UTC, datetime
        >>> at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        >>> stall = Stall(schema="main", name="t", cause="gate", since=at, tried_at=at, reason="no", suite="s.yml", row_count=1, passed=7)
        >>> for line in stall.lines:
        ...     print(line)
        the gate of suite "s.yml" holds back a version with 1 row since 2026-01-02 03:04:05 UTC
        reason: no
        readable: snapshot 7 has the version that passed last, which AT (GATE => 'passed') reads
        """
        if self.cause == "gate":
            first = f"{self.gate} holds back {self.version}"
        else:
            first = "maintenance has stopped" + (f" before {self._counted}" if self.row_count else "")
        told = [f"{first} since {_moment(self.since)}"]
        if self.tried_at != self.since:
            told[0] += f", tried last at {_moment(self.tried_at)}"
        told.append(f"reason: {self.reason}")
        if self.passed is not None:
            told.append(f"readable: snapshot {self.passed} has the version that passed last, which AT (GATE => 'passed') reads")
        return (*told, f"hint: {self.hint}") if self.hint else tuple(told)

    @property
    def gate(self) -> str:
        """The gate by its suite."""
        return "the gate" if self.suite is None else f'the gate of suite "{self.suite}"'

    @property
    def _counted(self) -> str:
        return f"{self.row_count} row{'' if self.row_count == 1 else 's'}"

    @property
    def version(self) -> str:
        """The version that is held back, by the number of its rows."""
        return "a version" if self.row_count is None else f"a version with {self._counted}"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def pinned_text(view: str, tables: Sequence[str], read_at: int) -> str:
    """What a view does not show of tables that it reads once, and what reads them anew.

    >>> pinned_text("main.regions", ["main.users"], 5)
    'main.regions read main.users at snapshot 5, and it has changed since; REBUILD VIEW main.regions reads it as it is now'
    """
    has, it, is_now = ("has", "it", "it is") if len(tables) == 1 else ("have", "them", "they are")
    names = ", ".join(tables)
    subject = "it" if len(tables) == 1 else "they"
    return f"{view} read {names} at snapshot {read_at}, and {subject} {has} changed since; REBUILD VIEW {view} reads {it} as {is_now} now"
