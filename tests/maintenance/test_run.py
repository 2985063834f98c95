"""The one loop: relations of all kinds in one commit, what is due as values, and what one relation's failure means for the others."""

from __future__ import annotations

import pytest

from platform_plugin.errors import QueryFailed
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.lake import Lake
from platform_plugin.maintenance.run import MaintenanceOutcome, find_due, merge_outcomes, run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.follow.maintained import Selection
from platform_plugin.relations.views.follow import step as view_step


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM posts (uid INT, score INT)")
        made.execute("CREATE VIEW sums AS SELECT uid, sum(score) AS s FROM posts GROUP BY uid")
        made.execute("CREATE VIEW counted AS SELECT count(*) AS n FROM posts")
        made.execute("CREATE SAMPLE few ON posts SIZE 2 WITH (seed = 1)")
        yield made


def put(platform, *rows):
    platform.execute(f"INSERT INTO posts VALUES {', '.join(f'({uid}, {score})' for uid, score in rows)}")


def rows(platform, query):
    return sorted(tuple(row) for row in platform.execute(query))


def test_relations_of_all_kinds_move_in_one_commit(platform):
    put(platform, (1, 1), (2, 2), (1, 3))
    before = platform.lake.snapshot().id
    done = run_maintenance(platform.work)
    assert sorted(done.names["view"]) == ["main.counted", "main.sums"]
    assert done.snapshot.id == before + 1 == platform.lake.snapshot().id
    assert (done.rows, done.groups, done.failed) == (3, 3, {})
    assert rows(platform, "SELECT * FROM sums") == [(1, 4), (2, 2)]
    assert not run_maintenance(platform.work).did_anything


def test_a_selection_by_name_and_kind(platform):
    put(platform, (1, 1))
    assert run_maintenance(platform.work, [Name.of("counted")]).views == ("main.counted",)
    assert run_maintenance(platform.work, kinds=["sample"]).views == ()
    assert run_maintenance(platform.work, kinds=["view"]).views == ("main.sums",)


def test_what_is_due_is_said_without_doing_it(platform):
    put(platform, (1, 1), (2, 5))
    before = platform.lake.snapshot().id
    due, failed = find_due(platform.work, Selection(names=frozenset({Name.of("sums"), Name.of("few")})))
    assert failed == {}
    assert [(each.kind, each.name, each.row_count) for each in due] == [("view", "main.sums", 2), ("sample", "main.few", 2)]
    assert (due[0].engine, due[0].why is not None) == ("local", True)
    assert due[0].writes[0].startswith("main.sums__state_1")
    assert platform.lake.snapshot().id == before


def test_one_relation_that_fails_costs_halves_and_holds_nobody_up(platform, monkeypatch):
    for number in range(6):
        platform.execute(f"CREATE VIEW more_{number} AS SELECT count(*) + {number} AS n FROM posts")
    put(platform, (1, 1))
    sizes = []
    local = view_step.assign_range

    def failing(work, snapshot, shared, views, engines, *, stream):
        sizes.append(len(views))
        if any(view.name == "main.sums" for view in views):
            raise QueryFailed("division by zero")
        return local(work, snapshot, shared, views, engines, stream=stream)

    monkeypatch.setattr(view_step, "assign_range", failing)
    monkeypatch.setattr(view_step, "place_failure", lambda *given: given[-1])
    done = run_maintenance(platform.work, kinds=["view"])
    assert list(done.failed) == ["main.sums"]
    assert "main.counted" in done.views
    assert "main.sums" not in done.views
    assert len(sizes) <= 7, "by halves, not one by one"
    sizes.clear()
    put(platform, (1, 2))
    again = run_maintenance(platform.work, kinds=["view"])
    assert list(again.failed) == ["main.sums"], "still told of"
    assert len(sizes) == 1, "and not tried again so soon"
    assert rows(platform, "SELECT * FROM counted") == [(2,)]
    monkeypatch.undo()
    assert run_maintenance(platform.work, [Name.of("sums")], again=True).views == ("main.sums",)
    assert rows(platform, "SELECT * FROM sums") == [(1, 3)]


def test_outcomes_add_up(platform):
    put(platform, (1, 1))
    first = run_maintenance(platform.work, kinds=["view"])
    second = MaintenanceOutcome(names={"view": ("main.other",), "result": ("main.sums",)}, rows=2, jobs=1, snapshot=first.snapshot)
    both = merge_outcomes([first, second])
    assert both.views == (*first.views, "main.other")
    assert (both.results, both.rows, both.jobs) == (("main.sums",), 3, 1)


def test_of_two_runs_at_once_each_row_is_consumed_once(platform, tmp_path, monkeypatch):
    """The second one commits between the steps of the first and its commit; the same for a drop."""
    platform.execute("CREATE VIEW going AS SELECT max(score) AS most FROM posts")
    put(platform, (1, 1), (2, 2))
    plain, between = Lake.commit, []

    def commit(lake, *args, **options):
        if between:
            between.pop()()
        return plain(lake, *args, **options)

    monkeypatch.setattr(Lake, "commit", commit)
    with Platform.open(tmp_path / "lake") as other:
        expected = {1: 1, 2: 2}
        for number in range(3, 9):
            put(platform, (number % 2, number))
            expected[number % 2] = expected.get(number % 2, 0) + number
            between[:] = [lambda: run_maintenance(other.work)]
            assert run_maintenance(platform.work).failed == {}
            assert not between
            assert rows(platform, "SELECT * FROM sums") == rows(other, "SELECT * FROM sums") == sorted(expected.items())
            assert rows(platform, "SELECT * FROM counted") == [(number,)]
            assert platform.sample("few").cardinality == number
        put(platform, (1, 100))
        between[:] = [lambda: other.execute("DROP VIEW going")]
        assert run_maintenance(platform.work).failed == {}
        assert rows(platform, "SELECT * FROM counted") == [(9,)]
