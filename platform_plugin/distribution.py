"""The distribution: what the package is called where it is installed, which extras it has, and what to run to add one of them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Literal

NAME = "platform-plugin"

Extra = Literal["dagster", "jdk", "kafka", "postgres", "quality", "team"]

FILE_SYSTEMS = {
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "gcs": "gcsfs",
    "gs": "gcsfs",
    "http": "aiohttp",
    "https": "aiohttp",
    "s3": "s3fs",
    "s3a": "s3fs",
}
"""The packages that read the usual schemes of URLs through fsspec; none is an extra, because each has its own releases."""

_CLONE = Path(__file__).resolve().parent.parent


@cache
def is_wheel() -> bool:
    """Whether this copy of the package was installed from a wheel, so that nothing of the project is here but the package itself."""
    try:
        origin = distribution(NAME).read_text("direct_url.json")
    except PackageNotFoundError:
        return False
    is_editable = origin is not None and json.loads(origin).get("dir_info", {}).get("editable", False)
    return not is_editable and not (_CLONE / "pyproject.toml").exists()


def install_line(extra: Extra) -> str:
    """The command that adds an extra to this installation: pip leaves the package as it is and installs what the extra names.

    >>> install_line("kafka").partition("pip install ")[2]
    '"platform-plugin[kafka]"'
    """
    try:
        distribution(NAME)
    except PackageNotFoundError:
        # A clone that is only on Python's path: no index has the package.
        return f'{_pip()} install --editable "{_CLONE}[{extra}]"'
    return f'{_pip()} install "{NAME}[{extra}]"'


def install_line_for_scheme(scheme: str) -> str | None:
    """The command that adds the file system of a URL's scheme; None where no package is known for it.

    >>> install_line_for_scheme("s3").partition("pip install ")[2], install_line_for_scheme("s5")
    ('s3fs', None)
    """
    package = FILE_SYSTEMS.get(scheme.lower())
    return None if package is None else f"{_pip()} install {package}"


def page(name: str) -> str:
    """Where a page of the documentation is to be read: its file in a clone, its name where only the wheel is.

    >>> page("views/aggregates.md").endswith("views/aggregates.md")
    True
    """
    if is_wheel():
        return f"{name} of the documentation"
    file = _CLONE / "docs" / name
    return str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)


def _pip() -> str:
    """The pip of this Python: by its short name where the shell means the same one, else by the Python's path."""
    found = shutil.which("pip", path=os.environ.get("PATH", os.defpath))
    is_ours = found is not None and Path(found).parent == Path(sys.executable).parent
    return "pip" if is_ours else f"{sys.executable} -m pip"
