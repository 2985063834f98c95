"""`Row`: a line of the table of aggregates that split, `aggregates.TABLE`, which docs/views/aggregates.md shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlglot import exp

    from platform_plugin.algebra.types.data_types import DataType
    from platform_plugin.operators.group.calls import Call
    from platform_plugin.operators.group.splitting import Splitting, ValueKeys

    SplitFunction = Callable[[Call, DataType | None, Callable[[], exp.Expr]], Splitting | ValueKeys]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the table: aggregates, the function that splits them, and in words what they store, how that merges, and their answer."""

    functions: tuple[str, ...]
    """By their canonical names."""
    split: SplitFunction
    """Called with the call, the type of its first argument if known, and the column of row ids."""
    stored: str
    merge: str
    answer: str
