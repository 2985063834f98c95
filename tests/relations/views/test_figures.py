"""DESCRIBE EXTENDED says how many rows wait for a view and for how long, from the catalogue alone."""

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from platform_plugin.lake.ring.segments import SEGMENT
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform


def described(platform):
    facts = {row[0].removeprefix("# "): row[1] for row in platform.execute("DESCRIBE EXTENDED per_user")}
    return int(facts["rows_waiting"]), float(facts["lag_seconds"])


def test_rows_wait_from_their_arrival_to_the_next_run(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM posts (uid INT, score INT)")
        platform.execute("CREATE VIEW per_user AS SELECT uid, count(*) AS n FROM posts GROUP BY uid")
        assert described(platform) == (0, 0.0)
        for number in range(3):
            platform.execute(f"INSERT INTO posts VALUES ({number}, 1), ({number}, 2)")
        with platform.lake.writing() as connection:
            hour_ago = datetime.now(UTC) - timedelta(hours=1)
            connection.execute(sa.update(SEGMENT).where(SEGMENT.c.first_row_id == 0).values(arrived_at=hour_ago))
        rows, lag = described(platform)
        assert (rows, 3600 <= lag < 3700) == (6, True)
        assert not run_maintenance(platform.work).failed
        assert described(platform) == (0, 0.0)
