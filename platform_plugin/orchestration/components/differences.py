"""`plan_differences`: the differences between the statement of a file and that of the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.relations.kinds import find_declared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.language.statements.statement import Statement


def plan_differences(declared: Statement, stored: Statement) -> Iterator[str]:
    """The differences between a file's definition and the lake's, one line each; comments do not count."""
    found = find_declared(declared)
    return iter(()) if found is None else found[0].differences(declared, stored)
