"""What the page on Dagster shows is true: its YAML, its Python, its error and its pictures."""

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from platform_plugin import orchestration
from platform_plugin.errors import PlatformError
from platform_plugin.orchestration import SqlFolder, Translator
from platform_plugin.orchestration.components.documentation import Check, Documentation
from platform_plugin.orchestration.components.model import read_models
from platform_plugin.orchestration.sensors.loops import build_loops
from platform_plugin.quality.suite import parse_suite

PAGE = Path(__file__).parents[2] / "docs" / "dagster.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_every_yaml_example_is_valid():
    examples = [yaml.safe_load(text) for text in blocks("yaml")]
    suites = [parse_suite(each, file="x") for each in examples if "expectations" in each]
    components = [each for each in examples if "type" in each]
    documented = [Documentation.model_validate(each) for each in examples if "type" not in each and "expectations" not in each]
    assert (len(suites), len(components), len(documented)) == (1, 2, 3)
    assert any(each.owners == ["team:crm"] for each in documented)
    for example in components:
        made = getattr(orchestration, example["type"].removeprefix("platform_plugin.orchestration."))
        made(**example["attributes"])


def test_the_attributes_of_a_folder_are_all_there():
    section = PAGE.read_text().partition("A folder of SQL is a component:")[2].partition("```python")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(SqlFolder.model_fields)


def test_every_sensor_and_check_is_there():
    page = PAGE.read_text()
    loops = build_loops("nowhere", Translator(), notices="X")
    assert all(f"| `{sensor.name}` |" in page for sensor in loops.sensors)
    assert all(f"| `{name}` |" in page for name in get_args(Check))


def test_the_python_examples_run(monkeypatch):
    monkeypatch.setenv("PLATFORM_URL", "nowhere")
    names: dict[str, object] = {"__file__": str(PAGE)}
    for example in blocks("python"):
        exec(example, names)
    assert names["TeamFolder"](path=".").translator.__class__.__name__ == "ByTeam"


def test_the_error_is_the_one_that_is_shown(tmp_path):
    (tmp_path / "views").mkdir()
    text = "CREATE VIEW sales_by_product AS\nSELECT product_id, sum(amount) AS revenue\nFORM orders GROUP BY product_id"
    (tmp_path / "views" / "sales_by_product.sql").write_text(text)
    with pytest.raises(PlatformError) as caught:
        read_models(tmp_path)
    assert str(caught.value) in [block.strip() for block in blocks("text")]


def test_the_pictures_are_there_and_small():
    pictures = re.findall(r"\]\((images/[\w.-]+)\)", PAGE.read_text())
    assert len(pictures) == 7
    assert all(0 < (PAGE.parent / picture).stat().st_size < 300_000 for picture in pictures)


def test_every_picture_is_shown_somewhere():
    docs = PAGE.parent
    pages = "".join(page.read_text() for page in [docs.parent / "README.md", *docs.rglob("*.md")])
    assert [each.name for each in (docs / "images").iterdir() if f"images/{each.name})" not in pages] == []
