"""Differences between what a file declares and what the lake holds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import PlatformError
from platform_plugin.lake.values import defaults
from platform_plugin.language.statements.create_sample import CreateSample
from platform_plugin.language.statements.create_stream import CreateStream
from platform_plugin.language.statements.create_table import CreateHistory, CreateTable
from platform_plugin.language.text.options import STREAM
from platform_plugin.language.text.writing import type_text
from platform_plugin.orchestration.components.model import normalised
from platform_plugin.relations.bind import lake_name
from platform_plugin.relations.samples.definition import parse_window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.language.statements.statement import Statement


def plan_differences(declared: Statement, stored: Statement) -> Iterator[str]:
    """What a file says otherwise than the lake, one line each; comments do not count."""
    match declared, stored:
        case CreateTable(), CreateTable():
            yield from _column_differences(_with_keys(declared), _with_keys(stored))
            if _folded(declared.primary_key) != _folded(stored.primary_key):
                yield f"the key is ({', '.join(declared.primary_key)}) in the file, ({', '.join(stored.primary_key)}) in the lake"
            ours, theirs = _options(declared), _options(stored)
        case CreateStream(), CreateStream():
            yield from _column_differences(declared.columns, stored.columns)
            ours, theirs = ({name: getattr(each, name) for name in STREAM} for each in (declared, stored))
        case CreateHistory(), CreateHistory():
            streams = [str(lake_name(each.stream)) for each in (declared, stored)]
            if streams[0].lower() != streams[1].lower():
                yield f"it is the history of {streams[0]} in the file, of {streams[1]} in the lake"
            return
        case CreateSample(), CreateSample():
            yield from _sample_differences(declared, stored)
            ours, theirs = _sample_options(declared), _sample_options(stored)
            # The lake chooses a seed where a file names none.
            ours.setdefault("seed", theirs.get("seed"))
        case _:
            return
    for name in sorted({*ours, *theirs}):
        if ours.get(name) != theirs.get(name):
            yield f"option {name} is {_shown(ours.get(name))} in the file, {_shown(theirs.get(name))} in the lake"


def _options(statement: CreateTable) -> dict[str, Any]:
    return {option.name: option.value for option in statement.options}


def _sample_differences(declared: CreateSample, stored: CreateSample) -> Iterator[str]:
    conditions = (normalised(each.where.text) if each.where is not None else None for each in (declared, stored))
    sides = {
        "relation": (_sampled(declared), _sampled(stored)),
        "size": (declared.size, stored.size),
        "condition": tuple(conditions),
        "weight": tuple(each.weight.lower() if each.weight is not None else None for each in (declared, stored)),
        "strata": (", ".join(_folded(declared.strata)) or None, ", ".join(_folded(stored.strata)) or None),
        "size of a stratum": (declared.size_per_stratum, stored.size_per_stratum),
    }
    for what, (ours, theirs) in sides.items():
        if ours != theirs:
            yield f"the {what} is {_shown(ours)} in the file, {_shown(theirs)} in the lake"


def _sampled(statement: CreateSample) -> str:
    """What a sample is of, in whatever case it is written."""
    names = ", ".join(str(lake_name(name)).lower() for name in statement.reads)
    return f"samples {names}" if statement.parts else names


def _sample_options(statement: CreateSample) -> dict[str, Any]:
    """The options of a sample, a window as what it comes to, and a column in whatever case it is written."""
    found = {option.name: option.value for option in statement.options}
    if "window" in found:
        found["window"] = parse_window(str(found["window"])) or found["window"]
    if "time_column" in found:
        found["time_column"] = str(found["time_column"]).lower()
    return found


def _column_differences(declared: tuple[Field, ...], stored: tuple[Field, ...]) -> Iterator[str]:
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
        return defaults.declared(column).default
    except PlatformError:
        return column.default


def _with_keys(statement: CreateTable) -> tuple[Field, ...]:
    keys = _folded(statement.primary_key)
    return tuple(replace(column, nullable=column.nullable and column.name.lower() not in keys) for column in statement.columns)


def _folded(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


def _shown(value: object) -> str:
    return "not set" if value is None else str(value)
