"""The examples of the documentation are statements of the language, and every statement has its page."""

import re
from pathlib import Path

import pytest

from platform_plugin.language.query import analyse_query
from platform_plugin.language.script import _READERS, parse_script
from platform_plugin.language.statements import Insert, Select

FOLDER = Path(__file__).parents[2] / "docs" / "sql"
PAGES = sorted(FOLDER.glob("*.md"))
EXAMPLES = [(page.stem, example) for page in PAGES for example in re.findall(r"```sql\n(.*?)```", page.read_text(), re.DOTALL)]


@pytest.mark.parametrize(("page", "example"), EXAMPLES)
def test_examples_parse(page, example):
    statements = parse_script(example)
    assert statements
    for statement in statements:
        query = getattr(statement, "query", None)
        if query is not None and (isinstance(statement, Select) or not (isinstance(statement, Insert) and statement.rows)):
            analyse_query(query)


def test_every_statement_has_an_example():
    shown = {example.split()[0].upper() for _, example in EXAMPLES}
    assert set(_READERS) - {"DESC", "REBUILD"} <= shown


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([\w-]+\.md)\)", page.read_text()):
            assert (FOLDER / target).exists(), f"{page.name} links to {target}"
