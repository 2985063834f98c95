"""`read_templates` and `write_templates`: the files of a new project, for `platform new` and `dg scaffold`."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable
    from pathlib import Path

_PACKAGE, _SUFFIX, _NAME = "package", ".template", "{{name}}"
TOP_FOLDERS = frozenset({"dagster_home", "data", "incoming", "sql"})
"""The folders of a project beside its Python package, which can't have one of these names."""


def read_templates(folder: str = "", *, name: str = "") -> Iterator[tuple[str, str]]:
    """Path and text of each file of a new project, or of a folder in it; `name` is the project's.

    >>> sorted(path for path, _ in read_templates("sql/samples"))
    ['orders_sample.sql']
    """
    root = files(__package__).joinpath("project")
    for path, text in _read(root.joinpath(folder) if folder else root, ""):
        parts = [name if part == _PACKAGE else part for part in path.removesuffix(_SUFFIX).split("/")]
        yield "/".join(parts), text.replace(_NAME, name)


def write_templates(target: Path, folder: str = "", *, name: str = "") -> list[Path]:
    """Write those files below a folder and return the new ones; a file that exists stays as it is."""
    written = []
    for path, text in read_templates(folder, name=name):
        file = target / path
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            written.append(file)
    return written


def _read(folder: Traversable, above: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not entry.is_dir():
            yield f"{above}{entry.name}", entry.read_text(encoding="utf-8")
        elif entry.name != "__pycache__":
            yield from _read(entry, f"{above}{entry.name}/")
