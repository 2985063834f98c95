"""Why an engine leaves a plan to another one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What an engine can't run: `why` is a noun phrase, and `operator` the part of the plan that it is about, where there is one.

    A refusal `for_good` is about the plan, which is not offered to the engine again; another one is about the rows, or how many they are.

    >>> print(Refusal(why="a division by zero", for_good=False))
    a division by zero
    """

    why: str
    for_good: bool = True
    operator: str | None = None

    def __str__(self) -> str:
        return self.why
