"""The `platform` command: SQL, a shell, and the management of lakes and of the platform server."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

OK, FAILED, USAGE, INTERRUPTED, PIPE_CLOSED, TERMINATED = 0, 1, 2, 130, 141, 143


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are printed on standard error, without a traceback."""
    try:
        from platform_plugin.cli.arguments import build_parser
        from platform_plugin.cli.failure import print_failure
        from platform_plugin.cli.process import TerminationRequest, prepare_process

        prepare_process()
        parser = build_parser()
        given = parser.parse_args(arguments)
    except SystemExit as end:  # argparse has said what is wrong, or shown the help
        return int(end.code or 0)
    except KeyboardInterrupt:  # before there is anybody to tell it
        return INTERRUPTED
    if given.command is None:
        parser.print_help(sys.stderr)
        return USAGE
    try:
        code = given.run(given)
        sys.stdout.flush()
        return int(code or OK)
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python's own last flush must not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except KeyboardInterrupt:
        print_failure(KeyboardInterrupt(), given)
        return INTERRUPTED
    except TerminationRequest as end:
        print_failure(end, given)
        return TERMINATED
    except Exception as error:  # noqa: BLE001  the outermost edge: a user is told, and --debug shows the traceback
        print_failure(error, given)
        return FAILED
