"""CREATE VIEW: what it costs beside many views, and many of them in one commit, all or none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.engine.workspace import Workspace
from platform_plugin.errors import InvalidValue, ObjectExists, PlatformError
from platform_plugin.lake.lake import Lake
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform

ROOT = Path(__file__).parents[3]
SUMS = "SELECT uid, sum(score) AS s FROM posts WHERE score > {0} GROUP BY uid"


@pytest.fixture
def platform(tmp_path, monkeypatch):
    """A lake on a machine that has no Spark."""

    def refuse(work):
        raise AssertionError("Spark was asked")

    monkeypatch.setattr(Workspace, "session", property(refuse))
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM posts (uid INT, score INT)")
        made.execute("CREATE TABLE users (id INT, region STRING)")
        made.execute("INSERT INTO users VALUES (1, 'EU'), (2, 'US')")
        yield made


def script(count, first=0):
    return ";\n".join(f"CREATE VIEW v{number} AS {SUMS.format(number)}" for number in range(first, first + count))


def append(platform, *rows):
    lake = platform.lake
    columns = {"uid": pa.array([row[0] for row in rows], pa.int32()), "score": pa.array([row[1] for row in rows], pa.int32())}
    with lake.commit("append") as commit:
        commit.append(lake.table("posts"), [lake.write(lake.table("posts"), pa.table(columns))])


def names(platform):
    return sorted(view.name.relation for view in platform.lake.views())


def states(platform):
    return sorted(table.name.relation.split("__")[0] for table in platform.lake.tables() if "__state" in table.name.relation)


def answer(platform, view):
    return sorted(tuple(row) for row in platform.execute(f"SELECT * FROM {view}"))


def count_statements(platform, work):
    """How many statements the catalogue's database gets."""
    seen = []

    def note(*given):
        seen.append(given[2])

    sa.event.listen(platform.lake.engine, "before_cursor_execute", note)
    try:
        work()
    finally:
        sa.event.remove(platform.lake.engine, "before_cursor_execute", note)
    return len(seen)


def test_a_view_costs_the_same_beside_many(platform):
    joined = "SELECT u.region, count(*) AS n FROM posts p JOIN users u ON u.id = p.uid WHERE p.score > {0} GROUP BY u.region"
    platform.execute(f"CREATE VIEW a AS {joined.format(0)}")
    few = count_statements(platform, lambda: platform.execute(f"CREATE VIEW b AS {joined.format(1)}"))
    list(platform.execute_script(script(60), one_commit=True))
    many = count_statements(platform, lambda: platform.execute(f"CREATE VIEW c AS {joined.format(2)}"))
    assert many <= few + 5


def test_views_of_a_script_come_in_one_commit(platform):
    before = platform.lake.snapshot().id
    results = list(platform.execute_script(script(5), one_commit=True))
    assert [result.snapshot.id for result in results] == [before + 1] * 5
    assert platform.lake.snapshot().id == before + 1
    assert results[3].message.startswith("view main.v3 created; reads are current")
    append(platform, (1, 3), (1, 4), (2, 1))
    assert [answer(platform, f"v{number}") for number in range(5)] == [[(1, 7), (2, 1)], [(1, 7)], [(1, 7)], [(1, 4)], []]


def test_views_of_one_commit_share_their_parts(platform):
    joined = "SELECT u.region, count(*) AS n FROM posts p JOIN users u ON u.id = p.uid WHERE p.score > {0} GROUP BY u.region"
    text = ";".join(
        [
            f"CREATE VIEW a AS {SUMS.format(1)}",
            f"CREATE VIEW b AS SELECT sum(s) AS s FROM ({SUMS.format(1)})",
            f"CREATE VIEW c AS {joined.format(1)}",
            f"CREATE VIEW d AS {joined.format(2)}",
        ]
    )
    list(platform.execute_script(text, one_commit=True))
    assert states(platform) == ["a", "c", "d"]
    assert sum("__static" in table.name.relation for table in platform.lake.tables()) == 1
    append(platform, (1, 2), (1, 4), (2, 1))
    assert [answer(platform, view) for view in "abcd"] == [[(1, 6)], [(6,)], [("EU", 2)], [("EU", 1)]]
    platform.execute("DROP VIEW a")
    platform.execute("DROP VIEW c")
    assert [answer(platform, view) for view in "bd"] == [[(6,)], [("EU", 1)]]


def test_nothing_is_created_if_one_is_refused(platform, tmp_path):
    before = platform.lake.snapshot().id
    files = sorted(tmp_path.rglob("*.parquet"))
    looked_up = "CREATE VIEW w AS SELECT u.region, count(*) AS n FROM posts p JOIN users u ON u.id = p.uid GROUP BY u.region"
    with pytest.raises(PlatformError, match="nosuch") as caught:
        list(platform.execute_script(f"{looked_up};\n{script(3)};\nCREATE VIEW x AS SELECT sum(s) AS s FROM nosuch", one_commit=True))
    assert caught.value.line == 5
    assert (names(platform), platform.lake.snapshot().id) == ([], before)
    assert sorted(tmp_path.rglob("*.parquet")) == files


