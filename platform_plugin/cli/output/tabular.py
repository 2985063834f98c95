"""Tables for people: rows under their columns, fitted to the terminal, or full width without one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from platform_plugin.cli.failure import has_colours, printable_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console
    from rich.table import Table

_WIDEST = 10_000


def open_console() -> Console:
    """Standard output for people."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    # Without a terminal nothing may be cut or wrapped: somebody will search in it.
    return Console(
        file=sys.stdout,
        width=None if terminal else _WIDEST,
        no_color=not has_colours(sys.stdout),
        highlight=False,
        markup=False,
        emoji=False,
    )


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, numeric: frozenset[int] | None = None) -> None:
    """Print rows under their columns; numbers are aligned to the right, NULL is dim."""
    held = [list(row) for row in rows]
    if numeric is None:
        numeric = frozenset(
            index
            for index in range(len(columns))
            if all(isinstance(row[index], int | float) or row[index] is None for row in held)
            and any(row[index] is not None for row in held)
        )
    table = new_table(columns, numeric)
    for row in held:
        add_row(table, row)
    open_console().print(table)


def new_table(columns: Sequence[str], numeric: frozenset[int], widths: Sequence[int] = ()) -> Table:
    """A table with its header; with `widths`, a page whose columns line up with the page before."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, column in enumerate(columns):
        width = widths[index] if widths else None
        table.add_column(
            Text(printable_text(column)),
            justify="right" if index in numeric else "left",
            overflow="fold",
            min_width=width,
            header_style="bold",
        )
    return table


def add_row(table: Table, row: Sequence[Any]) -> None:
    """Append one row of values."""
    from rich.text import Text

    table.add_row(*(Text("NULL", style="dim") if value is None else Text(printable_text(value_text(value))) for value in row))


def value_text(value: Any) -> str:
    r"""A value as text for people.

    >>> value_text(True), value_text(b"\x01\xff"), value_text(b"301,two"), value_text({"a": [1, None]})
    ('true', '0x01ff', '301,two', '{"a": [1, null]}')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case bytes():
            return _text_of(value) or f"0x{value.hex()}"
        case list() | dict() | tuple():
            import json

            from platform_plugin.cli.output.machine import is_months, json_value

            if isinstance(value, tuple) and is_months(value):
                return f"{value.months} months"  # type: ignore[attr-defined]
            return json.dumps(json_value(value), ensure_ascii=False)
        case _:
            return str(value)


def _text_of(value: bytes) -> str | None:
    """Bytes that are text, such as a record in a quarantine; what has a control character, other than those of lines, is something else."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if text and text.translate({9: " ", 10: " ", 13: " "}).isprintable() else None
