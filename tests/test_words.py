"""The glossary names what exists, each term once, and the pages that were written after it keep to it."""

import ast
import re
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest
import sqlalchemy as sa

from platform_plugin import errors
from platform_plugin.language.text import options

DOCS = Path(__file__).parent.parent / "docs"
GLOSSARY, _, OTHER_WORDS = (DOCS / "words.md").read_text().partition("## Other words")
PACKAGE = DOCS.parent / "platform_plugin"
OLDER_PAGES: set[str] = set()
"""Pages that use other words yet; they leave this list when they are written anew."""
PAGES = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.parent.name != "decisions"} - OLDER_PAGES
NOT_USED = r"\b(t(ake|akes|aken|ook|aking) up|twins?|let(s|ting)? go|at hand|digest|gathered|the ring|additions)\b"


def test_each_term_has_one_meaning_and_its_place():
    sections = [re.findall(r"^\| \*\*(.+?)\*\*", section, re.MULTILINE) for section in GLOSSARY.split("\n## ")]
    terms = [term for section in sections for term in section]
    assert len(terms) == len(set(terms)) > 60
    assert [(one, next_one) for section in sections for one, next_one in pairwise(section) if one > next_one] == []


def test_every_table_of_the_catalogue_has_a_term():
    tables = {}
    for module in PACKAGE.rglob("*.py"):
        if re.search(r'sa\.Table\(\s*"platform_', module.read_text()):
            imported = import_module(".".join(module.relative_to(PACKAGE.parent).with_suffix("").parts))
            own = [each for each in vars(imported).values() if isinstance(each, sa.Table)]
            tables |= {each.name: each for each in own if each.name.startswith("platform_")}
    assert len(tables) >= 18
    named = set(re.findall(r"`(platform_\w+)", GLOSSARY))
    assert named == set(tables), "give each table a term in docs/words.md"
    columns = re.findall(r"`(platform_\w+)\.(\w+)`", GLOSSARY)
    assert len(columns) >= 5
    assert [(table, column) for table, column in columns if column not in tables[table].columns] == []


def test_errors_and_options_that_are_named_exist():
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`", GLOSSARY))
    assert len(named) >= 8
    assert [name for name in named if not hasattr(errors, name)] == []
    known = {*options.STREAM, *options.VIEW, *options.SAMPLE}
    missing = [name for name in known - {"key", "start"} if f"`{name}" not in GLOSSARY]
    assert missing == [], "an option of a stream, view or sample is a word that users read"


@pytest.mark.parametrize("page", sorted(PAGES))
def test_pages_use_the_terms(page):
    text = re.sub(r"^```.*?^```", "", (DOCS / page).read_text().partition("## Other words")[0], flags=re.MULTILINE | re.DOTALL)
    used = [found[0] for found in re.finditer(NOT_USED, text, re.IGNORECASE)]
    assert used == [], "the last section of docs/words.md has the term for each"


OTHER_ROOMS = {"orchestration"}
"""Rooms whose messages use other words yet."""


def _messages(module: Path) -> list[str]:
    """The texts of a module that are not docstrings."""
    text = module.read_text()
    if not re.search(NOT_USED, text, re.IGNORECASE):
        return []
    tree = ast.parse(text)
    said = {node for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    alone = {id(node.value) for node in said}
    return [
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone
    ]


def test_messages_use_the_terms():
    modules = [module for module in sorted(PACKAGE.rglob("*.py")) if module.relative_to(PACKAGE).parts[0] not in OTHER_ROOMS]
    assert len(modules) > 100
    used = [f"{module.name}: {said}" for module in modules for said in _messages(module) if re.search(NOT_USED, said, re.IGNORECASE)]
    assert used == []
