import argparse
import json
import os
import re
import subprocess
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin import __version__
from platform_plugin.cli.arguments import build_parser
from tests.cli.conftest import COMMAND, ROOT

COMMANDS = [
    "init",
    "new",
    "sql",
    "status",
    "metrics",
    "tables",
    "ingest",
    "snapshots",
    "expire",
    "merge",
    "vacuum",
    "check",
    "upgrade",
    "up",
    "down",
]


def parse(*arguments):
    return build_parser().parse_args(arguments)


def seconds_of(*arguments, environment):
    """Of the processor, not of the clock on the wall, which on a loaded machine says nothing about the command."""
    before = os.times()
    subprocess.run([*COMMAND, *arguments], env=environment, cwd=ROOT, capture_output=True, check=True, timeout=30)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def test_help_names_every_command_and_the_exit_codes(platform):
    said = platform("--help", check=0).stdout
    assert [name for name in COMMANDS if f"\n    {name}" not in said] == []
    assert "130 interrupted" in said


def test_the_page_names_every_command():
    page = (ROOT / "docs" / "cli.md").read_text()
    assert [name for name in COMMANDS if f"`platform {name}" not in page] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example_that_parses(platform, command):
    import shlex

    said = platform(command, "--help", check=0).stdout
    example = said.partition("example:\n")[2].strip()
    words = shlex.split(example)
    assert words[:2] == ["platform", command]
    assert build_parser().parse_args(words[1:]).command == command


def test_help_takes_less_than_200_ms(environment):
    assert min(seconds_of("--help", environment=environment) for _ in range(5)) < 0.2


def test_status_of_a_lake_takes_less_than_half_a_second(environment, lake):
    assert min(seconds_of("status", environment=environment) for _ in range(5)) < 0.5


def test_version(platform):
    assert platform("--version", check=0).stdout == f"platform {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stauts"], "did you mean status?"),
        (["sql", "-c", "SELECT 1", "-f", "x"], "not allowed with"),
        (["sql", "--param", "nothing"], "'nothing' is not NAME=VALUE"),
        (["sql", "--param", "a b=1"], "is not NAME=VALUE"),
        (["sql", "--timeout", "soon"], "is not a duration"),
        (["sql", "--timeout", "0"], "more than nothing"),
        (["sql", "--max-rows", "-1"], "is not a whole number"),
        (["snapshots", "--limit", "0"], "whole number from 1"),
        (["expire"], "--older-than"),
        (["merge"], "TABLE"),
        (["up", "--memory", "lots"], "is not a size"),
        (["up", "--option", "=x"], "is not KEY=VALUE"),
        (["down", "--url", "x"], "unrecognized arguments"),
        (["tables", "--csv"], "see `platform tables --help`"),
    ],
)
def test_wrong_usage_is_code_2_with_a_hint(platform, arguments, said):
    done = platform(*arguments, check=2)
    assert done.stdout == ""
    assert said in done.stderr
    assert "hint:" in done.stderr


def test_no_command_shows_the_help_as_an_error(platform):
    done = platform(check=2)
    assert done.stdout == ""
    assert "first steps:" in done.stderr


@pytest.mark.parametrize(
    "arguments", [["--url", "a", "--json", "status"], ["status", "--url", "a", "--json"], ["--url", "b", "--json", "status", "--url", "a"]]
)
def test_common_options_stand_before_or_after_the_command(arguments):
    parsed = parse(*arguments)
    assert (parsed.url, parsed.json, parsed.debug) == ("a", True, False)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n=7", 7),
        (":n=7", 7),
        ("n=1.10", Decimal("1.10")),
        ("n=true", True),
        ("n=null", None),
        ('n="7"', "7"),
        ("n=007", "007"),
        ("n=NaN", "NaN"),
        ("n=a=b", "a=b"),
        ("n=", ""),
    ],
)
def test_parameters_are_read_as_json_where_they_are_json(text, value):
    assert parse("sql", "--param", text).param == [("n", value)]


@given(st.text())
def test_any_text_can_be_given_as_a_json_string(text):
    assert parse("sql", "--param", f"n={json.dumps(text)}").param == [("n", text)]


def commands_of(parser):
    (choices,) = (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return choices


def options_on_page(command):
    """The options of a command's section of docs/cli.md, each with the text beside it."""
    page = (ROOT / "docs" / "cli.md").read_text()
    section = re.search(rf"^### `platform {command}`\n(.*?)^##", page, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (`.*?`[^|]*?) \| (.+) \|$", section[1].replace(r"\|", "/"), re.MULTILINE) if section else []
    return {name: text for cell, text in rows for name in re.findall(r"`([^`]+)`", cell)}


def options_of_help(parser):
    """The same of what `--help` prints, but for the common options."""
    found = {}
    for action in parser._actions:
        if {"--help", "--url", "--json", "--debug"}.intersection(action.option_strings):
            continue
        value = action.metavar or "/".join(action.choices or ())
        for name in action.option_strings or [value]:
            wants = {0: "", "?": f" [{value}]"}.get(action.nargs, f" {value}") if action.option_strings else ""
            found[name + wants] = (action.help or "") % {"default": action.default}
    return found


@pytest.mark.parametrize("command", sorted(commands_of(build_parser())))
def test_the_page_has_each_option_of_each_command(command):
    page, printed = options_on_page(command), options_of_help(commands_of(build_parser())[command])
    assert page.keys() == printed.keys()
    for name, text in printed.items():
        default = re.search(r"\(default: [^)]+\)", text)
        assert default is None or default[0] in page[name].replace("`", ""), f"{command} {name}: docs/cli.md has another default"


def test_the_page_has_the_common_options():
    page = (ROOT / "docs" / "cli.md").read_text()
    for name in ("--url URL", "--json", "--debug", "--help"):
        assert f"| `{name}`" in page
    assert "`platform --version`" in page
