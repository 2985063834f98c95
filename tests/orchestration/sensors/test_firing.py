"""The frame of sensors: one run for each pool, none twice, failures tried again ever more rarely, and a word for everything."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import dagster as dg
import pytest

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.orchestration.sensors.firing import (
    FAILED,
    RUN_KEY,
    SENSOR,
    WHY,
    Ask,
    Decision,
    PastRun,
    build_sensor,
    count_failures,
    count_starting,
    read_runs,
    request_runs,
)
from platform_plugin.platform import Platform

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dg.op
def nothing():
    pass


@dg.job
def work():
    nothing()


@pytest.fixture
def url(tmp_path):
    Platform.create(tmp_path / "lake").close()
    return str(tmp_path / "lake")


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def ticked(sensor, instance, cursor=None):
    return sensor.evaluate_tick(dg.build_sensor_context(instance=instance, cursor=cursor))


def run(instance, status, **tags):
    made = instance.create_run_for_job(work, tags={SENSOR: "s", RUN_KEY: "3-9", **tags})
    if status is not dg.DagsterRunStatus.STARTED:
        kind = dg.DagsterEventType.RUN_SUCCESS if status is dg.DagsterRunStatus.SUCCESS else dg.DagsterEventType.RUN_FAILURE
        instance.handle_run_event(made.run_id, dg.DagsterEvent(event_type_value=kind.value, job_name=made.job_name))
    return made


def test_a_decision_becomes_one_run_for_each_pool_with_its_reason(url, instance):
    views = (Name.of("impact"), Name.of(("raw", "clicks")))
    asks = (
        Ask(first=3, last=9, relations=views, reason="lag"),
        Ask(first=1, last=9, reason="also", pool="slow"),
        Ask(first=4, last=9, reason="again"),
    )
    told = ticked(build_sensor("s", url, lambda _: Decision(asks=asks), description="", jobs=[work]), instance)
    assert [(request.run_key, dict(request.tags)) for request in told.run_requests] == [
        ("3-9", {"for": "impact, raw.clicks", "why": "lag", SENSOR: "s"}),
        ("slow 1-9", {"why": "also", SENSOR: "s"}),
    ]


def test_partitions_are_added_whether_or_not_a_run_is_asked_for(url, instance):
    for asks in ((), (Ask(first=3, last=9, reason="lag"),)):
        decision = Decision(asks=asks, partitions={"daily": ["0-99"], "none": []})
        told = ticked(build_sensor("s", url, lambda _, made=decision: made, description="", jobs=[work]), instance)
        assert [(added.partitions_def_name, list(added.partition_keys)) for added in told.dynamic_partitions_requests] == [
            ("daily", ["0-99"])
        ]


def test_a_pool_with_a_run_under_way_is_left_alone_and_the_tick_says_so(url, instance):
    run(instance, dg.DagsterRunStatus.STARTED)
    told = ticked(
        build_sensor(
            "s", url, lambda _: Decision(asks=(Ask(first=3, last=9, relations=(Name.of("v"),), reason="lag"),)), description="", jobs=[work]
        ),
        instance,
    )
    assert told.run_requests == []
    assert told.skip_message == "a run is under way in pool spark: v: lag"


def test_a_run_that_is_starting_holds_up_others_for_a_tick_but_not_for_ever(url, instance):
    starting = instance.create_run_for_job(work, tags={SENSOR: "another", WHY: "lag"}, status=dg.DagsterRunStatus.STARTING)
    sensor = build_sensor("s", url, lambda _: Decision(asks=(Ask(first=3, last=9, reason="lag"),)), description="", jobs=[work])
    told = ticked(sensor, instance)
    assert told.run_requests == []
    assert told.skip_message == "1 run of a sensor is starting: lag"
    assert count_starting(instance) == 1
    instance.handle_run_event(
        starting.run_id, dg.DagsterEvent(event_type_value=dg.DagsterEventType.RUN_START.value, job_name=starting.job_name)
    )
    assert count_starting(instance) == 0
    assert len(ticked(sensor, instance).run_requests) == 1


def test_what_a_decision_keeps_comes_back_and_nothing_to_do_is_told(url, instance):
    def decide(moment):
        return Decision(reason=f"seen {moment.memory.get('ticks', 0)}", memory={"ticks": moment.memory.get("ticks", 0) + 1})

    sensor = build_sensor("s", url, decide, description="", jobs=[work])
    first = ticked(sensor, instance)
    assert (first.skip_message, ticked(sensor, instance, first.cursor).skip_message) == ("seen 0", "seen 1")


def test_an_error_of_the_platform_is_a_reason_to_skip_with_its_hint(url, instance):
    def decide(moment):
        raise InvalidValue("this is odd", hint="look there")

    assert ticked(build_sensor("s", url, decide, description="", jobs=[work]), instance).skip_message == "this is odd; look there"


def test_a_range_that_was_run_before_gets_another_key():
    ask = Ask(first=3, last=9, reason="lag")
    before = PastRun(pool="spark", snapshots="3-9", attempt=2, ended=NOW, succeeded=True)
    others = [replace(before, pool="slow"), replace(before, snapshots="3-8")]
    assert [request_runs([ask], runs)[0].run_key for runs in ([], others, [*others, before])] == ["3-9", "3-9", "3-9 attempt 3"]


def test_failures_are_counted_for_one_thing_or_for_all():
    runs = [PastRun(pool="spark", ended=NOW, failed=frozenset({name})) for name in ("a", "a", "b")]
    assert (count_failures(runs, "spark", "a"), count_failures(runs, "spark", "b"), count_failures(runs, "spark")) == (2, 0, 3)
    assert count_failures(runs, "other") == 0
    assert count_failures([PastRun(pool="spark")], "spark") == 0


def test_runs_are_read_with_what_failed_of_them(instance):
    run(instance, dg.DagsterRunStatus.SUCCESS)
    run(instance, dg.DagsterRunStatus.FAILURE, **{FAILED: '["main.v"]'})
    run(instance, dg.DagsterRunStatus.STARTED)
    newest, failed, done = read_runs(instance, "s")
    assert (newest.is_under_way, failed.succeeded, failed.failed, done.succeeded) == (True, False, frozenset({"main.v"}), True)
    assert read_runs(instance, "other") == ()


def test_a_run_is_known_by_the_tags_that_dagster_writes(instance):
    for key in ("3-9", "3-9 attempt 2", "slow pool 1-9 attempt 12"):
        run(instance, dg.DagsterRunStatus.STARTED, **{RUN_KEY: key})
    instance.create_run_for_job(work, tags={SENSOR: "s"})
    known = [(past.pool, past.snapshots, past.attempt) for past in read_runs(instance, "s")]
    assert known == [("", "", 1), ("slow pool", "1-9", 12), ("spark", "3-9", 2), ("spark", "3-9", 1)]
    assert request_runs([Ask(first=3, last=9, reason="lag")], read_runs(instance, "s"))[0].run_key == "3-9 attempt 3"


def test_a_sensor_without_a_lake_tells_it(tmp_path, instance):
    told = ticked(build_sensor("s", str(tmp_path / "none"), lambda _: Decision(), description=""), instance)
    assert "there is no lake at" in told.skip_message
