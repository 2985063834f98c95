"""`--gate` holds what a command commits to a suite, whatever statement or service does it."""

from __future__ import annotations

import re
from argparse import Namespace

import pytest

from platform_plugin.cli.arguments import build_parser
from platform_plugin.cli.gates import hold_to_suites
from platform_plugin.errors import InvalidValue
from platform_plugin.platform import Platform
from platform_plugin.quality.gate import RowsRefused
from tests.cli.conftest import ROOT

SUITE = "expectations: [{type: expect_column_values_to_be_between, kwargs: {column: amount, min_value: 0}}]"


def test_what_is_no_gate_is_told(tmp_path, capsys):
    parser = build_parser()
    for command in (["sql"], ["ingest", "s"], ["maintain"]):
        assert parser.parse_args([*command, "--gate", "a=b.yml", "--gate", "`c`=d.yml"]).gate == [("a", "b.yml"), ("`c`", "d.yml")]
        with pytest.raises(SystemExit):
            parser.parse_args([*command, "--gate", "sales"])
    assert "'sales' is not NAME=FILE" in capsys.readouterr().err
    warned = tmp_path / "s.yml"
    warned.write_text(SUITE.replace("kwargs", "severity: warning, kwargs"))
    with Platform.create(tmp_path / "lake") as platform:
        for file, told in ((warned, "a gate that nothing can close"), (tmp_path / "none.yml", "can't be read")):
            with pytest.raises(InvalidValue, match=told), hold_to_suites(platform.lake, Namespace(gate=[("t", str(file))])):
                pass


def test_rows_that_break_a_gate_are_not_committed(tmp_path):
    pytest.importorskip("great_expectations")
    file = tmp_path / "strict.yml"
    file.write_text(SUITE)
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE t (amount INT)")
        with hold_to_suites(platform.lake, Namespace(gate=[("t", str(file))])):
            platform.execute("INSERT INTO t VALUES (1)")
            with pytest.raises(RowsRefused, match=f'nothing was published in "main.t": 1 of 1 critical expectations of suite "{file}"'):
                platform.execute("INSERT INTO t VALUES (2), (-1)")
        platform.execute("INSERT INTO t VALUES (-3)")
        assert sorted(platform.lake.read("t")["amount"].to_pylist()) == [-3, 1]


@pytest.mark.slow
def test_the_suite_of_the_page_is_a_gate(platform, lake, tmp_path):
    """What docs/cli.md says of it."""
    pytest.importorskip("great_expectations")
    (suite,) = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs" / "cli.md").read_text(), re.MULTILINE | re.DOTALL)
    file = tmp_path / "users.expectations.yml"
    file.write_text(suite.replace("score", "id"))
    told = platform("sql", "-c", "INSERT INTO users (id) VALUES (-1)", "--gate", f"users={file}", "--url", lake, check=1).stderr
    assert 'nothing was published in "main.users"' in told
    assert "-1" in told
    platform("sql", "-c", "INSERT INTO users (id) VALUES (77)", "--gate", f"users={file}", "--url", lake, check=0)


def test_a_suite_with_a_typo_is_told_before_anything_is_committed(platform, lake, tmp_path):
    pytest.importorskip("great_expectations")
    file = tmp_path / "s.yml"
    file.write_text("expectations:\n  - type: expect_column_values_to_be_betwen\n    kwargs: {column: id}")
    for command in (("sql", "-c", "SHOW STREAMS", "--gate", f"users={file}"), ("validate", "users", str(file))):
        told = platform(*command, "--url", lake, check=1).stderr
        assert f'file "{file}": line 2: there is no expectation "expect_column_values_to_be_betwen"' in told
        assert "did you mean expect_column_values_to_be_between?" in told
