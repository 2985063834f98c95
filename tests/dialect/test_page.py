"""The page about SQLAlchemy runs from top to bottom as it is printed."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "sqlalchemy.md"


@pytest.mark.spark
def test_the_page_proves_itself(spark_server, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    names = {"folder": str(tmp_path / "lake")}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    names["engine"].dispose()
