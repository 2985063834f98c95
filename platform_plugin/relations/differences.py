"""Differences in columns and options between a declared and a stored definition, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from platform_plugin.errors import PlatformError
from platform_plugin.lake.values import defaults
from platform_plugin.language.text.writing import type_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from platform_plugin.algebra.types.data_types import Field


def column_differences(declared: tuple[Field, ...], stored: tuple[Field, ...]) -> Iterator[str]:
    """Columns that only one of the two definitions has, or that differ."""
    ours, theirs = ({column.name.lower(): column for column in columns} for columns in (declared, stored))
    for name, column in ours.items():
        if name not in theirs:
            yield f'column "{column.name}" {_column(column)} is in the file, not in the lake'
        elif _column(column) != _column(theirs[name]):
            yield f'column "{column.name}" is {_column(column)} in the file, {_column(theirs[name])} in the lake'
    for name, column in theirs.items():
        if name not in ours:
            yield f'column "{column.name}" {_column(column)} is in the lake, not in the file'
    if set(ours) == set(theirs) and list(ours) != list(theirs):
        yield f"the columns come as {', '.join(ours)} in the file, as {', '.join(theirs)} in the lake"


def _column(column: Field) -> str:
    default = "" if column.default is None else f" DEFAULT {_kept_default(column)}"
    return f"{type_text(column.type)}{'' if column.nullable else ' NOT NULL'}{default}"


def _kept_default(column: Field) -> str | None:
    """The default as the catalogue keeps it, however it is written."""
    try:
        return defaults.check_default(column).default
    except PlatformError:
        return column.default


def option_differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    """Options that differ between the file and the lake, by name."""
    # What rows are held to is not what they are: a run notes another suite by itself.
    for name in sorted({*ours, *theirs} - {"suite"}):
        if ours.get(name) != theirs.get(name):
            yield f"option {name} is {difference_text(ours.get(name))} in the file, {difference_text(theirs.get(name))} in the lake"


def fold_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names in one case, for comparing."""
    return tuple(name.lower() for name in names)


def difference_text(value: object) -> str:
    """A value in a line about a difference."""
    return "not set" if value is None else str(value)
