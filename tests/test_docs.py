"""The Python of the documentation, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

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
    assert "at snapshot 4" in said
    assert "12.50" in said, "the read of an older snapshot shows the older rate"


@pytest.mark.spark
def test_the_page_on_continuous_views(tmp_path: Path, spark_server: Any) -> None:
    code = python_of("docs/views/index.md")
    assert code.count("assert") == 2
    exec(compile(code, "docs/views/index.md", "exec"), {"folder": tmp_path})
