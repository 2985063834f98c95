"""The installed distribution: its name and extras, and the commands that install what is missing."""

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

Extra = Literal["azure", "dagster", "gcs", "jdk", "kafka", "postgres", "quality", "s3", "team"]

_STORES: dict[str, Extra] = {"abfs": "azure", "abfss": "azure", "az": "azure", "gcs": "gcs", "gs": "gcs", "s3": "s3", "s3a": "s3"}
_PACKAGES = {"http": "aiohttp", "https": "aiohttp"}
"""The packages by which fsspec opens schemes of URLs for which there is no extra."""

_CLONE = Path(__file__).resolve().parent.parent


@cache
def is_wheel() -> bool:
    """Whether the package was installed from a wheel, so that no other file of the project is there."""
    try:
        origin = distribution(NAME).read_text("direct_url.json")
    except PackageNotFoundError:
        return False
    is_editable = origin is not None and json.loads(origin).get("dir_info", {}).get("editable", False)
    return not is_editable and not (_CLONE / "pyproject.toml").exists()


def install_line(extra: Extra) -> str:
    """The command that installs an extra: pip leaves the package as it is and installs what the extra names.

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
    """The command that installs the file system of a URL's scheme; None if no package is known for it.

    >>> install_line_for_scheme("s3").partition("pip install ")[2], install_line_for_scheme("s5")
    ('"platform-plugin[s3]"', None)
    """
    extra = _STORES.get(scheme.lower())
    if extra is not None:
        return install_line(extra)
    package = _PACKAGES.get(scheme.lower())
    return None if package is None else f"{_pip()} install {package}"


def page(name: str) -> str:
    """The place of a page of the documentation: its file in a clone, its name for a wheel.

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
