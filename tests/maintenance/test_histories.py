"""Random histories of relations of all kinds together, replayed against models in plain Python and read by DuckDB."""

from __future__ import annotations

import os

import pytest

from platform_plugin.lake.ring import folding
from tests.lake.ring.test_history import replay
from tests.maintenance.all_kinds import AllKinds

pytestmark = pytest.mark.spark
# How many histories the long tests replay; `HISTORIES=1000` looks further.
HISTORIES = int(os.environ.get("HISTORIES", "60"))


@pytest.fixture(autouse=True)
def short_logs(monkeypatch):
    """A few segments are enough for an arrival log."""
    monkeypatch.setattr(folding, "LOGGED_AT_ONCE", 3)


def test_relations_of_all_kinds_are_what_the_models_say(duck_process, spark_server):
    replay(AllKinds, duck_process, examples=2, steps=15)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_same_for_longer(duck_process, spark_server):
    replay(AllKinds, duck_process, examples=HISTORIES, steps=60)


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(3600)
def test_the_same_on_postgresql(duck_process, spark_server, postgres_urls):
    class OnPostgres(AllKinds):
        def fresh_url(self, folder):
            return postgres_urls(folder)

    replay(OnPostgres, duck_process, examples=max(1, HISTORIES // 4), steps=40)
