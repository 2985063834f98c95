"""The code of the documentation is run as it is printed, or says why it is not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from platform_plugin import Platform
from platform_plugin.cli.output.tabular import print_table
from platform_plugin.language.script import parse_script
from platform_plugin.relations.streams.feeds.ingest import run_ingest

PROJECT = Path(__file__).parent.parent
PAGES = [str(page.relative_to(PROJECT)) for page in [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]]
NO_CODE = {"", "text"}
RUN_BY = {
    ("README.md", "python"): "tests/test_docs.py",
    ("README.md", "sql"): "tests/test_docs.py",
    ("docs/cli.md", "yaml"): "tests/cli/test_gates.py",
    ("docs/dagster.md", "python"): "tests/orchestration/test_docs.py",
    ("docs/dagster.md", "yaml"): "tests/orchestration/test_docs.py",
    ("docs/operations/backup.md", "python"): "tests/lake/test_backup.py",
    ("docs/operations/backup.md", "sh"): "tests/lake/test_backup.py",
    ("docs/operations/watch.md", "sh"): "tests/test_docs.py",
    ("docs/operations/limits.md", "sql"): "tests/engine/test_limits.py",
    ("docs/quickstart.md", "sh"): "tests/test_quickstart.py",
    ("docs/quickstart.md", "sql"): "tests/test_quickstart.py",
    ("docs/quickstart.md", "python"): "tests/test_quickstart.py",
    ("docs/views/admission.md", "sql"): "tests/operators/group/test_admission.py",
    ("docs/views/testing.md", "python"): "tests/test_docs.py",
    ("docs/views/testing.md", "yaml"): "tests/test_docs.py",
}
"""Which file runs the blocks of a page in a language; the Python of other pages and the SQL of statements is run below."""
WITHOUT_SPARK = {"docs/lake.md"}
QUERIES = {"docs/samples.md", "docs/streams.md"}
"""Pages whose queries are of the lake that their Python makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some code of a page, with the reason that a comment before it gives for not running it."""

    language: str
    text: str
    line: int
    reason: str | None


def blocks_of(page: str, language: str | None = None) -> list[Block]:
    text = (PROJECT / page).read_text()
    found = re.finditer(r"(?:<!-- not run: ([^\n]+?) -->\n+)?^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    blocks = [Block(language=m[2], text=m[3], line=text[: m.start(3)].count("\n"), reason=m[1]) for m in found]
    return [block for block in blocks if language in (None, block.language)]


def code_of(page: str) -> Any:
    """The Python of a page, on the lines that it has there, so that a traceback names them."""
    lines: list[str] = []
    for block in blocks_of(page, "python"):
        if block.reason is None:
            lines += [""] * (block.line - len(lines)) + block.text.splitlines()
    return compile("\n".join(lines), page, "exec")


PYTHON = [page for page in PAGES if (page, "python") not in RUN_BY and any(not block.reason for block in blocks_of(page, "python"))]
STATEMENTS = [page for page in PAGES if page.startswith("docs/sql/") and any(not block.reason for block in blocks_of(page, "sql"))]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A page makes its folders here, and finds nothing of the project in the folder that it is run in."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_says_why_not(page):
    for block in blocks_of(page):
        run_by = RUN_BY.get((page, block.language))
        known = (block.language == "python" and page in PYTHON) or (block.language == "sql" and page in {*STATEMENTS, *QUERIES}) or run_by
        assert block.reason or block.language in NO_CODE or known, f"{page}:{block.line}: no test runs this block, and no comment says why"
        if run_by:
            assert Path(page).name in (PROJECT / run_by).read_text(), f"{run_by} does not name {page}"


@pytest.mark.parametrize("page", PAGES)
def test_every_fence_is_seen(page):
    """Else a block that is written in another way would be run by nobody."""
    assert len(re.findall(r"^\s*(?:```|~~~)", (PROJECT / page).read_text(), re.MULTILINE)) == 2 * len(blocks_of(page))


@pytest.mark.parametrize("page", [pytest.param(page, marks=() if page in WITHOUT_SPARK else pytest.mark.spark) for page in PYTHON])
def test_the_python_of_a_page(page, request, elsewhere):
    if page not in WITHOUT_SPARK:
        request.getfixturevalue("spark_server")
    assert any("assert " in block.text for block in blocks_of(page, "python")), "a page proves what it shows"
    names: dict[str, Any] = {"__name__": "page"}
    try:
        exec(code_of(page), names)
        if page in QUERIES:
            with Platform.open(names["folder"] / "lake") as platform:
                for statement in statements_of(page):
                    assert platform.execute(statement).arrow().num_columns
    finally:
        for value in names.values():
            if isinstance(value, Platform):
                value.close()
            elif isinstance(value, sa.Engine):
                value.dispose()


@pytest.mark.spark
def test_the_first_example_once_and_again(tmp_path: Path, spark_server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code = "\n".join(block.text for block in blocks_of("README.md", "python"))
    code = code.replace("platform+local:///tmp/lake", f"platform+local://{tmp_path}/lake")
    for snapshot in (3, 4):
        exec(compile(code, "README.md", "exec"), {})
        said = capsys.readouterr().out
        assert f"at snapshot {snapshot}" in said
        assert "15.0" in said, "the view is the mean of both rows, and of the same rows twice"


@pytest.mark.spark
def test_the_first_sql(tmp_path: Path, spark_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inbox").mkdir()
    rows = [f"{number},{number % 3},{number}.50" for number in range(100)]
    (tmp_path / "inbox" / "a.csv").write_text("\n".join(["id,product_id,amount", *rows]))
    (block,) = blocks_of("README.md", "sql")
    answers = []
    with Platform.create(tmp_path / "lake") as platform:
        for statement in (parsed.span.text for parsed in parse_script(block.text)):
            if statement.startswith("SELECT category"):
                platform.execute("INSERT INTO products VALUES (0, 'a'), (1, 'b'), (2, 'a')")
                assert run_ingest(platform.work, "orders").rows == 100
            result = platform.execute(statement)
            if statement.startswith("SELECT"):
                answers.append(list(result))
    by_category, estimated, older = answers
    assert dict(by_category) == {"a": Decimal("3366.50"), "b": Decimal("1633.50")}
    ((revenue, low, high, *_),) = estimated
    assert low <= 5000 <= high
    assert revenue == 5000, "all rows of a small stream are its sample"
    assert older == []


def statements_of(page: str) -> list[str]:
    return [part.strip() for block in blocks_of(page, "sql") if not block.reason for part in re.split(r";\n", block.text) if part.strip()]


def created(statement: str) -> str | None:
    pattern = r"CREATE (?:OR REPLACE )?(?:CONTINUOUS |FOREIGN )?(?:TABLE|STREAM|VIEW|SAMPLE|SCHEMA) (?:IF NOT EXISTS )?([\w.]+)"
    found = re.match(pattern, statement)
    return found[1] if found else None


def shown_by(page: str) -> dict[str, str]:
    """What a page shows of a statement: a block `text` straight below the block `sql` that ends with it."""
    found = re.findall(r"^```sql\n((?:(?!^```).)*)^```\n+```text\n(.*?)^```$", (PROJECT / page).read_text(), re.MULTILINE | re.DOTALL)
    return {re.split(r";\n", statements)[-2].strip(): text for statements, text in found}


def unlike(shown: str, printed: str) -> list[str]:
    """Lines that only one of the two has, in any order; `…` stands for anything, a line of it for any lines, and widths don't count."""
    lines, promised = ([" ".join(line.split()) for line in text.splitlines() if line.strip(" ─")] for text in (printed, shown))
    patterns = {line: re.compile(".*".join(map(re.escape, line.split("…")))) for line in promised if line != "…"}
    missing = [line for line, pattern in patterns.items() if not any(map(pattern.fullmatch, lines))]
    more = [line for line in lines if not any(pattern.fullmatch(line) for pattern in patterns.values())]
    return missing if "…" in promised else [*missing, *more]


