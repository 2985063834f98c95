"""The project as `dg` sees it: components are listed with their words, examples are scaffolded, and everything loads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DG = Path(sys.executable).with_name("dg")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not DG.exists(), reason="dg is not installed (dagster-dg-cli)"),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the reference project, to be changed at will."""
    made = tmp_path_factory.mktemp("dg") / "project"
    made.mkdir()
    for name in ("assets", "resources", "dbt_like_sql", "deploy"):
        shutil.copytree(ROOT / name, made / name)
    shutil.copy(ROOT / "pyproject.toml", made)
    return made


def dg(project, *arguments):
    environment = os.environ | {"PYTHONPATH": f"{project}{os.pathsep}{ROOT}", "PLATFORM_URL": str(project / "lake"), "COLUMNS": "200"}
    done = subprocess.run([str(DG), *arguments], cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_components_are_listed(project):
    listed = dg(project, "list", "components")
    for name in ("SqlFolder", "Stream", "ContinuousView", "HistoryTable", "Sample", "Upkeep"):
        assert f"platform_plugin.orchestration.{name}" in listed
    assert "orchestration.Noun" not in listed


def test_what_is_scaffolded_checks_and_loads(project):
    for noun in ("Stream", "ContinuousView", "HistoryTable", "Sample"):
        dg(project, "scaffold", "defs", f"platform_plugin.orchestration.{noun}", f"my_{noun.lower()}")
        assert (project / "assets" / f"my_{noun.lower()}" / "defs.yaml").is_file()
    assert "successfully" in dg(project, "check", "yaml")
    dg(project, "check", "defs")
    listed = dg(project, "list", "defs", "--json")
    for key in (
        "sales_by_product/sales_by_product_base",
        "my_continuousview/my_continuousview_base",
        "my_sample",
        "split_refresh",
        "reservoir_merge",
    ):
        assert key in listed
