"""A lake that is not where a command looked for it, and one that is close to there."""

from __future__ import annotations

import pytest

from platform_plugin import Lake
from platform_plugin.errors import NoLake
from platform_plugin.lake.catalogue.nearby import find_nearby_lake


@pytest.fixture
def project(tmp_path):
    """A project with a lake of its own, as `platform new` writes it."""
    folder = tmp_path / "shop"
    (folder / "sql" / "views").mkdir(parents=True)
    (folder / ".platform").mkdir()
    Lake.create(str(folder / ".platform" / "lake")).close()
    return folder


@pytest.mark.parametrize("named", [".", ".platform", ".platform/lake/data", "sql", "sql/views", "sql/views/missing"])
def test_a_lake_in_or_above_is_named_and_none_is_made(project, named):
    before = sorted(project.rglob("*"))
    with pytest.raises(NoLake) as caught:
        Lake.open(str(project / named))
    assert f"there is one at platform+local://{project}/.platform/lake" in str(caught.value.hint)
    assert sorted(project.rglob("*")) == before


def test_a_lake_beside_is_none_of_ours(project, tmp_path):
    assert find_nearby_lake(tmp_path / "other") is None


def test_the_catalogue_of_an_interrupted_creation_is_no_lake(tmp_path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "lake.sqlite").touch()
    assert find_nearby_lake(tmp_path) is None


def test_a_file_is_told_from_a_folder(project):
    (project / "notes.txt").touch()
    with pytest.raises(NoLake, match="there is no lake at") as caught:
        Lake.open(str(project / "notes.txt"))
    assert caught.value.hint == "that is a file; name the folder of the lake"
