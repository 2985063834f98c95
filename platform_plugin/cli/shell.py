"""`run_shell`: the interactive shell, with statements over several lines, history and completion."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings

from platform_plugin import __version__
from platform_plugin.cli.completion import SqlCompleter
from platform_plugin.cli.failure import print_failure
from platform_plugin.cli.gates import hold_to_suites
from platform_plugin.cli.output.amounts import seconds_text
from platform_plugin.cli.output.progress import ProgressLine
from platform_plugin.cli.query import run_script
from platform_plugin.errors import PlatformError
from platform_plugin.language.text.tokens import tokenize
from platform_plugin.platform import Platform
from platform_plugin.redaction import redact_text

if TYPE_CHECKING:
    import argparse

    from prompt_toolkit.key_binding import KeyPressEvent

_HELP = r"""statements end with ;    Ctrl-C interrupts what runs or drops what is typed    Ctrl-D leaves
\d          relations             \d NAME     columns of one
\timing     say how long each statement took, or stop saying it
\?          this list             \q          leave"""


def run_shell(url: str, given: argparse.Namespace) -> int:
    """Read statements and run them until the user leaves; an error or Ctrl-C ends the statement, never the shell."""
    line = ProgressLine("opening the lake")
    with Platform.open(url, watcher=line.watch, limits=dict(given.engine_limit)) as platform, hold_to_suites(platform.lake, given):
        shell = _Shell(platform, given, line)
        print(f"platform {__version__} on {platform.lake.location}; \\? for help, \\q to leave")
        shell.loop()
    return 0


class _Shell:
    def __init__(self, platform: Platform, given: argparse.Namespace, line: ProgressLine) -> None:
        self._platform = platform
        self._given = given
        self._line = line
        self._timing = False
        self._completer = SqlCompleter(platform.lake)
        self._session: PromptSession[str] = PromptSession(
            history=open_history(),
            completer=self._completer,
            complete_while_typing=False,
            multiline=True,
            key_bindings=_bindings(),
            prompt_continuation=lambda width, *_: "." * (width - 1) + " ",
            enable_history_search=True,
        )

    def loop(self) -> None:
        while True:
            try:
                text = self._session.prompt("platform> ").strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if text in ("\\q", "exit", "quit", "exit;", "quit;"):
                return
            if text:
                self._run(text)

    def _run(self, text: str) -> None:
        began = time.monotonic()
        try:
            if text == "\\timing":
                self._timing = not self._timing
                print(f"timing is {'on' if self._timing else 'off'}")
                return
            if text.startswith("\\"):
                text = expand_shortcut(text)
            if text:
                self._line.reset("running")
                with self._line:
                    run_script(self._platform, text, self._given, self._line)
        except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001  whatever a statement does, the shell stays
            print_failure(error, self._given)
        if self._timing:
            print(f"took {seconds_text(time.monotonic() - began)}")


def expand_shortcut(text: str) -> str:
    r"""The statement for a backslash command; empty if the command printed something itself.

    >>> expand_shortcut(r"\d"), expand_shortcut(r"\d raw.users;")
    ('SHOW TABLES', 'DESCRIBE EXTENDED raw.users')
    """
    word, _, rest = text.rstrip("; ").partition(" ")
    if word in ("\\?", "\\h", "\\help"):
        print(_HELP)
        return ""
    if word not in ("\\d", "\\dt"):
        raise PlatformError(f'shell command "{word}" is not known', hint="\\? lists them")
    return f"DESCRIBE EXTENDED {rest.strip()}" if rest.strip() else "SHOW TABLES"


def is_complete_input(text: str) -> bool:
    r"""Whether Enter ends the input: a backslash command, nothing at all, or statements up to a final semicolon.

    >>> (
    ...     is_complete_input("SELECT 1"),
    ...     is_complete_input("SELECT ';"),
    ...     is_complete_input("SELECT 1; -- done"),
    ...     is_complete_input(r"\d users"),
    ... )
    (False, False, True, True)
    """
    text = text.strip()
    if not text or text.startswith("\\") or text in ("exit", "quit"):
        return True
    try:
        tokens = tokenize(text)
    except PlatformError as error:
        # What can't be read at all is sent once it ends like a statement, so that the user is told why.
        return text.endswith(";") and "never closed" not in error.message
    return tokens.upper(len(tokens) - 1) == ";"


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete_input(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings


def history_file() -> Path:
    """The path of the shell's history, by the desktop's convention."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "platform" / "history"


class QuietHistory(FileHistory):
    """A history file without the keys and passwords that were typed."""

    def store_string(self, string: str) -> None:
        super().store_string(redact_text(string))


def open_history() -> History:
    """The history of earlier shells, readable by its owner only; if no file can be written, that of this shell."""
    with suppress(OSError, RuntimeError):
        file = history_file()
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        file.chmod(0o600)
        return QuietHistory(str(file))
    return InMemoryHistory()
