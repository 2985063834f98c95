"""`Refusal`: the reason why an engine can't run a plan and leaves it to another one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason why an engine can't run a plan: `why` is a noun phrase, and `operator` the part of the plan, if there is one.

    A refusal `for_good` is about the plan, which is not offered to the engine again; another one is about the rows or their number.

    >>> print(Refusal(why="a division by zero", for_good=False))
    a division by zero
    """

    why: str
    for_good: bool = True
    operator: str | None = None

    def __str__(self) -> str:
        return self.why
