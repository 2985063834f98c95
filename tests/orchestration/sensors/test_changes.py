"""Tables that views look up: a stored result that is older than their last change is made anew, within the target lag."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from platform_plugin import Platform
from platform_plugin.orchestration.sensors.changes import read_changes
from platform_plugin.orchestration.sensors.refreshing import DueViews, plan_refresh
from platform_plugin.orchestration.sensors.waiting import read_waiting


def test_changes_are_read_by_table_with_their_first_and_last_snapshot(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE users (id INT)")
        platform.execute("CREATE TABLE others (id INT)")
        created = platform.lake.snapshot().id
        for number in range(2):
            platform.execute(f"INSERT INTO users VALUES ({number})")
        users = platform.lake.table("users").id
        with platform.lake.reading() as connection:
            newest = platform.lake.snapshot().id
            found = read_changes(connection, after=created, until=newest)
            none = read_changes(connection, after=newest, until=newest)
    assert {table: (change.first, change.last) for table, change in found.items()} == {users: (created + 1, newest)}
    assert found[users].at.tzinfo is not None
    assert none == {}


@pytest.mark.spark
def test_a_view_is_due_when_a_table_that_it_looks_up_has_changed_since_its_result_was_stored(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as platform:

        def waiting():
            (found,) = read_waiting(platform.lake, platform.lake.snapshot())
            return found

        platform.execute("CREATE STREAM posts (uid INT, score INT) WITH (retention_rows = 100)")
        platform.execute("CREATE TABLE users (id INT PRIMARY KEY, name STRING)")
        platform.execute("INSERT INTO users VALUES (1, 'ann')")
        platform.execute(
            "CREATE VIEW named WITH (target_lag = '60 seconds') AS SELECT name, s FROM"
            " (SELECT uid, sum(score) AS s FROM posts GROUP BY uid) JOIN users ON id = uid"
        )
        platform.execute("INSERT INTO posts VALUES (1, 4)")
        platform.execute("REFRESH VIEW named")
        assert not waiting().wants_run
        platform.execute("INSERT INTO users VALUES (2, 'bob')")
        behind = waiting()
        assert (behind.rows, behind.wants_run) == (0, True)
        now = datetime.now(UTC)
        assert isinstance(plan_refresh([behind], now), str)
        due = plan_refresh([behind], now + timedelta(seconds=60))
        assert isinstance(due, DueViews)
        assert "a table that it looks up was changed" in due.reason
        platform.execute("REFRESH VIEW named")
        assert not waiting().wants_run
