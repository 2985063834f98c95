import stat
import time

import pytest

from platform_plugin.cli import shell
from tests.cli.conftest import COMMAND, ROOT
from tests.cli.terminal import Terminal

# Drawn each time the shell waits for input: bracketed paste is switched on.
PROMPT = "\x1b[?2004h"


@pytest.fixture
def terminal(environment, lake):
    with Terminal([*COMMAND, "sql"], cwd=ROOT, env=environment) as opened:
        opened.read_until(PROMPT)
        yield opened


def ask(terminal, text, wanted):
    terminal.type(text)
    seen = terminal.read_until(wanted)
    return seen + terminal.read_until(PROMPT)


def test_the_shell_shows_relations_and_says_what_is_wrong_and_stays(terminal, environment):
    assert "posts" in ask(terminal, "\\d\n", "at snapshot")
    assert "decimal" in ask(terminal, "\\d users\n", "at snapshot").lower()
    wrong = ask(terminal, "SELEC 1;\n", "hint:")
    assert "^^^^^" in wrong
    assert "\x1b[31m" in wrong
    assert "is not known" in ask(terminal, "\\nonsense\n", "hint:")
    assert "timing is on" in ask(terminal, "\\timing\n", "timing is on")
    ask(terminal, "SHOW\nTABLES\n;\n", "took")
    terminal.type("\\q\n")
    assert terminal.process.wait(60) == 0


def test_history_is_for_the_owner_s_eyes_only(terminal, tmp_path):
    ask(terminal, "SHOW SCHEMAS;\n", "at snapshot")
    file = tmp_path / "state" / "platform" / "history"
    assert "SHOW SCHEMAS;" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_tab_completes_a_relation(terminal):
    terminal.type("SHOW COLUMNS FROM us\t")
    time.sleep(1)
    assert "region" in ask(terminal, ";\n", "at snapshot")


def test_control_c_drops_what_is_typed_and_control_d_leaves(terminal):
    terminal.type("never finished\x03")
    terminal.read_until(PROMPT)
    terminal.type("\x04")
    assert terminal.process.wait(60) == 0


@pytest.mark.spark
def test_control_c_ends_the_query_and_not_the_shell(terminal):
    ask(terminal, "SELECT 40 + 2 AS answer;\n", "at snapshot")
    terminal.type("SELECT count(*) FROM range(1000000000000);\n")
    terminal.read_until("tasks,")
    terminal.type("\x03")
    terminal.read_until("interrupted", seconds=10)
    terminal.read_until(PROMPT)
    assert "43" in ask(terminal, "SELECT 42 + 1 AS answer;\n", "at snapshot")
    terminal.type("\\q\n")
    assert terminal.process.wait(60) == 0


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; SELECT 2", False),
        ("SELECT ';", False),
        ("SELECT 1 -- ;", False),
        ("SELECT 1 /* ;", False),
        ("SELECT 1; /* done */", True),
        ("SELECT # 1", False),
        ("SELECT # 1;", True),
        ("\\d users", True),
    ],
)
def test_enter_sends_what_is_complete(text, ends):
    assert shell.is_complete_input(text) is ends


def test_history_that_can_not_be_kept_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert type(shell.open_history()).__name__ == "InMemoryHistory"


def test_history_follows_no_link(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "platform").mkdir()
    (tmp_path / "platform" / "history").symlink_to(tmp_path / "elsewhere")
    assert type(shell.open_history()).__name__ == "InMemoryHistory"
    assert not (tmp_path / "elsewhere").exists()
