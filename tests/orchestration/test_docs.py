"""What the page on Dagster shows is true: its YAML, its Python, its error and its pictures."""

import re
from pathlib import Path

import pytest
import yaml

from platform_plugin.errors import PlatformError
from platform_plugin.orchestration import SqlFolder
from platform_plugin.orchestration.documentation import Documentation
from platform_plugin.orchestration.model import read_models

PAGE = Path(__file__).parents[2] / "docs" / "dagster.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_documentation_example_is_valid():
    assert Documentation.model_validate(yaml.safe_load(blocks("yaml")[0])).owners == ["team:growth"]


def test_the_component_example_names_the_component_and_its_fields():
    example = yaml.safe_load(blocks("yaml")[1])
    assert example["type"] == f"platform_plugin.orchestration.{SqlFolder.__name__}"
    assert set(example["attributes"]) <= set(SqlFolder.model_fields)
    table = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE))
    assert table == set(SqlFolder.model_fields)


def test_the_python_examples_run(monkeypatch):
    monkeypatch.setenv("PLATFORM_URL", "nowhere")
    names: dict[str, object] = {}
    for example in blocks("python"):
        exec(example, names)
    assert names["TeamFolder"](path=".").translator.__class__.__name__ == "ByTeam"


def test_the_error_is_the_one_that_is_shown(tmp_path):
    (tmp_path / "views").mkdir()
    text = "CREATE VIEW impact AS\nSELECT uid, avg(score) AS score\nFORM posts GROUP BY uid"
    (tmp_path / "views" / "impact.sql").write_text(text)
    with pytest.raises(PlatformError) as caught:
        read_models(tmp_path)
    assert str(caught.value) in [block.strip() for block in blocks("text")]


def test_the_pictures_are_there_and_small():
    pictures = re.findall(r"\]\((images/[\w.-]+)\)", PAGE.read_text())
    assert len(pictures) == 2
    assert all(0 < (PAGE.parent / picture).stat().st_size < 300_000 for picture in pictures)
