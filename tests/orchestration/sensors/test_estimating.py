"""What a run will take is estimated from what waits, and from how well earlier runs were estimated; pure, with fixed figures."""

from datetime import UTC, datetime

import pytest

from platform_plugin.engine.distance import FileDistances
from platform_plugin.engine.rates import Rates, RunSize, estimate_local
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.orchestration.sensors.estimating import estimate_run, estimate_tags
from platform_plugin.orchestration.sensors.firing import ESTIMATE
from platform_plugin.orchestration.sensors.waiting import WaitingView, read_waiting
from platform_plugin.platform import Platform

NEAR = FileDistances("near", "near")


def waiting(name, rows, stream="s"):
    return WaitingView(view=Name.of(name), streams=frozenset({stream}), rows=rows, since=datetime.now(UTC))


def estimate(views, cores=8, factors=None, on_spark=(), distances=NEAR):
    return estimate_run(views, distances, cores=cores, factors=factors or {}, on_spark=on_spark)


def test_a_stream_is_read_once_for_all_its_views():
    one, two = waiting("a", 1_000_000), waiting("b", 1_000_000)
    other = waiting("c", 1_000_000, "t")
    assert estimate([one]) < estimate([one, two]) < estimate([one, other])
    assert estimate([one, two]) == pytest.approx(0.05 + estimate_local(RunSize(1_000_000, 2), Rates(), "near"))


def test_many_rows_are_estimated_as_a_job_and_what_spark_sql_did_as_such_again():
    assert estimate([waiting("a", 200_000_000)], cores=16) < 200_000_000 * 50e-9 / 1.5
    assert estimate([waiting("a", 1_000)], on_spark=["main.a"]) > estimate([waiting("a", 1_000)]) + 0.5


def test_earlier_runs_say_how_well_it_is_estimated():
    views = [waiting("a", 4_000_000)]
    assert estimate(views, cores=1, factors={"local": 2.0}) == pytest.approx(2 * estimate(views, cores=1) - 0.05)


def test_a_request_has_a_tag_with_it(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM s (k BIGINT)")
        platform.execute("CREATE VIEW v AS SELECT k, count(*) AS n FROM s GROUP BY k")
        platform.execute("INSERT INTO s VALUES (1), (2)")
        views = read_waiting(platform.lake, platform.lake.snapshot())
        tags = estimate_tags(platform.lake, views)
        assert 0.05 <= float(tags[ESTIMATE]) < 1
        assert not platform.work.is_attached
        run_maintenance(platform.work, kinds=["view"])
        assert float(estimate_tags(platform.lake, views)[ESTIMATE]) < 1, "few rows tell nothing"
