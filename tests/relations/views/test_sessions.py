"""Views of sessions in a lake: whichever engine groups, merges and reads, they are what plain Python makes of all rows."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.state import compaction
from tests.relations.views.composed import bag
from tests.relations.views.sessions import BEGIN, GAP, posts, sessions_of
from tests.relations.views.test_maintained import append, by_spark, lake, platform  # noqa: F401  fixtures

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.platform import Platform
    from tests.relations.views.composed import Rows

GROUPED = "FROM posts GROUP BY uid, session_window(at, '5 seconds')"
VIEWS = {
    "sessions": f"SELECT uid, session_window.start AS s, session_window.end AS e, count(*) AS n, max(score) AS hi {GROUPED}",
    "twin": f"""SELECT uid, count(*) AS n, max(score) AS hi, session_window {GROUPED}
        HAVING session_window.start > TIMESTAMP_NTZ '2026-01-01 00:00:09'""",
    "different": f"SELECT uid, session_window.start AS s, count(DISTINCT score) FILTER (WHERE score > 1) AS d, count(*) AS n {GROUPED}",
    "numbers": f"SELECT uid, count(*) AS sessions, sum(n) AS n FROM (SELECT uid, count(*) AS n {GROUPED}) GROUP BY uid",
}


def expected(found: Rows) -> dict[str, list[tuple[Any, ...]]]:
    made = sessions_of(found["posts"], lambda row: row[0], lambda _: GAP)
    scores = [[row[1] for row in rows if row[1] is not None] for *_, rows in made]
    late = BEGIN + timedelta(seconds=9)
    users = {uid for uid, *_ in made}
    sizes = {uid: [len(rows) for other, _, _, rows in made if other == uid] for uid in users}
    return {
        "sessions": [
            (uid, start, end, len(rows), max(own, default=None)) for (uid, start, end, rows), own in zip(made, scores, strict=True)
        ],
        "twin": [
            (uid, len(rows), max(own, default=None), (start, end))
            for (uid, start, end, rows), own in zip(made, scores, strict=True)
            if start > late
        ],
        "different": [
            (uid, start, len({score for score in own if score > 1}), len(rows))
            for (uid, start, _, rows), own in zip(made, scores, strict=True)
        ],
        "numbers": [(uid, len(sizes[uid]), sum(sizes[uid])) for uid in users],
    }


def answers(platform: Platform) -> dict[str, list[tuple[Any, ...]]]:  # noqa: F811
    found = {name: list(platform.execute(f"SELECT * FROM {name}")) for name in VIEWS}
    return {name: [tuple(tuple(v.values()) if isinstance(v, dict) else v for v in row) for row in rows] for name, rows in found.items()}


def check(platform: Platform, found: Rows, places: tuple[int, ...]) -> None:  # noqa: F811
    """Ranges are consumed one after the other; the rows of the last one wait."""
    for name, text in VIEWS.items():
        platform.execute(f"CREATE VIEW {name} AS {text}")
    for first, last in zip((0, *places), (*places, None), strict=True):
        if chosen := found["posts"][first:last]:
            append(platform, "posts", chosen)
        so_far = expected({"posts": found["posts"][:last]})
        given = answers(platform)
        assert {name: bag(rows) for name, rows in given.items()} == {name: bag(rows) for name, rows in so_far.items()}
        if last is not None:
            done = run_maintenance(platform.work)
            assert not done.failed, done.failed


def random_posts(count: int) -> Rows:
    chance = random.Random(count)
    rows = []
    for _ in range(count):
        at = None if chance.random() < 0.1 else f"{BEGIN + timedelta(seconds=chance.randrange(60))}"
        rows.append((chance.choice([None, 1, 2]), chance.choice([None, 0, 1, 2, 3]), "1.00", 0.5, at, "a", ()))
    return {"posts": rows}


@pytest.mark.spark
@pytest.mark.parametrize("largest", ["spark", "arrow"])
def test_views_of_sessions_are_those_of_all_rows(platform: Platform, request: pytest.FixtureRequest, largest: str) -> None:  # noqa: F811
    if largest == "spark":
        request.getfixturevalue("by_spark")
    check(platform, random_posts(40), (9, 20, 31))
    notes = " ".join(str(row) for row in platform.execute("DESCRIBE EXTENDED twin"))
    assert "shares its states with" in notes
    assert "sessions" in notes


@pytest.mark.spark
@pytest.mark.parametrize("largest", ["spark", "arrow"])
def test_compaction_joins_sessions(
    platform: Platform,  # noqa: F811
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    largest: str,
) -> None:
    if largest == "spark":
        request.getfixturevalue("by_spark")
    monkeypatch.setattr(compaction, "_LEAST", 2)
    platform.execute(f"CREATE VIEW sessions AS {VIEWS['sessions']}")
    # Two sessions that a late row joins, and one that stays by itself.
    rows = [(1, 1, "1.00", 0.5, f"2026-01-01 00:00:{second:02}", "a", ()) for second in (0, 10, 5, 30)]
    compacted = 0
    for row in rows:
        append(platform, "posts", [row])
        compacted += run_maintenance(platform.work).compacted
    run_maintenance(platform.work)
    assert compacted
    assert len(list(platform.execute("SELECT * FROM sessions"))) == 2
    assert bag(list(platform.execute("SELECT * FROM sessions"))) == bag(expected({"posts": rows})["sessions"])


def test_small_ranges_and_reads_of_sessions_need_no_spark(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.platform import Platform

    def refuse(_: Workspace) -> None:
        raise AssertionError("Spark is asked")

    monkeypatch.setattr(Workspace, "session", property(refuse))
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM clicks (user INT, ms INT, at TIMESTAMP)")
        made.execute(
            "CREATE VIEW visits AS SELECT user, session_window.start AS began, count(*) AS clicks, sum(ms) AS ms "
            "FROM clicks GROUP BY user, session_window(at, INTERVAL 5 MINUTES)"
        )
        made.execute("INSERT INTO clicks VALUES (1, 10, '2026-01-01 10:00:00'), (1, 20, '2026-01-01 10:10:00'), (2, 5, NULL)")
        assert run_maintenance(made.work).jobs == 0
        assert len(list(made.execute("SELECT user, clicks FROM visits"))) == 2
        made.execute("INSERT INTO clicks VALUES (1, 30, '2026-01-01 10:05:00')")
        found = made.execute("SELECT user, clicks, ms FROM visits")
        assert (list(found), found.metrics) == ([(1, 3, 60)], None)


@pytest.mark.spark
def test_what_the_kernel_refuses_is_sparks(platform: Platform) -> None:  # noqa: F811
    by_month = "SELECT session_window.start AS s, count(*) AS n FROM posts GROUP BY session_window(at, '1 month')"
    platform.execute(f"CREATE VIEW months AS {by_month}")
    append(platform, "posts", random_posts(10)["posts"])
    done = run_maintenance(platform.work)
    assert "a gap that only Spark reads" in done.on_spark["main.months"]
    assert list(platform.execute("SELECT n FROM months")) == list(platform.execute(f"SELECT n FROM ({by_month})"))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("largest", ["spark", "arrow"])
def test_random_sessions_in_random_ranges(lake: Callable[[], Platform], request: pytest.FixtureRequest, largest: str) -> None:  # noqa: F811
    if largest == "spark":
        request.getfixturevalue("by_spark")

    @settings(max_examples=6, suppress_health_check=list(HealthCheck))
    @given(found=posts(), places=st.lists(st.integers(0, 24), min_size=1, max_size=3).map(lambda places: tuple(sorted(places))))
    def example(found: Rows, places: tuple[int, ...]) -> None:
        with lake() as made:
            check(made, found, places)

    example()
