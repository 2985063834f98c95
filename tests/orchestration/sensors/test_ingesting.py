"""The sensor of pulled streams: a run when a source has something new, none otherwise, and no source hurts another."""

from __future__ import annotations

import threading

import dagster as dg
import pytest

from platform_plugin.errors import StorageError
from platform_plugin.orchestration.runs.jobs import Jobs
from platform_plugin.orchestration.sensors import ingesting
from platform_plugin.orchestration.sensors.ingesting import build_ingestion_sensor, read_listings
from platform_plugin.platform import Platform


@pytest.fixture
def platform(tmp_path):
    (tmp_path / "in").mkdir()
    with Platform.create(tmp_path / "lake") as made:
        made.execute(f"CREATE STREAM clicks (uid INT) FROM FILES '{tmp_path}/in/*.csv' (FORMAT csv)")
        made.execute("CREATE TABLE orders (id INT)")
        made.execute("CREATE STREAM bought FROM TABLE orders")
        made.execute("CREATE STREAM foreign_to_dagster FROM TABLE orders")
        yield made


@pytest.fixture
def tick(tmp_path):
    url = str(tmp_path / "lake")
    assets = [dg.asset(lambda: None, name=name) for name in ("clicks", "bought")]
    job = dg.define_asset_job("ingest", selection=assets)
    sensor = build_ingestion_sensor(url, Jobs(apart=job), asset_key=lambda name: dg.AssetKey(name.relation))
    repository = dg.Definitions(assets=assets, jobs=[job]).get_repository_def()

    def evaluate():
        with dg.DagsterInstance.ephemeral() as instance:
            return sensor.evaluate_tick(dg.build_sensor_context(instance=instance, repository_def=repository))

    return evaluate


def test_a_run_is_asked_for_when_files_or_rows_wait_and_covers_just_those_streams(tmp_path, platform, tick):
    told = tick()
    assert told.run_requests == []
    assert told.skip_message == "nothing new in the feeds of 2 streams"
    (tmp_path / "in" / "1.csv").write_text("1\n")
    (request,) = tick().run_requests
    assert [key.to_user_string() for key in request.asset_selection] == ["clicks"]
    assert (request.tags["for"], request.tags["why"]) == ("clicks", "1 new file")
    platform.execute("INSERT INTO orders VALUES (1), (2)")
    (request,) = tick().run_requests
    assert {key.to_user_string() for key in request.asset_selection} == {"clicks", "bought"}
    assert set(request.tags["for"].split(", ")) == {"clicks", "bought"}


def test_a_listing_that_takes_too_long_is_left_to_a_run(monkeypatch):
    released = threading.Event()

    def listed(glob, sources):
        if glob == "slow":
            # Whoever waited for it would find it, too.
            released.wait(30)
        if glob == "closed":
            raise StorageError("no", hint="ask")
        return [glob]

    monkeypatch.setattr(ingesting, "read_listing", listed)
    found = read_listings(["slow", "quick", "closed", "quick"], seconds=1.5)
    released.set()
    assert set(found) == {"quick", "closed"}
    assert (found["quick"].files, found["closed"].trouble.message) == (["quick"], "no")
    assert read_listings([]) == {}
