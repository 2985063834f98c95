"""Options of relations in the form that the lake stores, and back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.lake.files.file_options import NAMES as FILE_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.language.text.options import Option

SECONDS = "_seconds"
"""The suffix of the names of stored durations."""


def stored_option(option: Option) -> tuple[str, Any]:
    """The name and value under which the lake stores an option."""
    if isinstance(option.value, timedelta):
        return option.name + SECONDS, option.value.total_seconds()
    return option.name, option.value


def declare_options(commit: Commit, table: Table, declaration: Declaration, changed: Mapping[str, Any]) -> None:
    """Write a declaration again with some options changed."""
    declare_relation(commit, table, Declaration(kind=declaration.kind, options={**declaration.options, **changed}))


def file_options(options: Iterable[Option]) -> dict[str, str | int]:
    """Those of some options that set how files of a table are written."""
    return {option.name: cast("str | int", option.value) for option in options if option.name in FILE_OPTIONS}


def read_options(stored: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Those of the named options that the lake stores, in the types of their statement.

    >>> read_options({"target_lag_seconds": 5.0, "start": "earliest", "from": {"main.posts": 3}}, ("start", "target_lag", "key"))
    {'start': 'earliest', 'target_lag': datetime.timedelta(seconds=5)}
    """
    found = {}
    for name in names:
        if (seconds := stored.get(name + SECONDS)) is not None:
            found[name] = timedelta(seconds=seconds)
        elif (value := stored.get(name)) is not None:
            found[name] = value
    return found
