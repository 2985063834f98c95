"""The walks of `docs/flows.md` enter the modules that the page lists, in its order."""

from __future__ import annotations

import re
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from platform_plugin.platform import Platform

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

ROOT = Path(__file__).parents[2]
PACKAGE = f"{ROOT / 'platform_plugin'}/"
SECTIONS = re.split(r"^## ", (ROOT / "docs" / "flows.md").read_text(), flags=re.MULTILINE)[1:]
WALKS = {section.split("\n")[0]: re.findall(r"^\d+\. `([\w/]+)`", section, re.MULTILINE) for section in SECTIONS}


def is_loading(frame: FrameType) -> bool:
    """Whether a module is being imported, and its classes are made, rather than called."""
    return frame.f_code.co_name == "<module>" or (frame.f_back is not None and frame.f_back.f_code.co_name == "<module>")


def trace(work: Callable[[], Any]) -> list[str]:
    """The modules of the package that some work enters, in the order of their first calls."""
    entered: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PACKAGE) and not is_loading(frame):
            entered.setdefault(file[len(PACKAGE) :].removesuffix(".py"))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(entered)


def walk(name: str, work: Callable[[], Any]) -> None:
    entered = trace(work)
    listed = WALKS[name]
    assert [module for module in listed if module not in entered] == [], f"{name}: not entered"
    assert listed == sorted(listed, key=entered.index), f"{name}: entered in another order"


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE TABLE users (id INT, region STRING)")
        made.execute("CREATE STREAM posts (uid INT, score INT) WITH (retention_rows = 1000)")
        yield made


def append(platform: Platform, *, again: bool = False) -> None:
    stream = platform.stream("posts")
    stream.append([{"uid": 1, "score": 2 if again else 1}]).result()


def test_every_walk_has_its_test():
    assert list(WALKS) == ["A row", "A join", "A view", "A tick", "A sample"]


def test_a_row(platform):
    walk("A row", lambda: append(platform))


def test_a_join(platform):
    query = "SELECT region, sum(score) AS score FROM posts JOIN users ON uid = id GROUP BY region"
    walk("A join", lambda: platform.execute(f"EXPLAIN CREATE VIEW by_region AS {query}"))


@pytest.mark.spark
@pytest.mark.usefixtures("spark_server")
def test_a_view_and_a_tick(platform):
    from platform_plugin.maintenance.run import run_maintenance
    from platform_plugin.orchestration.sensors.refreshing import RefreshPolicy, plan_refresh
    from platform_plugin.orchestration.sensors.waiting import read_waiting

    platform.execute("CREATE VIEW scores AS SELECT uid, sum(score) AS score FROM posts GROUP BY uid")
    append(platform)
    snapshot = platform.lake.snapshot()

    def tick() -> None:
        waiting = read_waiting(platform.lake, snapshot)
        assert waiting[0].rows == 1
        plan_refresh(waiting, datetime.now(UTC), runs=[], pool="refresh", policy=RefreshPolicy())

    walk("A tick", tick)
    walk("A view", lambda: run_maintenance(platform.work))


def test_a_sample(platform):
    platform.execute("CREATE SAMPLE few ON posts SIZE 10")
    append(platform)
    walk("A sample", lambda: platform.sample("few").arrow())
