"""What is remembered is what would be found out again, and nothing that has changed is remembered."""

from __future__ import annotations

import pytest

from platform_plugin.orchestration.assets import tracing
from platform_plugin.orchestration.assets.inventory import Inventory
from platform_plugin.orchestration.assets.tracing import Tracing
from platform_plugin.orchestration.components.file_memory import JsonFileMemory
from platform_plugin.orchestration.components.model import read_models


def traced(shop, path):
    models = read_models(shop.folder)
    memory = JsonFileMemory(path)
    tracer = Tracing(models, Inventory(), memory)
    found = {model.name.relation: tracer.of(model.name) for model in models}
    memory.save()
    return found


@pytest.fixture
def planned(monkeypatch):
    """The queries that were really looked at."""
    seen = []
    plan = tracing.read_plan

    def counted(query, relations):
        seen.append(query)
        return plan(query, relations)

    monkeypatch.setattr(tracing, "read_plan", counted)
    return seen


def test_what_is_remembered_is_the_same_and_is_not_planned_again(shop, tmp_path, planned):
    shop.write(
        total="CREATE VIEW total AS SELECT count(*) AS n, max(score) AS best FROM posts", twice="CREATE VIEW twice AS SELECT n FROM total"
    )
    first = traced(shop, tmp_path / "known.json")
    assert len(planned) == 4
    assert traced(shop, tmp_path / "known.json") == first == traced(shop, tmp_path / "none.json")
    assert len(planned) == 8
    assert first["impact"].is_continuous
    assert first["impact"].split.streams == ("main.posts",)


def test_a_column_that_changes_below_is_noticed(shop, tmp_path):
    before = traced(shop, tmp_path / "known.json")["impact"]
    shop.write(posts="CREATE STREAM posts (uid BIGINT, score INT)", prices="CREATE TABLE prices AS SELECT uid FROM impact")
    after = traced(shop, tmp_path / "known.json")
    assert [str(column.type) for column in before.columns] == ["INT", "DOUBLE"]
    assert [str(column.type) for column in after["impact"].columns] == ["BIGINT", "DOUBLE"]
    assert [str(column.type) for column in after["prices"].columns] == ["BIGINT"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"x": 1}', "\x00"])
def test_a_file_that_is_damaged_costs_nothing_but_time(shop, tmp_path, text):
    path = tmp_path / "known.json"
    path.write_text(text)
    assert traced(shop, path)["impact"].is_continuous


def test_a_folder_that_can_not_be_written_costs_nothing_but_time(shop, tmp_path):
    (tmp_path / "file").write_text("")
    assert traced(shop, tmp_path / "file" / "known.json")["impact"].is_continuous
