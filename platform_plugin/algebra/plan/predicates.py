"""Predicates that compare one column with constants, which a scan can be pruned by. A tuple of them is read as AND."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Operator = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column op value`, never true for NULL."""

    column: str
    op: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class OneOf:
    """`column IN (values)`, never true for NULL."""

    column: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`."""

    column: str


@dataclass(frozen=True, slots=True)
class IsNotNull:
    """`column IS NOT NULL`."""

    column: str


Predicate = Comparison | OneOf | IsNull | IsNotNull
