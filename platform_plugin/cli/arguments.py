"""`build_parser`: the parser of all commands with their options, help and examples."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from datetime import timedelta
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from platform_plugin import __version__
from platform_plugin.cli.output.amounts import parse_age, parse_duration_amount, parse_grace, parse_size_amount

if TYPE_CHECKING:
    from collections.abc import Callable

_ENGINES = ("auto", "local", "executors", "spark_sql")

_ABOUT = "SQL on a lake that stays current: streams, history tables and views, with Spark behind them."
_CLOSING = """\
first steps:
  platform init /srv/lake                       create a lake
  export PLATFORM_URL=platform+local:///srv/lake
  platform sql                                  a shell with history and completion
  platform sql -c 'SHOW TABLES' --json          one statement, for a script
  platform status                               the lake and the server at a glance

exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted, 141 whoever read the output went away,
  143 terminated
"""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Prints examples unchanged, and each option with its help on one line."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)


class _Parser(argparse.ArgumentParser):
    """Reports errors in the form of all other errors, with the nearest command for a misspelt one."""

    command: str | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, but an unknown option is reported for the command that it was given to."""
        given, unknown = super().parse_known_args(args, namespace)
        self.command = getattr(given, "command", None)
        return given, unknown

    def error(self, message: str) -> NoReturn:
        command = f"{self.prog} {self.command}" if self.command else self.prog
        sys.stderr.write(f"error: {message}\n  hint: {_nearest(message) or f'see `{command} --help`'}\n")
        raise SystemExit(2)


