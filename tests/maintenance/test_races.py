"""A run of maintenance beside statements and other runs that commit between its steps and its commit, and one poison row among many."""

from __future__ import annotations

from collections import defaultdict

import pytest
import sqlalchemy as sa

from platform_plugin.errors import QueryFailed
from platform_plugin.lake.cursors.cursor import CURSOR
from platform_plugin.maintenance import run
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.state.node import NODE, USE

STATEMENTS = [
    "another run",
    "INSERT INTO posts VALUES (1, 100), (9, 1)",
    "DROP VIEW sums",
    "CREATE OR REPLACE VIEW sums AS SELECT uid, max(score) AS s FROM posts GROUP BY uid",
    "DROP SAMPLE few",
    "ALTER STREAM posts SET (retention_rows = 1000)",
    "CREATE VIEW twin AS SELECT uid, sum(score) AS s FROM posts GROUP BY uid",
]


@pytest.fixture
def url(tmp_path):
    return f"platform+local://{tmp_path}/lake"


@pytest.fixture
def platform(url):
    with Platform.create(url) as made:
        made.execute("CREATE STREAM posts (uid INT, score INT)")
        made.execute("CREATE VIEW sums AS SELECT uid, sum(score) AS s FROM posts GROUP BY uid")
        made.execute("CREATE VIEW counted AS SELECT count(*) AS n FROM posts")
        made.execute("CREATE SAMPLE few ON posts SIZE 3 WITH (seed = 1)")
        yield made


def before_commit(monkeypatch, act):
    """Let something happen once, when a run has made its steps and is about to commit them."""
    happened = []
    plain = run._label

    def label(by_kind):
        if not happened:
            happened.append("began")
            act()
            happened.append("done")
        return plain(by_kind)

    monkeypatch.setattr(run, "_label", label)
    return happened


def check_catalogue(lake):
    """Each node has a user and a table, and each cursor an owner that is there."""
    with lake.reading() as connection:
        users = set(connection.execute(sa.select(USE.c.node_uuid).where(USE.c.end_snapshot.is_(None))).scalars())
        nodes = set(connection.execute(sa.select(NODE.c.node_uuid)).scalars())
        owners = set(connection.execute(sa.select(CURSOR.c.owner).where(CURSOR.c.end_snapshot.is_(None))).scalars())
    tables = {str(table.uuid) for table in lake.tables()}
    assert users <= nodes & tables
    assert owners <= tables | {str(view.uuid) for view in lake.views()}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_run_beside_a_statement(platform, url, monkeypatch, statement):
    posts = [(1, 1), (2, 2), (1, 3)]
    platform.execute("INSERT INTO posts VALUES (1, 1), (2, 2), (1, 3)")
    with Platform.open(url) as other:
        act = (lambda: run_maintenance(other.work)) if statement == "another run" else (lambda: other.execute(statement).close())
        happened = before_commit(monkeypatch, act)
        done = run_maintenance(platform.work)
        assert happened == ["began", "done"]
        assert done.failed == {}
        check_catalogue(platform.lake)
        posts += [(1, 100), (9, 1)] if statement.startswith("INSERT") else []
        more = run_maintenance(platform.work)
        assert more.failed == {}
        platform.execute("INSERT INTO posts VALUES (2, 7)")
        posts.append((2, 7))
        run_maintenance(platform.work)
    sums: defaultdict[int, list[int]] = defaultdict(list)
    for uid, score in posts:
        sums[uid].append(score)
    names = {view.name.relation for view in platform.lake.views()}
    assert ("sums" in names, "twin" in names) == ("DROP VIEW" not in statement, "twin" in statement)
    assert list(platform.execute("SELECT * FROM counted")) == [(len(posts),)]
    if "sums" in names:
        # A view that was made anew, and one that is new, begin with what comes then.
        seen = {2: [7]} if "OR REPLACE" in statement else sums
        assert sorted(platform.execute("SELECT * FROM sums")) == sorted((uid, sum(scores)) for uid, scores in seen.items())
    if "twin" in names:
        assert list(platform.execute("SELECT * FROM twin")) == [(2, 7)]
    if "DROP SAMPLE" not in statement:
        drawn = platform.sample("few").arrow().to_pylist()
        assert len(drawn) == 3
        assert {(row["uid"], row["score"]) for row in drawn} <= set(posts)
    check_catalogue(platform.lake)


def test_one_relation_of_a_hundred_that_fails_costs_few_more_steps(platform, monkeypatch):
    """Without halving there would be a hundred steps, and without the memory of failures as many again in the next run."""
    from platform_plugin.relations.views.follow import step as view_step

    for number in range(98):
        platform.execute(f"CREATE VIEW more_{number} AS SELECT uid, count(*) AS n FROM posts WHERE score <> {number + 5} GROUP BY uid")
    platform.execute("INSERT INTO posts VALUES (1, 1), (2, 2)")
    sizes = []
    local = view_step.assign_range

    def failing(work, snapshot, shared, views, engines, *, stream):
        sizes.append(len(views))
        if any(view.name == "main.more_41" for view in views):
            raise QueryFailed("division by zero")
        return local(work, snapshot, shared, views, engines, stream=stream)

    monkeypatch.setattr(view_step, "assign_range", failing)
    monkeypatch.setattr(view_step, "place_failure", lambda *given: given[-1])
    done = run_maintenance(platform.work, kinds=["view"])
    assert list(done.failed) == ["main.more_41"]
    assert len(done.views) == 99
    assert len(sizes) <= 16
    sizes.clear()
    platform.execute("INSERT INTO posts VALUES (3, 3)")
    again = run_maintenance(platform.work, kinds=["view"])
    assert (list(again.failed), len(again.views), len(sizes)) == (["main.more_41"], 99, 1)
    assert list(platform.execute("SELECT * FROM counted")) == [(3,)]
