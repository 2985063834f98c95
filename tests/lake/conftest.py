"""A lake on either database, and the same lake through the independent reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from platform_plugin.lake.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.independent_reader import Duck


@pytest.fixture
def lake(lake_url: str) -> Iterator[Lake]:
    """An empty lake."""
    with Lake.create(lake_url) as made:
        yield made


@pytest.fixture
def reader(lake: Lake, lake_url: str, duck: Callable[..., Duck]) -> Duck:
    """DuckDB on the same lake, with default settings: it keeps small inserts and deletes inside the catalogue."""
    return duck(lake_url)
