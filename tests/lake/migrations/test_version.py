"""The version of a lake: older lakes are read as they are and migrated by the first write, newer ones are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.errors import CatalogueError
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.migrations import version
from platform_plugin.lake.migrations.migration import MIGRATIONS, NEWEST, Migration
from tests.lake.agreement import append, create
from tests.lake.crashing import COUNTER, Victims, batch, rows_of_round

if TYPE_CHECKING:
    from collections.abc import Iterator

INDEXES = {"platform_data_file_by_end", "platform_delete_file_by_end"}


def stored_version(lake):
    with lake.reading() as connection:
        found = connection.execute(sa.select(c.PLATFORM_LAKE.c.value).where(c.PLATFORM_LAKE.c.key == "version")).scalar()
    return None if found is None else int(found)


def set_version(lake, number):
    """As if a program of another version had written the lake, without what this version does before each of its own writes."""
    with lake.engine.begin() as connection:
        connection.execute(sa.delete(c.PLATFORM_LAKE).where(c.PLATFORM_LAKE.c.key == "version"))
        if number is not None:
            connection.execute(sa.insert(c.PLATFORM_LAKE).values(key="version", value=str(number)))


def age(lake):
    """Take from a lake what lakes did not have before there were versions."""
    set_version(lake, None)
    with lake.engine.begin() as connection:
        for name in INDEXES:
            connection.execute(sa.text(f"DROP INDEX IF EXISTS {name}"))


def indexes(lake):
    with lake.reading() as connection:
        look = sa.inspect(connection)
        return {index["name"] for table in ("ducklake_data_file", "ducklake_delete_file") for index in look.get_indexes(table)}


def test_a_new_lake_says_so(lake):
    assert stored_version(lake) == NEWEST


def test_an_adopted_lake_says_so(lake_url, duck, tmp_path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "data").mkdir()
    made = duck(lake_url, data=tmp_path / ("lake/data" if lake_url.startswith("platform+local") else "data"))
    made.execute("CREATE TABLE t (i INT)")
    made.end()
    with Lake.adopt(lake_url) as adopted:
        assert stored_version(adopted) == NEWEST


def test_a_lake_of_before_is_read_as_it_is_and_migrated_by_the_first_write(lake, lake_url):
    create(lake, "t", pa.table({"i": [1, 2]}))
    lake.close()
    age(lake)
    with Lake.open(lake_url) as old:
        assert old.read("t").num_rows == 2
        with old.lease() as lease:
            assert old.read("t", snapshot=lease.snapshot).num_rows == 2
        with old.reading() as connection:
            assert version.read_version(connection) == 0
        assert stored_version(old) is None
        assert not INDEXES & indexes(old)
        head = old.snapshot().id
        append(old, old.table("t"), pa.table({"i": [3]}))
        assert stored_version(old) == NEWEST
        assert indexes(old) >= INDEXES
        # The migration is part of the transaction of the first write, not a snapshot of its own.
        assert old.snapshot().id == head + 1
        with old.reading() as connection:
            assert version.read_version(connection) == NEWEST
        assert sorted(old.read("t").column("i").to_pylist()) == [1, 2, 3]


def test_readers_ask_for_the_version_until_it_is_the_newest(lake, lake_url):
    age(lake)
    statements = []
    with Lake.open(lake_url) as other:
        sa.event.listen(other.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))

        def ask():
            statements.clear()
            with other.reading() as connection:
                found = {version.read_version(connection) for _ in range(3)}
            return found, sum("'version'" in text for text in statements)

        assert ask() == ({0}, 1)
        assert ask() == ({0}, 1), "another program may migrate it at any time"
        append(lake, create(lake, "t", batch([1])), batch([2]))
        assert ask() == ({NEWEST}, 1)
        assert ask() == ({NEWEST}, 0)


def test_a_migration_that_is_taken_back_is_not_believed(lake):
    age(lake)

    def migrate_and_fail():
        with lake.writing() as connection:
            assert version.read_version(connection) == NEWEST
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        migrate_and_fail()
    with lake.reading() as connection:
        assert version.read_version(connection) == 0


def test_a_first_write_that_fails_migrates_nothing(lake):
    create(lake, "t", pa.table({"i": [1, 2]}))
    age(lake)
    with pytest.raises(RuntimeError, match="no"), lake.writing():
        raise RuntimeError("no")
    assert stored_version(lake) is None
    assert not INDEXES & indexes(lake)


def test_steps_run_in_order_from_the_version_of_the_lake_on_and_all_or_none(lake, monkeypatch):
    done = []
    steps = [Migration(number=NEWEST + place, subject="a step", run=f"tests:{place}") for place in (1, 2)]
    monkeypatch.setattr(version, "MIGRATIONS", (*MIGRATIONS, *steps))
    monkeypatch.setattr(version, "NEWEST", NEWEST + 2)
    monkeypatch.setattr(Migration, "apply", lambda step, _connection: done.append(step.number))
    with lake.writing():
        pass
    assert done == [NEWEST + 1, NEWEST + 2]
    assert stored_version(lake) == NEWEST + 2
    set_version(lake, NEWEST + 1)
    done.clear()

    def fail(step, connection):
        connection.execute(sa.insert(c.PLATFORM_LAKE).values(key="half", value="done"))
        raise RuntimeError("a step that fails")

    monkeypatch.setattr(Migration, "apply", fail)
    with pytest.raises(RuntimeError, match="a step that fails"):
        append(lake, create(lake, "t", pa.table({"i": [1]})), pa.table({"i": [2]}))
    assert stored_version(lake) == NEWEST + 1
    with lake.reading() as connection:
        assert connection.execute(sa.select(c.PLATFORM_LAKE.c.value).where(c.PLATFORM_LAKE.c.key == "half")).scalar() is None


def test_a_newer_lake_is_refused_when_it_is_opened_and_by_programs_that_have_it_open(lake, lake_url):
    create(lake, "t", pa.table({"i": [1, 2]}))
    set_version(lake, NEWEST + 1)
    with pytest.raises(CatalogueError, match="written by a newer version of platform-plugin") as raised:
        Lake.open(lake_url)
    assert raised.value.hint == "upgrade platform-plugin"
    assert f"version {NEWEST + 1}" in str(raised.value.detail)
    with pytest.raises(CatalogueError, match="a newer version of platform-plugin wrote the lake"):
        append(lake, lake.table("t"), pa.table({"i": [3]}))
    with pytest.raises(CatalogueError, match="a newer version"):
        lake.lease()
    with pytest.raises(CatalogueError, match="a newer version"):
        lake.vacuum()
    assert lake.read("t").num_rows == 2


def test_an_upgrade_that_is_asked_for_migrates_too(lake, lake_url):
    age(lake)
    Lake.upgrade(lake_url)
    assert stored_version(lake) == NEWEST
    assert indexes(lake) >= INDEXES


@pytest.fixture
def victims() -> Iterator[Victims]:
    served = Victims()
    yield served
    served.stop()


def kill_first_writes(lake, victims, url, *, step):
    """Let the first writer to a lake of before be killed at points, each time on such a lake anew."""
    with lake.commit("found") as commit:
        for name in ("a", "b"):
            commit.create_table(name, lake.columns_of(batch([])))
    lake.prepare_tables([COUNTER])
    rows = {"a": [], "b": []}
    points, kills = 10**6, 0
    for number, point in enumerate(range(1, 10**6, step), 1):
        age(lake)
        lake.close()
        head = lake.snapshot().id
        told = victims.attempt(url, "commit", number=number, kill_at=point)
        kills += told["killed"]
        with lake.engine.begin():
            pass  # a server notices only now and then that its client is gone
        made = lake.snapshot().id > head
        assert made or told["killed"]
        migrated = stored_version(lake) == NEWEST
        assert migrated or not made
        assert (indexes(lake) >= INDEXES) == migrated == bool(INDEXES & indexes(lake))
        if made:
            rows["a"] = sorted(rows["a"])[1:] + rows_of_round(number, 4)
            rows["b"] += rows_of_round(number, 2)
        with Lake.open(url) as fresh:
            for name, ids in rows.items():
                assert sorted(fresh.read(name).column("id").to_pylist()) == sorted(ids)
        if not told["killed"]:
            points = told["points"]
            break
    return kills, points


def test_a_first_writer_that_is_killed_has_migrated_all_or_nothing(lake, lake_url, victims):
    kills, _ = kill_first_writes(lake, victims, lake_url, step=17)
    assert kills >= 2


@pytest.mark.slow
def test_a_first_writer_may_be_killed_at_every_point(lake, lake_url, victims):
    kills, points = kill_first_writes(lake, victims, lake_url, step=1)
    assert kills == points
