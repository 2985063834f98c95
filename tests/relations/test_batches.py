"""Batch ids: whatever is sent again adds nothing, from one process or several, within a group or after days."""

import threading
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.errors import InvalidValue
from platform_plugin.platform import Platform
from platform_plugin.relations import batches
from platform_plugin.relations.streams.append import Grouping


@pytest.fixture
def platform(lake_url):
    with Platform.create(lake_url) as made:
        made.execute("CREATE STREAM s (id INT)")
        yield made


def rows(*ids):
    return pa.table({"id": pa.array(ids, pa.int32())})


def ids_of(platform, name="s"):
    return sorted(platform.lake.read(name).column("id").to_pylist())


def test_a_batch_is_taken_once(platform):
    with platform.stream("s") as stream:
        first = stream.append(rows(1, 2), batch_id="a", wait=True).result()
        again = stream.append(rows(1, 2), batch_id="a", wait=True).result()
    assert (first.is_repeat, again.is_repeat) == (False, True)
    assert (again.snapshot_id, again.row_count, again.committed_at) == (first.snapshot_id, 2, again.committed_at)
    assert ids_of(platform) == [1, 2]


def test_a_repeat_makes_no_snapshot(platform):
    with platform.stream("s") as stream:
        made = stream.append(rows(1), batch_id="a", wait=True).result().snapshot_id
        stream.append(rows(1), batch_id="a", wait=True)
    assert platform.lake.snapshot().id == made


def test_within_one_group_the_first_brings_the_rows(platform):
    with platform.stream("s", grouping=Grouping(linger=timedelta(seconds=1))) as stream:
        receipts = [stream.append(rows(number), batch_id="same") for number in range(5)]
        other = stream.append(rows(9), batch_id="other")
    assert [receipt.result().is_repeat for receipt in receipts] == [False, True, True, True, True]
    assert len({receipt.result().snapshot_id for receipt in [*receipts, other]}) == 1
    assert ids_of(platform) == [0, 9]


def test_repeats_and_news_in_one_group(platform):
    with platform.stream("s", grouping=Grouping(linger=timedelta(seconds=1))) as stream:
        stream.append(rows(1), batch_id="a", wait=True)
        receipts = [stream.append(rows(2), batch_id="a"), stream.append(rows(3), batch_id="b"), stream.append(rows(4))]
    assert [receipt.result().is_repeat for receipt in receipts] == [True, False, False]
    assert ids_of(platform) == [1, 3, 4]


def test_an_empty_batch_counts_as_taken(platform):
    with platform.stream("s") as stream:
        assert stream.append(rows(), batch_id="a", wait=True).result().row_count == 0
        assert stream.append(rows(1), batch_id="a", wait=True).result().is_repeat
    assert ids_of(platform) == []


