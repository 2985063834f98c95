"""The quick start, run as it is printed: from the wheel, in a fresh virtual environment, and all of it a second time."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import run

from platform_plugin.templates import read_templates

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "quickstart.md").read_text()
# The second time nothing is created, nothing waits, and Tuesday's orders are in the sales of the products from the beginning.
ONCE = re.compile(r"created|there is no lake|consumed|^\D+( +\d+){2} +\d+\.\d+$")
COUNT = "platform sql --csv -c 'SELECT count(*) FROM orders'"


def blocks():
    """What is to be typed in each step, and what should be seen: pairs of a block `sh` and the text that follows it, or none."""
    for step in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        parts = re.findall(r"^```(\w+)\n(.*?)^```", step, re.DOTALL | re.MULTILINE)
        commands = [text for language, text in parts if language == "sh"]
        seen = [text for language, text in parts if language == "text"]
        for number, command in enumerate(commands):
            yield command, "".join(seen) if number == len(commands) - 1 else ""


def test_the_page_has_ten_steps_and_shows_files_as_they_are_written():
    assert re.findall(r"^## (\d+)\.", PAGE, re.MULTILINE) == [str(number) for number in range(1, 11)]
    written = dict(read_templates(name="shop"))
    for language, file in (("sql", "sql/views/sales.sql"), ("python", "read.py")):
        (shown,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
        assert shown in written[file]
    assert f"project shop written: {len(written)} files" in PAGE


class Terminal:
    """A shell that keeps its folder and its variables from one block to the next, and fails with the first command that does."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self._shell = subprocess.Popen(["bash", "--norc"], cwd=folder, env=environment, text=True, **streams)
        self._type("set -e -m -o pipefail")

    def run(self, block: str) -> str:
        """What a block prints, apart from what it does in the background."""
        assert self._shell.stdout is not None
        self._type(f"{{\n{block}\n}} </dev/null\necho '<done>'")
        lines: list[str] = []
        for line in self._shell.stdout:
            if line == "<done>\n":
                return "".join(lines)
            lines.append(line)
        raise AssertionError(f"{block}\n---\n{''.join(lines)[-6000:]}")

    def end(self) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait(timeout=30)

    def _type(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{text}\n")
        self._shell.stdin.flush()


def unseen(promised: list[str], printed: str) -> list[str]:
    """The lines that the page promises and nobody sees; `…` stands for anything, and the width of columns does not count."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    patterns = {line: ".*".join(map(re.escape, " ".join(line.split()).split("…"))) for line in promised if line.strip()}
    return [line for line, pattern in patterns.items() if not any(re.search(pattern, seen) for seen in lines)]


def install(folder: Path, extras: str) -> Path:
    """A fresh environment with the wheel, its extras and `dg`, in the versions that this project is tested with; where its programs are."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    locked = "".join((ROOT / name).read_text() for name in ("requirements.lock", "deploy/java.lock"))
    (folder / "constraints.txt").write_text("\n".join(re.findall(r"^[\w.-]+==[^\\\n]+", locked, re.MULTILINE)))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / ".venv")], check=True, timeout=60)
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False).stdout
    command = [run.find_uv(ROOT / ".venv"), "pip", "install", "--quiet", "--python", str(folder / ".venv" / "bin" / "python")]
    subprocess.run(
        [*command, "--constraint", str(folder / "constraints.txt"), f"{wheel}[{extras}]", "dagster-dg-cli"],
        check=True,
        timeout=400,
        env={**os.environ, **run.plan_uv_settings(listed, os.environ)},
    )
    return folder / ".venv" / "bin"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for(what: str, happened, seconds: float = 400.0) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"{what} did not happen within {seconds:.0f} s"
        time.sleep(1.0)


def end_group(leader: int) -> None:
    """Ctrl-C for everything that a background job of the terminal has started; what does not care is ended."""
    for number, patience in ((signal.SIGINT, 60), (signal.SIGKILL, 10)):
        for _ in range(patience * 5):
            try:
                os.killpg(leader, number if _ == 0 else 0)
            except ProcessLookupError:
                return
            time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_step_does_what_the_page_says_twice(tmp_path, capsys):
    steps = list(blocks())
    extras = re.search(r"platform-plugin\[([\w,]+)\]", steps[0][0])
    assert extras is not None
    programs = install(tmp_path, extras[1])
    (tmp_path / "run").mkdir(mode=0o700)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PLATFORM_", "DAGSTER_", "PYTHON", "VIRTUAL_ENV"))}
    environment = kept | {"PATH": f"{programs}{os.pathsep}{kept['PATH']}", "PLATFORM_RUNTIME_DIR": str(tmp_path / "run"), "COLUMNS": "200"}
    terminal = Terminal(tmp_path, environment)
    leader = None
    began = time.monotonic()
    try:
        assert terminal.run("command -v platform dg").splitlines() == [str(programs / name) for name in ("platform", "dg")]
        for again in (False, True):
            for command, expected in steps[2:] if again else steps[1:]:
                if command.strip() == "dg dev":
                    port = free_port()
                    leader = int(terminal.run(f"dg dev --port {port} >dev.log 2>&1 &\necho $!").split()[-1])
                    wait_for("the web server", lambda port=port: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
                    continue
                printed = terminal.run(command)
                if command.startswith("cp "):
                    wait_for("the arrival of the file's rows", lambda: terminal.run(COUNT).split()[-1] == "300")
                if "orders__quarantine" in command:
                    assert "changed" not in printed, "a file that is copied again is not a changed one"
                promised = [line for line in expected.splitlines() if not (again and ONCE.search(line))]
                assert unseen(promised, printed) == [], printed[-6000:]
            assert leader is not None
            end_group(leader)
        refused = terminal.run("cd .. && ! platform new shop")
        assert '"shop" is not empty' in refused
    finally:
        if leader is not None:
            end_group(leader)
        subprocess.run([str(programs / "platform"), "down"], env=environment, check=False, capture_output=True, timeout=60)
        terminal.end()
    with capsys.disabled():
        print(f"\n  the quick start twice: {time.monotonic() - began:.0f} s at a load of {os.getloadavg()[0]:.1f}")
