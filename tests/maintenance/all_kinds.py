"""Random histories of relations of all kinds together, by two clients of one lake, against models in plain Python and against DuckDB.

Two platforms stand for two processes: each has caches of its own, and any step may be done by either, so that a history is cut into runs at
will. Either may open the lake anew.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.follow.arrivals import read_rows_with_hidden
from platform_plugin.relations.streams.feeds.ingest import run_ingest
from platform_plugin.relations.streams.follow.rows import Follower
from platform_plugin.state.consumer import open_consumer
from tests.lake.changing import end_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.independent_reader import DuckProcess

Row = tuple[int | None, int | None]
ROW = st.tuples(st.none() | st.integers(0, 3), st.none() | st.integers(-5, 5))
STREAMS = ("ring", "log")
CLIENT = st.integers(0, 1)
WAYS = ("maintenance = 'split'", "maintenance = 'eager'", "maintenance = 'batch', batch_rows = 4", "maintenance = 'deferred'")


def total(values: list[int | None]) -> int | None:
    """SQL's sum."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def grouped(rows: list[Row]) -> dict[int | None, list[int | None]]:
    found: dict[int | None, list[int | None]] = {}
    for key, value in rows:
        found.setdefault(key, []).append(value)
    return found


def high(rows: list[Row]) -> list[tuple[Any, ...]]:
    found = grouped([(key, value) for key, value in rows if value is not None and value > 0])
    return [(key, total(values)) for key, values in found.items() if len(values) > 1]


def ends(rows: list[Row]) -> list[tuple[Any, ...]]:
    known = [value for _, value in rows if value is not None]
    return [(len(rows), min(known, default=None), max(known, default=None))]


QUERIES: dict[str, tuple[str, Callable[[list[Row]], list[tuple[Any, ...]]]]] = {
    "sums": (
        "SELECT k, count(*) AS n, sum(v) AS s FROM {stream} GROUP BY k",
        lambda rows: [(key, len(values), total(values)) for key, values in grouped(rows).items()],
    ),
    "ends": ("SELECT count(*) AS n, min(v) AS low, max(v) AS high FROM {stream}", ends),
    "high": ("SELECT k, sum(v) AS s FROM {stream} WHERE v > 0 GROUP BY k HAVING count(*) > 1", high),
    "distinct": (
        "SELECT k, count(DISTINCT v) AS n FROM {stream} GROUP BY k",
        lambda rows: [(key, len(set(values) - {None})) for key, values in grouped(rows).items()],
    ),
}
# Of a sample: its size, and how many of the newest rows it is drawn from.
SAMPLES: dict[str, tuple[str, int, int | None]] = {
    "few": ("CREATE SAMPLE {name} ON {stream} SIZE 4 WITH (seed = 1)", 4, None),
    "newest": ("CREATE SAMPLE {name} ON {stream} SIZE 3 WITH (window = '5 rows', seed = 2)", 3, 5),
}


@dataclass
class StreamModel:
    """All rows that a stream ever received, in order."""

    rows: list[Row] = field(default_factory=list)


@dataclass
class ReaderModel:
    """A view or sample: its stream, its definition, and the row id that it begins with."""

    stream: str
    shape: str
    first: int


def ordered(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=repr)


