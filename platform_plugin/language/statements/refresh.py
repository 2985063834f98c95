"""REFRESH VIEW, REFRESH SAMPLE, REFRESH STREAM and REBUILD VIEW: maintenance on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.statements.statement import (
    Statement,
    StatementOpening,
)
from platform_plugin.language.text import options as known
from platform_plugin.language.text.options import Option, read_options

if TYPE_CHECKING:
    from platform_plugin.language.text.cursor import TokenCursor
    from platform_plugin.language.text.names import WrittenName


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshView(Statement):
    """The continuous view to maintain now."""

    name: WrittenName
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildView(Statement):
    """The view to compute again from the rows that its streams and their histories still hold."""

    name: WrittenName


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshSample(Statement):
    """The sample to maintain now."""

    name: WrittenName
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshStream(Statement):
    """The stream whose table is to be followed now."""

    name: WrittenName
    options: tuple[Option, ...] = ()


def read_refresh_view(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after REFRESH VIEW."""
    return RefreshView(name=cursor.name("a view name"), options=_read_options(cursor))


def read_rebuild_view(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after REBUILD VIEW."""
    return RebuildView(name=cursor.name("a view name"))


def read_refresh_sample(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after REFRESH SAMPLE."""
    return RefreshSample(name=cursor.name("a sample name"), options=_read_options(cursor))


def read_refresh_stream(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after REFRESH STREAM."""
    return RefreshStream(name=cursor.name("a stream name"), options=_read_options(cursor))


def _read_options(cursor: TokenCursor) -> tuple[Option, ...]:
    return read_options(cursor, known.RUN, "a run") if cursor.accept("WITH") else ()
