"""One of the processes that work on one lake at once: it writes, cares, refreshes or reads until it is told to stop, and tells what it did.

Usage: url folder role number. A reader does as many reads as its number says; the others go on until the folder holds a file `stop`.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from platform_plugin.errors import PlatformError
from platform_plugin.lake.cursors.cursor import read_lowest
from platform_plugin.lake.ring.segments import read_ring
from platform_plugin.platform import Platform

if TYPE_CHECKING:
    from collections.abc import Callable

VIEWS = ("by_user", "by_word", "by_region", "hot")
READ = "SELECT (SELECT count(*) FROM posts) + (SELECT count(*) FROM posts_all), " + ", ".join(
    f"(SELECT coalesce(sum(n), 0) FROM {view})" for view in VIEWS
)
ROWS, MOST_WAITING = 200, 4_000
USERS = 40
EXPIRY, GRACE = timedelta(seconds=2), timedelta(seconds=8)


def found(url: str) -> None:
    """Everything that the processes need."""
    with Platform.create(url) as platform:
        for statement in (
            "CREATE TABLE users (id INT, region STRING, hits INT)",
            f"INSERT INTO users SELECT CAST(id AS INT), concat('r', id % 5), 0 FROM range({USERS})",
            "CREATE STREAM posts (uid INT, word STRING) WITH (retention_rows = 8000, overrun_grace = '5 seconds')",
            "CREATE TABLE posts_all AS HISTORY OF posts",
            "CREATE VIEW by_user AS SELECT uid, count(*) AS n FROM posts GROUP BY uid",
            "CREATE VIEW by_word AS SELECT word, count(*) AS n, count(DISTINCT uid) AS users FROM posts GROUP BY word",
            "CREATE VIEW by_region AS SELECT region, count(*) AS n FROM posts JOIN users ON uid = users.id GROUP BY region",
            "CREATE VIEW hot AS SELECT uid, n FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) ORDER BY n DESC",
            "CREATE SAMPLE few ON posts SIZE 100",
            "CREATE SAMPLE some ON posts SIZE 20 WHERE uid < 10",
        ):
            platform.execute(statement)


def write(platform: Platform, turn: int) -> None:
    """Append a segment, unless maintenance is behind: rows that views have not seen stay, and nothing would ever leave."""
    lake, table = platform.lake, platform.lake.table("posts")
    with lake.reading() as connection:
        consumed = read_lowest(connection, table.uuid)
        if read_ring(connection, table.uuid).next_row_id - (consumed or 0) > MOST_WAITING:
            time.sleep(0.2)
            return
    numbers = range(turn * ROWS, (turn + 1) * ROWS)
    rows = pa.table({"uid": pa.array([n % USERS for n in numbers], pa.int32()), "word": [f"w{n % 7}" for n in numbers]})
    with lake.commit("append") as commit:
        commit.append(table, [lake.write(table, rows)])
    time.sleep(0.05)


def care(platform: Platform, turn: int) -> None:
    """Expire, merge and vacuum, each in a rhythm of its own."""
    lake = platform.lake
    lake.expire(datetime.now(UTC) - EXPIRY)
    if turn % 2:
        lake.merge(("posts", "posts_all", "users")[turn // 2 % 3])
    if turn % 3 == 0:
        lake.vacuum(grace=GRACE)
    time.sleep(0.2)


def refresh(platform: Platform, turn: int) -> None:
    """Store the result of a view."""
    platform.execute(f"REFRESH VIEW {VIEWS[turn % len(VIEWS)]}")


def update(platform: Platform, turn: int) -> None:
    """Change the table that a view looks up."""
    platform.execute(f"UPDATE users SET hits = hits + 1 WHERE id % 7 = {turn % 7}")
    time.sleep(0.5)


def read(platform: Platform, _: int) -> str | None:
    """What is wrong with an answer."""
    (row,) = platform.execute(READ)
    return None if len(set(row)) == 1 else f"counts differ: {row}"


ROLES: dict[str, Callable[[Platform, int], Any]] = {"write": write, "care": care, "refresh": refresh, "update": update}


def run(url: str, folder: Path, role: str, number: int) -> dict[str, Any]:
    """Do one's work; errors of readers are told, and those of others too, who then go on."""
    told: dict[str, Any] = {"role": role, "turns": 0, "wrong": [], "failed": [], "slowest": 0.0}
    with Platform.open(url) as platform:
        while told["turns"] < number if role == "read" else not (folder / "stop").exists():
            since = time.monotonic()
            try:
                wrong = read(platform, told["turns"]) if role == "read" else ROLES[role](platform, told["turns"])
                if wrong is not None and role == "read":
                    told["wrong"].append(wrong)
            except PlatformError as error:
                told["failed"].append(f"{type(error).__name__}: {error}")
            told["turns"] += 1
            told["slowest"] = max(told["slowest"], time.monotonic() - since)
            if role == "read" and told["turns"] % 10 == 0:
                (folder / f"{role}{sys.argv[5]}.json").write_text(json.dumps(told))
    return told


if __name__ == "__main__":
    if sys.argv[3] == "found":
        found(sys.argv[1])
    else:
        print(json.dumps(run(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
