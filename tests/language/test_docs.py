"""The examples of the documentation are statements of the language, and every statement has its page."""

import re
from pathlib import Path

import pytest

from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.script import parse_script
from platform_plugin.language.statements.insert import Insert
from platform_plugin.language.statements.registry import STATEMENTS, list_verbs
from platform_plugin.language.statements.select import Select
from platform_plugin.language.text import options

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
    assert set(list_verbs()) - {"DESC", "REBUILD"} <= shown


def test_every_statement_has_its_page():
    assert {kind.page for kind in STATEMENTS} <= {page.stem for page in PAGES}


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([\w-]+\.md)\)", page.read_text()):
            assert (FOLDER / target).exists(), f"{page.name} links to {target}"


def test_the_table_of_options_has_all_of_them():
    sources = {"FILES": "files", "KAFKA": "Kafka", "TABLE": "a table"}
    known = {"stream": options.STREAM, "table": options.TABLE, "view": options.VIEW, "sample": options.SAMPLE, "COPY": options.COPY}
    known |= {f"feed from {sources[kind]}": takes for kind, takes in options.FEEDS.items()}
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+) \|$", (FOLDER / "options.md").read_text(), re.MULTILINE)
    listed = {(name, of): takes for name, every, takes, _ in rows for of in every.split(", ")}
    assert set(listed) == {(name, of) for of, every in known.items() for name in every}
    for (name, of), takes in listed.items():
        choices = known[of][name]
        if isinstance(choices, tuple):
            assert [word for word in choices if f"`{word}`" not in takes] in ([], ["avro"]), f"{name} of {of}"
    assert [name for name, *_ in rows] == sorted(name for name, *_ in rows)
