"""The `.test` format: statements that must work or fail, and queries with the rows they must give.

    statement ok
    CREATE TABLE t (i INT)

    statement error column "x" does not exist
    SELECT x FROM t

    query
    SELECT i, s FROM t
    ----
    1  NULL
    2  two

Values are separated by two blanks or a tab; rows are compared as a bag, or in order after `query ordered`. `duck` after
`query` asks the independent reader too: the text after the second `----` is the DuckDB form, or else the same text is used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One block of a script."""

    line: int
    head: str
    sql: str
    expected: list[str]
    duck: str | None


def read_steps(path: Path) -> Iterator[Step]:
    """The blocks of a script, separated by empty lines; `#` begins a comment line."""
    lines = [line.rstrip() for line in path.read_text().splitlines()]
    block: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        if line.startswith("#"):
            continue
        if line:
            block.append(line)
        elif block:
            yield _step(number - len(block), block)
            block = []


def _step(line: int, block: list[str]) -> Step:
    head, *rest = block
    parts = "\n".join(rest).split("\n----\n") if "----" in rest else ["\n".join(rest)]
    if rest and rest[-1] == "----":
        parts = ["\n".join(rest[:-1]), ""]
    expected = [row for row in parts[1].split("\n") if row] if len(parts) > 1 else []
    return Step(line=line, head=head, sql=parts[0], expected=expected, duck=parts[2] if len(parts) > 2 else None)


def shown(row: tuple[Any, ...]) -> str:
    """A row as scripts write it."""
    return "  ".join(_value(value) for value in row)


def _value(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.9g}"
    return str(value)


def expected_rows(step: Step) -> list[str]:
    """The rows of a block, blanks normalised."""
    return ["  ".join(re.split(r"\t| {2,}", row.strip())) for row in step.expected]
