"""The Python of the documentation, run as it stands."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from platform_plugin import Platform
from platform_plugin.language.script import parse_script
from platform_plugin.streams.ingest import run_ingest

PROJECT = Path(__file__).parent.parent


def python_of(page: str) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", (PROJECT / page).read_text(), re.DOTALL))


def test_the_lake_page(tmp_path: Path) -> None:
    code = python_of("docs/lake.md")
    assert code.count("assert") >= 8
    exec(compile(code, "docs/lake.md", "exec"), {"folder": tmp_path})


@pytest.mark.spark
def test_the_first_example(tmp_path: Path, spark_server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code = python_of("README.md").replace("platform+local:///tmp/lake", f"platform+local://{tmp_path}/lake")
    exec(compile(code, "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert "at snapshot 3" in said
    assert "15.0" in said, "the view is the mean of both rows"


@pytest.mark.spark
def test_the_first_sql(tmp_path: Path, spark_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inbox").mkdir()
    rows = [f"{number},{number % 3},{number}.50" for number in range(100)]
    (tmp_path / "inbox" / "a.csv").write_text("\n".join(["id,product_id,amount", *rows]))
    (block,) = re.findall(r"```sql\n(.*?)```", (PROJECT / "README.md").read_text(), re.DOTALL)
    answers = []
    with Platform.create(tmp_path / "lake") as platform:
        for statement in (parsed.span.text for parsed in parse_script(block)):
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


@pytest.mark.spark
def test_the_page_on_continuous_views(tmp_path: Path, spark_server: Any) -> None:
    code = python_of("docs/views/index.md")
    assert code.count("assert") == 2
    exec(compile(code, "docs/views/index.md", "exec"), {"folder": tmp_path})
