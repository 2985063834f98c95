import json

import pytest

from platform_plugin.cli import main
from platform_plugin.cli.failure import failure_document, failure_lines, printable_text
from platform_plugin.errors import PlatformError
from platform_plugin.language.script import parse_script


def test_an_error_shows_its_place_its_caret_and_its_hint(platform, lake):
    done = platform("sql", "-c", "SELECT *\nFORM users", check=1)
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert lines[1] == "  line 2, column 1"
    assert lines[2].index("FORM") == lines[3].index("^^^^")
    assert lines[-1] == "  hint: did you mean FROM?"


def test_an_error_for_programs_is_one_json_document_on_standard_error(platform, lake):
    done = platform("sql", "--json", "-c", "SHOW COLUMNS FROM usres", check=1)
    assert done.stdout == ""
    error = json.loads(done.stderr)["error"]
    assert (error["kind"], error["line"], error["column"]) == ("UnknownObject", 1, 19)
    assert "main.users" in error["hint"]


def test_a_missing_url_says_how_to_set_it(platform):
    done = platform("tables", check=1, PLATFORM_URL=None)
    assert "export PLATFORM_URL=" in done.stderr


def test_debug_shows_the_traceback(platform, url):
    done = platform("tables", "--debug", check=1)
    assert "Traceback" in done.stderr
    assert done.stderr.rstrip().splitlines()[-1].startswith("  hint:")


def test_no_colour_without_a_terminal(platform, lake):
    assert "\x1b" not in platform("sql", "-c", "SELEC 1", check=1).stderr


def test_a_text_can_not_steer_the_terminal():
    error = PlatformError('table "\x1b[2J" is \x9b31m odd', detail="a\x07b\n   ^^", hint="c\rd")
    for colour in (False, True):
        text = "\n".join(failure_lines(error, colour=colour))
        assert not {"\x9b", "\x07", "\r"} & set(text)
        assert "\x1b[2J" not in text
    assert printable_text("é\t字\n") == "é  字\n"


def test_what_nobody_foresaw_is_told_as_such():
    document = failure_document(ZeroDivisionError("by zero"))
    assert (document["kind"], document["message"], document["detail"]) == ("ZeroDivisionError", "unexpected ZeroDivisionError", "by zero")
    assert "--debug" in document["hint"]


def test_a_disk_error_names_the_file():
    assert failure_document(FileNotFoundError(2, "No such file or directory", "/x/y"))["message"] == '"/x/y": No such file or directory'


def test_a_place_reaches_programs():
    with pytest.raises(PlatformError) as caught:
        parse_script("SELECT 1;\n  SELEC 2")
    assert {"line": 2, "column": 3}.items() <= failure_document(caught.value).items()


def test_ctrl_c_before_the_command_is_known_is_no_traceback(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("platform_plugin.cli.arguments.build_parser", interrupted)
    assert main(["status"]) == 130
    assert capsys.readouterr() == ("", "")
