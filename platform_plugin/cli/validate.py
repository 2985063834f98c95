"""`platform validate`: judges all rows of a relation by a suite of expectations, and prints the cost."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from platform_plugin.cli.care import lake_url, read_written_name
from platform_plugin.cli.gates import read_suite_file
from platform_plugin.cli.output.amounts import byte_text, seconds_text
from platform_plugin.cli.output.machine import print_document
from platform_plugin.cli.output.progress import ProgressLine
from platform_plugin.language.text.counting import count_text

if TYPE_CHECKING:
    import argparse

    from platform_plugin.quality.full import JudgedSuite
    from platform_plugin.quality.suite import Suite
    from platform_plugin.quality.validate import ExpectationOutcome

_ENGINES = {"arrow": "as Arrow", "spark": "on Spark"}


def run_validate(given: argparse.Namespace) -> int:
    """Judge a relation; 1 if a critical expectation is not met."""
    from platform_plugin.platform import Platform
    from platform_plugin.quality.full import run_suite

    url, name, suite = lake_url(given), read_written_name(given.relation), _suite(given.suite, given.engine)
    with ProgressLine("judging") as line, Platform.open(url, watcher=line.watch, limits=dict(given.engine_limit)) as platform:
        judged = run_suite(platform, name, suite)
    failed = [each for each in judged.findings if not each.passed]
    if given.json:
        print_document(
            {
                "relation": str(name),
                "snapshot": judged.snapshot,
                **judged.cost,
                "expectations": [_document(each) for each in judged.findings],
            }
        )
    else:
        for each in judged.findings:
            _print(each)
        said = f"{count_text(len(failed), 'expectation')} of {len(judged.findings)} not met" if failed else "all expectations are met"
        print(f"{said}: {_cost(judged)}")
    return 1 if any(each.expectation.severity == "critical" for each in failed) else 0


def _suite(path: str, engine: Any) -> Suite:
    """The suite of a file, about all rows whatever it says, and for the engine that was asked for."""
    from platform_plugin.quality.suite import check_engine

    suite = replace(read_suite_file(path), rows="full")
    suite = suite if engine is None else replace(suite, engine=engine)
    check_engine(suite, file=path)
    return suite


def _print(finding: ExpectationOutcome) -> None:
    mark = "ok    " if finding.passed else "FAILED" if finding.expectation.severity == "critical" else "warned"
    figures = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in finding.figures.items())
    print(f"{mark}  {finding.name}{f': {figures}' if figures else ''}")
    if finding.trouble is not None:
        print(f"          {finding.trouble}")
    for row in finding.rows:
        print("          " + ", ".join(f"{column} {value}" for column, value in row.items()))
    sys.stdout.flush()


def _cost(judged: JudgedSuite) -> str:
    read = f"{byte_text(judged.bytes)} {'read' if judged.engine == 'spark' else 'brought over'}"
    jobs = f" in {count_text(judged.jobs, 'job')}" if judged.engine == "spark" else ""
    where = _ENGINES[judged.engine]
    return f"{count_text(judged.rows, 'row')} at snapshot {judged.snapshot}, {read}, {seconds_text(judged.seconds)} {where}{jobs}"


def _document(finding: ExpectationOutcome) -> dict[str, Any]:
    return {
        "expectation": finding.name,
        "severity": finding.expectation.severity,
        "passed": finding.passed,
        "figures": dict(finding.figures),
        "trouble": finding.trouble,
        "rows": [dict(row) for row in finding.rows],
    }
