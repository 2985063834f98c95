"""The tour: users as a history table, posts as a stream, one query over both, and three readers that must agree.

Run it with `make demo`. Everything it shows it also asserts.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.platform import Platform
from tests import independent_reader

if TYPE_CHECKING:
    from collections.abc import Iterator

USERS = 1_000
POSTS = 300_000
BATCHES = 3

# Price per like of influential users in a region: what a campaign pays them, for each like that a post of theirs gets.
QUERY = """
WITH impact AS (
    SELECT uid, avg(score) AS score, count(*) AS posts
    FROM posts
    GROUP BY uid
)
SELECT u.username, i.posts, u.rate / i.score AS price_per_like
FROM impact i
JOIN users u ON u.id = i.uid
WHERE u.region = 'DE' AND i.score >= 1000
ORDER BY price_per_like, u.username
LIMIT 5
"""


@contextmanager
def chapter(title: str) -> Iterator[None]:
    """One step of the tour, timed."""
    print(f"\n\033[1m{title}\033[0m" if sys.stdout.isatty() else f"\n{title}", flush=True)
    begin = time.perf_counter()
    yield
    print(f"  ({time.perf_counter() - begin:.1f} s)", flush=True)


def main() -> int:
    """Give the tour on a fresh lake in a temporary folder."""
    begin = time.perf_counter()
    folder = Path(tempfile.mkdtemp(prefix="platform-demo-"))
    url = f"platform+local://{folder}/lake"
    try:
        _tour(url)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\nAll of it held, in {time.perf_counter() - begin:.0f} s. Next:")
    print("  .venv/bin/platform init /tmp/lake && .venv/bin/platform sql --url /tmp/lake    a shell on a lake of your own")
    print("  make ui        the reference platform in the Dagster UI")
    print("  make test      every claim of the documentation, tested")
    return 0


def _tour(url: str) -> None:
    with Platform.create(url, watcher=Waiting()) as platform:
        with chapter("1. A lake with a history table and a stream: no Spark yet"):
            run(
                platform,
                "CREATE TABLE users (id INT PRIMARY KEY, username STRING, contact_info STRING, region STRING, rate DECIMAL(9,2))",
            )
            run(
                platform,
                "CREATE STREAM posts (uid INT, username STRING, score INT, content STRING) "
                "WITH (retention_rows = 1000000, retention = '1 hour')",
            )
            run(platform, "INSERT INTO users VALUES (:id, 'ada', 'ada@example.org', 'DE', 12.50)", {"id": 0})
        with chapter(f"2. {USERS:,} users and {POSTS:,} posts, as Spark jobs (the first one starts the machine's shared Spark)"):
            run(platform, _generate_users())
            for batch in range(BATCHES):
                run(platform, _generate_posts(batch))
        with chapter("3. Price per like of influential users in Germany: stream and history in one query, at one snapshot"):
            result = platform.execute(QUERY)
            answer = list(result)
            show(result.columns, answer)
            print(f"  at snapshot {result.snapshot.id}")
        with chapter("4. The same question through SQLAlchemy, and through DuckDB, which shares no code with us"):
            compare("SQLAlchemy", answer, _through_sqlalchemy(url))
            compare("DuckDB", answer, _through_duckdb(url))
        with chapter("5. Time travel: a change, and the lake before it"):
            before = platform.lake.snapshot().id
            run(platform, "UPDATE users SET rate = rate * 2 WHERE region = 'DE'")
            changed = list(platform.execute(QUERY))
            again = list(platform.execute(QUERY.replace("JOIN users u", f"JOIN users AT (VERSION => {before}) u")))
            show(["", "price per like"], [("now", f"{changed[0][2]:.6f}"), (f"at snapshot {before}", f"{again[0][2]:.6f}")])
            assert changed != answer, "the update must show"
            compare("snapshot", answer, again)


def _generate_users() -> str:
    return f"""
        INSERT INTO users
        SELECT
            CAST(id AS INT),
            concat('user', id),
            concat('user', id, '@example.org'),
            element_at(array('DE', 'FR', 'US', 'JP'), CAST(id % 4 AS INT) + 1),
            CAST(1 + pmod(hash(id), 5000) / 100 AS DECIMAL(9,2))
        FROM range(1, {USERS})
    """


def _generate_posts(batch: int) -> str:
    first, last = batch * POSTS // BATCHES, (batch + 1) * POSTS // BATCHES
    return f"""
        INSERT INTO posts
        SELECT
            CAST(pmod(hash(id, 7), {USERS}) AS INT) AS uid,
            concat('user', pmod(hash(id, 7), {USERS})) AS username,
            CAST(pmod(hash(id, 11), 2000) + pmod(hash(pmod(hash(id, 7), {USERS})), 300) - 150 AS INT) AS score,
            concat('post number ', id) AS content
        FROM range({first}, {last})
    """


class Waiting:
    """Says what Spark's start is at, once a phase."""

    def __init__(self) -> None:
        self.said = ""

    def __call__(self, what: str, seconds: float) -> None:
        """Told by the platform some times a second."""
        if what != self.said:
            self.said = what
            print(f"  {what} … ({seconds:.0f} s)", flush=True)


def run(platform: Platform, sql: str, parameters: dict[str, Any] | None = None) -> None:
    """Run a statement and say what came of it."""
    with platform.execute(sql, parameters) as result:
        print(f"  {result.message}", flush=True)


def show(columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    """A small table."""
    cells = [[f"{value:.6f}" if isinstance(value, float) else str(value) for value in row] for row in rows]
    widths = [max(len(row[index]) for row in [columns, *cells]) for index in range(len(columns))]
    for row in [columns, *cells]:
        print("  " + "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip())


def _through_sqlalchemy(url: str) -> list[tuple[Any, ...]]:
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(QUERY))]
    finally:
        engine.dispose()


def _through_duckdb(url: str) -> list[tuple[Any, ...]]:
    process = independent_reader.DuckProcess()
    try:
        return process.attach(url).rows(QUERY)
    finally:
        process.stop()


def compare(reader: str, ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> None:
    """Both answers must be the same rows, floats to nine digits."""
    assert len(ours) == len(theirs), f"{reader} gives {len(theirs)} rows, we give {len(ours)}"
    assert ours, "the query must find somebody"
    for mine, other in zip(ours, theirs, strict=True):
        assert mine[:2] == other[:2], f"{reader}: {other} is not {mine}"
        assert isclose(float(mine[2]), float(other[2]), rel_tol=1e-9), f"{reader}: {other} is not {mine}"
    print(f"  {reader}: the same {len(ours)} rows", flush=True)


if __name__ == "__main__":
    sys.exit(main())
