"""`platform sql`: runs a script and prints the results of its statements while they are read."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platform_plugin.cli.care import lake_url
from platform_plugin.cli.gates import hold_to_suites
from platform_plugin.cli.output.progress import ProgressLine
from platform_plugin.errors import InvalidValue, MissingArgument
from platform_plugin.language.text.counting import count_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from platform_plugin.platform import Platform
    from platform_plugin.relations.result import Result

_PAGE = 1000
_TERMINAL_ROWS = 1000


def run_sql(given: argparse.Namespace) -> int:
    """Run the SQL of `-c`, `-f` or standard input; with none of them on a terminal, open the shell."""
    url = lake_url(given)
    if given.command_text is None and given.file is None and sys.stdin.isatty():
        from platform_plugin.cli.shell import run_shell

        if given.one_commit:
            raise InvalidValue("one commit for all is for a script", hint="give the script with -f, -c or standard input")
        return run_shell(url, given)
    script = read_script(given)
    if not script.strip():
        raise InvalidValue("there is no statement to run", hint="write one, such as SHOW TABLES")
    from platform_plugin.platform import Platform

    with (
        ProgressLine("opening the lake") as line,
        Platform.open(url, watcher=line.watch, limits=dict(given.engine_limit)) as platform,
        hold_to_suites(platform.lake, given),
    ):
        run_script(platform, script, given, line)
    return 0


def read_script(given: argparse.Namespace) -> str:
    """The SQL of `-c`, `-f` or standard input."""
    if given.command_text is not None:
        # On a line of its own the mark ends a comment, too.
        return "\n;\n".join(given.command_text) if len(given.command_text) > 1 else str(given.command_text[0])
    try:
        if given.file is None or given.file == "-":
            return sys.stdin.buffer.read().decode()
        return Path(given.file).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InvalidValue(f'file "{given.file}" can\'t be read', detail=error.strerror, hint="check the path") from error
    except UnicodeDecodeError as error:
        raise InvalidValue(f'file "{given.file or "standard input"}" is not UTF-8', detail=str(error), hint="convert it") from error


def run_script(platform: Platform, script: str, given: argparse.Namespace, line: ProgressLine) -> None:
    """Run all statements of a script, print each result, and release it."""
    results = platform.execute_script(
        script, parameters_of(given), timeout=given.timeout, progress=line.advance, one_commit=given.one_commit
    )
    while True:
        line.start()
        try:
            result = next(results, None)
        except MissingArgument as error:
            name = error.parameter
            error.hint = f"give it with --param {name}=…" if name else "write :name in place of ?, and give it with --param name=…"
            raise
        if result is None:
            line.stop()
            return
        with result:
            print_result(result, given, line)


def parameters_of(given: argparse.Namespace) -> Mapping[str, Any] | None:
    """The values of `--param`, by name; None when there are none."""
    return dict(given.param) if given.param else None


def print_result(result: Result, given: argparse.Namespace, line: ProgressLine) -> None:
    """Print a result in the form that the options ask for, while it is read; memory holds a few batches."""
    if given.json or given.csv:
        from platform_plugin.cli.output.machine import write_csv, write_json

        # Whoever reads a pipe gets every row; on a terminal the line must be gone before the first one.
        if sys.stdout.isatty():
            line.stop()
        (write_json if given.json else write_csv)(result, sys.stdout, given.max_rows)
        sys.stdout.flush()
        line.stop()
        return
    if not result.columns:
        line.stop()
        print(result.message or "done")
        return
    _print_pages(result, given, line)


def _print_pages(result: Result, given: argparse.Namespace, line: ProgressLine) -> None:
    """A table for people, a page at a time, whose columns are as wide as the first page needs."""
    from platform_plugin.cli.failure import printable_text
    from platform_plugin.cli.output.tabular import add_row, new_table, open_console, value_text

    limit = given.max_rows if given.max_rows is not None else _TERMINAL_ROWS if sys.stdout.isatty() else None
    numeric = _numeric(result)
    rows = iter(result)
    output, written, cut = open_console(), 0, False
    widths: list[int] = []
    while True:
        line.start()
        room = _PAGE if limit is None else min(_PAGE, limit - written)
        page = list(islice(rows, room))
        cut = limit is not None and written + len(page) >= limit and next(rows, None) is not None
        line.stop()
        if page or not written:
            table = new_table(result.columns, numeric, widths)
            table.show_header = not written
            for row in page:
                add_row(table, row)
            output.print(table)
            written += len(page)
            if len(page) == _PAGE and not widths:
                widths = [
                    max(len(printable_text("NULL" if row[index] is None else value_text(row[index]))) for row in page)
                    for index in range(len(result.columns))
                ]
        if len(page) < _PAGE or cut or (limit is not None and written >= limit):
            break
    total = count_text(written, "row")
    print(f"{'the first ' if cut else ''}{total} at snapshot {result.snapshot.id}{'; --max-rows 0 shows all' if cut else ''}")
    if result.message:
        print(result.message)


def _numeric(result: Result) -> frozenset[int]:
    import pyarrow.types as kinds

    numbers = (kinds.is_integer, kinds.is_floating, kinds.is_decimal)
    return frozenset(index for index, field in enumerate(result.schema) if any(check(field.type) for check in numbers))
