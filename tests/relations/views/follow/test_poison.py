"""A row that one view can't digest: it is named, the other views and the stream go on, and so does the view once it is made anew."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from platform_plugin.errors import PlatformError, QueryFailed
from platform_plugin.maintenance import poison, run
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.select.overview import read_overview

pytestmark = pytest.mark.spark

POISONS = {
    "cast": ("sum(CAST(word AS INT))", "'seven'", "CAST_INVALID_INPUT|cast"),
    "division": ("sum(100 DIV score)", "0", "division by zero|DIVIDE_BY_ZERO|[Dd]ivision"),
    "overflow": ("max(CAST(score AS INT) * 2000000000)", "7", "overflow"),
    "index": ("max(array(1, 2)[score])", "9", "out of bounds|INVALID_ARRAY_INDEX"),
}


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM posts (uid INT, score INT, word STRING) WITH (retention_rows = 4)")
        yield made


def rows(platform, sql):
    return sorted(platform.execute(sql))


def arrive(platform, scores, words):
    posts = platform.lake.table("posts")
    columns = {"uid": pa.array([1] * len(scores), pa.int32()), "score": pa.array(scores, pa.int32()), "word": pa.array(words)}
    with platform.lake.commit("append") as commit:
        commit.append(posts, [platform.lake.write(posts, pa.table(columns))])


@pytest.mark.parametrize("kind", [kind if kind == "cast" else pytest.param(kind, marks=pytest.mark.slow) for kind in POISONS])
def test_the_row_is_named_and_everything_else_goes_on(platform, monkeypatch, kind):
    # All views are in one query of Spark's, which fails as a whole.
    monkeypatch.setattr(platform.work, "engine", "spark_sql")
    called, value, message = POISONS[kind]
    for number in range(4):
        platform.execute(f"CREATE VIEW well_{number} AS SELECT uid, count(*) + {number} AS n FROM posts GROUP BY uid")
    platform.execute(f"CREATE VIEW ill AS SELECT {called} AS s FROM posts")
    scores, words = [1] * 20, ["1"] * 20
    if kind == "cast":
        words[13] = value.strip("'")
    else:
        scores[13] = int(value)
    arrive(platform, [0 if kind == "index" else 1] * 3, ["1"] * 3)
    assert not run_maintenance(platform.work).failed
    arrive(platform, [0 if kind == "index" and score == 1 else score for score in scores], words)
    done = run_maintenance(platform.work)
    assert sorted(done.views) == [f"main.well_{number}" for number in range(4)]
    told = done.failed["main.ill"]
    (stall,) = read_overview(str(platform.lake.location)).stalls
    assert (stall.name, stall.cause, stall.hint) == ("ill", "maintenance", told.hint)
    assert stall.reason.startswith(f"{told.message}: row 16 of stream main.posts")
    assert platform.execute("DESCRIBE ill").message.startswith("main.ill is stalled: maintenance has stopped since 2")
    assert platform.execute("DESCRIBE well_0").message == ""
    assert isinstance(told, QueryFailed)
    told_how = re.search("row 16 of stream main.posts: (SELECT .* WHERE _row_id = 16)", str(told))
    assert rows(platform, told_how[1]) == [(1, scores[13], words[13])] or kind == "index"
    with pytest.raises(PlatformError, match=message):
        platform.execute("SELECT * FROM ill")
    for number in range(4):
        assert rows(platform, f"SELECT n FROM well_{number}") == [(23 + number,)]


def test_a_view_that_fails_is_tried_ever_more_rarely_and_told_of_all_the_time(platform, monkeypatch):
    platform.execute("CREATE VIEW ill AS SELECT sum(100 DIV score) AS s FROM posts")
    platform.execute("CREATE VIEW well AS SELECT count(*) AS n FROM posts")
    arrive(platform, [1, 0], ["", ""])
    tried = []
    together = run._run_batch

    def watched(work, snapshot, batch, control, **more):
        tried.append(sorted(batch.names))
        return together(work, snapshot, batch, control, **more)

    monkeypatch.setattr(run, "_run_batch", watched)
    now = [1000.0]
    monkeypatch.setattr(poison.time, "monotonic", lambda: now[0])
    told = []
    for place in range(30):
        if place % 10 == 9:
            arrive(platform, [1], [""])
        told.append(run_maintenance(platform.work).failed.keys())
        now[0] += 1
    assert all(list(names) == ["main.ill"] for names in told)
    assert sum(names == ["main.ill"] for names in tried) <= 5, "at 0, 2, 6, 14 and 30 seconds"
    before = len(tried)
    with pytest.raises(PlatformError, match="row 1 of stream"):
        platform.execute("REFRESH VIEW ill")
    assert len(tried) > before, "who asks for it is answered"
    assert rows(platform, "SELECT * FROM well") == [(5,)]


def test_the_way_on(platform):
    platform.execute("CREATE VIEW ill AS SELECT sum(100 DIV score) AS s, count(*) AS n FROM posts")
    platform.execute("CREATE VIEW well AS SELECT count(*) AS n FROM posts")
    for _ in range(4):
        arrive(platform, [1, 0], ["", ""])
        run_maintenance(platform.work)
    assert rows(platform, "SELECT count(*) FROM posts") == [(8,)], "what it has not taken up is kept"
    platform.execute(
        "CREATE OR REPLACE VIEW ill WITH (start = 'earliest') AS SELECT sum(try_divide(100, score)) AS s, count(*) AS n FROM posts"
    )
    assert rows(platform, "SELECT * FROM ill") == [(400.0, 8)]
    assert not run_maintenance(platform.work).failed
    arrive(platform, [2, 0], ["", ""])
    assert rows(platform, "SELECT * FROM ill") == [(450.0, 10)]
    assert rows(platform, "SELECT count(*) FROM posts") == [(4,)]
    assert rows(platform, "SELECT * FROM well") == [(10,)]


def test_rows_that_only_fail_together(platform):
    platform.execute("CREATE VIEW sums AS SELECT sum(CAST(score AS BIGINT) * 9223372036854775807) AS s FROM posts")
    arrive(platform, [1, 1], ["", ""])
    told = str(run_maintenance(platform.work).failed["main.sums"])
    assert "rows 0 to 1, together, of stream main.posts" in told


def test_what_is_wrong_with_the_results_of_one_view_is_not_the_others_fault(platform):
    platform.execute("CREATE VIEW ill WITH (target_lag = '5 s') AS SELECT uid, 100 DIV (count(*) - 2) AS s FROM posts GROUP BY uid")
    platform.execute("CREATE VIEW well WITH (target_lag = '5 s') AS SELECT uid, count(*) AS n FROM posts GROUP BY uid")
    arrive(platform, [1, 1], ["", ""])
    assert not run_maintenance(platform.work, kinds=["view"]).failed, "only the answer is wrong"
    assert list(run_maintenance(platform.work).failed) == ["main.ill"]
    result = platform.execute("SELECT n FROM well WHERE uid = 1")
    assert (list(result), result.metrics) == ([(2,)], None)
    arrive(platform, [1], [""])
    assert rows(platform, "SELECT s FROM ill") == [(100,)]
