"""Streams over a table's appends: every new row once, the same files where that can be, and the table is never harmed."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.cursors.cursor import CURSOR
from platform_plugin.lake.files.files import ROW_ID, write_delete_file
from platform_plugin.lake.read.evolution import adapt_rows
from platform_plugin.lake.read.read import find_column, read_raw
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.feeds.ingest import BatchLimits, run_ingest
from platform_plugin.relations.streams.feeds.sources import SourceGap


@pytest.fixture
def url(tmp_path):
    return f"platform+local://{tmp_path}/lake"


@pytest.fixture
def platform(url):
    with Platform.create(url) as platform:
        platform.execute("CREATE TABLE t (id INT, name STRING)")
        yield platform


def insert(platform, *ids, table="t"):
    platform.execute(f"INSERT INTO {table} VALUES " + ", ".join(f"({number}, 'n{number}')" for number in ids))


def ids(platform, name="s"):
    return platform.lake.read(name).column("id").to_pylist()


def paths(platform, name):
    return {file.path for file in platform.lake.scan(platform.lake.table(name), platform.lake.snapshot()).files}


def test_appended_files_join_the_stream_as_they_are(platform, url, duck):
    insert(platform, 1, 2)
    platform.execute("CREATE STREAM s FROM TABLE t")
    report = run_ingest(platform.work, "s")
    assert (report.rows, report.files, report.jobs) == (2, 1, 0)
    insert(platform, 3)
    insert(platform, 4)
    assert run_ingest(platform.work, "s").rows == 2
    assert run_ingest(platform.work, "s").snapshot is None
    assert ids(platform) == [1, 2, 3, 4]
    assert paths(platform, "s") == paths(platform, "t"), "nothing was copied"
    assert duck(url).rows("SELECT id, name FROM s ORDER BY id") == duck(url).rows("SELECT id, name FROM t ORDER BY id")


def test_a_stream_that_is_replaced_or_dropped_forgets_what_it_read(platform):
    def noted():
        with platform.lake.reading() as connection:
            return connection.execute(sa.select(sa.func.count()).select_from(CURSOR)).scalar()

    insert(platform, 1)
    platform.execute("CREATE STREAM s FROM TABLE t")
    run_ingest(platform.work, "s")
    platform.execute("CREATE OR REPLACE STREAM s FROM TABLE t")
    assert noted() == 0
    assert run_ingest(platform.work, "s").rows == 1, "the new stream begins anew"
    assert noted() == 1
    platform.execute("DROP STREAM s")
    assert noted() == 0


def test_latest_leaves_out_what_was_there(platform):
    insert(platform, 1)
    platform.execute("CREATE STREAM s FROM TABLE t (start 'latest')")
    assert run_ingest(platform.work, "s").rows == 0
    insert(platform, 2)
    assert run_ingest(platform.work, "s").rows == 1
    assert ids(platform) == [2]


def test_batches_keep_to_their_limits(platform):
    platform.execute("CREATE STREAM s FROM TABLE t (max_files 2)")
    for number in range(5):
        insert(platform, number)
    reports = [run_ingest(platform.work, "s") for _ in range(3)]
    assert [(report.files, report.waiting) for report in reports] == [(2, 3), (2, 1), (1, 0)]
    insert(platform, 5)
    assert run_ingest(platform.work, "s", limits=BatchLimits(max_bytes=1)).files == 1
    assert ids(platform) == [0, 1, 2, 3, 4, 5]


def test_merged_files_bring_each_new_row_once(platform):
    platform.execute("CREATE STREAM s FROM TABLE t")
    insert(platform, 1)
    run_ingest(platform.work, "s")
    insert(platform, 2)
    insert(platform, 3)
    platform.lake.merge("t")
    assert run_ingest(platform.work, "s").rows == 2
    platform.lake.merge("t")
    run_ingest(platform.work, "s")
    insert(platform, 4)
    run_ingest(platform.work, "s")
    assert ids(platform) == [1, 2, 3, 4]


def test_rows_of_another_client_come_too_wherever_it_keeps_them(platform, url, duck):
    platform.execute("CREATE STREAM s FROM TABLE t")
    duck(url).execute("INSERT INTO t VALUES (1, 'inlined')")
    insert(platform, 2)
    duck(url).execute("INSERT INTO t SELECT range, 'many' FROM range(10, 1010)")
    duck(url).execute("DELETE FROM t WHERE id = 500")
    run_ingest(platform.work, "s")
    run_ingest(platform.work, "s")
    duck(url).execute("UPDATE t SET name = 'other' WHERE id < 20")
    run_ingest(platform.work, "s")
    assert sorted(ids(platform)) == [1, 2, *(number for number in range(10, 1010) if number != 500)]


def test_retention_of_the_stream_leaves_the_table_whole(platform, url, duck):
    platform.execute("CREATE STREAM s FROM TABLE t WITH (retention_rows = 2)")
    for number in range(6):
        insert(platform, number)
        run_ingest(platform.work, "s")
    assert len(ids(platform)) <= 3
    platform.lake.vacuum(grace=timedelta(0))
    assert ids(platform, "t") == list(range(6))
    assert duck(url).rows("SELECT count(*) FROM t") == [(6,)]
    platform.execute("DROP STREAM s")
    platform.lake.expire(platform.lake.snapshot().time + timedelta(days=1))
    platform.lake.vacuum(grace=timedelta(0))
    assert ids(platform, "t") == list(range(6))


def test_care_of_the_table_leaves_the_stream_whole(platform):
    platform.execute("CREATE STREAM s FROM TABLE t")
    for number in range(4):
        insert(platform, number)
    run_ingest(platform.work, "s")
    platform.lake.merge("t")
    platform.lake.expire(platform.lake.snapshot().time + timedelta(days=1))
    platform.lake.vacuum(grace=timedelta(0))
    assert ids(platform) == [0, 1, 2, 3]
    platform.execute("DROP TABLE t")
    platform.lake.expire(platform.lake.snapshot().time + timedelta(days=1))
    platform.lake.vacuum(grace=timedelta(0))
    assert ids(platform) == [0, 1, 2, 3]


def test_a_table_that_is_altered_is_followed_with_the_columns_that_both_have(platform):
    platform.execute("CREATE STREAM s FROM TABLE t")
    platform.execute("ALTER TABLE t ADD COLUMN more INT")
    with platform.lake.commit("wider") as commit:
        table = platform.lake.table("t")
        commit.append(table, [platform.lake.write(table, pa.table({"id": pa.array([1], pa.int32()), "more": pa.array([7], pa.int32())}))])
    assert run_ingest(platform.work, "s").rows == 1
    platform.execute("ALTER TABLE t DROP COLUMN name")
    platform.execute("INSERT INTO t VALUES (2, 8)")
    assert run_ingest(platform.work, "s").rows == 1
    assert platform.lake.read("s").to_pylist() == [{"id": 1, "name": None}, {"id": 2, "name": None}]


def test_what_can_not_be_followed(platform):
    platform.execute("CREATE STREAM pushed (a INT)")
    platform.execute("CREATE SCHEMA other")
    with pytest.raises(InvalidValue, match="is a stream already"):
        platform.execute("CREATE STREAM s FROM TABLE pushed")
    with pytest.raises(InvalidValue, match='in schema "other"'):
        platform.execute("CREATE STREAM other.s FROM TABLE t")
    platform.execute("CREATE STREAM s FROM TABLE t")
    insert(platform, 1)
    run_ingest(platform.work, "s")
    platform.execute("DROP TABLE t")
    platform.execute("CREATE TABLE t (id INT, name STRING)")
    with pytest.raises(SourceGap, match="dropped and created again"):
        run_ingest(platform.work, "s")


STEPS = st.lists(st.sampled_from(["insert", "insert", "update", "delete", "merge", "ingest"]), max_size=14)


@given(STEPS)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_to_the_table_each_appended_row_comes_once(tmp_path_factory, steps):
    """The stream has every id that was ever appended and not deleted before a look, and none twice."""
    with Platform.create(tmp_path_factory.mktemp("lake") / "lake") as platform:
        platform.execute("CREATE TABLE t (id INT, name STRING)")
        platform.execute("CREATE STREAM s FROM TABLE t (max_files 2)")
        seen, unsure, present, number = set(), set(), set(), 0

        for step in steps:
            if step == "insert":
                insert(platform, number, number + 1)
                present |= {number, number + 1}
                number += 2
            elif step == "merge":
                platform.lake.merge("t")
            elif step in ("update", "delete") and present:
                rewrite(platform, keep=step == "update")
                if step == "delete":
                    gone = min(present)
                    present.discard(gone)
                    unsure.add(gone)
            elif step == "ingest":
                run_ingest(platform.work, "s")
                seen |= set(ids(platform))
        for _ in range(len(steps) + 1):
            run_ingest(platform.work, "s")
        found = ids(platform)
        assert len(found) == len(set(found)), "a row came twice"
        assert present | seen <= set(found) <= present | unsure


@pytest.mark.slow
@pytest.mark.timeout(1200)
@given(STEPS)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_so_it_does_in_many_more_histories(tmp_path_factory, steps):
    test_whatever_happens_to_the_table_each_appended_row_comes_once.hypothesis.inner_test(tmp_path_factory, steps)


def rewrite(platform, *, keep):
    """Delete the row with the smallest id, or write it anew under its row id, as an UPDATE does."""
    lake = platform.lake
    base = lake.snapshot()
    table = lake.table("t", base)
    best = None
    for file in lake.scan(table, base).files:
        raw, kept = read_raw(lake, file, base, fields=table.fields, hidden=(ROW_ID,))
        own = find_column(raw, ROW_ID)
        row_ids = [(file.row_id_start or 0) + place for place in kept.to_pylist()] if own is None else own.to_pylist()
        for row, (place, row_id) in zip(
            adapt_rows(raw, table.fields).to_pylist(), zip(kept.to_pylist(), row_ids, strict=True), strict=True
        ):
            if best is None or row["id"] < best[0]["id"]:
                best = (row, place, row_id, file, set(range(file.record_count)) - set(kept.to_pylist()))
    row, place, row_id, file, deleted = best
    with lake.commit("rewrite", base=base) as commit:
        commit.delete(table, {file.id: write_delete_file(lake.storage, table, file.path, pa.array(sorted(deleted | {place})))})
        if keep:
            rows = pa.Table.from_pylist([row], schema=pa.schema([("id", pa.int32()), ("name", pa.string())]))
            commit.append(table, [lake.write(table, rows, row_ids=pa.array([row_id]))])
