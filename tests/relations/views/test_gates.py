"""A view with a gate: what readers would be given is judged before anything moves, and the result that passed last stays readable."""

from __future__ import annotations

import datetime as dt

import pytest

from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.catalogue.stalls import note_stall, read_gate_stalls
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.commit.gates import read_written
from platform_plugin.maintenance import poison
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.follow.maintained import Selection
from platform_plugin.relations.views.follow.pending import find_pending_views

pytestmark = pytest.mark.spark

LAST = "SELECT * FROM totals AT (GATE => 'passed')"


@pytest.fixture
def platform(tmp_path, spark_server, monkeypatch):
    monkeypatch.setattr(poison, "FIRST_PAUSE_SECONDS", 0.0)
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM sold (id INT, amount INT) WITH (retention_rows = 100)")
        yield made


def holding(platform, judged):
    """A gate that lets nobody's total be negative, and notes what it has seen."""
    lake = platform.lake

    def gate(table, files):
        rows = read_written(lake, table, files)
        judged.append(sorted(zip(*rows.to_pydict().values(), strict=True)))
        if any(total < 0 for total in rows["total"].to_pylist()):
            raise InvalidValue("no negative totals")

    return lake.gates.guarding(Name.of("totals"), gate)


def rows(platform, query):
    return sorted(platform.execute(query))


def test_a_run_that_would_publish_what_is_refused_changes_nothing_of_this_view(platform):
    judged = []
    platform.execute("CREATE VIEW totals AS SELECT id, sum(amount) AS total FROM sold GROUP BY id")
    platform.execute("CREATE VIEW others AS SELECT id, max(amount) AS most FROM sold GROUP BY id")
    with holding(platform, judged):
        platform.execute("INSERT INTO sold VALUES (1, 5), (2, 7)")
        assert run_maintenance(platform.work).failed == {}
        platform.execute("INSERT INTO sold VALUES (1, -9)")
        done = run_maintenance(platform.work)
        assert (done.views, [str(error) for error in done.failed.values()]) == (("main.others",), ["no negative totals"])
        assert judged == [[(1, 5), (2, 7)], [(1, -4), (2, 7)]], "the other view's rows are not judged"
        with pytest.raises(PlatformError, match="no negative totals"):
            platform.execute("REFRESH VIEW totals")
        assert rows(platform, "SELECT * FROM totals") == [(1, -4), (2, 7)], "a read is current"
        assert rows(platform, LAST) == [(1, 5), (2, 7)], "the old result stays"
        ((behind,), _) = find_pending_views(platform.work, platform.lake.snapshot(), Selection())
        assert (behind.name, behind.inputs[0].row_count) == ("main.totals", 1), "its rows wait"
        platform.execute("INSERT INTO sold VALUES (1, 9)")
        run_maintenance(platform.work)
        assert rows(platform, LAST) == [(1, 5), (2, 7)]
        assert find_pending_views(platform.work, platform.lake.snapshot(), Selection())[0] == []
    platform.execute("INSERT INTO sold VALUES (1, -90)")
    platform.execute("REFRESH VIEW totals")
    assert rows(platform, LAST) == [(1, 5), (2, 7)], "a result that was stored past the gate has not passed it"
    platform.lake.expire(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1))
    platform.lake.vacuum(grace=dt.timedelta(0))
    assert rows(platform, LAST) == [(1, 5), (2, 7)], "nor does expiry remove what has passed"
    assert rows(platform, f"SELECT id + 1 FROM ({LAST}) AS p JOIN (VALUES (2)) AS v (n) ON p.id = v.n") == [(3,)]
    with holding(platform, judged), pytest.raises(PlatformError, match="no negative totals"):
        platform.execute("REFRESH VIEW totals")


@pytest.mark.parametrize("publish", [lambda made: run_maintenance(made.work), lambda made: made.execute("REFRESH VIEW totals")])
def test_a_run_without_the_gate_deletes_the_note_of_what_it_held_back_and_reports_it(platform, publish):
    platform.execute("CREATE VIEW totals AS SELECT id, sum(amount) AS total FROM sold GROUP BY id")
    platform.execute("INSERT INTO sold VALUES (1, -9)")
    note_stall(platform.lake, Name.of("totals"), cause="gate", error=InvalidValue("no negative totals"), suite="s.yml", row_count=1)
    told = []
    with platform.lake.gates.reporting(lambda stall, snapshot: told.append((stall.name, snapshot.id))):
        before = platform.lake.snapshot().id
        publish(platform)
        assert told == [("totals", before + 1)]
        assert read_gate_stalls(platform.lake, [Name.of("totals")]) == []
        platform.execute("INSERT INTO sold VALUES (1, -9)")
        publish(platform)
    assert len(told) == 1


@pytest.mark.slow
def test_a_view_that_is_made_anew_takes_the_old_ones_place_only_with_a_result_that_passes(platform):
    judged = []
    new = "CREATE OR REPLACE VIEW totals WITH (start = 'earliest') AS SELECT id, sum(amount) - 6 AS total FROM sold GROUP BY id"
    platform.execute("CREATE VIEW totals AS SELECT id, sum(amount) AS total FROM sold GROUP BY id")
    platform.execute("INSERT INTO sold VALUES (1, 5), (2, 7)")
    with holding(platform, judged):
        platform.execute("REBUILD VIEW totals")
        assert judged == [[(1, 5), (2, 7)]]
        snapshot = platform.lake.snapshot().id
        with pytest.raises(PlatformError, match="no negative totals"):
            platform.execute(new)
        platform.execute("INSERT INTO sold VALUES (2, -8)")
        with pytest.raises(PlatformError, match="no negative totals"):
            platform.execute("REBUILD VIEW totals")
        assert platform.lake.snapshot().id == snapshot + 1
        assert (rows(platform, "SELECT * FROM totals"), rows(platform, LAST)) == ([(1, 5), (2, -1)], [(1, 5), (2, 7)])
        platform.execute("INSERT INTO sold VALUES (1, 5), (2, 50)")
        platform.execute(new)
        result = platform.execute("SELECT * FROM totals")
        assert (sorted(result), result.metrics) == ([(1, 4), (2, 43)], None), "the judged result is stored with it"


def test_a_gate_on_a_view_that_publishes_nothing_is_refused(platform):
    with holding(platform, []):
        with pytest.raises(InvalidValue, match="reads no stream: no run publishes its result"):
            platform.execute("CREATE VIEW totals AS SELECT 1 AS total")
        with pytest.raises(InvalidValue, match="depends on the time of the read"):
            platform.execute("CREATE VIEW totals AS SELECT id, sum(amount) AS total, now() AS at FROM sold GROUP BY id")
