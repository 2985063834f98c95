"""The page about ingestion: its example runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "ingest.md"


@pytest.mark.spark
def test_the_example(tmp_path, spark_server):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert code.count("assert") >= 5
    exec(compile(code, "docs/ingest.md", "exec"), {"folder": tmp_path})
