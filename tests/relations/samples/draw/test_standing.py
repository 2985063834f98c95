"""Samples of tables: at every snapshot the live rows whose keys are lowest, whatever happened to the table and whatever was stored."""

import numpy as np
import pyarrow as pa
import pytest

from platform_plugin.platform import Platform
from platform_plugin.relations.samples.draw import standing
from platform_plugin.relations.samples.keys.keys import HashedKeys, sample_seed
from platform_plugin.relations.samples.keys.ladders import LadderKeys

SIZE = 40
SEED = 11


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE TABLE sales (id BIGINT, kind STRING, amount BIGINT)")
        made.execute(f"CREATE SAMPLE plain ON sales SIZE {SIZE} WITH (seed = {SEED})")
        made.execute(f"CREATE SAMPLE kinds ON sales SIZE {SIZE} STRATIFIED BY (kind) SIZE 15 PER STRATUM WITH (seed = {SEED})")
        yield made


class Sales:
    """The table, changed in ways that leave row ids as they are or make new ones; another client tells which rows have which."""

    def __init__(self, platform, duck, tmp_path, random):
        self.platform, self.random, self.next = platform, random, 0
        self._attach = lambda: duck(f"platform+local://{tmp_path}/lake")

    def other(self, sql):
        client = self._attach()
        try:
            return client.rows(sql)
        finally:
            client.end()

    def append(self, count=None):
        count = count or int(self.random.integers(1, 400))
        ids = np.arange(self.next, self.next + count)
        self.next += count
        amounts = self.random.integers(0, 100, count)
        rows = pa.table({"id": ids, "kind": self.random.choice(["a", "b", "c"], count, p=[0.8, 0.15, 0.05]), "amount": amounts})
        lake = self.platform.lake
        with lake.commit("append") as commit:
            commit.append(lake.table("sales"), [lake.write(lake.table("sales"), rows)])

    def insert_elsewhere(self):
        self.other(f"INSERT INTO lake.sales SELECT {self.next} + range, 'b', range FROM range(5)")
        self.next += 5

    def delete_elsewhere(self):
        self.other(f"DELETE FROM lake.sales WHERE id % 7 = {int(self.random.integers(7))}")

    def update_elsewhere(self):
        self.other(f"UPDATE lake.sales SET amount = amount + 31, kind = 'c' WHERE id % 9 = {int(self.random.integers(9))}")

    def update(self):
        self.platform.execute(f"UPDATE sales SET amount = amount + 31, kind = 'c' WHERE id % 9 = {int(self.random.integers(9))}")

    def merge(self):
        self.platform.lake.merge("sales", target_bytes=1 << 20)

    def merge_elsewhere(self):
        self.other("CALL ducklake_merge_adjacent_files('lake')")

    def rows(self):
        return self.other("SELECT rowid, id, kind, amount FROM lake.sales")


def lowest(rows, size, keys_of=HashedKeys):
    """The oracle: of rows with ids those whose keys are lowest."""
    if not rows:
        return []
    keys = keys_of(sample_seed(SEED)).of(np.array([row[0] for row in rows], dtype=np.int64))
    return sorted(rows[place][1:] for place in np.argsort(keys)[:size])


