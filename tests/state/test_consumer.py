"""Consumers of tables: each change once, in the commit of what was made of it; what is unconsumed stays, and who holds it is named."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from platform_plugin.cli import main
from platform_plugin.errors import CommitConflict, InvalidValue, SnapshotExpired, UnknownObject
from platform_plugin.lake.lake import Lake
from platform_plugin.platform import Platform
from platform_plugin.select.overview import read_overview
from platform_plugin.state.consumer import open_consumer
from tests.lake.agreement import append, create
from tests.lake.changing import end_rows

ROWS = pa.table({"id": range(20), "n": [0] * 20})


@pytest.fixture
def lake(lake_url):
    with Lake.create(lake_url) as made:
        yield made


def expire(lake, **options):
    return lake.expire(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1), **options)


def consume(lake, consumer):
    change = consumer.pending()
    rows = change.rows(lake, columns=["id"])
    with lake.commit("consume") as commit:
        consumer.advance(commit, change)
    return list(zip(rows["_weight"].to_pylist(), rows["id"].to_pylist(), strict=True))


def test_each_change_is_consumed_once(lake):
    table = create(lake, "t", ROWS)
    first, second = open_consumer(lake, "t", "first"), open_consumer(lake, "t", "second", since=lake.snapshot(0))
    append(lake, table, pa.table({"id": [100], "n": [0]}))
    end_rows(lake, table, [3], images=True)
    assert sorted(consume(lake, first)) == [(-1, 3), (1, 100)]
    assert consume(lake, first) == []
    assert len(consume(lake, second)) == 20
    # The same consumer, opened again.
    end_rows(lake, table, [4], images=True)
    assert consume(lake, open_consumer(lake, "t", "first")) == [(-1, 4)]
    # A refused commit moves nothing, and of two that consume the same change one is refused.
    append(lake, table, pa.table({"id": [101], "n": [0]}))
    change = second.pending()
    consume(lake, second)
    with pytest.raises(CommitConflict, match=r'consumer "second" of table "main.t" has consumed its input up to'):
        advance(lake, second, change)
    assert consume(lake, second) == []


def advance(lake, consumer, change):
    with lake.commit("late") as commit:
        consumer.advance(commit, change)


def test_what_is_unconsumed_stays_and_its_holder_is_named(lake, lake_url):
    table = create(lake, "t", ROWS)
    consumer = open_consumer(lake, "t", "billing")
    begin = consumer.position
    for number in range(3):
        end_rows(lake, table, [number], images=True)
    assert [(each.consumer, each.name, each.snapshot) for each in read_overview(lake_url).consumers] == [("billing", "t", begin)]
    lake.merge("t")
    dry = expire(lake, dry_run=True)
    done = expire(lake)
    assert (dry.consumed, done.consumed, done.holders) == (1, 1, (f"billing of main.t at snapshot {begin}",))
    lake.vacuum(grace=dt.timedelta(0))
    lake.merge("t")
    lake.vacuum(grace=dt.timedelta(0))
    assert sorted(consume(lake, consumer)) == [(-1, 0), (-1, 1), (-1, 2)]
    assert expire(lake).consumed <= 1
    assert lake.snapshot(consumer.position)
    with pytest.raises(SnapshotExpired):
        lake.snapshot(begin)
    consumer.remove()
    append(lake, table, ROWS.slice(0, 1))
    assert (expire(lake).consumed, len(lake.commits())) == (0, 1)
    with pytest.raises(UnknownObject, match=r'consumer "billing" of table "main.t" does not exist'):
        consumer.pending()


def test_a_snapshot_that_expired_under_a_cursor_says_what_to_do(tmp_path):
    with Platform.create(f"platform+local://{tmp_path}/lake") as platform:
        lake = platform.lake
        platform.execute("CREATE TABLE t (id BIGINT, n BIGINT) WITH (on_unconsumed = 'drop')")
        consumer = open_consumer(lake, "t", "billing")
        begin = consumer.position
        platform.execute("INSERT INTO t VALUES (1, 1)")
        shown = list(platform.execute("SHOW CONSUMERS"))
        assert shown == [("billing", "main", "t", begin, lake.snapshot().id - begin, False)]
        assert expire(lake).consumed == 0
        with pytest.raises(SnapshotExpired, match=f'has consumed table "main.t" up to snapshot {begin}, which has expired') as caught:
            consumer.pending()
        assert "restart()" in caught.value.hint
        newest = lake.snapshot()
        with lake.commit("read it whole") as commit:
            consumer.restart(commit, newest)
        platform.execute("INSERT INTO t VALUES (2, 2)")
        assert consume(lake, consumer) == [(1, 2)]
        platform.execute("ALTER TABLE t SET (on_unconsumed = 'keep')")
        platform.execute("INSERT INTO t VALUES (3, 3)")
        assert expire(lake).holders == (f"billing of main.t at snapshot {consumer.position}",)
        assert [row[5] for row in platform.execute("SHOW CONSUMERS")] == [True]
        assert "on_unconsumed = 'keep'" in next(iter(platform.execute("SHOW CREATE TABLE t")))[0]


def test_what_can_not_be_consumed_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PLATFORM_RUNTIME_DIR", str(tmp_path / "runtime"))
    with Platform.create(f"platform+local://{tmp_path}/lake") as platform:
        lake = platform.lake
        platform.execute("CREATE STREAM s (id INT)")
        platform.execute("CREATE TABLE t (id INT)")
        platform.execute("CREATE TABLE u (id INT)")
        with pytest.raises(InvalidValue, match="is a stream, not a table"):
            open_consumer(lake, "s", "billing")
        with pytest.raises(InvalidValue, match="a consumer is named by a short text"):
            open_consumer(lake, "t", "")
        one, other = open_consumer(lake, "t", "one"), open_consumer(lake, "u", "one")
        with pytest.raises(InvalidValue, match=r'a change of table "main.u" is not one of "main.t"'):
            advance(lake, one, other.pending())
        platform.execute("DROP TABLE t")
        with pytest.raises(UnknownObject, match="was dropped"):
            one.pending()
        # What nobody can ask for any more is not held.
        assert expire(lake).holders == (f"one of main.u at snapshot {other.position}",)
        (consumed,) = read_overview(str(lake.location)).consumers
        assert (consumed.name, consumed.consumer, consumed.snapshot) == ("u", "one", other.position)
        assert main(["status", "--url", str(lake.location)]) == 0
        assert f"consumer one has consumed main.u up to snapshot {other.position}" in capsys.readouterr().out
        assert main(["expire", "--all", "--dry-run", "--url", str(lake.location)]) == 0
        assert f"1 stay for consumers: one of main.u at snapshot {other.position}" in capsys.readouterr().out
