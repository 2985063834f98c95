"""`--gate` holds what a command commits to a suite, whatever statement or service does it."""

from __future__ import annotations

import json
import re
from argparse import Namespace

import pytest

from platform_plugin.cli.arguments import build_parser
from platform_plugin.cli.gates import hold_to_suites
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.commit.gates import GateRefusal
from platform_plugin.platform import Platform
from platform_plugin.quality.gate import RowsRefused
from platform_plugin.relations.streams.feeds.ingest import run_ingest
from platform_plugin.select.overview import read_overview
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


@pytest.fixture
def stalled(tmp_path):
    """A lake with a stream `s` and a table `t`, of each of which the gate in a file holds rows back."""
    pytest.importorskip("great_expectations")
    file = tmp_path / "strict.yml"
    file.write_text(SUITE)
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE TABLE source (amount INT); CREATE TABLE t (amount INT); INSERT INTO source VALUES (-3)")
        made.execute("CREATE STREAM s FROM TABLE source")
        with hold_to_suites(made.lake, Namespace(gate=[("s", str(file)), ("t", str(file))])):
            for publish in (lambda: run_ingest(made.work, "s"), lambda: made.execute("INSERT INTO t VALUES (-1)")):
                with pytest.raises(RowsRefused) as refused:
                    publish()
                assert f", in Dagster or with --gate main.{'s' if 'main.s' in refused.value.message else 't'}={file}" in refused.value.hint
        yield made


def stalls(platform):
    return [each.name for each in read_overview(str(platform.lake.location)).stalls]


def test_a_batch_that_a_gate_holds_back_is_not_read_without_it_by_accident(stalled, capsys):
    with hold_to_suites(stalled.lake, Namespace(gate=[])):
        with pytest.raises(GateRefusal, match=r'strict\.yml" holds back what stream "main\.s" has to read') as refused:
            run_ingest(stalled.work, "s")
        assert "--gate main.s=" in refused.value.hint
        assert "--past-gate" in refused.value.hint
        assert (stalls(stalled), stalled.lake.read("s").num_rows) == (["s", "t"], 0)
        snapshot = run_ingest(stalled.work, "s", past_gate=True).snapshot
        told = capsys.readouterr().err
        assert f'warning: snapshot {snapshot} of "main.s" came past the gate of suite' in told
        assert "which held back a version with 1 row" in told
        assert (stalls(stalled), stalled.lake.read("s")["amount"].to_pylist()) == (["t"], [-3])
        stalled.execute("INSERT INTO source VALUES (-4)")
        assert run_ingest(stalled.work, "s").rows == 1, "nothing is held back any more"
    assert capsys.readouterr().err == ""


def test_rows_that_a_statement_brings_past_a_gate_are_warned_of(stalled, capsys, tmp_path):
    with hold_to_suites(stalled.lake, Namespace(gate=[], json=True)):
        stalled.execute("INSERT INTO source VALUES (1)")
        assert capsys.readouterr().err == ""
        stalled.execute("INSERT INTO t VALUES (-2)")
        warning = json.loads(capsys.readouterr().err)["warning"]
        assert 'of "main.t" came past the gate' in warning["message"]
        assert "--gate main.t=" in warning["hint"]
    assert stalls(stalled) == ["s", "t"], "these are other rows than those that it holds back"
    stalled.execute("INSERT INTO t VALUES (-2)")
    assert capsys.readouterr().err == "", "a library prints nothing"
    with hold_to_suites(stalled.lake, Namespace(gate=[("t", str(tmp_path / "strict.yml"))])):
        stalled.execute("INSERT INTO t VALUES (5)")
    assert (capsys.readouterr().err, stalls(stalled)) == ("", ["s"])


def test_the_option_lets_the_command_read_what_is_held_back(platform, stalled, url):
    refused = platform("ingest", "s", "--once", "--url", url, check=1)
    assert "holds back what stream" in refused.stderr
    done = platform("ingest", "s", "--once", "--past-gate", "--url", url, check=0)
    assert "1 row in 1 batch" in done.stdout
    assert "warning: snapshot" in done.stderr


def test_a_suite_with_a_typo_is_told_before_anything_is_committed(platform, lake, tmp_path):
    pytest.importorskip("great_expectations")
    file = tmp_path / "s.yml"
    file.write_text("expectations:\n  - type: expect_column_values_to_be_betwen\n    kwargs: {column: id}")
    for command in (("sql", "-c", "SHOW STREAMS", "--gate", f"users={file}"), ("validate", "users", str(file))):
        told = platform(*command, "--url", lake, check=1).stderr
        assert f'file "{file}": line 2: there is no expectation "expect_column_values_to_be_betwen"' in told
        assert "did you mean expect_column_values_to_be_between?" in told
