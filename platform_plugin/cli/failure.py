"""Printing errors: for a person on a terminal, or as JSON for a program."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, TextIO

from platform_plugin.cli.output.amounts import seconds_text
from platform_plugin.errors import PlatformError
from platform_plugin.redaction import redact_text

if TYPE_CHECKING:
    import argparse

_RED, _CYAN, _BOLD, _PLAIN = "\x1b[31m", "\x1b[36m", "\x1b[1m", "\x1b[0m"


def has_colours(stream: TextIO) -> bool:
    """Whether to print colours on a stream: only on a terminal that has them and whose user wants them."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def printable_text(text: str) -> str:
    r"""A text with its control characters escaped, so that they can't steer the terminal.

    >>> printable_text("red \x1b[31m\n  text")
    'red \\x1b[31m\n  text'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" if char != "\t" else "  " for char in text)


def failure_lines(error: BaseException, *, colour: bool = False) -> list[str]:
    r"""An error as lines: message, place with its caret, hint.

    >>> print("\n".join(failure_lines(PlatformError("table is empty", detail="line 1", hint="fill it"))))
    error: table is empty
      line 1
      hint: fill it
    """
    red, cyan, bold, plain = (_RED, _CYAN, _BOLD, _PLAIN) if colour else ("", "", "", "")
    if isinstance(error, KeyboardInterrupt):
        return [f"{red}interrupted{plain}"]
    if isinstance(error, SystemExit):
        return [f"{red}terminated{plain}"]
    if not isinstance(error, PlatformError):
        error = _unexpected(error)
    lines = [f"{red}{bold}error:{plain} {bold}{printable_text(error.message)}{plain}"]
    for line in (error.detail or "").splitlines():
        caret = line.strip() and not line.strip(" ^")
        lines.append(f"  {red if caret else ''}{printable_text(line)}{plain if caret else ''}")
    if error.hint:
        lines.append(f"  {cyan}hint:{plain} {printable_text(error.hint)}")
    return lines


def print_failure(error: BaseException, given: argparse.Namespace) -> None:
    """Print an error on standard error."""
    if given.debug and not isinstance(error, (KeyboardInterrupt, SystemExit)):
        print(redact_text("".join(traceback.format_exception(error))), file=sys.stderr, end="")
    if given.json:
        print(json.dumps({"error": failure_document(error)}, ensure_ascii=False), file=sys.stderr)
    else:
        print("\n".join(failure_lines(error, colour=has_colours(sys.stderr))), file=sys.stderr)


def tell_retry(error: PlatformError, pause_seconds: float, *, json_lines: bool) -> None:
    """Print an error on standard error, with the time of the next attempt."""
    if json_lines:
        said = json.dumps({"error": failure_document(error), "retry_seconds": pause_seconds}, ensure_ascii=False)
    else:
        said = "\n".join([*failure_lines(error), f"  trying again in {seconds_text(pause_seconds)}"])
    print(said, file=sys.stderr, flush=True)


def failure_document(error: BaseException) -> dict[str, object]:
    """An error as a JSON document; it has `line` and `column` if the error has a place in the statement."""
    if isinstance(error, KeyboardInterrupt):
        return {"kind": "Interrupted", "message": "interrupted", "detail": None, "hint": None}
    if isinstance(error, SystemExit):
        return {"kind": "Terminated", "message": "terminated", "detail": None, "hint": None}
    told = error if isinstance(error, PlatformError) else _unexpected(error)
    document: dict[str, object] = {"kind": type(error).__name__, "message": told.message, "detail": told.detail, "hint": told.hint}
    return document | {name: getattr(told, name) for name in ("line", "column") if hasattr(told, name)}


def _unexpected(error: BaseException) -> PlatformError:
    if isinstance(error, OSError) and error.strerror:
        where = f'"{error.filename}": ' if error.filename else ""
        return PlatformError(f"{where}{error.strerror}", hint="check the path, its permissions and the space on its disk")
    return PlatformError(
        f"unexpected {type(error).__name__}", detail=str(error) or None, hint="run it again with --debug, and report what it shows"
    )
