"""A mixed load on the AIM views: calls arrive at a fixed rate, maintenance goes on beside, and readers read what has changed."""

from __future__ import annotations

import threading
import time
from statistics import quantiles
from typing import TYPE_CHECKING

from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from tests.benchmarks import views as aim

if TYPE_CHECKING:
    from tests.benchmarks.report import Report

_BATCHES_A_SECOND = 10


def mixed(report: Report, platform: Platform, *, rate: int, seconds: float, views: int = 6) -> None:
    """Appends of a tenth of a second's calls each; the rate that was kept, and how long reads of changed views took."""
    batch = aim.events(900, rows=rate // _BATCHES_A_SECOND)
    stop = threading.Event()
    taken: list[float] = []
    runs: list[float] = []

    def maintain() -> None:
        with Platform.open(str(platform.lake.location)) as own:
            while not stop.is_set():
                began = time.perf_counter()
                run_maintenance(own.work)
                runs.append(time.perf_counter() - began)
                stop.wait(1.0)

    def read() -> None:
        number = 0
        while not stop.is_set():
            began = time.perf_counter()
            list(platform.execute(f"SELECT * FROM v{number % views}"))
            taken.append(time.perf_counter() - began)
            number += 1

    threads = [threading.Thread(target=maintain), threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    began, appended = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        aim.append(platform, batch)
        appended += 1
        ahead = began + appended / _BATCHES_A_SECOND - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
    kept = appended * batch.num_rows / (time.perf_counter() - began)
    stop.set()
    for thread in threads:
        thread.join()
    cuts = quantiles(taken, n=100)
    report.add(
        what="mixed load",
        views=views,
        asked_events_per_second=rate,
        kept_events_per_second=kept,
        reads_per_second=len(taken) / seconds,
        read_milliseconds_p50=1000 * cuts[49],
        read_milliseconds_p99=1000 * cuts[98],
        maintenance_runs=len(runs),
    )
