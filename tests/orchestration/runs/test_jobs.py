"""What sensors ask for: relations of a folder together, those of components apart, and in a pool one after the other."""

from __future__ import annotations

import dagster as dg
import pytest

from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.orchestration.runs.jobs import Jobs, RunNeed
from platform_plugin.orchestration.sensors.firing import PastRun, request_runs


@dg.op
def nothing():
    pass


@dg.job
def together():
    nothing()


FOLDER, COMPONENT = (RunNeed(key=dg.AssetKey(name), name=Name.of(name), reason=f"{name} is late") for name in ("folder", "component"))


@pytest.fixture
def jobs():
    return Jobs(apart=dg.define_asset_job("apart"), together={"spark": together}, pools={FOLDER.key: "spark"})


def asked(jobs, due, *last):
    runs = [PastRun(pool="spark", assets=frozenset(last))] if last else []
    return [(ask.job, ask.told) for ask in jobs.ask(due, (), pool="spark", runs=runs, first=1, last=2)]


def test_what_the_last_run_of_a_pool_left_out_goes_first_so_that_nothing_starves(jobs):
    both = [FOLDER, COMPONENT]
    first, second = ("together", "folder: folder is late"), ("apart", "component: component is late")
    assert asked(jobs, both) == [first, second]
    assert asked(jobs, both, "folder") == [second, first]
    assert asked(jobs, both, "component") == [first, second]
    assert asked(jobs, [FOLDER], "folder") == [first]
    runs = [PastRun(pool="spark", assets=frozenset({"folder"}))]
    (request,) = request_runs(jobs.ask(both, (), pool="spark", runs=runs, first=1, last=2), [])
    assert (request.job_name, request.tags["for"]) == ("apart", "component"), "a run is said to be for what it is for"


def test_what_only_goes_along_asks_for_no_run_of_its_own(jobs):
    along = RunNeed(key=COMPONENT.key, name=COMPONENT.name)
    assert asked(jobs, [FOLDER, along], "folder") == [("together", "folder: folder is late")]


def test_checks_are_made_after_the_first_of_the_runs(jobs):
    check = dg.AssetCheckKey(dg.AssetKey("folder"), "reconciles")
    first, second = jobs.ask([FOLDER, COMPONENT], [check], pool="spark", first=1, last=2)
    assert first.config["ops"]["together_step"]["config"]["checks"] == {"folder": ["reconciles"]}
    assert second.checks == ()
