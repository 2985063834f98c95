"""`Refusal`: the reason why an engine can't run a plan and leaves it to another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")


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


class RefusedByEngine(Exception):
    """Ends work of several steps of which one is refused; `refusal` says why."""

    def __init__(self, why: str, *, for_good: bool = True, operator: str | None = None) -> None:
        super().__init__(why)
        self.refusal = Refusal(why=why, for_good=for_good, operator=operator)


def accept(result: Result | Refusal) -> Result:
    """The result of a step; raises `RefusedByEngine` for a refusal."""
    if isinstance(result, Refusal):
        raise RefusedByEngine(result.why, for_good=result.for_good, operator=result.operator)
    return result
