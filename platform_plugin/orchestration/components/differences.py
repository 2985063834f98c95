"""Differences between what a file declares and what the lake holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.relations.kinds import find_declared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.language.statements.statement import Statement


def plan_differences(declared: Statement, stored: Statement) -> Iterator[str]:
    """What a file says otherwise than the lake, one line each; comments do not count."""
    found = find_declared(declared)
    return iter(()) if found is None else found[0].differences(declared, stored)
