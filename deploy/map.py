"""Draws `docs/map.md` from the package: its rooms in their order, what each imports, and what each module is for."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "platform_plugin"
PAGE = ROOT / "docs" / "map.md"
ROOMS = (
    "algebra",
    "language",
    "lake",
    "engine",
    "state",
    "operators",
    "relations",
    "maintenance",
    "select",
    "platform",
    "quality",
    "dialect",
    "cli",
    "orchestration",
)
"""Lowest first: a room imports only rooms before it."""
_BELOW_ALL = ("cache", "distribution", "errors", "redaction", "templates")

_HEAD = """# Map of the package

Drawn from the code by `python deploy/map.py`; a test fails if this page is not what the code is. The rooms stand in the order in which they
may import each other, lowest first. [Flows](flows.md) follows five pieces of work through them, [words](words.md) explains the terms.
"""


def read_sentence(path: Path) -> str:
    """What a module's docstring says first, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.split("\n\n")[0].split())


def find_room(module: str) -> str:
    """The room of a dotted module name below the package."""
    return module.split(".")[1] if "." in module else module


def count_imports(package: Path = PACKAGE) -> Counter[tuple[str, str]]:
    """How many imports lead from one room to another."""
    edges: Counter[tuple[str, str]] = Counter()
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("platform_plugin."):
                target = find_room(node.module)
                if target != room and room in ROOMS and target in ROOMS:
                    edges[room, target] += 1
    return edges


def _list_modules(folder: Path) -> list[str]:
    modules = [path for path in sorted(folder.glob("*.py")) if path.stem not in ("__init__", "__main__")]
    return [f"| `{path.stem}` | {read_sentence(path)} |" for path in modules]


def draw_folder(folder: Path, level: int = 2) -> list[str]:
    """One folder with its modules, then the folders in it."""
    name = str(folder.relative_to(PACKAGE))
    lines = ["", f"{'#' * min(level, 4)} `{name}/`", "", read_sentence(folder / "__init__.py")]
    modules = _list_modules(folder)
    if modules:
        lines += ["", "| module | what it is for |", "|---|---|", *modules]
    for inner in sorted(path for path in folder.iterdir() if (path / "__init__.py").exists()):
        lines += draw_folder(inner, level + 1)
    return lines


def draw_map() -> str:
    """The whole page."""
    edges = count_imports()
    lines = [_HEAD, "| room | what it is | imports |", "|---|---|---|"]
    for room in ROOMS:
        path = PACKAGE / room
        sentence = read_sentence(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))
        used = ", ".join(target for target in ROOMS if edges[room, target])
        name = f"[`{room}/`](#{room})" if path.is_dir() else f"`{room}.py`"
        lines.append(f"| {name} | {sentence} | {used or 'nothing'} |")
    lines += ["", "Below all of them stand these modules, which everything may import:", "", "| module | what it is for |", "|---|---|"]
    for name in _BELOW_ALL:
        path = PACKAGE / name
        lines.append(f"| `{name}` | {read_sentence(path / '__init__.py' if path.is_dir() else path.with_suffix('.py'))} |")
    for room in ROOMS:
        if (PACKAGE / room).is_dir():
            lines += draw_folder(PACKAGE / room)
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or with `--check` say whether it is as the code is."""
    text = draw_map()
    if "--check" in sys.argv:
        if PAGE.exists() and PAGE.read_text() == text:
            return 0
        print("docs/map.md is not as the code is: run python deploy/map.py")
        return 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