class AllKinds(RuleBasedStateMachine):
    """Each rule changes the lake once and the models once; the invariant compares them."""

    duck_process: DuckProcess
    platforms: list[Platform] | None = None

    def fresh_url(self, folder: Path) -> str:
        return f"platform+local://{folder}/lake"

    @initialize()
    def found(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        (self.folder / "feed").mkdir()
        self.url = self.fresh_url(self.folder)
        first = Platform.create(self.url)
        for statement in (
            "CREATE TABLE users (id BIGINT, rate BIGINT)",
            "CREATE STREAM ring (k INT, v INT) WITH (retention_rows = 6)",
            "CREATE TABLE gone AS HISTORY OF ring",
            f"CREATE STREAM log (k INT, v INT) FROM FILES '{self.folder}/feed/*.csv' (FORMAT csv, HEADER)",
            "CREATE STREAM moves FROM TABLE users (changes = true)",
        ):
            first.execute(statement)
        self.platforms = [first, Platform.open(self.url)]
        self.streams = {name: StreamModel() for name in STREAMS}
        self.views: dict[str, ReaderModel] = {}
        self.samples: dict[str, ReaderModel] = {}
        self.users: dict[int, int] = {}
        self.ingested: dict[int, int] = {}
        self.billed: Counter[tuple[int, int]] = Counter()
        open_consumer(first.lake, "users", "billing")
        self.number = self.steps = self.files = 0
        self.follower: Follower | None = None

    def teardown(self) -> None:
        if self.platforms is not None:
            if self.follower is not None:
                self.end_session()
            for platform in self.platforms:
                platform.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def client(self, which: int) -> Platform:
        assert self.platforms is not None
        return self.platforms[which]

    def next_name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}_{self.number}"

    # Rows

    @rule(client=CLIENT, stream=st.sampled_from(STREAMS), rows=st.lists(ROW, min_size=1, max_size=5))
    def insert(self, client: int, stream: str, rows: list[Row]) -> None:
        values = ", ".join("({}, {})".format(*("NULL" if value is None else value for value in row)) for row in rows)
        self.client(client).execute(f"INSERT INTO {stream} VALUES {values}")
        self.streams[stream].rows += rows

    @rule(client=CLIENT, stream=st.sampled_from(STREAMS), parts=st.lists(st.lists(ROW, min_size=1, max_size=4), min_size=1, max_size=3))
    def append(self, client: int, stream: str, parts: list[list[Row]]) -> None:
        with self.client(client).stream(stream) as opened:
            for rows in parts:
                opened.append(arrow(rows)).result()
        self.streams[stream].rows += [row for rows in parts for row in rows]

    @rule(client=CLIENT, stream=st.sampled_from(STREAMS), rows=st.lists(ROW, min_size=1, max_size=4))
    def append_behind_our_back(self, client: int, stream: str, rows: list[Row]) -> None:
        """As another client does: nobody is told of the rows."""
        lake = self.client(client).lake
        table = lake.table(stream)
        with lake.commit("append") as commit:
            commit.append(table, [lake.write(table, arrow(rows))])
        self.streams[stream].rows += rows

    @rule(client=CLIENT, rows=st.lists(ROW, min_size=1, max_size=4))
    def ingest_file(self, client: int, rows: list[Row]) -> None:
        self.files += 1
        lines = [",".join("" if value is None else str(value) for value in row) for row in rows]
        (self.folder / "feed" / f"{self.files}.csv").write_text("\n".join(["k,v", *lines]) + "\n")
        assert run_ingest(self.client(client).work, "log").rows == len(rows)
        self.streams["log"].rows += rows

    # The table, the feed that follows it, and its consumer

    @rule(client=CLIENT, rate=st.integers(0, 9))
    def add_user(self, client: int, rate: int) -> None:
        self.number += 1
        self.client(client).execute(f"INSERT INTO users VALUES ({self.number}, {rate})")
        self.users[self.number] = rate

    @precondition(lambda self: self.users)
    @rule(client=CLIENT, data=st.data(), rate=st.none() | st.integers(0, 9), images=st.booleans())
    def change_users(self, client: int, data: Any, rate: int | None, *, images: bool) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.users)), min_size=1, max_size=3, unique=True))
        lake = self.client(client).lake
        end_rows(lake, lake.table("users"), ids, images=images, new=None if rate is None else {"rate": rate})
        for one in ids:
            if rate is None:
                del self.users[one]
            else:
                self.users[one] = rate

    @rule(client=CLIENT)
    def ingest_changes(self, client: int) -> None:
        run_ingest(self.client(client).work, "moves")
        self.ingested = dict(self.users)

    @rule(client=CLIENT)
    def bill(self, client: int) -> None:
        lake = self.client(client).lake
        consumer = open_consumer(lake, "users", "billing")
        change = consumer.pending()
        rows = change.rows(lake)
        with lake.commit("bill") as commit:
            consumer.advance(commit, change)
        for one, rate, weight in zip(*(rows.column(name).to_pylist() for name in ("id", "rate", "_weight")), strict=True):
            self.billed[one, rate] += weight
        assert +self.billed == Counter(self.users.items())
        assert not any(count < 0 for count in self.billed.values())

    # Relations that come and go

    @precondition(lambda self: len(self.views) < 5)
    @rule(client=CLIENT, stream=st.sampled_from(STREAMS), shape=st.sampled_from(sorted(QUERIES)), data=st.data())
    def create_view(self, client: int, stream: str, shape: str, data: Any) -> None:
        name, way = self.next_name("view"), data.draw(st.sampled_from(WAYS))
        start = data.draw(st.sampled_from(["now", "earliest"]))
        first = len(self.streams[stream].rows) if start == "now" else self.first_held(stream)
        query = QUERIES[shape][0].format(stream=stream)
        self.client(client).execute(f"CREATE CONTINUOUS VIEW {name} WITH (start = '{start}', {way}) AS {query}")
        self.views[name] = ReaderModel(stream, shape, first)

    @precondition(lambda self: self.views)
    @rule(client=CLIENT, data=st.data())
    def drop_view(self, client: int, data: Any) -> None:
        name = data.draw(st.sampled_from(sorted(self.views)))
        self.client(client).execute(f"DROP VIEW {name}")
        del self.views[name]

    @precondition(lambda self: len(self.samples) < 3)
    @rule(client=CLIENT, stream=st.sampled_from(STREAMS), shape=st.sampled_from(sorted(SAMPLES)))
    def create_sample(self, client: int, stream: str, shape: str) -> None:
        name, held = self.next_name("sample"), self.first_held(stream)
        self.client(client).execute(SAMPLES[shape][0].format(name=name, stream=stream))
        self.samples[name] = ReaderModel(stream, shape, held)

    @precondition(lambda self: self.samples)
    @rule(client=CLIENT, data=st.data())
    def drop_sample(self, client: int, data: Any) -> None:
        name = data.draw(st.sampled_from(sorted(self.samples)))
        self.client(client).execute(f"DROP SAMPLE {name}")
        del self.samples[name]

    def first_held(self, stream: str) -> int:
        """The row id of the oldest row that a stream holds, by the number of its rows."""
        return len(self.streams[stream].rows) - self.client(0).lake.read(stream).num_rows

    # Runs

    @rule(client=CLIENT)
    def maintain(self, client: int) -> None:
        assert run_maintenance(self.client(client).work, flush=True).failed == {}
        # The stream that follows the table is maintained with the others.
        self.ingested = dict(self.users)

    @precondition(lambda self: self.views or self.samples)
    @rule(client=CLIENT, data=st.data())
    def refresh(self, client: int, data: Any) -> None:
        name = data.draw(st.sampled_from(sorted([*self.views, *self.samples])))
        self.client(client).execute(f"REFRESH {'VIEW' if name in self.views else 'SAMPLE'} {name}")

    @rule(client=CLIENT, table=st.sampled_from(["ring", "log", "gone", "users", "moves"]))
    def merge(self, client: int, table: str) -> None:
        self.client(client).lake.merge(table)

    @rule(client=CLIENT)
    def expire(self, client: int) -> None:
        lake = self.client(client).lake
        lake.expire(datetime.now(UTC) + timedelta(seconds=1))
        lake.vacuum(grace=timedelta(0))

    @precondition(lambda self: self.follower is None)
    @rule(client=CLIENT)
    def open_anew(self, client: int) -> None:
        assert self.platforms is not None
        self.platforms[client].close()
        self.platforms[client] = Platform.open(self.url)

    # A session

    @precondition(lambda self: self.follower is None)
    @rule(client=CLIENT, stream=st.sampled_from(STREAMS), earliest=st.booleans())
    def begin_session(self, client: int, stream: str, *, earliest: bool) -> None:
        lake = self.client(client).lake
        self.followed = stream
        self.session_lake, self.session_lease = lake, lake.lease(holder="session")
        self.follower = Follower(lake, lake.table(stream), idle=timedelta(hours=1), earliest=earliest, lease=self.session_lease)
        assert self.follower.position == (self.first_held(stream) if earliest else len(self.streams[stream].rows))

    @precondition(lambda self: self.follower is not None)
    @rule()
    def take(self) -> None:
        assert self.follower is not None
        before = self.follower.position
        taken = self.follower.take()
        if taken is not None:
            assert taken.first_row_id == before
            assert taken.next_row_id == len(self.streams[self.followed].rows)
            columns = read_rows_with_hidden(self.session_lake, taken.scan, taken.scan.table.fields, ("_row_id",)).to_pylist()
            found = sorted((row["_row_id"], row["k"], row["v"]) for row in columns if row["_row_id"] >= taken.first_row_id)
            expected = self.streams[self.followed].rows[taken.first_row_id :]
            assert found == [(taken.first_row_id + place, *row) for place, row in enumerate(expected)]

    @precondition(lambda self: self.follower is not None)
    @rule()
    def end_session(self) -> None:
        assert self.follower is not None
        self.follower.release()
        self.session_lease.release()
        self.follower = None

    # What must hold

    @invariant()
    def everybody_agrees(self) -> None:
        if self.platforms is None:
            return
        self.steps += 1
        self.check(self.client(self.steps % 2))
        if self.steps % 5 == 0:
            self.check_by_duckdb()

    def check(self, platform: Platform) -> None:
        for stream, model in self.streams.items():
            held = [tuple(row.values()) for row in platform.lake.read(stream).to_pylist()]
            count = len(held)
            assert Counter(held) == Counter(model.rows[len(model.rows) - count :]), stream
            if stream == "ring":
                assert count >= min(6, len(model.rows))
                assert Counter(rows(platform, "gone")) == Counter(model.rows[: len(model.rows) - count])
            else:
                assert count == len(model.rows)
        assert sorted(rows(platform, "users")) == sorted(self.users.items())
        moved: Counter[tuple[int, int]] = Counter()
        for one, rate, _, weight in rows(platform, "moves"):
            moved[one, rate] += weight
        assert +moved == Counter(self.ingested.items())
        for name, view in self.views.items():
            expected = QUERIES[view.shape][1](self.streams[view.stream].rows[view.first :])
            assert ordered(platform.execute(f"SELECT * FROM {name}")) == ordered(expected), (name, view)
        for name, sample in self.samples.items():
            _, size, window = SAMPLES[sample.shape]
            population = self.streams[sample.stream].rows[sample.first :]
            # A window is no longer than what the stream holds.
            population = population if window is None else population[-window:]
            drawn = Counter((row["k"], row["v"]) for row in platform.sample(name).arrow().to_pylist())
            assert drawn <= Counter(population), (name, sample)
            assert drawn.total() == min(size, len(population)), (name, sample)

    def check_by_duckdb(self) -> None:
        other = self.duck_process.attach(self.url)
        try:
            for stream, model in self.streams.items():
                found = [tuple(row[:2]) for row in other.rows(f"SELECT k, v FROM {stream}")]
                assert Counter(found) == Counter(model.rows[len(model.rows) - len(found) :])
            assert sorted(other.rows("SELECT id, rate FROM users")) == sorted(self.users.items())
        finally:
            other.close()


def arrow(rows: list[Row]) -> pa.Table:
    return pa.table({name: pa.array([row[place] for row in rows], pa.int32()) for place, name in enumerate(("k", "v"))})


def rows(platform: Platform, table: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in platform.lake.read(table).to_pylist()]
