"""No kind of relation imports another: what several kinds use lies below them, and what one tells the others is a hook."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from platform_plugin.relations.kinds import KINDS
from tests.house.exceptions import KINDS_THAT_KNOW_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

RELATIONS = Path(__file__).parents[2] / "platform_plugin" / "relations"
PREFIX = "platform_plugin.relations."
LIST = "kinds"
"""The module that may name every kind."""


def find_folders(relations: Path) -> set[str]:
    """The folders of kinds: those with a `kind.py`."""
    return {path.parent.name for path in relations.glob("*/kind.py")}


def read_modules(tree: ast.AST) -> Iterator[str]:
    """Every module that a file imports, wherever in it, also for types alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def find_breaches(relations: Path) -> set[tuple[str, str]]:
    """Each module below `relations` that imports a kind which is not its own, with that kind."""
    folders = find_folders(relations)
    found = set()
    for path in sorted(relations.rglob("*.py")):
        place = path.relative_to(relations)
        own = place.parts[0] if len(place.parts) > 1 else ""
        if place.as_posix() == f"{LIST}.py":
            continue
        for module in read_modules(ast.parse(path.read_text(), filename=str(path))):
            kind = module.removeprefix(PREFIX).partition(".")[0] if module.startswith(PREFIX) else ""
            if kind in folders and kind != own:
                found.add((place.with_suffix("").as_posix(), kind))
    return found


def test_no_kind_imports_a_kind():
    breaches = find_breaches(RELATIONS)
    assert sorted(breaches - set(KINDS_THAT_KNOW_KINDS)) == [], "a module knows another kind"
    assert sorted(set(KINDS_THAT_KNOW_KINDS) - breaches) == [], "an exception that nothing needs any more"
    assert all(reason.strip() for reason in KINDS_THAT_KNOW_KINDS.values())


def test_every_folder_of_a_kind_is_in_the_list():
    listed = {type(kind).__module__.removeprefix(PREFIX).partition(".")[0] for kind in KINDS}
    assert listed == find_folders(RELATIONS)
    assert len({kind.name for kind in KINDS}) == len({kind.plural for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("samples/draw.py", "from platform_plugin.relations.views.record import read_records"),
        ("samples/draw.py", "def draw():\n    import platform_plugin.relations.views.record"),
        ("samples/draw.py", "if TYPE_CHECKING:\n    from platform_plugin.relations import views"),
        ("bind.py", "from platform_plugin.relations.views.record import read_records"),
    ],
)
def test_a_breach_is_found(tmp_path, path, source):
    for name in ("samples/kind.py", "views/kind.py", "kinds.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("from platform_plugin.relations.kind import Kind")
    (tmp_path / path).write_text(source)
    assert find_breaches(tmp_path) == {(path.removesuffix(".py"), "views")}
