"""Folding: with snapshots go the rows of our own tables that no kept snapshot needs, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.lake.catalogue.forgotten import Folding
from platform_plugin.lake.catalogue.relations import read_declarations
from platform_plugin.lake.commit.passes import read_pass
from platform_plugin.lake.cursors.cursor import read_cursors_at
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.ring.folding import LOGGED_AT_ONCE
from platform_plugin.lake.ring.segments import read_arrivals
from platform_plugin.lake.upkeep import folding
from platform_plugin.platform import Platform
from platform_plugin.relations.samples.record import find_sample
from platform_plugin.relations.samples.record import read_progress as read_sample_progress
from platform_plugin.relations.samples.reservoir.picks import read_picks
from platform_plugin.relations.views.record import read_records
from platform_plugin.state.node import read_parts
from tests.lake.agreement import rows_of
from tests.lake.crashing import Victims
from tests.lake.old_lakes import NAMES, dump, restore, unpack

# The columns by which a row is that of a relation.
OWNERS = ("relation_uuid", "view_uuid", "sample_uuid", "stream_uuid", "table_uuid", "user_uuid", "node_uuid")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def old(request, tmp_path):
    """The newest lake of the corpus, which has something of everything, on each database."""
    unpacked = unpack(NAMES[-1], tmp_path / "old")
    return unpacked if request.param == "sqlite" else restore(unpacked, request.getfixturevalue("postgres_database"))


def owners(lake):
    """The identities that rows of each of our tables are of."""
    with lake.reading() as connection:
        look = sa.inspect(connection)
        names = [name for name in look.get_table_names() if name.startswith("platform_")]
        columns = {name: [column["name"] for column in look.get_columns(name) if column["name"] in OWNERS] for name in names}
        return {
            (name, column): set(connection.execute(sa.text(f"SELECT DISTINCT {column} FROM {name}")).scalars())
            for name in names
            for column in columns[name]
        }


def living(lake):
    """The identities of all relations that some kept snapshot has."""
    return {
        str(relation.uuid)
        for record in lake.commits()
        for relation in (*lake.tables(lake.snapshot(record.id)), *lake.views(lake.snapshot(record.id)))
    }


def counts(lake):
    with lake.reading() as connection:
        names = [name for name in sa.inspect(connection).get_table_names() if name.startswith("platform_")]
        return {name: connection.execute(sa.text(f"SELECT count(*) FROM {name}")).scalar() for name in names}


def told(lake, versions):
    """What the owners of our tables tell at each of some snapshots."""
    found = {}
    for version in versions:
        snapshot = lake.snapshot(version)
        tables, views = lake.tables(snapshot), lake.views(snapshot)
        there = {str(relation.uuid) for relation in (*tables, *views)}
        with lake.reading() as connection:
            declared = {uuid: declaration for uuid, declaration in read_declarations(connection).items() if uuid in there}
            progress = {owner: at for owner, at in read_cursors_at(connection, version).items() if owner in there}
            parts = {user: nodes for user, nodes in read_parts(connection).items() if user in there}
            records = {uuid: record for uuid, record in read_records(connection).items() if str(uuid) in there}
            # Where it is readable may change: the newest snapshot takes over from one that goes.
            passed = [read_pass(connection, table.name, snapshot) for table in tables]
            passes = [None if each is None else (each.snapshot_id, each.table_uuid) for each in passed]
            arrivals = {table.name: [tuple(row) for row in read_arrivals(connection, table.uuid)] for table in tables}
        samples = {}
        for table in tables:
            if (sample := find_sample(lake, table, snapshot)) is not None:
                with lake.reading() as connection:
                    picks = [(each.span, each.strata, rows_of(each.rows)) for each in read_picks(connection, sample, version)]
                    samples[sample.name] = (read_sample_progress(connection, table.uuid, version), picks)
        rows = {table.name: rows_of(lake.read(table.name, snapshot=snapshot)) for table in tables}
        found[version] = declared, progress, parts, records, passes, arrivals, samples, rows
    return found


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.slow)], ids=["of some", "of all"])
def test_what_is_told_of_a_kept_snapshot_stays(old, step):
    with Lake.open(old.url) as lake:
        commits = lake.commits()
        middle = commits[len(commits) // 2]
        kept = [record.id for record in commits if record.id >= middle.id]
        # The oldest, to which the expiry comes nearest, and the newest are always asked.
        asked = sorted({*kept[::step], *kept[:2], kept[-1]})
        before = told(lake, asked)
        with lake.writing():
            pass  # what a migration adds is not folded
        counted = counts(lake)
        done = lake.expire(middle.time)
        assert done.snapshots == len(commits) - len(kept)
        assert done.rows > 0
        assert sum(counted.values()) - sum(counts(lake).values()) >= done.rows
        after = told(lake, asked)
        for version in asked:
            for place, (now, then) in enumerate(zip(after[version], before[version], strict=True)):
                assert now == then, (version, place)
        for (table, column), found in owners(lake).items():
            assert found <= living(lake) | {None}, (table, column)
        # Nothing is left to do then.
        with lake.writing() as connection:
            assert folding.fold_rows(connection) == 0


def test_nothing_is_left_of_relations_that_no_snapshot_has(old):
    with Platform.open(old.url) as platform:
        # In an order that lets each go: what is read by another one last.
        for kind, names in (
            ("SAMPLE", ["some_of_two", *(row[1] for row in platform.execute("SHOW SAMPLES"))]),
            ("VIEW", [row[1] for row in platform.execute("SHOW VIEWS")]),
            ("STREAM", [row[1] for row in platform.execute("SHOW STREAMS")]),
            ("TABLE", [row[1] for row in platform.execute("SHOW TABLES")]),
        ):
            for name in names:
                platform.execute(f"DROP {kind} IF EXISTS {name}")
        assert platform.lake.tables() == []
        platform.lake.expire(datetime.now(UTC) + timedelta(seconds=1))
        left = {name: count for name, count in counts(platform.lake).items() if count}
        assert set(left) <= {"platform_lake", "platform_lease", "platform_stall"}, left
        assert all(found <= {None} for found in owners(platform.lake).values())


def test_a_dry_run_folds_nothing(old):
    with Lake.open(old.url) as lake:
        with lake.writing():
            pass
        before = counts(lake)
        would = lake.expire(datetime.now(UTC), dry_run=True)
        assert would.rows > 0
        assert counts(lake) == before
        assert lake.expire(datetime.now(UTC)) == would


@pytest.fixture
def long_lived(lake_url):
    """A lake with a stream that keeps all, long enough for arrival logs."""
    with Platform.create(lake_url) as platform:
        platform.execute("CREATE STREAM every (i INT)")
        table = platform.lake.table("every")
        file = pa.table({"i": pa.array([1], pa.int32())})
        for _ in range(2 * LOGGED_AT_ONCE + 5):
            with platform.lake.commit("append") as commit:
                commit.append(table, [platform.lake.write(table, file)])
        platform.lake.merge("every")
    return lake_url


def kill_expiries(url):
    """Let expiries be killed at one point after another, until one has changed something; what it left is whole."""
    with Lake.open(url) as lake:
        with lake.writing():
            pass
        newest = [lake.snapshot().id]
        before = told(lake, newest)
    whole = dump(url)
    victims = Victims()
    for point in range(1, 10**6):
        killed = victims.attempt(url, "expire", kill_at=point)["killed"]
        if dump(url) != whole or not killed:
            break
    victims.stop()
    assert point > 50
    with Lake.open(url) as lake:
        # Nothing is left to do, and nothing is lost.
        assert lake.expire(datetime.now(UTC)).rows == 0
        with lake.writing() as connection:
            assert folding.fold_rows(connection) == 0
        assert told(lake, newest) == before
        for (table, column), found in owners(lake).items():
            assert found <= living(lake) | {None}, (table, column)
    print(f"all or nothing at {point} points")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_expiry_that_is_killed_has_folded_all_or_nothing(old):
    kill_expiries(old.url)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_expiry_that_is_killed_has_put_all_segments_in_logs_or_none(long_lived):
    kill_expiries(long_lived)
    with Lake.open(long_lived) as lake:
        assert counts(lake)["platform_arrival_log"] == 2
        assert counts(lake)["platform_segment"] == 5


def test_each_fold_is_there():
    for path in folding.FOLDS:
        module, _, name = path.partition(":")
        assert callable(getattr(import_module(f"platform_plugin.{module}"), name))


def test_what_another_client_drops_goes_too(lake, reader):
    """DuckDB knows nothing of our tables, and deletes nothing from them."""
    platform = Platform(lake)
    platform.execute("CREATE STREAM s (i INT) WITH (retention_rows = 2)")
    for number in range(5):
        platform.execute(f"INSERT INTO s VALUES ({number}), ({number})")
    assert str(lake.table("s").uuid) in owners(lake)["platform_segment", "relation_uuid"]
    reader.execute("DROP TABLE s")
    reader.end()
    with lake.commit("something") as commit:
        commit.create_table("t", lake.columns_of(pa.table({"i": [1]})))
    lake.expire(datetime.now(UTC) + timedelta(seconds=1))
    assert {name: count for name, count in counts(lake).items() if count} == {"platform_lake": 2}


def test_superseded_rows_are_those_before_what_the_oldest_snapshot_sees(lake):
    table = sa.Table(
        "platform_told",
        sa.MetaData(),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("snapshot_id", sa.BigInteger, primary_key=True, autoincrement=False),
    )
    rows = [("a", 1), ("a", 4), ("a", 5), ("a", 9), ("b", 7), ("c", 2), ("d", 5), ("d", 6)]
    with lake.writing() as connection:
        table.create(connection)
        connection.execute(sa.insert(table), [{"key": key, "snapshot_id": at} for key, at in rows])
        assert Folding.at(connection, 5).delete_superseded(table, table.c.key) == 2
        left = sorted(tuple(row) for row in connection.execute(sa.select(table)))
    # Read one by one: of each key what the oldest snapshot sees, and what came later.
    expected = [(key, at) for key, at in sorted(rows) if at >= max((seen for own, seen in rows if own == key and seen <= 5), default=0)]
    assert left == expected