def expected(rows):
    kinds = sorted({row[2] for row in rows})
    per = [lowest([row for row in rows if row[2] == kind], min(15, max(1, SIZE // max(1, len(kinds))))) for kind in kinds]
    return {
        "plain": lowest(rows, SIZE, LadderKeys),
        "dear": lowest([row for row in rows if row[3] >= 50], SIZE),
        "kinds": sorted(row for part in per for row in part),
    }


CHANGES = ("append", "append", "insert_elsewhere", "delete_elsewhere", "update_elsewhere", "update", "merge", "merge_elsewhere")


@pytest.mark.spark
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_a_sample_is_the_lowest_keys_of_the_rows_that_are_there(platform, duck, tmp_path, spark_server, seed):
    platform.execute(f"CREATE SAMPLE dear ON sales SIZE {SIZE} WHERE amount >= 50 WITH (seed = {SEED})")
    random = np.random.default_rng(seed)
    sales = Sales(platform, duck, tmp_path, random)
    sales.append(300)
    seen = []
    for _ in range(9):
        getattr(sales, str(random.choice(CHANGES)))()
        rows = sales.rows()
        wanted = expected(rows)
        for name, own in wanted.items():
            if random.random() < 0.4:
                platform.execute(f"REFRESH SAMPLE {name}")
            found = platform.sample(name)
            assert sorted(tuple(row.values()) for row in found.arrow().to_pylist()) == own, name
            assert found.cardinality == (len(rows) if name != "dear" else sum(row[3] >= 50 for row in rows))
        seen.append((platform.lake.snapshot().id, wanted))
    for version, wanted in seen[-3:]:
        for name, own in wanted.items():
            found = platform.sample(name, version=version).arrow()
            assert sorted(tuple(row.values()) for row in found.to_pylist()) == own, "an older snapshot has what it had"


def test_only_what_was_appended_is_looked_at(platform, duck, tmp_path, monkeypatch):
    sales = Sales(platform, duck, tmp_path, np.random.default_rng(1))
    looked = []
    real = standing.find_local
    monkeypatch.setattr(standing, "find_local", lambda *a, **k: (looked.append(a[1][0].part.pieces.row_count), real(*a, **k))[1])
    sales.append(5000)
    platform.execute("REFRESH SAMPLE plain")
    sales.append(100)
    platform.execute("REFRESH SAMPLE plain")
    sales.append(200)
    assert platform.sample("plain").cardinality == 5300
    sales.delete_elsewhere()
    platform.execute("REFRESH SAMPLE plain")
    sales.append(10)
    platform.execute("REFRESH SAMPLE plain")
    rows = len(sales.rows())
    assert looked == [5000, 100, 200, rows - 10, 10]


def test_rows_are_not_missed_after_a_change_of_our_own(platform, duck, tmp_path, monkeypatch):
    # A file of changed rows begins with the id that the next new row has, as nothing of another client does.
    sales = Sales(platform, duck, tmp_path, np.random.default_rng(1))
    lake, looked = platform.lake, []
    sales.append(30)
    with lake.commit("change") as commit:
        table = lake.table("sales")
        kept = lake.read("sales")
        files = [file.id for file in lake.scan(table, lake.snapshot()).files]
        ids = pa.array(range(30), pa.int64())
        commit.replace(table, files, [lake.write(table, kept, row_ids=ids)])
    platform.execute("REFRESH SAMPLE plain")
    real = standing.find_local
    monkeypatch.setattr(standing, "find_local", lambda *a, **k: (looked.append(a[1][0].part.pieces.row_count), real(*a, **k))[1])
    for count in (7, 60):
        sales.append(count)
        for _ in ("read", "stored"):
            assert sorted(tuple(row.values()) for row in platform.sample("plain").arrow().to_pylist()) == expected(sales.rows())["plain"]
            assert platform.sample("plain").cardinality == sales.next
            platform.execute("REFRESH SAMPLE plain")
    assert set(looked) == {7, 60}


def test_nothing_is_written_where_no_new_row_got_in(platform, duck, tmp_path):
    sales = Sales(platform, duck, tmp_path, np.random.default_rng(1))
    sales.append(5000)
    platform.execute("REFRESH SAMPLE plain")
    lake = platform.lake
    for _ in range(20):
        before = lake.scan(lake.table("plain"), lake.snapshot()).files
        kept = platform.sample("plain").arrow()
        sales.append(1)
        platform.execute("REFRESH SAMPLE plain")
        if platform.sample("plain").arrow().equals(kept):
            assert lake.scan(lake.table("plain"), lake.snapshot()).files == before
            assert platform.sample("plain").cardinality == sales.next
            break
    else:
        pytest.fail("one row of five thousand is in a sample of forty every time")


def test_a_sample_that_was_stored_without_row_ids_is_drawn_anew(platform, duck, tmp_path):
    sales = Sales(platform, duck, tmp_path, np.random.default_rng(1))
    sales.append(500)
    platform.execute("REFRESH SAMPLE plain")
    lake = platform.lake
    with lake.commit("as an earlier version did") as commit:
        table = lake.table("plain")
        commit.replace(table, [file.id for file in lake.scan(table, lake.snapshot()).files], [lake.write(table, lake.read("plain"))])
    sales.append(100)
    platform.execute("REFRESH SAMPLE plain")
    assert sorted(tuple(row.values()) for row in platform.sample("plain").arrow().to_pylist()) == expected(sales.rows())["plain"]
