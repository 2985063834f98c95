"""UPDATE and DELETE as another client sees them: rows keep their ids, long lists of deleted rows are read where they lie."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.commit.before_images import read_before_images
from platform_plugin.lake.read import net_changes
from platform_plugin.platform import Platform
from tests.lake.agreement import assert_changes_agree, plain, rows_of
from tests.lake.changing import difference, rows_by_id

pytestmark = pytest.mark.spark


@pytest.fixture
def url(tmp_path, spark_server):
    return f"platform+local://{tmp_path}/lake"


def test_an_update_keeps_row_ids_so_that_changes_come_in_pairs(url, duck):
    with Platform.create(url) as platform:
        platform.execute("CREATE TABLE t AS SELECT id AS k, 0 AS v FROM range(0, 100, 1, 3)")
        duck(url).execute("INSERT INTO t VALUES (100, 0)")
        before = dict(duck(url).rows("SELECT k, rowid FROM t"))
        made = platform.execute("UPDATE t SET v = 1 WHERE k % 10 = 0").snapshot.id
        changes = duck(url).rows(f"SELECT change_type, k, rowid, v FROM ducklake_table_changes('lake', 'main', 't', {made}, {made})")
        tens = range(0, 101, 10)
        wanted = [("update_preimage", k, before[k], 0) for k in tens] + [("update_postimage", k, before[k], 1) for k in tens]
        assert sorted(changes) == sorted(wanted)
        assert dict(duck(url).rows("SELECT k, rowid FROM t")) == before


def test_many_deleted_rows_are_read_by_spark_at_every_snapshot(url, duck, monkeypatch):
    monkeypatch.setenv("PLATFORM_LIMIT_PLAN_POSITIONS", "5")
    with Platform.create(url) as platform:
        platform.execute("CREATE TABLE t AS SELECT id AS k FROM range(0, 1000, 1, 3)")
        versions = {platform.lake.snapshot().id: 1000}
        for residue in (0, 1, 2):
            platform.execute("DELETE FROM t WHERE k % 7 = ?", [residue])
            versions[platform.lake.snapshot().id] = sum(k % 7 > residue for k in range(1000))
        duck(url).execute("DELETE FROM t WHERE k % 7 = 3")
        platform.execute("UPDATE t SET k = -k WHERE k % 7 = 4")
        versions[platform.lake.snapshot().id] = sum(k % 7 > 3 for k in range(1000))
        for version, rows in versions.items():
            query = f"SELECT count(*), sum(k) FROM t AT (VERSION => {version})"
            assert list(platform.execute(query)) == [tuple(map(int, row)) for row in duck(url).rows(query)]
            assert next(iter(platform.execute(query)))[0] == rows


def test_a_table_that_duckdb_partitions_is_read_and_deleted_from_alike(url, duck):
    with Platform.create(url) as platform:
        platform.execute("CREATE TABLE t (k INT, p STRING)")
        other = duck(url)
        other.execute("ALTER TABLE t SET PARTITIONED BY (p)")
        other.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
        other.execute("INSERT INTO t SELECT i, 'p' || i % 3 FROM range(30) r(i)")
        for sql in ("INSERT INTO t VALUES (100, 'p0')", "INSERT INTO t SELECT * FROM t", "UPDATE t SET p = 'p9' WHERE k = 3"):
            with pytest.raises(InvalidValue, match="is partitioned"):
                platform.execute(sql)
        platform.execute("DELETE FROM t WHERE p = 'p2'")
        for where in ("true", "p = 'p0'", "p = 'p1'", "p IS NULL", "p = 'p2'"):
            query = f"SELECT k, p FROM t WHERE {where} ORDER BY k"
            assert list(platform.execute(query)) == duck(url).rows(query)


def test_deletion_vectors_and_files_outside_are_read_by_spark_at_every_snapshot(url, duck, tmp_path):
    Platform.create(url).close()
    other = duck(url)
    other.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    other.execute("CALL lake.set_option('write_deletion_vectors', true)")
    (tmp_path / "shared").mkdir()
    other.execute("CREATE TABLE t AS SELECT range AS k FROM range(3000)")
    other.execute(f"COPY (SELECT range AS k FROM range(10000, 10005)) TO '{tmp_path}/shared/out.parquet' (FIELD_IDS {{k: 1}})")
    other.execute(f"CALL ducklake_add_data_files('lake', 't', '{tmp_path}/shared/out.parquet')")
    other.execute("DELETE FROM t WHERE k % 3 = 0")
    with Platform.open(f"{url}?outside={tmp_path}/shared") as platform:
        platform.execute("DELETE FROM t WHERE k % 3 = 1 AND k < 1000")
        platform.execute("UPDATE t SET k = -k WHERE k IN (2, 10001)")
        other.execute("DELETE FROM t WHERE k = 5")
        for version in range(1, platform.lake.snapshot().id + 1):
            query = f"SELECT count(*), sum(k) FROM t AT (VERSION => {version})"
            assert list(platform.execute(query)) == [tuple(map(int, row)) for row in duck(url).rows(query)]


def test_update_and_delete_leave_what_the_rows_were(url, duck):
    with Platform.create(url) as platform:
        lake = platform.lake
        platform.execute(
            "CREATE TABLE t AS SELECT id AS k, id % 7 AS v, CAST(id AS STRING) AS s, array(id, 1) AS l, "
            "CAST('2026-01-01 00:00:00' AS TIMESTAMP) AS at, CAST(NULL AS DECIMAL(9,2)) AS d FROM range(0, 5000, 1, 3)"
        )
        duck(url).execute("INSERT INTO t SELECT 6000 + i, 0, 'inlined', [1], NULL, 1.5 FROM range(3) r(i)")
        start = lake.snapshot()
        platform.execute("UPDATE t SET v = v + 100, s = concat(s, '!') WHERE k % 100 = 0")
        lake.merge("t")
        platform.execute("UPDATE t SET d = k WHERE k % 50 = 0")
        platform.execute("DELETE FROM t WHERE k % 250 = 1 OR k = 6001")
        platform.execute("DELETE FROM t WHERE k < 0")
        # Of most rows of the files there are none: the files say as much.
        platform.execute("UPDATE t SET v = 0 WHERE k > 1")
        platform.execute("DELETE FROM t")
        with lake.reading() as connection:
            images = read_before_images(connection, lake.table("t"), after=start.id, until=lake.snapshot().id)
        rows = [sum(file.row_count for file in files) for files in images.values()]
        assert rows == [51, 101, 21]
        # Of rows in merged files DuckDB's own feed names the wrong snapshot.
        assert_changes_agree(lake, duck(url), "t", after=start, until=lake.snapshot(start.id + 1))
        ends = [start.id, start.id + 1, start.id + 3, start.id + 4, lake.snapshot().id - 1]
        for after, until in combinations(ends, 2):
            went, came = lake.net_changes("t", after=lake.snapshot(after), until=lake.snapshot(until)).read(lake)
            found = [
                (row_id, weight, *row)
                for part, weight in ((went, -1), (came, 1))
                for row_id, row in zip(part.row_ids.tolist(), rows_of(part.rows), strict=True)
            ]
            expected = difference(*({key: plain(row) for key, row in rows_by_id(duck(url), "t", end).items()} for end in (after, until)))
            assert sorted(found, key=repr) == expected


def test_before_images_of_many_rows_are_written_by_tasks(url, duck, monkeypatch):
    monkeypatch.setenv("PLATFORM_LIMIT_BEFORE_IMAGE_ROWS", "3")
    with Platform.create(url) as platform:
        lake = platform.lake
        platform.execute("CREATE TABLE t AS SELECT id AS k, array(id) AS l, CAST(NULL AS STRING) AS s FROM range(0, 1000, 1, 2)")
        duck(url).execute("INSERT INTO t SELECT 2000 + i, [i], 'inlined' FROM range(5) r(i)")
        start = lake.snapshot()

        def forbidden(*given, **named):
            raise AssertionError("rows that the client was not to see")

        platform.execute("DELETE FROM t WHERE k < 3")
        platform.execute("DELETE FROM t WHERE k BETWEEN 3 AND 11 OR k = 2001")
        with monkeypatch.context() as patch:
            patch.setattr(type(lake), "write_files", forbidden)
            platform.execute("UPDATE t SET s = 'new', k = -k WHERE k BETWEEN 12 AND 21 OR k = 2002")
        lake.merge("t")
        platform.execute("DELETE FROM t WHERE k < -14")
        with lake.reading() as connection:
            images = read_before_images(connection, lake.table("t"), after=start.id, until=lake.snapshot().id)
        assert [sum(file.row_count for file in files) for files in images.values()] == [3, 10, 11, 8]
        assert_feeds_agree(lake, duck(url), start.id, lake.snapshot().id)


def test_a_type_that_spark_cannot_write_costs_the_before_images_of_many_rows_and_no_answer(url, duck, monkeypatch):
    monkeypatch.setenv("PLATFORM_LIMIT_BEFORE_IMAGE_ROWS", "3")
    with Platform.create(url) as platform:
        platform.execute("CREATE TABLE t (k BIGINT, u UUID)")
        duck(url).execute("CALL lake.set_option('data_inlining_row_limit', 0)")
        duck(url).execute("INSERT INTO t SELECT i, uuid() FROM range(100) r(i)")
        start = platform.lake.snapshot()
        platform.execute("DELETE FROM t WHERE k < 5")
        platform.execute("UPDATE t SET k = 1000 + k WHERE k < 10")
        platform.execute("UPDATE t SET k = 2000 + k WHERE k < 12")
        with platform.lake.reading() as connection:
            images = read_before_images(connection, platform.lake.table("t"), after=start.id, until=platform.lake.snapshot().id)
        assert [sum(file.row_count for file in files) for files in images.values()] == [2]
        assert_feeds_agree(platform.lake, duck(url), start.id, platform.lake.snapshot().id)


def assert_feeds_agree(lake, reader, first, last):
    """The feed by before-images, the feed by data files, and what DuckDB reads at both ends, for each pair of snapshots."""
    rows = {end: {key: plain(row) for key, row in rows_by_id(reader, "t", end).items()} for end in range(first, last + 1)}
    for after, until in combinations(range(first, last + 1), 2):
        expected = difference(rows[after], rows[until])
        for with_images in (True, False):
            with lake.reading() as connection, pytest.MonkeyPatch.context() as patch:
                # Of so few rows nobody would open the before-images.
                patch.setattr(net_changes, "ROWS_OF_OPENING", -1_000_000)
                ends = {"after": lake.snapshot(after), "until": lake.snapshot(until)}
                change = net_changes.read_net_changes(connection, lake.table("t", ends["until"]), with_images=with_images, **ends)
            assert with_images or not change.images
            went, came = change.read(lake)
            found = [
                (row_id, weight, *row)
                for part, weight in ((went, -1), (came, 1))
                for row_id, row in zip(part.row_ids.tolist(), rows_of(part.rows), strict=True)
            ]
            assert sorted(found, key=repr) == expected, (after, until, with_images)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["update", "delete", "insert", "merge", "other inserts", "other deletes"]),
        st.integers(2, 9),
        st.integers(0, 8),
        st.sampled_from([0, 2, 1_000]),
    ),
    min_size=3,
    max_size=5,
)


def follow_history(platform, other, steps):
    """A random history of a table in SQL, by both clients, beside the same in plain Python."""
    lake = platform.lake
    platform.execute("CREATE OR REPLACE TABLE t AS SELECT id AS k, 0 AS v FROM range(0, 60, 1, 2)")
    model, first, fresh = dict.fromkeys(range(60), 0), lake.snapshot().id, 1_000
    models = {first: dict(model)}
    for number, (what, modulus, residue, limit) in enumerate(steps, start=1):
        platform.work.limits = replace(platform.work.limits, before_image_rows=limit)
        chosen = [k for k in model if k % modulus == residue]
        if what == "update":
            platform.execute("UPDATE t SET v = v + ? WHERE k % ? = ?", [number, modulus, residue])
            model |= {k: model[k] + number for k in chosen}
        elif what in ("delete", "other deletes"):
            if what == "delete":
                platform.execute("DELETE FROM t WHERE k % ? = ?", [modulus, residue])
            else:
                other.execute(f"DELETE FROM t WHERE k % {modulus} = {residue}")
            model = {k: v for k, v in model.items() if k not in chosen}
        elif what == "merge":
            lake.merge("t")
        else:
            values = [(fresh + place, number) for place in range(3)]
            (platform if what == "insert" else other).execute(f"INSERT INTO t VALUES {', '.join(map(str, values))}")
            model |= dict(values)
            fresh += 3
        models[lake.snapshot().id] = dict(model)
    return first, models


def check_history(platform, reader, steps):
    first, models = follow_history(platform, reader, steps)
    lake = platform.lake
    for version, model in models.items():
        assert dict(rows_of(lake.read("t", snapshot=lake.snapshot(version)))) == model
    assert_feeds_agree(lake, reader, first, lake.snapshot().id)


@given(STEPS)
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
def test_feeds_of_random_histories_are_the_same_with_before_images_and_without(platform_of_histories, steps):
    check_history(*platform_of_histories, steps)


@pytest.mark.slow
@pytest.mark.timeout(900)
@given(STEPS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_feeds_of_many_random_histories_are_the_same_with_before_images_and_without(platform_of_histories, steps):
    check_history(*platform_of_histories, steps)


@pytest.fixture
def platform_of_histories(url, duck):
    with Platform.create(url) as platform:
        yield platform, duck(url)
