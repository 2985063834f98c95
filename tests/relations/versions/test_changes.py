"""changes(relation, after, until) in queries: with Arrow and by Spark, net and step by step, as DuckDB and plain Python have them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from platform_plugin.algebra.predicates.ranges import between, points
from platform_plugin.errors import InvalidStatement, InvalidValue, PlatformError, SnapshotExpired, StreamOverrun, UnknownObject
from platform_plugin.lake.read import changes as feed_changes
from platform_plugin.lake.read import net_changes
from platform_plugin.platform import Platform
from platform_plugin.relations.versions.changes import ChangedRelation, read_change_rows
from tests.lake.agreement import append, create, plain
from tests.lake.changing import end_rows


@pytest.fixture
def platform(tmp_path):
    with Platform.create(f"platform+local://{tmp_path}/lake") as opened:
        opened.execute("CREATE TABLE users (id BIGINT PRIMARY KEY, region STRING, rate DECIMAL(9,2))")
        opened.execute("INSERT INTO users VALUES (1, 'eu', 12.50), (2, 'us', 7.25), (3, 'us', 1.00)")
        yield opened


def rows(platform, sql, parameters=None):
    return [tuple(row) for row in platform.execute(sql, parameters)]


def change(platform, ids, **new):
    return end_rows(platform.lake, platform.lake.table("users"), ids, images=True, new=new or None).id


def test_net_changes_and_every_step_need_no_engine(platform):
    start = platform.lake.snapshot().id
    first = change(platform, [1], region="de")
    second = change(platform, [1], region="fr")
    third = change(platform, [2])
    platform.execute("INSERT INTO users VALUES (4, 'eu', 0.50)")
    last = platform.lake.snapshot().id
    everything = rows(platform, f"SELECT * FROM changes(users, {start})")
    assert everything == [
        (1, "eu", Decimal("12.50"), "update_before", 0, first, -1),
        (1, "fr", Decimal("12.50"), "update_after", 0, second, 1),
        (2, "us", Decimal("7.25"), "delete", 1, third, -1),
        (4, "eu", Decimal("0.50"), "insert", 3, last, 1),
    ]
    assert rows(platform, "SELECT * FROM changes(users, :a, :b)", {"a": start, "b": last}) == everything
    assert rows(
        platform, f"SELECT id, _change_type AS what FROM changes(main.users, {first}, until => {third}) AS c WHERE c._weight < 0"
    ) == [
        (1, "update_before"),
        (2, "delete"),
    ]
    steps = rows(platform, f"SELECT id, region, _change_type, _snapshot FROM changes(users, after => {start}, steps => true)")
    assert steps == [
        (1, "eu", "update_before", first),
        (1, "de", "update_after", first),
        (1, "de", "update_before", second),
        (1, "fr", "update_after", second),
        (2, "us", "delete", third),
        (4, "eu", "insert", last),
    ]
    assert rows(platform, f"SELECT * FROM changes(users, {last})") == []
    assert not platform.work.is_attached


def test_a_range_may_begin_and_end_at_times(platform):
    lake = platform.lake
    start = lake.snapshot()
    change(platform, [3])
    middle = lake.snapshot()
    change(platform, [2])
    query = "SELECT id FROM changes(users, :a, :b)"
    assert rows(platform, query, {"a": start.time, "b": middle.time}) == [(3,)]
    assert rows(platform, f"SELECT id FROM changes(users, TIMESTAMP '{middle.time:%F %T.%f}')") == [(2,)]
    assert rows(platform, f"SELECT id FROM changes(users, '{middle.time:%F %T.%f}', {lake.snapshot().id})") == [(2,)]


def test_the_kind_of_a_change_does_not_depend_on_columns_and_conditions(platform):
    start = platform.lake.snapshot().id
    change(platform, [1], rate=Decimal("99.00"))
    change(platform, [2], region="us")
    assert rows(platform, f"SELECT id, _change_type FROM changes(users, {start})") == [(1, "update_before"), (1, "update_after")]
    assert rows(platform, f"SELECT _change_type FROM changes(users, {start}) WHERE rate > 50") == [("update_after",)]
    assert rows(platform, f"SELECT _change_type FROM changes(users, {start}, steps => true) WHERE rate > 50") == [("update_after",)]


@pytest.mark.parametrize("steps", [False, True])
def test_files_without_the_wanted_row_ids_are_not_opened(platform, steps, monkeypatch):
    lake = platform.lake
    start = lake.snapshot()
    for number in range(4, 9):
        platform.execute(f"INSERT INTO users VALUES ({number}, 'eu', 0.50)")
    change(platform, [1, 5], region="de")
    changed = ChangedRelation(table=lake.table("users"), after=start, until=lake.snapshot(), steps=steps, is_stream=False)
    opened = []
    plain = net_changes.read_at
    for module in (net_changes, feed_changes):
        monkeypatch.setattr(module, "read_at", lambda lake, file, *given: opened.append(file.path) or plain(lake, file, *given))
    everything = read_change_rows(lake, changed).to_pylist()
    files = len(set(opened))
    for row_ids in (points([5]), between(6, 7), points([0, 7])):
        opened.clear()
        found = [row for row in read_change_rows(lake, changed, row_ids=row_ids).to_pylist() if row_ids.contains(row["_row_id"])]
        assert found == [row for row in everything if row_ids.contains(row["_row_id"])]
        assert len(set(opened)) < files


def test_streams_give_what_came(platform):
    platform.execute("CREATE STREAM posts (id BIGINT) WITH (retention_rows = 2)")
    start = platform.lake.snapshot()
    with platform.lake.lease(start):
        for number in range(3):
            platform.execute(f"INSERT INTO posts VALUES ({2 * number}), ({2 * number + 1})")
        assert rows(platform, f"SELECT id, _change_type, _weight FROM changes(posts, {start.id})") == [
            (number, "insert", 1) for number in range(6)
        ]
        assert rows(platform, f"SELECT id FROM changes(posts, {start.id}, steps => true) LIMIT 1") == [(0,)]
    for number in range(3):
        platform.execute(f"INSERT INTO posts VALUES ({10 + 2 * number}), ({11 + 2 * number})")
    with pytest.raises(StreamOverrun, match="have left and are deleted"):
        platform.execute(f"SELECT * FROM changes(posts, {start.id})")
    newest = platform.lake.snapshot().id
    assert rows(platform, f"SELECT id FROM changes(posts, {newest - 1})") == [(14,), (15,)]


@pytest.mark.parametrize(
    ("sql", "error", "said"),
    [
        ("SELECT * FROM changes(users, 99)", UnknownObject, "snapshot 99 does not exist yet"),
        ("SELECT * FROM changes(users, 1, 99)", UnknownObject, "snapshot 99 does not exist yet"),
        ("SELECT * FROM changes(users, 2, 1)", InvalidValue, "snapshot 2 is newer than snapshot 1"),
        ("SELECT * FROM changes(users, -1)", PlatformError, "changes"),
        ("SELECT * FROM changes(nobody, 1)", UnknownObject, 'table "main.nobody" does not exist'),
        ("SELECT * FROM changes(users, 'noon')", InvalidValue, '"noon" is not a time'),
        ("SELECT * FROM changes(users)", InvalidStatement, "no snapshot is named"),
        ("SELECT * FROM changes(users, ?)", InvalidStatement, r"can't be given by \?"),
        ("SELECT * FROM changes(users, 1, 2, 3)", InvalidStatement, "changes have no 3"),
        ("SELECT * FROM changes(users, 1, after => 2)", InvalidStatement, "after is given twice"),
        ("SELECT * FROM changes(users, 1, step => true)", InvalidStatement, "changes have no step"),
        ("SELECT * FROM changes(users, 1, steps => 2)", InvalidStatement, "steps are asked for or not"),
        ("SELECT * FROM changes(users, 1.5)", InvalidStatement, "1.5 names no snapshot"),
        ("SELECT * FROM changes(users, 1 + 1)", InvalidStatement, r"unexpected \+"),
        ("SELECT * FROM changes((SELECT 1), 1)", InvalidStatement, "changes are those of a relation"),
        ("SELECT * FROM changes(users, 1) AT (VERSION => 2)", InvalidStatement, "between two snapshots"),
        ("SELECT count(*) FROM users AT (VERSION => 1) WITH SAMPLE (error = 0.1)", InvalidValue, "estimated as it is now"),
        ("SELECT count(*) FROM changes(users, 1) WITH SAMPLE (error = 0.1, confidence = 0.9)", InvalidValue, "estimated as it is now"),
    ],
)
def test_what_has_no_changes_is_refused_with_its_place(platform, sql, error, said):
    with pytest.raises(error, match=said) as caught:
        platform.execute(sql, [1] if "?" in sql else None)
    assert caught.value.line == 1


def test_refusals_say_what_to_do(platform):
    lake = platform.lake
    start = lake.snapshot().id
    change(platform, [1])
    middle = lake.snapshot()
    change(platform, [2])
    with lake.lease(lake.snapshot(start)):
        lake.expire(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1))
        assert [row[0] for row in rows(platform, f"SELECT id FROM changes(users, {start})")] == [1, 2]
        with pytest.raises(SnapshotExpired, match=r"1 snapshot between .* expired, so that not every step is known"):
            platform.execute(f"SELECT * FROM changes(users, {start}, steps => true)")
    with pytest.raises(SnapshotExpired, match=f"snapshot {middle.id} is no longer kept, so that changes since it are not known") as caught:
        platform.execute(f"SELECT * FROM changes(users, {middle.id})")
    assert "read the relation whole" in caught.value.hint
    platform.execute("CREATE STREAM posts (id BIGINT)")
    platform.execute("CREATE VIEW counted AS SELECT count(*) AS n FROM posts")
    with pytest.raises(InvalidValue, match=r'view "main.counted" has no feed of changes'):
        platform.execute(f"SELECT * FROM changes(counted, {lake.snapshot().id})")
    platform.execute("CREATE SAMPLE some ON posts SIZE 10")
    with pytest.raises(InvalidValue, match=r'sample "main.some" has no feed of changes'):
        platform.execute(f"SELECT * FROM changes(some, {lake.snapshot().id})")
    before = lake.snapshot().id
    platform.execute("CREATE OR REPLACE TABLE users (id BIGINT)")
    with pytest.raises(
        InvalidValue, match=f'table "main.users" is another one at snapshot {before + 1} than at snapshot {before}'
    ) as caught:
        platform.execute(f"SELECT * FROM changes(users, {before})")
    assert f"created anew in snapshot {before + 1}" in caught.value.detail
    platform.execute("CREATE TABLE own (id INT, _weight INT)")
    with pytest.raises(InvalidValue, match='has a column "_weight" of its own'):
        platform.execute(f"SELECT * FROM changes(own, {before})")


ROWS = 6000
WIDE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "s": [f"s{number}" for number in range(ROWS)],
        "x": [float("nan") if number % 7 == 0 else number / 4 for number in range(ROWS)],
        "d": pa.array([None if number % 5 == 0 else Decimal(number) / 4 for number in range(ROWS)], pa.decimal128(9, 2)),
        "at": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * ROWS, pa.timestamp("us", "UTC")),
        "l": [[number, None] for number in range(ROWS)],
        "m": pa.array([[("k", number)] for number in range(ROWS)], pa.map_(pa.string(), pa.int32())),
        "u": pa.array([number.to_bytes(16, "big") for number in range(ROWS)], pa.binary(16)).cast(pa.uuid()),
    }
)


@pytest.mark.spark
def test_spark_reads_the_same_changes_without_rows_from_the_client(tmp_path, spark_server, duck):
    url = f"platform+local://{tmp_path}/lake"
    with Platform.create(url) as small:
        lake = small.lake
        table = create(lake, "t", WIDE)
        other = duck(url)
        other.execute("CALL lake.set_option('data_inlining_row_limit', 5)")
        start = lake.snapshot().id
        end_rows(lake, table, [3, 4, 5], images=True, new={"s": "new"})
        append(lake, table, WIDE.slice(0, 20))
        lake.merge("t")
        end_rows(lake, table, [6, 7], images=True)
        other.execute("DELETE FROM t WHERE id IN (8, 9) OR id BETWEEN 50 AND 70")
        other.execute("UPDATE t SET s = 'duck' WHERE id IN (10, 11)")
        other.execute("INSERT INTO t SELECT * REPLACE (1000 AS id) FROM t WHERE id = 20")
        end_rows(lake, table, [12], images=True, new={"s": "s12"})
        end = lake.snapshot().id
        limits = {"client_change_rows": 0}
        with Platform.open(url, limits=limits) as large:
            for after, until in [(start, end), (start + 3, start + 4), (start + 4, end - 1), (start + 1, start + 2)]:
                sql = f"SELECT * FROM changes(t, {after}, {until}) ORDER BY _row_id, _weight"
                mine = [plain(tuple(row)) for row in small.execute(sql.partition(" ORDER")[0])]
                assert [plain(tuple(row)) for row in large.execute(sql)] == mine, (after, until)
                every = f"SELECT * FROM changes(t, {after}, {until}, steps => true) ORDER BY _row_id, _snapshot, _weight"
                mine = [plain(tuple(row)) for row in small.execute(every.partition(" ORDER")[0])]
                assert sorted(mine, key=lambda row: row[-3:]) == [plain(tuple(row)) for row in large.execute(every)], (after, until)
                some = f"SELECT id, _change_type FROM changes(t, {after}, {until}, steps => true) ORDER BY _row_id, _snapshot, _weight"
                assert [(row[0], row[-4]) for row in mine] == list(large.execute(some))
                for condition in ("_row_id = 3", "_row_id BETWEEN 4 AND 12 AND id > 5", "_row_id > 100"):
                    part = f"SELECT id, _change_type, _row_id, _weight FROM changes(t, {after}, {until}, steps => true) WHERE {condition}"
                    assert sorted(large.execute(part)) == sorted(small.execute(part)), (after, until, condition)
            for options in ("", ", steps => true"):
                plan = "\n".join(row[0] for row in large.execute(f"EXPLAIN SELECT id FROM changes(t, {start}{options})"))
                assert "as a Spark frame" in plan
            plan = "\n".join(row[0] for row in large.execute(f"EXPLAIN SELECT id FROM changes(t, {start})"))
            assert "before-images of" in plan
            # A before-image that another client has deleted costs time alone.
            images = lake.net_changes("t", after=lake.snapshot(start)).images
            assert len(images) == 3
            lake.storage.delete(file.path for file in images)
            sql = f"SELECT id, _change_type FROM changes(t, {start}) ORDER BY _row_id, _weight"
            assert list(large.execute(sql)) == list(small.execute(sql))
            sql = f"SELECT id, _change_type FROM changes(t, {start}, steps => true) ORDER BY _row_id, _snapshot, _weight"
            assert list(large.execute(sql)) == list(small.execute(sql))
        joined = f"SELECT c._change_type, count(*) AS n FROM changes(t, {start}) AS c JOIN t ON t.id = c.id GROUP BY 1 ORDER BY 1"
        assert [row[0] for row in small.execute(joined)] == ["insert", "update_after", "update_before"]
        plan = "\n".join(row[0] for row in small.execute(f"EXPLAIN SELECT id FROM changes(t, {start}, steps => true)"))
        assert f"every step of main.t after snapshot {start}, up to {end}" in plan
        assert "with Arrow in this process" in plan
        with pytest.raises(PlatformError, match="names no snapshot"):
            small.execute(f"CREATE VIEW v AS SELECT count(*) AS n FROM changes(t, {start})")
        small.execute(f"CREATE TABLE copied AS SELECT * FROM changes(t, {start})")
        counted = "SELECT _change_type, count(*) AS n FROM {} GROUP BY 1 ORDER BY 1"
        assert list(small.execute(counted.format("copied"))) == list(small.execute(counted.format(f"changes(t, {start}, {end})")))