def test_what_a_page_shows_is_compared():
    assert unlike("id\n──\n 1\n…2\n", "id  \n───\n2026-01-02\n1\n") == []
    assert unlike("id\n 1", "id\n1\n2") == ["2"]
    assert unlike("id\n…\n3", "id\n1\n2") == ["3"]
    assert len(shown_by("docs/sql/describe.md")) == 2


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("page", STATEMENTS)
def test_the_statements_of_a_page(page, spark_server, elsewhere, capsys):
    """Over the relations of docs/sql/index.md, apart from those that the page makes itself, and from what reads them."""
    index = "docs/sql/index.md"
    mine = {name for statement in statements_of(page) if page != index and (name := created(statement))}
    values = {"content": "hello", "least": 3, "uid": 1, "region": "eu"}
    shown = shown_by(page)
    assert shown.keys() <= set(statements_of(page))
    with Platform.create(elsewhere / "lake") as platform:
        for statement in statements_of(index) if page != index else []:
            if mine.isdisjoint(re.findall(r"\w+", statement)):
                platform.execute(statement)
            elif (name := created(statement)) is not None:
                mine.add(name)
        for statement in statements_of(page):
            wanted = {name: values[name] for name in re.findall(r"(?<![:\w]):([a-z]\w*)", statement)}
            result = platform.execute(statement, wanted or None)
            if statement.startswith(("SELECT", "SHOW", "DESCRIBE", "EXPLAIN")):
                print_table(result.columns, result)
                printed = capsys.readouterr().out
                assert unlike(shown.get(statement, "…"), printed) == [], printed


@pytest.mark.slow
def test_the_commands_of_the_page_on_what_to_watch(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE users (id INT)")
    (block,) = blocks_of("docs/operations/watch.md", "sh")
    place = {"PLATFORM_URL": str(tmp_path / "lake"), "PLATFORM_RUNTIME_DIR": str(tmp_path / "runtime")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", "-euc", block.text], env=os.environ | place | {"PATH": path}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "users" in done.stdout


@pytest.mark.spark
def test_the_page_on_testing_views(spark_server, elsewhere):
    """Its case in its folder, by its test."""
    (cases,), (code,) = blocks_of("docs/views/testing.md", "yaml"), blocks_of("docs/views/testing.md", "python")
    folder = elsewhere / "dbt_like_sql"
    folder.mkdir()
    (folder / "posts.sql").write_text("CREATE STREAM posts (uid INT, score INT)")
    (folder / "impact.sql").write_text("CREATE VIEW impact AS SELECT uid, count(*) AS posts, avg(score) AS score FROM posts GROUP BY uid")
    (folder / "impact.test.yml").write_text(cases.text)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code.text, "docs/views/testing.md", "exec"), names)
    (mark,) = names["test_views"].pytestmark
    assert [str(case) for case in mark.args[1]] == [f"impact.test.yml: {name}" for name in yaml.safe_load(cases.text)]
    for case in mark.args[1]:
        names["test_views"](case)