def test_what_one_commit_can_not_hold_is_told_at_its_place(platform):
    for text, error, line in (
        (f"{script(1)};\nDROP VIEW v0", InvalidValue, 2),
        (f"{script(2)};\nCREATE VIEW v0 AS {SUMS.format(7)}", ObjectExists, 3),
        (f"{script(1)};\nCREATE VIEW w AS\nSELECT max(s) AS s FROM v0", InvalidValue, 3),
    ):
        with pytest.raises(error) as caught:
            list(platform.execute_script(text, one_commit=True))
        assert caught.value.line == line
    assert names(platform) == []
    assert list(platform.execute_script("", one_commit=True)) == []


def test_views_are_replaced_together_with_states_that_they_share(platform):
    list(platform.execute_script(script(2), one_commit=True))
    platform.execute(f"CREATE VIEW twin AS SELECT max(s) AS m FROM ({SUMS.format(0)})")
    assert states(platform) == ["v0", "v1"]
    append(platform, (1, 5))
    text = f"CREATE OR REPLACE VIEW v0 AS {SUMS.format(4)};CREATE OR REPLACE VIEW twin AS {SUMS.format(4)};"
    list(platform.execute_script(text + f"CREATE VIEW IF NOT EXISTS v1 AS {SUMS.format(9)}", one_commit=True))
    assert states(platform) == ["v0", "v1"]
    append(platform, (1, 6), (2, 3))
    assert [answer(platform, view) for view in ("v0", "twin", "v1")] == [[(1, 6)], [(1, 6)], [(1, 11), (2, 3)]]


def rows_of_nodes(platform):
    """How many nodes are in use, and by how many parts of views."""
    counted = "SELECT count(DISTINCT node_uuid), count(*) FROM platform_node_use WHERE end_snapshot IS NULL"
    with platform.lake.reading() as connection:
        return tuple(connection.execute(sa.text(counted)).one())


@pytest.mark.spark
def test_a_continuous_view_that_becomes_a_plain_one_leaves_no_state(spark_server, tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM posts (uid INT, score INT)")
        platform.execute("CREATE TABLE users (id INT, region STRING)")
        _replace_by_plain(platform)


def _replace_by_plain(platform):
    platform.execute(f"CREATE VIEW other AS {SUMS.format(7)}")
    before = rows_of_nodes(platform)
    tables = len(platform.lake.tables())
    platform.execute(f"CREATE VIEW v AS {SUMS.format(1)}")
    append(platform, (1, 5), (2, 9))
    run_maintenance(platform.work)
    assert rows_of_nodes(platform) > before
    platform.execute("CREATE OR REPLACE VIEW v AS SELECT id, region FROM users")
    assert (states(platform), rows_of_nodes(platform), len(platform.lake.tables())) == (["other"], before, tables)
    assert [view.name.relation for view in platform.lake.views()] == ["other", "v"]
    platform.execute(f"CREATE OR REPLACE VIEW v AS {SUMS.format(4)}")
    append(platform, (1, 6))
    assert answer(platform, "v")[0][0] == 1
    platform.execute("DROP VIEW v")
    assert (states(platform), rows_of_nodes(platform)) == (["other"], before)


def test_a_state_without_likeness_is_not_shared(platform):
    """States of lakes before version 2 have none."""
    platform.execute(f"CREATE VIEW a AS {SUMS.format(1)}")
    with platform.lake.writing() as connection:
        connection.execute(sa.text("UPDATE platform_node SET likeness = NULL"))
    with Platform.open(platform.lake.location) as again:
        again.execute(f"CREATE VIEW b AS {SUMS.format(1)}")
        again.execute(f"CREATE VIEW c AS {SUMS.format(1)}")
        again.execute("DROP VIEW a")
        append(again, (1, 5))
        assert states(again) == ["b"]
        assert answer(again, "b") == answer(again, "c") == [(1, 5)]


def test_killed_while_a_script_is_committed(platform, tmp_path):
    """All views or none, wherever the process was killed."""
    path = tmp_path / "views.sql"
    path.write_text(script(4))
    url = str(tmp_path / "lake")
    point, kills = 1, 0
    while kills < 6:
        told = subprocess.run(  # noqa: PLW1510  it is killed
            [sys.executable, "-m", "tests.relations.views.scripted", url, str(point), str(path)],
            cwd=ROOT,
            env=os.environ,
            capture_output=True,
            text=True,
            timeout=60,
        )
        with Lake.open(url) as lake:
            there = sorted(view.name.relation for view in lake.views())
        assert there == ([] if told.returncode else ["v0", "v1", "v2", "v3"]) or (told.returncode == -9 and len(there) == 4)
        if there:
            break
        assert told.returncode == -9, told.stderr
        kills += 1
        point = int(point * 2.6) + 1
    assert kills > 3
    append(platform, (1, 9))
    assert answer(platform, "v3") == [(1, 9)] if names(platform) else True
