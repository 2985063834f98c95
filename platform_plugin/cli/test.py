"""`platform test`: checks that the views of a folder answer what the cases beside them expect."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from platform_plugin.cli.output.amounts import seconds_text
from platform_plugin.cli.output.machine import print_document
from platform_plugin.errors import UnknownObject
from platform_plugin.language.text.counting import count_text

if TYPE_CHECKING:
    import argparse


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
    from platform_plugin.quality.cases import find_cases
    from platform_plugin.quality.trial import run_trials

    folder = choose_folder(given.folder)
    cases = [case for case in find_cases(folder) if given.only is None or given.only in str(case)]
    if not cases:
        raise UnknownObject(f'folder "{folder}" has no case to run', hint="put view.test.yml beside view.sql")
    began, failed = time.monotonic(), 0
    for tried in run_trials(folder, cases):
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
        print(f"{said} in {seconds_text(time.monotonic() - began)}")
    return 1 if failed else 0
