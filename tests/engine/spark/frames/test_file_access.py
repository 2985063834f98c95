"""The same statements where Spark reads and writes files itself, and where tasks in Python do so."""

from __future__ import annotations

import pytest

from platform_plugin.engine.file_access_option import read_file_access
from platform_plugin.errors import InvalidValue
from platform_plugin.platform import Platform
from tests.statement_list import run_statements, write_sources


def test_an_option_that_is_none_is_refused():
    assert read_file_access(url="Tasks") == "tasks"
    with pytest.raises(InvalidValue, match="PLATFORM_FILE_ACCESS can't be"):
        read_file_access(environment={"PLATFORM_FILE_ACCESS": "python"})


@pytest.mark.spark
@pytest.mark.slow
def test_both_ways_give_the_same_answers(tmp_path, spark_server):
    sources = tmp_path / "in"
    sources.mkdir()
    write_sources(lambda name, content: (sources / name).write_bytes(content))
    found = {}
    for way in ("spark", "tasks"):
        with Platform.create(f"platform+local://{tmp_path}/{way}?file_access={way}") as platform:
            found[way] = run_statements(platform, str(sources))
            plan = [line for (line,) in platform.execute("EXPLAIN SELECT sha2(name, 256) FROM people")]
            assert any("files are read by tasks in Python" in line for line in plan) == (way == "tasks")
    for (query, expected), (_, rows) in zip(found["spark"], found["tasks"], strict=True):
        assert rows == expected, query