def test_two_writers_race_with_the_same_ids(platform, lake_url):
    """Each of two platforms, with connections of its own, sends the same hundred batches at the same time."""
    barrier, outcomes = threading.Barrier(2), []

    def work(reverse):
        with Platform.open(lake_url) as own, own.stream("s", grouping=Grouping(linger=timedelta(0), segment_rows=7)) as stream:
            barrier.wait()
            receipts = {n: stream.append(rows(n), batch_id=f"b{n}") for n in sorted(range(100), reverse=reverse)}
            outcomes.append({n: receipt.result() for n, receipt in receipts.items()})

    threads = [threading.Thread(target=work, args=(reverse,)) for reverse in (False, True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids_of(platform) == list(range(100))
    left, right = outcomes
    for n in range(100):
        assert left[n].is_repeat != right[n].is_repeat, n
        assert left[n].snapshot_id == right[n].snapshot_id


def test_a_batch_taken_between_look_and_commit_is_found_in_the_commit(platform, lake_url, monkeypatch):
    from platform_plugin.relations.streams import group

    plain, raced = group.read_batches, []

    def late(lake, uuid, ids):
        found = plain(lake, uuid, ids)
        if not raced:
            raced.append(1)
            with Platform.open(lake_url) as other, other.stream("s") as stream:
                stream.append(rows(1), batch_id="a", wait=True)
        return found

    monkeypatch.setattr(group, "read_batches", late)
    with platform.stream("s", grouping=Grouping(linger=timedelta(seconds=1))) as stream:
        receipts = [stream.append(rows(2), batch_id="a"), stream.append(rows(3), batch_id="b")]
    assert [receipt.result().is_repeat for receipt in receipts] == [True, False]
    assert ids_of(platform) == [1, 3]


def test_ids_belong_to_their_stream(platform):
    platform.execute("CREATE STREAM t (id INT)")
    for name in ("s", "t"):
        with platform.stream(name) as stream:
            assert not stream.append(rows(1), batch_id="a", wait=True).result().is_repeat
    platform.execute("DROP STREAM s")
    platform.execute("CREATE STREAM s (id INT)")
    with platform.stream("s") as stream:
        assert not stream.append(rows(2), batch_id="a", wait=True).result().is_repeat
    assert ids_of(platform) == [2]


@pytest.mark.parametrize("bad", ["", "x" * 256, "a\nb", "\0", 7])
def test_what_is_no_id_is_refused(platform, bad):
    with platform.stream("s") as stream, pytest.raises(InvalidValue, match="can't be the id of a batch"):
        stream.append(rows(1), batch_id=bad)
    assert ids_of(platform) == []


def test_old_ids_are_forgotten(platform):
    with platform.stream("s") as stream:
        stream.append(rows(1), batch_id="old", wait=True)
        stream.append(rows(2), batch_id="young", wait=True)
    b = batches.BATCH.c
    with platform.lake.writing() as connection:
        past = datetime.now(UTC) - batches.KEPT - timedelta(minutes=1)
        connection.execute(sa.update(batches.BATCH).where(b.batch_id == "old").values(committed_at=past))
    table = platform.lake.table("s")
    with platform.lake.commit("forget") as commit:
        commit.also(batches.TakeBatches(table, {"new": 0}, forgets=True))
    assert set(batches.read_batches(platform.lake, table.uuid, ["old", "young", "new"])) == {"young", "new"}


def test_more_ids_than_are_kept_go_oldest_first(platform, monkeypatch):
    monkeypatch.setattr(batches, "KEPT_PER_RELATION", 3)
    table = platform.lake.table("s")
    platform.lake.prepare_tables([batches.BATCH])
    for number in range(6):
        with platform.lake.commit("take") as commit:
            commit.also(batches.TakeBatches(table, {f"b{number}": 1}, forgets=True))
    assert set(batches.read_batches(platform.lake, table.uuid, [f"b{n}" for n in range(6)])) == {"b3", "b4", "b5"}


def test_statements_have_batch_ids_too(platform):
    platform.execute("CREATE TABLE t (id INT)")
    for name in ("s", "t"):
        first = platform.execute(f"INSERT INTO {name} VALUES (1), (2)", batch_id="a")
        again = platform.execute(f"INSERT INTO {name} VALUES (3)", batch_id="a")
        assert (first.row_count, again.row_count) == (2, 0)
        assert "was taken before, with 2 rows" in again.message
        assert ids_of(platform, name) == [1, 2]
    with platform.stream("s") as stream:
        assert stream.append(rows(9), batch_id="a", wait=True).result().is_repeat


@pytest.mark.parametrize("sql", ["INSERT INTO s VALUES (1); INSERT INTO s VALUES (2)", "SHOW TABLES", "DROP STREAM s"])
def test_only_one_insert_or_copy_has_a_batch_id(platform, sql):
    with pytest.raises(InvalidValue, match="batch id"):
        platform.execute(sql, batch_id="a")
    assert ids_of(platform) == []


@pytest.mark.spark
def test_a_copy_runs_once(platform, tmp_path, spark_server):
    (tmp_path / "ids.csv").write_text("1\n2\n")
    for count in (2, 0):
        assert platform.execute(f"COPY s FROM '{tmp_path}/ids.csv' (FORMAT csv)", batch_id="file 1").row_count == count
        assert platform.execute("INSERT INTO s SELECT id FROM range(10, 13)", batch_id="rows").row_count == (3 if count else 0)
    assert ids_of(platform) == [1, 2, 10, 11, 12]
