"""An empty lake on either database, and a folder for hot copies of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from platform_plugin.lake.lake import Lake
from platform_plugin.state.cache_folder import CACHE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of hot copies."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def lake(lake_url: str) -> Iterator[Lake]:
    """An empty lake."""
    with Lake.create(lake_url) as made:
        yield made
