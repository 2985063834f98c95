"""A room imports only the rooms below it, and each engine is imported in its own room."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[2] / "platform_plugin"

# The first part of a module's name below `platform_plugin`, lowest room first. A module may import its own room and those below.
ROOMS = (
    {"redaction", "errors", "templates", "distribution", "cache"},
    {"algebra"},
    {"language"},
    {"lake"},
    {"engine"},
    {"state"},
    {"operators"},
    {"relations"},
    {"maintenance"},
    {"select"},
    {"platform"},
    {"quality"},
    {"dialect", "cli", "orchestration"},
)
RANK = {name: rank for rank, names in enumerate(ROOMS) for name in names}

ENGINES = {"pyspark", "dagster", "pandas"}
# Where a library may not be imported at all, not even for its types. DuckDB is the tests' reader, never the product's.
BANNED = {name: {"duckdb", "dagster", "great_expectations"} for name in RANK}
for lowest in ("redaction", "errors", "algebra", "language", "lake"):
    BANNED[lowest] |= ENGINES
BANNED["orchestration"] -= {"dagster"}
BANNED["quality"] -= {"dagster", "great_expectations"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One imported module, and whether running the file imports it or only a type checker or a function does."""

    module: str
    line: int
    at_load: bool


def read_imports(tree: ast.AST, *, at_load: bool = True) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(module=alias.name, line=node.lineno, at_load=at_load) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative imports hide the room"
            # `from platform_plugin import lake` names a module just as `import platform_plugin.lake` does.
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "platform_plugin" else [str(node.module)]
            yield from (Import(module=name, line=node.lineno, at_load=at_load) for name in names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from read_imports(ast.Module(body=node.body, type_ignores=[]), at_load=False)
            yield from read_imports(ast.Module(body=node.orelse, type_ignores=[]), at_load=at_load)
        else:
            inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from read_imports(node, at_load=at_load and not inside)


def find_breaches(package: Path) -> list[str]:
    """Every import that points up, every library out of its room, and every module that has no room."""
    found = []
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        tree = ast.parse(path.read_text(), filename=str(path))
        if place == Path("__init__.py"):
            eager = [used for used in read_imports(tree) if used.at_load and _heavy(used)]
            found += [f"{place}:{used.line} loads {used.module} when imported" for used in eager]
            continue
        room = place.parts[0].removesuffix(".py")
        if room not in RANK:
            found.append(f"{place} has no room; add {room} to ROOMS")
            continue
        for used in read_imports(tree):
            top, _, rest = used.module.partition(".")
            if top == "platform_plugin":
                target = rest.partition(".")[0]
                # Names such as PlatformError that the package itself hands out load their module lazily.
                if target in RANK and RANK[target] > RANK[room]:
                    found.append(f"{place}:{used.line} imports {used.module}, which is above {room}")
            elif top in BANNED[room]:
                found.append(f"{place}:{used.line} imports {top}, which has no place in {room}")
        found += _impure_plans(place, tree)
    return found


def _heavy(used: Import) -> bool:
    return used.module.partition(".")[0] not in {"__future__", "importlib", "typing"}


def _impure_plans(place: Path, tree: ast.Module) -> Iterator[str]:
    """Planning is pure: neither a `plan_*` function nor what loads with it touches an engine."""
    plans = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("plan_")]
    names = place.stem.split("_")
    suspects = [used for used in read_imports(tree) if used.at_load] if plans or names[0] in {"plan", "planning"} else []
    for plan in plans:
        suspects += read_imports(plan)
    for used in suspects:
        if used.module.partition(".")[0] in ENGINES:
            yield f"{place}:{used.line} imports {used.module}, but plans are pure"


def test_the_package_keeps_the_order_of_its_rooms():
    assert find_breaches(PACKAGE) == []


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("lake/commit.py", "from platform_plugin.engine.spark.server.server import start", "which is above lake"),
        ("lake/commit.py", "from platform_plugin import relations", "which is above lake"),
        ("lake/commit.py", "import platform_plugin.cli", "which is above lake"),
        ("algebra/plan.py", "def f():\n    from platform_plugin.language import parse", "which is above algebra"),
        ("errors.py", "if TYPE_CHECKING:\n    from platform_plugin.lake import Lake", "which is above errors"),
        ("language/parser.py", "if TYPE_CHECKING:\n    import pyspark.sql", "has no place in language"),
        ("lake/scan.py", "import pandas as pd", "has no place in lake"),
        ("engine/session.py", "import dagster", "has no place in engine"),
        ("relations/run.py", "import duckdb", "has no place in relations"),
        ("relations/split.py", "import pyspark\ndef plan_split(): ...", "plans are pure"),
        ("relations/split.py", "def plan_split():\n    from pyspark.sql import functions", "plans are pure"),
        ("relations/plan.py", "import pandas", "plans are pure"),
        ("helpers.py", "", "has no room"),
        ("__init__.py", "import pyarrow", "loads pyarrow"),
        ("__init__.py", "from platform_plugin.lake import Lake", "loads platform_plugin.lake"),
    ],
)
def test_a_breach_is_found(tmp_path, path, source, complaint):
    module = tmp_path / path
    module.parent.mkdir(exist_ok=True)
    module.write_text(source)
    breaches = find_breaches(tmp_path)
    assert breaches, f"{source!r} in {path} went unnoticed"
    assert any(complaint in breach for breach in breaches), breaches


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("language/parser.py", "from platform_plugin.algebra import types\nimport sqlglot"),
        ("relations/split.py", "if TYPE_CHECKING:\n    import pyspark\ndef plan_split(): ..."),
        ("relations/run.py", "def run_split():\n    from pyspark.sql import functions"),
        ("relations/run.py", "from platform_plugin import PlatformError\nfrom platform_plugin.relations import ingest"),
        ("orchestration/sensors.py", "import dagster\nfrom platform_plugin.platform import Platform"),
        ("__init__.py", "if TYPE_CHECKING:\n    from platform_plugin.lake import Lake"),
    ],
)
def test_a_clean_import_is_left_alone(tmp_path, path, source):
    module = tmp_path / path
    module.parent.mkdir(exist_ok=True)
    module.write_text(source)
    assert find_breaches(tmp_path) == []
