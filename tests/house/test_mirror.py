"""The tests' tree mirrors the package's: a module is tested by the file of its name, or says where else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.house.exceptions import TESTED_ELSEWHERE, TESTS_APART

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[2]
PACKAGE, TESTS = ROOT / "platform_plugin", ROOT / "tests"


def find_modules(package: Path) -> set[str]:
    """The modules of a package by their paths below it."""
    return {str(path.relative_to(package).with_suffix("")) for path in package.rglob("*.py") if path.name != "__init__.py"}


def find_tests(tests: Path) -> set[str]:
    """The files with tests by their paths."""
    return {str(path.relative_to(tests).with_suffix("")) for path in tests.rglob("test_*.py")}


def file_testing(module: str) -> str:
    """The file that tests a module by its name."""
    folder, _, name = module.rpartition("/")
    return f"{folder}/test_{name}".removeprefix("/")


def find_untested(modules: Iterable[str], tests: set[str]) -> set[str]:
    """The modules that no test file is named after."""
    return {module for module in modules if file_testing(module) not in tests}


def test_a_module_has_a_test_of_its_name_or_says_where_it_is_tested():
    untested = find_untested(find_modules(PACKAGE), find_tests(TESTS))
    assert sorted(untested - set(TESTED_ELSEWHERE)) == [], "write tests/…/test_<name>.py, or say in exceptions.py where it is tested"
    assert sorted(set(TESTED_ELSEWHERE) - untested) == [], "these are gone, or have a test of their name"


def test_modules_are_tested_where_they_say():
    tests = find_tests(TESTS)
    assert sorted(f"{module}: {test}" for module, named in TESTED_ELSEWHERE.items() for test in named if test not in tests) == []
    assert [module for module, named in TESTED_ELSEWHERE.items() if not named] == []


def test_folders_of_tests_are_folders_of_the_package():
    folders = {str(path.parent.relative_to(TESTS)) for path in TESTS.rglob("test_*.py")}
    assert sorted(folder for folder in folders - set(TESTS_APART) if not (PACKAGE / folder).is_dir()) == []
    assert sorted(folder for folder in TESTS_APART if folder not in folders or (PACKAGE / folder).is_dir()) == []


def test_a_module_without_a_test_is_found():
    assert find_untested(["a/b", "a/c", "d"], {"a/test_b", "test_d", "test_c"}) == {"a/c"}
