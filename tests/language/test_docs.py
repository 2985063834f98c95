"""The examples of the documentation are statements of the language, and every statement has its page."""

import re
from pathlib import Path

import pytest

from platform_plugin.errors import InvalidValue
from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.script import parse_script
from platform_plugin.language.statements.insert import Insert
from platform_plugin.language.statements.registry import STATEMENTS, list_verbs
from platform_plugin.language.statements.select import Select
from platform_plugin.language.text import options
from platform_plugin.platform import Platform

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


def test_what_is_refused_is_marked_as_planned_wherever_it_is_shown(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        for statement in ("SUSPEND QUERY 'q-42'", "RESUME QUERY 'q-42'"):
            with pytest.raises(InvalidValue, match="suspended queries can't be run by this version"):
                platform.execute(statement)
    assert (FOLDER / "suspend.md").read_text().startswith("# SUSPEND QUERY, RESUME QUERY (planned)\n\n> **Planned: this version has no")
    pages = [*(FOLDER.parent).rglob("*.md"), FOLDER.parents[1] / "README.md"]
    naming = [line for page in pages if page.stem != "suspend" for line in re.findall(r".*suspend.*", page.read_text())]
    assert [line for line in naming if "(planned)" not in line and "suspended queries, joins" not in line] == []


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([\w-]+\.md)\)", page.read_text()):
            assert (FOLDER / target).exists(), f"{page.name} links to {target}"


def test_the_table_of_options_has_all_of_them():
    sources = {"FILES": "files", "KAFKA": "Kafka", "TABLE": "a table"}
    known = {"stream": options.STREAM, "table": options.TABLE, "view": options.VIEW, "sample": options.SAMPLE, "COPY": options.COPY}
    known["REFRESH"] = options.RUN
    known |= {f"feed from {sources[kind]}": takes for kind, takes in options.FEEDS.items()}
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+) \|$", (FOLDER / "options.md").read_text(), re.MULTILINE)
    listed = {(name, of): takes for name, every, takes, _ in rows for of in every.split(", ")}
    assert set(listed) == {(name, of) for of, every in known.items() for name in every}
    for (name, of), takes in listed.items():
        choices = known[of][name]
        if isinstance(choices, tuple):
            assert [word for word in choices if f"`{word}`" not in takes] in ([], ["avro"]), f"{name} of {of}"
    assert [name for name, *_ in rows] == sorted(name for name, *_ in rows)
