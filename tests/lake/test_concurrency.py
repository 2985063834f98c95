"""Many processes on one lake: every committed row is there once, every conflict is a real one, and no reader sees a torn state."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.errors import CommitConflict, PlatformError
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.files.files import write_delete_file
from platform_plugin.lake.lake import Lake  # noqa: TC001  the fixtures' own type
from platform_plugin.lake.read.read import read_rows
from tests.lake import crowd
from tests.lake.crashing import COUNTER


@pytest.fixture
def shared(lake):
    """One table for all and four for some, and a counter."""
    with lake.commit("found") as commit:
        for name in ("common", *(f"own{i}" for i in range(4))):
            commit.create_table(name, lake.columns_of(crowd.rows(0, 0)))
    with lake.commit("counter") as commit:
        commit.put(COUNTER, name="n", value=0)
    return lake


def row_ids(lake: Lake, name: str) -> list[int]:
    """The row ids that the catalogue gives to a table's rows, by plain SQL."""
    f = c.DATA_FILE.c
    with lake.reading() as connection:
        rows = connection.execute(sa.select(f.row_id_start, f.record_count).where(f.table_id == lake.table(name).id)).all()
    return sorted(itertools.chain.from_iterable(range(start, start + count) for start, count in rows))


def crowd_commits(lake: Lake, url: str, processes: int, turns: int) -> None:
    first = lake.snapshot().id
    said = crowd.run(url, [("appender", number, turns) for number in range(processes)])
    common = lake.read("common").column("id").to_pylist()
    wanted = [value for number in range(processes) for turn in range(turns) for value in crowd.rows(number, turn).column(0).to_pylist()]
    assert sorted(common) == sorted(wanted)
    assert row_ids(lake, "common") == list(range(len(wanted)))
    for own in range(4):
        members = [number for number in range(processes) if number % 4 == own]
        wanted = [v for number in members for turn in range(turns) for v in crowd.rows(number, turn, 2).column(0).to_pylist()]
        assert sorted(lake.read(f"own{own}").column("id").to_pylist()) == sorted(wanted)
        assert row_ids(lake, f"own{own}") == list(range(len(wanted)))
    snapshots = sorted(snapshot for one in said for snapshot in one["snapshots"])
    assert snapshots == list(range(first + 1, first + 1 + processes * (turns + turns // 2)))
    assert [record.id for record in lake.commits()] == list(range(snapshots[-1] + 1))
    times = [record.time for record in lake.commits()]
    assert times == sorted(times)
    with lake.reading() as connection:
        assert connection.execute(sa.select(COUNTER.c.value)).scalar() == processes * (turns // 2)
    print("conflicts on the counter:", sum(one["conflicts"] for one in said))


def test_eight_processes_commit_at_once(shared, lake_url):
    crowd_commits(shared, lake_url, 8, 4)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_eight_processes_commit_many_times_at_once(shared, lake_url):
    crowd_commits(shared, lake_url, 8, 40)


def care_under_fire(lake: Lake, url: str, seconds: float) -> None:
    kinds = ["writer", "writer", "reader", "reader", "caretaker", "caretaker"]
    said = crowd.run(url, [(kind, number, seconds) for number, kind in enumerate(kinds)])
    print(said)
    crowd.check(lake, lake.snapshot())
    turns = [one["turns"] for one in said if "turns" in one]
    assert lake.read("common").num_rows == sum(turns) * 2
    assert all(turns)
    assert all(one["good"] for one in said if "good" in one)
    assert sum(one.get("merge", 0) for one in said) > 0
    # Peace: everything that is not needed goes, everything else stays.
    lake.merge("common")
    lake.expire(datetime(2200, 1, 1, tzinfo=UTC))
    lake.vacuum(grace=timedelta(0))
    crowd.check(lake, lake.snapshot())
    assert len([path for path, _ in lake.storage.listing("main/common/")]) == 1


def test_care_under_fire(shared, lake_url):
    care_under_fire(shared, lake_url, 1.5)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_care_under_long_fire(shared, lake_url):
    care_under_fire(shared, lake_url, 30.0)


def duck_writers(lake: Lake, url: str, duck, members: int, turns: int) -> None:
    """DuckDB does not queue with us: the snapshot's key decides, and each side tries again."""
    code = (
        "import sys\n"
        "from tests.independent_reader import DuckProcess\n"
        "process = DuckProcess()\n"
        "duck = process.attach(sys.argv[1])\n"
        "number, turns, done = int(sys.argv[2]), int(sys.argv[3]), []\n"
        "for turn in range(turns):\n"
        "    try:\n"
        "        duck.execute(f'INSERT INTO common VALUES ({(number * 1000 + turn) * 10}), ({(number * 1000 + turn) * 10 + 1})')\n"
        "        done.append(turn)\n"
        "    except Exception as error:\n"
        "        assert 'conflict' in str(error).lower() or 'locked' in str(error).lower() or 'Failed to commit' in str(error), error\n"
        "print(done)\n"
        "process.stop()\n"
    )
    ducks = [
        subprocess.Popen(
            [sys.executable, "-c", code, url, str(100 + number), str(turns)],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(members)
    ]
    said = crowd.run(url, [("appender", number, turns) for number in range(4)])
    wanted = [value for number in range(4) for turn in range(turns) for value in crowd.rows(number, turn).column(0).to_pylist()]
    for number, process in enumerate(ducks):
        out, complaints = process.communicate(timeout=800)
        assert process.returncode == 0, complaints
        done = eval(out)
        print("DuckDB committed", len(done), "of", turns)
        wanted += [((100 + number) * 1000 + turn) * 10 + i for turn in done for i in range(2)]
    assert sorted(lake.read("common").column("id").to_pylist()) == sorted(wanted)
    with lake.reading() as connection:
        assert connection.execute(sa.select(COUNTER.c.value)).scalar() == 4 * (turns // 2)
    assert [record.id for record in lake.commits()] == list(range(lake.snapshot().id + 1))
    assert all(one["snapshots"] for one in said)
    theirs = duck(url).rows("SELECT id, rowid FROM common")
    assert sorted(row[0] for row in theirs) == sorted(wanted)
    assert sorted(row[1] for row in theirs) == list(range(len(wanted)))


def test_duckdb_writes_at_the_same_time(shared, lake_url, duck):
    duck_writers(shared, lake_url, duck, 2, 4)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_duckdb_writes_much_at_the_same_time(shared, lake_url, duck):
    duck_writers(shared, lake_url, duck, 4, 40)


def first_file(lake, table):
    return lake.scan(table, lake.snapshot()).files[0]


def deletes(lake, table, position):
    file = first_file(lake, table)
    return {file.id: write_delete_file(lake.storage, table, file.path, pa.array([position]))}


@pytest.fixture
def one(shared):
    """A table with a file of three rows."""
    table = shared.table("common")
    with shared.commit("one") as commit:
        commit.append(table, [shared.write(table, crowd.rows(1, 1))])
    return table


# What two commits of the same base do, and whether the later one may still be made.
# ruff: noqa: ARG005
PAIRS = {
    "two deletes on one file": (lambda x, k, t: k.delete(t, deletes(x, t, 0)), lambda x, k, t: k.delete(t, deletes(x, t, 1)), False),
    "delete, then replace": (
        lambda x, k, t: k.delete(t, deletes(x, t, 0)),
        lambda x, k, t: k.replace(t, [first_file(x, t).id], [x.write(t, crowd.rows(2, 2))]),
        False,
    ),
    "replace, then delete": (
        lambda x, k, t: k.replace(t, [first_file(x, t).id], [x.write(t, crowd.rows(2, 2))]),
        lambda x, k, t: k.delete(t, deletes(x, t, 0)),
        False,
    ),
    "two replacements": (
        lambda x, k, t: k.replace(t, [first_file(x, t).id], []),
        lambda x, k, t: k.replace(t, [first_file(x, t).id], []),
        False,
    ),
    "drop, then append": (lambda x, k, t: k.drop_table(t), lambda x, k, t: k.append(t, [x.write(t, crowd.rows(2, 2))]), False),
    "append, then drop": (lambda x, k, t: k.append(t, [x.write(t, crowd.rows(2, 2))]), lambda x, k, t: k.drop_table(t), True),
    "two drops": (lambda x, k, t: k.drop_table(t), lambda x, k, t: k.drop_table(t), False),
    "two creations": (
        lambda x, k, t: k.create_table("new", x.columns_of(crowd.rows(0, 0))),
        lambda x, k, t: k.create_table("NEW", x.columns_of(crowd.rows(0, 0))),
        False,
    ),
    "rename, then append": (lambda x, k, t: k.rename_table(t, "other"), lambda x, k, t: k.append(t, [x.write(t, crowd.rows(2, 2))]), True),
    "delete, then append": (
        lambda x, k, t: k.delete(t, deletes(x, t, 0)),
        lambda x, k, t: k.append(t, [x.write(t, crowd.rows(2, 2))]),
        True,
    ),
    "delete, then remove": (lambda x, k, t: k.delete(t, deletes(x, t, 0)), lambda x, k, t: k.remove(t, [first_file(x, t).id]), True),
    "append, then expect none": (
        lambda x, k, t: k.append(t, [x.write(t, crowd.rows(2, 2))]),
        lambda x, k, t: k.expect_unchanged(t),
        False,
    ),
    "other table, then expect none": (
        lambda x, k, t: k.append(x.table("own1"), [x.write(x.table("own1"), crowd.rows(2, 2))]),
        lambda x, k, t: k.expect_unchanged(t),
        True,
    ),
    "two counts": (
        lambda x, k, t: k.put(COUNTER, expected={"value": 0}, name="n", value=1),
        lambda x, k, t: k.put(COUNTER, expected={"value": 0}, name="n", value=1),
        False,
    ),
    "two first rows": (
        lambda x, k, t: k.put(COUNTER, expected=None, name="m", value=1),
        lambda x, k, t: k.put(COUNTER, expected=None, name="m", value=1),
        False,
    ),
}


@pytest.mark.parametrize("pair", list(PAIRS))
def test_conflicts_are_where_they_must_be_and_name_both(shared, one, pair):
    earlier, later, allowed = PAIRS[pair]
    base = shared.snapshot()
    first, second = shared.commit("the earlier", base=base, author="Ada"), shared.commit("the later", base=base, author="Grace")
    earlier(shared, first, one)
    later(shared, second, one)
    with first:
        pass
    head = shared.snapshot()
    if allowed:
        with second:
            pass
        assert second.snapshot.id == head.id + 1
        return
    with pytest.raises(CommitConflict) as raised, second:
        pass
    for words in ('"the later" by Grace', '"the earlier" by Ada', f"snapshot {base.id} "):
        assert words in str(raised.value), str(raised.value)
    assert raised.value.hint
    assert shared.snapshot() == head


def test_a_table_created_anew_under_the_same_name_gets_no_rows_of_the_old_one(shared, one):
    commit = shared.commit("late")
    commit.append(one, [shared.write(one, crowd.rows(5, 5))])
    with shared.commit("drop") as other:
        other.drop_table(one)
    with shared.commit("anew") as other:
        other.create_table("common", shared.columns_of(crowd.rows(0, 0)))
    with pytest.raises(CommitConflict, match="was dropped"), commit:
        pass
    assert shared.read("common").num_rows == 0


def test_a_table_dropped_while_it_is_read_is_read_to_its_end(shared, one):
    snapshot = shared.snapshot()
    plan = shared.scan(one, snapshot)
    with shared.commit("drop") as commit:
        commit.drop_table(one)
    assert read_rows(shared, plan).num_rows == 3
    assert shared.read("common", snapshot=snapshot).num_rows == 3
    with pytest.raises(PlatformError):
        shared.read("common")


def test_threads_share_a_lake(shared):
    table = shared.table("common")
    failures = []

    def work(number):
        try:
            for turn in range(3):
                with shared.commit(f"{number} {turn}") as commit:
                    commit.append(table, [shared.write(table, crowd.rows(number, turn))])
                shared.read("common")
        except BaseException as error:  # noqa: BLE001  told below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert shared.read("common").num_rows == 24 * 3 * 3
    assert row_ids(shared, "common") == list(range(24 * 3 * 3))
