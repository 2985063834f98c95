"""`platform new`: writes the files of a new project with a working example."""

from __future__ import annotations

import keyword
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from platform_plugin.cli.output.machine import print_document
from platform_plugin.errors import InvalidValue, ObjectExists
from platform_plugin.templates import TOP_FOLDERS, write_templates

if TYPE_CHECKING:
    import argparse

_NEXT = """\
next: cd {folder}
      export DAGSTER_HOME=$PWD/dagster_home PLATFORM_URL=platform+local://$PWD/.platform/lake
      platform test sql             the view answers as its test says
      dg launch --assets '*'        creates what sql/ declares, and reads the feed
      dg dev                        the web interface
README.md there has the rest"""


def run_new(given: argparse.Namespace) -> int:
    """Write the files of a new project into a folder that is new or empty."""
    folder = Path(given.folder).expanduser()
    name = folder.absolute().name if folder.name else folder.resolve().name
    check_name(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "is not empty" if folder.is_dir() else "is a file"
        hint = "name a folder that is not there yet, or an empty one"
        if (folder / name / "definitions.py").is_file():
            hint = f"it has a project already: cd {folder}; for another one, {hint}"
        raise ObjectExists(f'"{folder}" {what}', hint=hint)
    written = write_templates(folder, name=name)
    if given.json:
        print_document({"project": name, "folder": str(folder.resolve()), "files": [str(file.relative_to(folder)) for file in written]})
    else:
        print(f"project {name} written: {len(written)} files in {folder}\n{_NEXT.format(folder=folder)}")
    return 0


def check_name(name: str) -> None:
    """Refuse the name of a project that can't be the name of a Python package.

    >>> check_name("shop")
    >>> check_name("my-shop")
    Traceback (most recent call last):
        ...
    platform_plugin.errors.InvalidValue: "my-shop" can't be the name of a project
      detail: a project is a Python package: lower-case letters, digits and _, and a letter first
      hint: call it my_shop
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        better = re.sub(r"\W+", "_", name.lower(), flags=re.ASCII).strip("_")
        better = better if re.match(r"[a-z]", better) else f"shop_{better}".strip("_")
        better = f"my_{better}" if keyword.iskeyword(better) else better
        raise InvalidValue(
            f'"{name}" can\'t be the name of a project',
            detail="a project is a Python package: lower-case letters, digits and _, and a letter first",
            hint=f"call it {better}",
        )
    if name in TOP_FOLDERS:
        raise InvalidValue(f'"{name}" can\'t be the name of a project', detail="a folder in it has that name", hint=f"call it my_{name}")
    found = find_spec(name)
    # A folder that happens to be on the path has no origin; what has one would be imported in place of the project.
    if found is not None and found.origin is not None:
        raise InvalidValue(
            f'"{name}" can\'t be the name of a project', detail="an installed Python module has that name", hint=f"call it my_{name}"
        )
