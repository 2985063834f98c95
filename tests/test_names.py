"""Names of classes in pages, docstrings and comments are those that the package, its tests or a library have at present."""

from __future__ import annotations

import ast
import builtins
import re
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE, TESTS, DOCS = ROOT / "platform_plugin", ROOT / "tests", ROOT / "docs"
LIBRARIES = (
    "dagster",
    "pandas",
    "pyarrow",
    "pyspark.sql",
    "pyspark.sql.functions",
    "sqlalchemy",
    "sqlalchemy.exc",
    "sqlglot.expressions",
)
ELSEWHERE = {
    "ByTeam": "a class of the reader's own, which the page defines",
    "DateTime64": "a type of ClickHouse",
    "TableProvider": "of Spark's Java",
}
"""Names that are neither in the package nor in a library that it uses."""
HISTORY = {"CHANGELOG.md"}
"""Pages about what was."""
_CODE = re.compile(r"`+([^`\n]+)`+")
_CLASS = re.compile(r"(?<![\w./\"'-])((?:[A-Z][a-z0-9]+){2,})(?:\.([a-z_]\w*))?(?![\w/-]|\.\w)")

_FILE = re.compile(r"(?<![\w./])((?:platform_plugin|tests|deploy)/[\w/]+(?:\.\w+)?)(?![\w*<{…])")


def find_classes(text: str) -> list[tuple[str, str]]:
    """The names of classes that a text has between back-ticks, and what is asked of each, if anything."""
    return [(found[1], found[2] or "") for code in _CODE.findall(text) for found in _CLASS.finditer(code)]


@cache
def defined_names() -> dict[str, set[str]]:
    """The classes and other global names of the package and the tests, each with what it has."""
    names: dict[str, set[str]] = {}
    for path in (*PACKAGE.rglob("*.py"), *TESTS.rglob("*.py"), *(ROOT / "deploy").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                own = {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
                own |= {inner.name for inner in ast.walk(node) if isinstance(inner, ast.FunctionDef)}
                own |= {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
                # What a base class has is not looked up: of such a class the name alone is compared.
                names.setdefault(node.name, set()).update(() if node.bases else own)
            elif isinstance(node, ast.FunctionDef):
                names.setdefault(node.name, set())
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    names.setdefault(ast.unparse(target), set())
            elif isinstance(node, ast.If):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Assign):
                        names.setdefault(ast.unparse(inner.targets[0]), set())
    return names


@cache
def is_of_a_library(name: str) -> bool:
    """Whether a library that the package uses has a name."""
    return hasattr(builtins, name) or any(hasattr(import_module(library), name) for library in LIBRARIES)


def find_docstrings(path: Path) -> list[str]:
    """The docstrings of a module, those of attributes among them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]


def find_unknown(text: str) -> list[str]:
    """The names in a text that nothing has."""
    names = defined_names()
    unknown = [name for name, _ in find_classes(text) if name not in names and name not in ELSEWHERE and not is_of_a_library(name)]
    return [*unknown, *(f"{name}.{part}" for name, part in find_classes(text) if part and names.get(name) and part not in names[name])]


def test_classes_that_pages_name_exist():
    pages = [page for page in (*ROOT.glob("*.md"), *DOCS.rglob("*.md")) if page.name not in HISTORY]
    found = {page.relative_to(ROOT).as_posix(): find_unknown(page.read_text(encoding="utf-8")) for page in pages}
    assert {page: names for page, names in found.items() if names} == {}


def test_classes_that_docstrings_name_exist():
    found = {path.relative_to(ROOT).as_posix(): find_unknown("\n".join(find_docstrings(path))) for path in PACKAGE.rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == {}


def test_files_that_pages_and_docstrings_name_exist():
    texts = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in (*ROOT.glob("*.md"), *DOCS.rglob("*.md"))}
    texts |= {path.relative_to(ROOT).as_posix(): "\n".join(find_docstrings(path)) for path in PACKAGE.rglob("*.py")}
    named = {(place, path) for place, text in texts.items() if place not in HISTORY for path in _FILE.findall(text)}
    assert len(named) > 20
    assert sorted((place, path) for place, path in named if not (ROOT / path).exists() and not (ROOT / f"{path}.py").exists()) == []


def test_functions_that_the_pages_on_adding_things_name_exist():
    files = [path for folder in (PACKAGE, TESTS) for path in folder.rglob("*.py")]
    words = {path.stem for path in files}.union(*(re.findall(r"\w+", path.read_text(encoding="utf-8")) for path in files))
    pages = {page.name: page.read_text(encoding="utf-8") for page in (DOCS / "howto").glob("*.md")}
    named = {
        (page, word) for page, text in pages.items() for code in _CODE.findall(text) for word in re.findall(r"[a-z]+(?:_[a-z]+)+", code)
    }
    assert len(named) > 40
    assert sorted((page, word) for page, word in named if word not in words) == []


def test_a_name_that_nothing_has_is_found():
    assert find_unknown("`SqlFolder` and `DataFrame` but `NoSuchThing`, `a.b.NoSuchFile.py`, `RunNeed.no_such_part`") == [
        "NoSuchThing",
        "RunNeed.no_such_part",
    ]
