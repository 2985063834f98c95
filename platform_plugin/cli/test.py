"""`platform test`: checks that the views of a folder answer what the cases beside them expect."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from platform_plugin.cli.output.amounts import seconds_text
from platform_plugin.cli.output.machine import print_document
from platform_plugin.cli.output.progress import ProgressLine
from platform_plugin.errors import UnknownObject
from platform_plugin.language.text.counting import count_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from platform_plugin.engine.spark.server.liveness import Watcher
    from platform_plugin.quality.cases import Case

_FEW = 20

FOLDERS = ("sql", "dbt_like_sql")
"""The folders with SQL files in a project of `platform new`, and in the reference platform."""


def choose_folder(named: str | None) -> Path:
    """The given folder, else the first of `FOLDERS` that exists."""
    if named is not None:
        return Path(named)
    for usual in map(Path, FOLDERS):
        if usual.is_dir():
            return usual
    raise UnknownObject(f"there is no folder {' or '.join(FOLDERS)} here", hint="name the folder of the SQL files: platform test FOLDER")


def run_test(given: argparse.Namespace) -> int:
    """Run the cases of a folder, on lakes of their own; 1 if any view answers otherwise."""
    from platform_plugin.quality.trial import read_folder, run_trials

    folder = choose_folder(given.folder)
    known = read_folder(folder)
    cases = [case for case in known if given.only is None or given.only in str(case)]
    if not known:
        raise UnknownObject(f'folder "{folder}" has no case to run', hint="put view.test.yml beside view.sql")
    if not cases:
        raise UnknownObject(f'no case\'s file or name holds "{given.only}"', hint=_cases_text(known))
    began, failed, start = time.monotonic(), 0, _ServerStart()
    line = ProgressLine("running the cases")
    trials = run_trials(folder, cases, watcher=start.watch(line))
    while True:
        line.reset("running the cases")
        with line:
            tried = next(trials, None)
        if tried is None:
            break
        failed += not tried.passed
        if given.json:
            print_document({"file": str(tried.case.file), "case": tried.case.name, "passed": tried.passed, "difference": tried.difference})
        else:
            print(f"{'ok    ' if tried.passed else 'FAILED'}  {tried.case}")
            if tried.difference is not None:
                print(tried.difference)
        sys.stdout.flush()
    if not given.json:
        said = f"{count_text(failed, 'case')} of {len(cases)} failed" if failed else f"{count_text(len(cases), 'case')} passed"
        waited = f", {seconds_text(start.seconds)} of them until Spark was there" if start.seconds else ""
        print(f"{said} in {seconds_text(time.monotonic() - began)}{waited}")
    return 1 if failed else 0


def _cases_text(known: Sequence[Case]) -> str:
    """The cases that there are, as a hint; the first few of many."""
    told = "; ".join(map(str, known[:_FEW]))
    return f"there are {told}" + (f"; and {len(known) - _FEW} more" if len(known) > _FEW else "")


class _ServerStart:
    """The seconds that the cases waited for a platform server to start; 0.0 where one was there."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def watch(self, line: ProgressLine) -> Watcher:
        """A watcher that shows the start in a progress line, too."""

        def watch(phase: str, seconds: float) -> None:
            self.seconds = max(self.seconds, seconds)
            line.watch(phase, seconds)

        return watch
