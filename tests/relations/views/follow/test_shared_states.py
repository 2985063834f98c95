"""Views whose parts are the same from the same row on share states, and nobody who reads them could tell."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_plugin.errors import CommitConflict
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.language.script import parse_statement
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.views import build
from platform_plugin.relations.views.define import run_create_view
from platform_plugin.relations.views.follow import shared_states
from platform_plugin.relations.views.follow import step as view_step

pytestmark = pytest.mark.spark

SUMS = "SELECT uid, s FROM (SELECT uid, sum(score) AS s, count(*) AS n FROM posts GROUP BY uid) WHERE n > {0}"


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM posts (uid INT, score INT) WITH (retention_rows = 3)")
        yield made


def append(platform, *rows):
    lake = platform.lake
    columns = {"uid": pa.array([row[0] for row in rows], pa.int32()), "score": pa.array([row[1] for row in rows], pa.int32())}
    with lake.commit("append") as commit:
        commit.append(lake.table("posts"), [lake.write(lake.table("posts"), pa.table(columns))])


def rows(platform, sql):
    return sorted(tuple(row) for row in platform.execute(sql))


def states(platform):
    return sorted(table.name.relation.split("__")[0] for table in platform.lake.tables() if "__state" in table.name.relation)


def test_views_that_differ_above_the_grouping_share_their_states(platform):
    platform.execute(f"CREATE VIEW a AS {SUMS.format(0)}")
    platform.execute(f"CREATE VIEW b WITH (target_lag = '5 seconds') AS {SUMS.format(1).replace('posts', 'posts AS p')}")
    platform.execute("CREATE VIEW c AS SELECT sum(s) AS total FROM (SELECT uid, sum(score) AS s, count(*) AS n FROM posts GROUP BY uid)")
    assert states(platform) == ["a"]
    told = {row[0]: row[1] for row in platform.execute("DESCRIBE EXTENDED b")}
    assert told["# shares its states with"] == "main.a, main.c"
    told = [row[0] for row in platform.execute(f"EXPLAIN CREATE VIEW d AS {SUMS.format(5)}")]
    assert told[-1] == "made now, it would share states of view main.a"
    append(platform, (1, 10), (1, 5), (2, 7))
    assert "share the states" not in [row[0] for row in platform.execute(f"EXPLAIN CREATE VIEW d AS {SUMS.format(5)}")][-1]
    done = run_maintenance(platform.work)
    assert (sorted(done.views), done.rows, done.groups) == (["main.a", "main.b", "main.c"], 3, 2)
    append(platform, (2, 1), (3, 1), (3, 1))
    for _ in range(2):
        assert rows(platform, "SELECT * FROM a") == [(1, 15), (2, 8), (3, 2)]
        assert rows(platform, "SELECT * FROM b") == [(1, 15), (2, 8), (3, 2)]
        assert rows(platform, "SELECT * FROM c") == [(25,)]
        assert sorted(run_maintenance(platform.work, [Name(schema="main", relation="b")]).views) in (["main.a", "main.b", "main.c"], [])


@pytest.mark.parametrize(
    "other",
    [
        "CREATE VIEW b WITH (maintenance = 'eager') AS " + SUMS.format(1),
        "CREATE VIEW b WITH (maintenance = 'deferred') AS " + SUMS.format(1),
        "CREATE VIEW b AS SELECT uid, s FROM (SELECT uid, sum(score) AS s, count(score) AS n FROM posts GROUP BY uid) WHERE n > 1",
        "CREATE VIEW b AS " + SUMS.format(1).replace("FROM posts", "FROM posts WHERE uid > 0"),
    ],
)
def test_others_have_states_of_their_own(platform, other):
    platform.execute(f"CREATE VIEW a AS {SUMS.format(1)}")
    platform.execute(other)
    assert states(platform) == ["a", "b"]
    append(platform, (1, 10), (1, 5))
    run_maintenance(platform.work)
    assert rows(platform, "SELECT * FROM a") == rows(platform, "SELECT * FROM b") == [(1, 15)]


def test_a_view_that_begins_later_shares_nothing(platform):
    platform.execute(f"CREATE VIEW a AS {SUMS.format(0)}")
    append(platform, (1, 10))
    platform.execute(f"CREATE VIEW b AS {SUMS.format(0)}")
    append(platform, (1, 5))
    assert states(platform) == ["a", "b"]
    run_maintenance(platform.work)
    assert rows(platform, "SELECT * FROM a") == [(1, 15)]
    assert rows(platform, "SELECT * FROM b") == [(1, 5)]


def test_views_that_begin_since_the_same_snapshot_share_though_rows_come_in_between(platform):
    append(platform, (7, 7))
    since = platform.lake.snapshot()
    for name in "ab":
        run_create_view(platform.work, parse_statement(f"CREATE VIEW {name} AS {SUMS.format(0)}"), since=since)
        append(platform, (1, 5))
    assert states(platform) == ["a"]
    assert rows(platform, "SELECT * FROM a") == rows(platform, "SELECT * FROM b") == [(1, 10)]
    platform.execute("ALTER STREAM posts SET (retention_rows = 1)")
    platform.execute("DROP VIEW a")
    platform.execute("DROP VIEW b")
    append(platform, (1, 1), (1, 2))
    append(platform, (1, 3))
    run_create_view(platform.work, parse_statement(f"CREATE VIEW late AS {SUMS.format(0)}"), since=since)
    append(platform, (1, 9))
    assert rows(platform, "SELECT * FROM late") == [(1, 9)], "what came since has left, so it begins now"


def test_states_stay_as_long_as_somebody_needs_them(platform):
    platform.execute(f"CREATE VIEW a AS {SUMS.format(0)}")
    platform.execute(f"CREATE VIEW b AS {SUMS.format(0)}")
    append(platform, (1, 10))
    run_maintenance(platform.work)
    platform.execute("DROP VIEW a")
    append(platform, (1, 5))
    assert run_maintenance(platform.work).views == ("main.b",)
    append(platform, (1, 1))
    platform.execute(f"CREATE VIEW a AS {SUMS.format(0)}")
    assert rows(platform, "SELECT * FROM b") == [(1, 16)]
    assert rows(platform, "SELECT * FROM a") == []
    platform.execute("DROP VIEW b")
    platform.execute("DROP VIEW a")
    assert states(platform) == []


def test_a_twin_that_is_maintained_meanwhile_takes_the_new_view_along(platform, monkeypatch):
    platform.execute(f"CREATE VIEW a AS {SUMS.format(0)}")
    found = shared_states.find_shared_states

    def late(*given, **more):
        twin = found(*given, **more)
        append(platform, (1, 10))
        run_maintenance(platform.work)
        append(platform, (1, 1))
        return twin

    monkeypatch.setattr(build, "find_shared_states", late)
    platform.execute(f"CREATE VIEW b AS {SUMS.format(0)}")
    assert states(platform) == ["a"]
    for _ in range(2):
        assert rows(platform, "SELECT * FROM a") == rows(platform, "SELECT * FROM b") == [(1, 11)]
        run_maintenance(platform.work)


def test_a_run_that_does_not_know_of_a_new_twin_takes_it_along(platform, monkeypatch):
    platform.execute(f"CREATE VIEW a AS {SUMS.format(0)}")
    local = view_step.assign_range

    def late(*given, **more):
        monkeypatch.setattr(view_step, "assign_range", local)
        with Platform.open(str(platform.lake.location)) as other:
            other.execute(f"CREATE VIEW b WITH (start = 'earliest') AS {SUMS.format(0)}")
        return local(*given, **more)

    append(platform, (1, 10))
    monkeypatch.setattr(view_step, "assign_range", late)
    run_maintenance(platform.work)
    assert states(platform) == ["a"], "both begin at row 0"
    append(platform, (1, 1))
    for _ in range(2):
        assert rows(platform, "SELECT * FROM a") == rows(platform, "SELECT * FROM b") == [(1, 11)]
        run_maintenance(platform.work)


def test_states_that_another_view_came_to_share_are_not_dropped(platform, monkeypatch):
    platform.execute(f"CREATE VIEW a AS {SUMS.format(0)}")
    found = build.nodes_in_use

    def early(*given, **more):
        needed = found(*given, **more)
        monkeypatch.setattr(build, "nodes_in_use", found)
        with Platform.open(str(platform.lake.location)) as other:
            other.execute(f"CREATE VIEW b AS {SUMS.format(0)}")
        return needed

    monkeypatch.setattr(build, "nodes_in_use", early)
    with pytest.raises(CommitConflict, match="share what is dropped"):
        platform.execute("DROP VIEW a")
    append(platform, (1, 10))
    assert rows(platform, "SELECT * FROM a") == rows(platform, "SELECT * FROM b") == [(1, 10)]


def test_a_view_whose_twin_was_dropped_meanwhile_is_not_made(platform, monkeypatch):
    platform.execute(f"CREATE VIEW a AS {SUMS.format(0)}")
    found = shared_states.find_shared_states

    def late(*given, **more):
        twin = found(*given, **more)
        platform.execute("DROP VIEW a")
        return twin

    monkeypatch.setattr(build, "find_shared_states", late)
    with pytest.raises(CommitConflict, match="dropped"):
        platform.execute(f"CREATE VIEW b AS {SUMS.format(0)}")


def test_a_row_for_which_a_view_fails_is_told_of_all_that_share_its_states(platform):
    query = "SELECT uid, s FROM (SELECT uid, sum(100 DIV score) AS s, count(*) AS n FROM posts GROUP BY uid) WHERE n > {0}"
    platform.execute(f"CREATE VIEW a AS {query.format(0)}")
    platform.execute(f"CREATE VIEW b AS {query.format(1)}")
    platform.execute("CREATE VIEW c AS SELECT count(*) AS n FROM posts")
    append(platform, (1, 0))
    done = run_maintenance(platform.work)
    assert (done.views, sorted(done.failed)) == (("main.c",), ["main.a", "main.b"])


def test_a_rebuilt_view_goes_its_own_way(platform):
    platform.execute("CREATE TABLE past AS HISTORY OF posts")
    platform.execute(f"CREATE VIEW a AS {SUMS.format(0)}")
    platform.execute(f"CREATE VIEW b AS {SUMS.format(0)}")
    append(platform, (1, 10), (2, 1))
    run_maintenance(platform.work)
    append(platform, (1, 5), (2, 1))
    platform.execute("REBUILD VIEW b")
    append(platform, (1, 1))
    for _ in range(2):
        assert rows(platform, "SELECT * FROM a") == rows(platform, "SELECT * FROM b") == [(1, 16), (2, 2)]
        run_maintenance(platform.work)


STEP = st.sampled_from(["append", "maintain", "make", "drop", "maintain one", "replace"])


@pytest.mark.timeout(300)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps=st.lists(st.tuples(STEP, st.integers(0, 2)), min_size=4, max_size=10))
def test_whatever_is_done_each_view_has_what_came_since_it_was_made(platform, steps):
    known: dict[str, dict[int, int]] = {}
    for name in "xyz":
        platform.execute(f"DROP VIEW IF EXISTS {name}")
    for number, (step, which) in enumerate(steps):
        name = "xyz"[which]
        if step == "append":
            append(platform, (which, number), (1, 1))
            for sums in known.values():
                sums[which] = sums.get(which, 0) + number
                sums[1] = sums.get(1, 0) + 1
        elif step == "maintain":
            assert not run_maintenance(platform.work).failed
        elif step == "maintain one" and name in known:
            assert not run_maintenance(platform.work, [Name(schema="main", relation=name)]).failed
        elif (step == "make" and name not in known) or (step == "replace" and name in known):
            platform.execute(f"CREATE OR REPLACE VIEW {name} AS {SUMS.format(0)}")
            known[name] = {}
        elif step == "drop" and name in known:
            platform.execute(f"DROP VIEW {name}")
            del known[name]
        for view, sums in known.items():
            assert dict(rows(platform, f"SELECT * FROM {view}")) == sums, (view, steps[: number + 1])
