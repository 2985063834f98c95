"""The options of a relation as the lake keeps them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from platform_plugin.lake.catalogue.relations import Declaration, declare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.language.text.options import Option

SECONDS = "_seconds"
"""What the name of a stored duration ends in."""


def stored_option(option: Option) -> tuple[str, Any]:
    """The name and value under which the lake keeps an option."""
    if isinstance(option.value, timedelta):
        return option.name + SECONDS, option.value.total_seconds()
    return option.name, option.value


def declare_options(commit: Commit, table: Table, declaration: Declaration, changed: Mapping[str, Any]) -> None:
    """Write a declaration again with some options changed."""
    declare(commit, table, Declaration(kind=declaration.kind, options={**declaration.options, **changed}))
