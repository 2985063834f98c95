"""The service: what it does with failures, and that stopping is heeded while it waits."""

from __future__ import annotations

import threading
import time

import pytest

from platform_plugin.engine.spark.session import repeated_work
from platform_plugin.errors import CatalogueError, ServerLost, UnknownObject
from platform_plugin.relations.streams.feeds import service
from platform_plugin.relations.streams.feeds.ingest import IngestReport
from platform_plugin.relations.streams.feeds.service import Ingester, Totals


class Work:
    forgotten = 0

    def forget_session(self):
        self.forgotten += 1


class Told:
    def __init__(self):
        self.reports, self.failures = [], []

    def report(self, report):
        self.reports.append(report)

    def failed(self, error, pause_seconds):
        self.failures.append((type(error), pause_seconds))


@pytest.fixture
def script(monkeypatch):
    """Let the batches of an ingester go as scripted; the last one stops it."""

    def follow(ingester, steps):
        steps = list(steps)

        def run(*args, **kwargs):
            step = steps.pop(0)
            if not steps:
                ingester.stop()
            if isinstance(step, Exception):
                raise step
            return step

        monkeypatch.setattr(service, "run_ingest", run)
        monkeypatch.setattr(service, "find_feed", lambda *_: None)
        monkeypatch.setattr(repeated_work, "_FIRST_PAUSE_SECONDS", 0.001)
        return ingester

    return follow


def report(rows=1, waiting=0):
    return IngestReport(stream="s", rows=rows, waiting=waiting, snapshot=1 if rows else None)


def test_failures_are_told_and_waited_for_ever_longer(script):
    work, told = Work(), Told()
    failure = CatalogueError("away", hint="wait")
    ingester = script(
        Ingester(work, "s", interval_seconds=0), [failure, failure, ServerLost("gone", hint="wait"), report(), failure, report()]
    )
    totals = ingester.run(told)
    assert [pause for _, pause in told.failures] == [0.001, 0.002, 0.004, 0.001]
    assert work.forgotten == 1
    assert totals == Totals(batches=2, rows=2, failures=4)


def test_once_ends_when_nothing_waits_and_raises_failures(script):
    ingester = script(Ingester(Work(), "s"), [report(5, waiting=3), report(3), report(9), report(9)])
    assert ingester.run(Told(), once=True).rows == 8
    with pytest.raises(CatalogueError):
        script(Ingester(Work(), "s"), [CatalogueError("away", hint="wait"), report()]).run(Told(), once=True)


def test_a_stream_that_was_dropped_ends_the_service(script):
    with pytest.raises(UnknownObject):
        script(Ingester(Work(), "s"), [report(), UnknownObject("gone", hint="none"), report()]).run(Told())


def test_stopping_does_not_wait_for_the_interval(monkeypatch):
    monkeypatch.setattr(service, "run_ingest", lambda *_, **__: report(0))
    monkeypatch.setattr(service, "find_feed", lambda *_: None)
    ingester = Ingester(Work(), "s", interval_seconds=60)
    threading.Timer(0.1, ingester.stop).start()
    began = time.monotonic()
    assert ingester.run(Told()) == Totals()
    assert time.monotonic() - began < 40
