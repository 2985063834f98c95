"""Pieces of work on a lake, each with a check that needs no Spark: what must be the same wherever Spark runs and files are."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import fsspec
import pyarrow as pa

from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.relations.streams.feeds.ingest import run_ingest

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.platform import Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An open platform, a folder or bucket for files to be read, a Kafka broker or none, and DuckDB on the same lake."""

    platform: Platform
    incoming: str
    broker: Any
    rows: Callable[[str], list[tuple[Any, ...]]]

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.platform.execute(statement)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.platform.execute(query))

    def put(self, name: str, text: str) -> str:
        path = f"{self.incoming}/{name}"
        with fsspec.open(path, "wb") as file:
            file.write(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path


def append(place: Place, stream: str, rows: pa.Table, *, files: int = 2) -> None:
    """Several files in one commit, for several tasks."""
    lake = place.platform.lake
    table = lake.table(stream)
    with lake.commit("append") as commit:
        commit.append(table, [lake.write(table, rows) for _ in range(files)])


def maintain(place: Place, engine: str | None = None) -> Any:
    with place.platform.work.asking(engine):
        done = run_maintenance(place.platform.work)
    assert not done.failed, done.failed
    return done


def follow_files(place: Place) -> None:
    for number in range(4):
        lines = "".join(json.dumps({"id": one, "k": one % 3}) + "\n" for one in range(number * 100, number * 100 + 100))
        place.put(f"clicks/{number}.json.gz", lines)
    place.put("clicks/bad.json", "nonsense\n")
    glob = f"{place.incoming}/clicks/*.json*"
    place.run(f"CREATE STREAM clicks (id BIGINT, k INT) FROM FILES '{glob}' (FORMAT json, on_malformed = 'quarantine')")
    report = run_ingest(place.platform.work, "clicks")
    assert (report.rows, report.quarantined) == (400, 1)
    assert run_ingest(place.platform.work, "clicks").rows == 0
    assert place.rows("SELECT count(*), count(DISTINCT id), sum(k) FROM clicks") == [(400, 400, sum(one % 3 for one in range(400)))]


def follow_topic(place: Place) -> None:
    topic = f"clicks-{uuid4().hex}"
    place.broker.send(topic, [json.dumps({"id": number}).encode() for number in range(300)])
    place.run(f"CREATE STREAM topic_clicks (id BIGINT) FROM KAFKA '{place.broker.address}/{topic}'")
    assert run_ingest(place.platform.work, "topic_clicks").rows == 300
    assert place.rows("SELECT count(*), sum(id) FROM topic_clicks") == [(300, sum(range(300)))]


def maintain_views_and_samples(place: Place) -> None:
    place.run(
        "CREATE STREAM calls (k BIGINT, v BIGINT, at TIMESTAMP) WITH (retention_rows = 100000)",
        "CREATE TABLE users (id BIGINT, name STRING)",
        "INSERT INTO users VALUES (0, 'Ada'), (1, 'Grace')",
        "CREATE VIEW sums AS SELECT k, count(*) AS n, sum(v) AS s FROM calls GROUP BY k",
        "CREATE VIEW named AS SELECT u.name, avg(c.v) AS m FROM calls c JOIN users u ON u.id = c.k GROUP BY u.name",
        "CREATE VIEW hashed AS SELECT pmod(crc32(CAST(k AS STRING)), 3) AS h, count(*) AS n FROM calls GROUP BY 1",
        "CREATE VIEW visits AS SELECT k, session_window.start AS began, count(*) AS n FROM calls"
        " GROUP BY k, session_window(at, '1 minute')",
        "CREATE SAMPLE some_calls ON calls SIZE 20 WITH (seed = 7)",
    )
    held: Counter[int] = Counter()
    for number, engine in enumerate(("executors", "spark_sql", "local", None)):
        values = list(range(number * 50, number * 50 + 50))
        rows = pa.table(
            {
                "k": pa.array([value % 5 for value in values], pa.int64()),
                "v": pa.array(values, pa.int64()),
                "at": pa.array([value * 10_000_000 for value in values], pa.timestamp("us")),
            }
        )
        append(place, "calls", rows)
        held.update(dict.fromkeys(values, 2))
        done = maintain(place, engine)
        if engine == "executors":
            assert done.tasks, "file tasks ran"
        sums = [(k, sum(n for v, n in held.items() if v % 5 == k), sum(v * n for v, n in held.items() if v % 5 == k)) for k in range(5)]
        assert place.ask("SELECT * FROM sums") == sums
        assert [row[0] for row in place.ask("SELECT name FROM named")] == ["Ada", "Grace"]
        assert sum(row[0] for row in place.ask("SELECT n FROM hashed")) == held.total()
        assert sum(row[0] for row in place.ask("SELECT n FROM visits")) == held.total()
        sample = place.platform.sample("some_calls")
        assert (sample.cardinality, sample.arrow().num_rows) == (held.total(), 20)
        assert set(sample.arrow().column("v").to_pylist()) <= set(held)


def rebuild(place: Place) -> None:
    place.run(
        "CREATE STREAM events (k BIGINT) WITH (retention_rows = 100000)",
        "CREATE VIEW counts AS SELECT k, count(*) AS n FROM events GROUP BY k",
    )
    append(place, "events", pa.table({"k": pa.array([1, 2, 2], pa.int64())}))
    maintain(place)
    place.run("REBUILD VIEW counts")
    append(place, "events", pa.table({"k": pa.array([2, 3], pa.int64())}))
    maintain(place)
    assert place.ask("SELECT * FROM counts") == [(1, 2), (2, 6), (3, 2)]


def copy_and_change(place: Place) -> None:
    path = place.put("people/a.csv", "id,name\n" + "".join(f"{one},n{one}\n" for one in range(500)))
    place.run(
        "CREATE TABLE people (id BIGINT, name STRING)",
        f"COPY people FROM '{path}' (FORMAT csv, HEADER true)",
        "INSERT INTO people SELECT id + 500, concat('m', id) FROM people WHERE id < 100",
    )
    assert place.rows("SELECT count(*), sum(id), min(name), max(name) FROM people") == [(600, sum(range(600)), "m0", "n99")]
    place.run("UPDATE people SET name = upper(name) WHERE id % 2 = 0", "DELETE FROM people WHERE id % 3 = 0")
    left = {one: (f"n{one}" if one < 500 else f"m{one - 500}") for one in range(600) if one % 3}
    found = {one: name.upper() if one % 2 == 0 else name for one, name in left.items()}
    assert dict(place.rows("SELECT id, name FROM people")) == found
    assert place.ask("SELECT count(*), count(DISTINCT name) FROM people") == [(400, 400)]
    joined = "SELECT count(*) FROM people a JOIN people b ON a.id = b.id + 1 WHERE a.name <> b.name"
    assert place.ask(joined) == [(sum(one - 1 in found and found[one - 1] != found[one] for one in found),)]


def follow_changes(place: Place) -> None:
    place.run("CREATE TABLE rates (id BIGINT, rate BIGINT)", "CREATE STREAM rate_changes FROM TABLE rates (changes = true)")
    first = place.platform.lake.newest_id()
    place.run(
        "INSERT INTO rates SELECT id, id FROM range(200)",
        "UPDATE rates SET rate = rate + 1 WHERE id < 50",
        "DELETE FROM rates WHERE id >= 150",
    )
    while run_ingest(place.platform.work, "rate_changes").rows:
        pass
    expected = {one: one + (one < 50) for one in range(150)}
    bag: Counter[tuple[int, int]] = Counter()
    for one, rate, weight in place.rows("SELECT id, rate, _weight FROM rate_changes"):
        bag[one, rate] += weight
    assert sorted(+bag) == sorted(expected.items())
    net = place.ask(f"SELECT count(*) FROM changes(rates, {first}, {place.platform.lake.newest_id()})")
    assert net == [(150,)]


def store_and_travel(place: Place) -> None:
    place.run("CREATE TABLE old AS SELECT id AS n FROM range(1000)")
    before = place.platform.lake.newest_id()
    place.run("DELETE FROM old WHERE n % 10 <> 0")
    assert place.ask("SELECT count(*), sum(n) FROM old") == [(100, sum(range(0, 1000, 10)))]
    assert place.ask(f"SELECT count(*) FROM old AT (VERSION => {before})") == [(1000,)]
    large = place.platform.execute("SELECT id, repeat('x', 100) AS x FROM range(200000)").arrow()
    assert large.num_rows == 200_000


PIECES = (follow_files, follow_topic, maintain_views_and_samples, rebuild, copy_and_change, follow_changes, store_and_travel)