def _nearest(message: str) -> str | None:
    _, found, rest = message.partition("invalid choice: '")
    typed, _, choices = rest.partition("' (choose from ")
    known = [choice.strip(" ')") for choice in choices.split(",")]
    close = difflib.get_close_matches(typed, known, n=1) if found else []
    return f"did you mean {close[0]}?" if close else None


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command; what a command needs is imported when it runs, so that help comes at once."""
    parser = _Parser(prog="platform", description=_ABOUT, epilog=_CLOSING, formatter_class=_Help, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"platform {__version__}")
    _common(parser, top=True)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=_Parser)

    def command(name: str, runner: str, about: str, example: str, *, lake: bool = True) -> argparse.ArgumentParser:
        sub: argparse.ArgumentParser = commands.add_parser(
            name,
            help=about,
            description=about[0].upper() + about[1:] + ".",
            epilog=f"example:\n  {example}",
            formatter_class=_Help,
            allow_abbrev=False,
        )
        _common(sub, lake=lake)
        sub.set_defaults(run=_lazily(runner))
        return sub

    sub = command("init", "care:run_init", "create an empty lake, or adopt one that was moved", "platform init /srv/lake")
    sub.add_argument("place", nargs="?", metavar="URL", help="platform+local:///path, platform://user@host/db?data=…, or a folder")
    sub.add_argument(
        "--adopt", action="store_true", help="open a lake that was moved or that another client created, and note its new place"
    )
    sub = command("new", "new:run_new", "write a project of your own, with an example of everything", "platform new shop", lake=False)
    sub.add_argument("folder", metavar="NAME", help="the project's folder, new or empty; its last part names the Python package")
    _add_sql(
        command("sql", "query:run_sql", "run SQL, or open the shell", "platform sql -c 'SELECT * FROM users WHERE id = :id' --param id=7")
    )
    sub = command("status", "care:run_status", "show lake and platform server at a glance; starts nothing", "platform status --watch")
    every = timedelta(seconds=2)
    sub.add_argument("--watch", type=_positive, nargs="?", const=every, metavar="TIME", help="show it again every TIME (2s) until Ctrl-C")
    sub = command("metrics", "metrics:run_metrics", "print the figures to watch as OpenMetrics text; starts nothing", "platform metrics")
    sub.add_argument("--output", "-o", metavar="FILE", help="write them to a file, whole or not at all, such as a collector's")
    sub = command("ingest", "ingest:run_ingest_command", "follow a stream's feed until told to stop", "platform ingest posts --interval 5s")
    _add_ingest(sub)
    sub = command(
        "maintain", "maintain:run_maintain_command", "let continuous views and samples consume what has arrived", "platform maintain --once"
    )
    _add_maintain(sub)
    sub = command("plot", "plot:run_plot", "draw a sample beside its population", "platform plot posts_sample --against 12")
    sub.add_argument("sample", metavar="SAMPLE", help="the sample to draw")
    sub.add_argument("--against", type=_count, action="append", default=[], metavar="N", help="an older snapshot to compare with")
    sub.add_argument("--output", "-o", metavar="FILE", help="where the SVG image goes (default: SAMPLE.svg); - is standard output")
    _add_limits(sub)
    sub = command("test", "test:run_test", "run the cases beside the views of a folder", "platform test sql", lake=False)
    sub.add_argument("folder", nargs="?", metavar="FOLDER", help="the SQL files and their cases (default: sql, else dbt_like_sql)")
    sub.add_argument("--only", metavar="TEXT", help="only cases whose file or name holds this")
    _add_validate(
        command(
            "validate",
            "validate:run_validate",
            "judge all rows of a relation by a suite of expectations, and say what that cost; exit code 1 if a critical one is not met",
            "platform validate orders orders.expectations.yml --engine spark",
        )
    )
    command("tables", "care:run_tables", "list the relations of the lake with their sizes", "platform tables")
    sub = command("snapshots", "care:run_snapshots", "list the newest snapshots, newest first", "platform snapshots --limit 5")
    sub.add_argument("--limit", type=_count, default=20, metavar="N", help="how many (default: %(default)s)")
    sub = command(
        "expire", "care:run_expire", "forget old snapshots, but never the newest or one under lease", "platform expire --older-than 7d"
    )
    which = sub.add_mutually_exclusive_group(required=True)
    which.add_argument("--older-than", type=parse_age, metavar="AGE", help="such as 12h or 7d")
    which.add_argument("--all", action="store_true", help="of any age")
    sub.add_argument("--dry-run", action="store_true", help="only say what would be forgotten")
    _add_merge(command("merge", "care:run_merge", "rewrite a table's small files into few; its rows stay the same", "platform merge users"))
    _add_vacuum(command("vacuum", "care:run_vacuum", "delete the files that nobody can need any more", "platform vacuum --dry-run"))
    command(
        "check",
        "care:run_check",
        "look for what the catalogue says of files and can't be true; exit code 1 if there is any",
        "platform check",
    )
    command(
        "upgrade",
        "care:run_upgrade",
        "bring the lake to DuckLake 1.1; clients that only know 1.0 can't read it then, and nothing leads back but a copy of the catalogue",
        "platform upgrade",
    )
    up = command("up", "server:run_up", "start the platform server, unless it runs", "platform up --memory 4g --idle 8h", lake=False)
    _add_up(up)
    command("down", "server:run_down", "end the platform server; the next query starts another", "platform down", lake=False)
    return parser


def _common(parser: argparse.ArgumentParser, *, top: bool = False, lake: bool = True) -> None:
    """Options that may stand before or after the command; the later one wins."""
    group = parser.add_argument_group("common options")
    # A sub-parser's defaults would overwrite what stood before the command.
    unset: Any = None if top else argparse.SUPPRESS
    off: Any = False if top else argparse.SUPPRESS
    if lake:
        group.add_argument("--url", default=unset, help="the lake (default: the environment's PLATFORM_URL)")
    group.add_argument("--json", action="store_true", default=off, help="for programs: one JSON document; a line per row for sql")
    group.add_argument("--debug", action="store_true", default=off, help="show the traceback of an error")


def _add_sql(sub: argparse.ArgumentParser) -> None:
    source = sub.add_mutually_exclusive_group()
    source.add_argument(
        "-c", dest="command_text", action="append", metavar="SQL", help="the SQL; several statements end with ;, or each has its own -c"
    )
    source.add_argument("-f", dest="file", metavar="FILE", help="a file of SQL; - is standard input, as is giving neither")
    sub.add_argument(
        "--param",
        action="append",
        type=_parameter,
        metavar="NAME=VALUE",
        help="bind :NAME; numbers, true, false and null as in JSON, else text",
    )
    sub.add_argument("--timeout", type=_positive, metavar="TIME", help="interrupt a statement that takes longer, such as 30 or 10min")
    sub.add_argument("--csv", action="store_true", help="rows as CSV; NULL is empty, an empty string is a pair of quotes")
    sub.add_argument(
        "--max-rows",
        type=_row_limit,
        default=None,
        metavar="N",
        help="print at most N rows; 0 is all (default: 1000 for tables on a terminal)",
    )
    sub.add_argument(
        "--one-commit", action="store_true", help="create the views of a script of CREATE VIEW statements in one commit: all or none"
    )
    _add_gates(sub)


def _add_maintain(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("views", nargs="*", metavar="NAME", help="the views and samples to maintain (default: all)")
    sub.add_argument("--once", action="store_true", help="end after one run; a failure ends it as well")
    sub.add_argument("--interval", type=_positive, default=timedelta(seconds=1), metavar="TIME", help="how often to look (default: 1s)")
    sub.add_argument("--dry-run", action="store_true", help="only say what a run would do now")
    sub.add_argument(
        "--engine",
        choices=_ENGINES,
        type=str.lower,
        metavar="NAME",
        help="what groups new rows, whatever views and lake ask for (default: as they do)",
    )
    _add_gates(sub)


def _add_ingest(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("stream", metavar="STREAM", help="a stream that was created FROM FILES, KAFKA or TABLE")
    sub.add_argument("--once", action="store_true", help="end when nothing is left to read; a failure ends it as well")
    every = timedelta(seconds=1)
    sub.add_argument("--interval", type=_positive, default=every, metavar="TIME", help="how often to look when nothing came (default: 1s)")
    for name, kind, metavar, what in (
        ("files", _count, "N", "files"),
        ("bytes", parse_size_amount, "SIZE", "bytes of files, such as 512 MiB"),
        ("rows", _count, "N", "records of a topic"),
    ):
        sub.add_argument(f"--max-{name}", type=kind, metavar=metavar, help=f"at most so many {what} in a batch")
    _add_gates(sub)
    sub.add_argument("--past-gate", action="store_true", help="also read what a gate holds back that another command or Dagster has")


def _add_gates(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--gate",
        action="append",
        default=[],
        type=_gate,
        metavar="NAME=FILE",
        help="rows of relation NAME are committed only if they meet the critical expectations of a suite's file; may be repeated",
    )
    _add_limits(sub)


def _add_limits(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--engine-limit",
        action="append",
        default=[],
        type=_option,
        metavar="NAME=VALUE",
        help="a limit of the engines for this command, such as broadcast_bytes=256MiB; SHOW LIMITS lists them; may be repeated",
    )


def _add_validate(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("relation", metavar="RELATION", help="relation or schema.relation")
    sub.add_argument("suite", metavar="SUITE", help="the suite's file, YAML or JSON")
    sub.add_argument(
        "--engine",
        choices=("arrow", "spark"),
        help="arrow: up to most_rows rows in this process, spark: all of them (default: the suite's)",
    )
    _add_limits(sub)


def _add_merge(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("table", metavar="TABLE", help="relation or schema.relation")
    what = "what rewrites files: local or executors (default: as the lake says)"
    sub.add_argument("--engine", choices=_ENGINES, type=str.lower, metavar="NAME", help=what)
    _add_limits(sub)


def _add_vacuum(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    sub.add_argument(
        "--grace",
        type=parse_grace,
        default=timedelta(days=1),
        metavar="TIME",
        help="keep files that became useless more recently; must be longer than any read or write takes (default: 1d)",
    )
    which = sub.add_mutually_exclusive_group()
    which.add_argument("--older-than", type=parse_age, metavar="AGE", help="forget snapshots of that age first, as `platform expire` does")
    which.add_argument("--all", action="store_true", help="forget snapshots of any age first")


def _add_up(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--cores", type=_count, metavar="N", help="cores for Spark (default: all that this process may use, or the cluster gives)"
    )
    sub.add_argument(
        "--memory", type=parse_size_amount, metavar="SIZE", help="the driver's heap, such as 4g (default: a quarter of the memory)"
    )
    sub.add_argument(
        "--idle", type=parse_duration_amount, metavar="TIME", help="end after so long without a session; 0 is never (default: 2h)"
    )
    sub.add_argument("--option", action="append", type=_option, metavar="KEY=VALUE", help="any Spark option; may be repeated")
    sub.add_argument("--address", metavar="ADDRESS", help="where the server listens for sc:// clients (default: 127.0.0.1)")
    sub.add_argument("--port", type=_port, metavar="N", help="the port for sc:// clients (default: any free one)")
    sub.add_argument("--foreground", action="store_true", help="stay until the server ends, with its log on standard error")
    cluster = sub.add_argument_group("on a cluster")
    cluster.add_argument("--master", metavar="URL", help="the cluster's master, such as spark://host:7077 (default: none, all runs here)")
    cluster.add_argument(
        "--executor-memory", type=parse_size_amount, metavar="SIZE", help="the heap of each executor (default: Spark's, 1 GiB)"
    )
    cluster.add_argument("--executor-cores", type=_count, metavar="N", help="the cores of each executor (default: all of its worker)")
    cluster.add_argument("--executor-python", metavar="PATH", help="Python on the executors' machines (default: the path of this one)")
    cluster.add_argument("--driver-host", metavar="HOST", help="the name or address under which executors reach this machine")
    cluster.add_argument("--driver-bind", metavar="ADDRESS", help="the address to listen at for executors, if it is another one")


def _lazily(runner: str) -> Callable[[argparse.Namespace], int]:
    """The function `module:name` of this package, imported when it is called."""
    module, _, name = runner.partition(":")

    def run(given: argparse.Namespace) -> int:
        function: Callable[[argparse.Namespace], int] = getattr(import_module(f"platform_plugin.cli.{module}"), name)
        return function(given)

    return run


def _parameter(text: str) -> tuple[str, Any]:
    """`name=value` with the value read as JSON where it is a number, a truth value, null or a quoted string."""
    name, found, value = text.partition("=")
    if not found or not name.lstrip(":").isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name.lstrip(":"), json.loads(value, parse_float=Decimal, parse_constant=_no_number)
    except ValueError:
        return name.lstrip(":"), value


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _gate(text: str) -> tuple[str, str]:
    name, found, file = text.partition("=")
    if not found or not name.strip() or not file:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FILE")
    return name.strip(), file


def _option(text: str) -> tuple[str, str]:
    key, found, value = text.partition("=")
    if not found or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key.strip(), value


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _row_limit(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text) or sys.maxsize


def _port(text: str) -> int:
    number = _count(text)
    if number > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number")
    return number


def _positive(text: str) -> timedelta:
    found = parse_duration_amount(text)
    if not found:
        raise argparse.ArgumentTypeError("a time limit is more than nothing")
    return found
