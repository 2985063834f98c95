"""The option `--gate`: what a command commits to these relations must meet the critical expectations of their suites."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platform_plugin.cli.care import read_written_name
from platform_plugin.cli.failure import printable_text
from platform_plugin.errors import InvalidValue

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from platform_plugin.lake.catalogue.tables import Name, Snapshot
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.values.stall import Stall
    from platform_plugin.quality.suite import Suite


@contextmanager
def hold_to_suites(lake: Lake, given: argparse.Namespace) -> Iterator[None]:
    """Hold commits in the `with` block to the given suites; for a relation that does not exist yet all rows are judged.

    A commit that comes past a gate which holds something back, and is not given, is warned of.
    """
    from platform_plugin.quality.gate import hold_to_gate

    def warn(stall: Stall, snapshot: Snapshot) -> None:
        _warn_of_bypass(stall, snapshot, json_lines=getattr(given, "json", False))

    with ExitStack() as gates:
        gates.enter_context(lake.gates.reporting(warn))
        for relation, file in given.gate:
            suite = replace(read_suite_file(file), gate=True)
            if not suite.critical:
                raise InvalidValue(f'file "{file}" is a gate that nothing can close', hint="write `severity: critical` at an expectation")
            name = read_written_name(relation)
            gates.enter_context(hold_to_gate(lake, name, suite, batches=_is_stream(lake, name), view=_is_view(lake, name)))
        yield


def _warn_of_bypass(stall: Stall, snapshot: Snapshot, *, json_lines: bool) -> None:
    relation = f"{stall.schema}.{stall.name}"
    said = f'snapshot {snapshot.id} of "{relation}" came past {stall.gate}, which held back {stall.version}'
    hint = stall.hint or f"add --gate {relation}={stall.suite or 'FILE'}"
    if json_lines:
        print(json.dumps({"warning": {"message": said, "hint": hint}}, ensure_ascii=False), file=sys.stderr, flush=True)
    else:
        print(f"warning: {printable_text(said)}\n  hint: {printable_text(hint)}", file=sys.stderr, flush=True)


def read_suite_file(path: str) -> Suite:
    """The suite in a file."""
    import yaml

    from platform_plugin.quality.gallery import check_gallery
    from platform_plugin.quality.suite import parse_suite

    try:
        text = Path(path).read_text(encoding="utf-8")
        content: Any = yaml.safe_load(text)
    except OSError as error:
        raise InvalidValue(f'file "{path}" can\'t be read', detail=error.strerror, hint="check the path") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidValue(f'file "{path}" is not YAML', detail=str(error), hint="write `expectations:` and a list below it") from error
    suite = parse_suite(content, file=path)
    check_gallery(suite, file=path, text=text)
    return suite


def _is_view(lake: Lake, name: Name) -> bool:
    return any(str(view.name).lower() == str(name).lower() for view in lake.views())


def _is_stream(lake: Lake, name: Name) -> bool:
    from platform_plugin.lake.catalogue.relations import read_streams

    with lake.reading() as connection:
        streams = read_streams(connection)
    return any(str(table.uuid) in streams for table in lake.tables() if str(table.name).lower() == str(name).lower())
