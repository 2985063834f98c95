"""Appending: what is gathered, what waits, what a full buffer does, and what survives kill -9, forks and a database that goes away."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import timedelta

import pyarrow as pa
import pytest

from platform_plugin.errors import BufferFull, CatalogueError, InvalidValue, PlatformError
from platform_plugin.platform import Platform
from platform_plugin.relations.streams import group
from platform_plugin.relations.streams.append import Grouping
from tests.relations.streams.appending import batch


@pytest.fixture
def platform(lake_url):
    with Platform.create(lake_url) as made:
        made.execute("CREATE STREAM s (writer INT, batch INT)")
        yield made


@pytest.fixture
def slow_commits(platform, monkeypatch):
    """A gate that commits wait for; `reached` once one does."""
    gate = threading.Event()
    gate.reached = threading.Event()
    plain = platform.lake.commit

    def commit(*given, **more):
        gate.reached.set()
        return gate.wait(120) and plain(*given, **more)

    monkeypatch.setattr(platform.lake, "commit", commit)
    yield gate
    gate.set()


def counted(platform):
    rows = platform.lake.read("s")
    return Counter(zip(rows.column("writer").to_pylist(), rows.column("batch").to_pylist(), strict=True))


def test_small_appends_share_commits(platform):
    before = platform.lake.snapshot().id
    with platform.stream("s") as stream:
        receipts = [stream.append(batch(0, number)) for number in range(2000)]
    assert sum(counted(platform).values()) == sum(receipt.result().row_count for receipt in receipts)
    assert platform.lake.snapshot().id - before < 100
    assert {receipt.result().snapshot_id for receipt in receipts} == set(range(before + 1, platform.lake.snapshot().id + 1))


def test_each_append_is_whole_in_the_snapshot_of_its_receipt(platform):
    with platform.stream("s", grouping=Grouping(linger=timedelta(0))) as stream:
        receipts = [stream.append(batch(0, number)) for number in range(50)]
    for snapshot_id in {receipt.result().snapshot_id for receipt in receipts}:
        seen = set(platform.lake.read("s", snapshot=platform.lake.snapshot(snapshot_id)).column("batch").to_pylist())
        assert seen == {number for number, receipt in enumerate(receipts) if receipt.result().snapshot_id <= snapshot_id}


def test_threads_share_one_committer(platform):
    before, receipts = platform.lake.snapshot().id, []

    def work(writer):
        with platform.stream("s") as stream:
            receipts.extend([stream.append(batch(writer, number)) for number in range(100)])

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    assert sum(thread.name == "platform-append" for thread in threading.enumerate()) <= 1
    for thread in threads:
        thread.join()
    assert len(counted(platform)) == 800
    assert platform.lake.snapshot().id - before < 60


def test_what_comes_during_a_commit_goes_into_the_next(platform, slow_commits):
    before = platform.lake.snapshot().id
    with platform.stream("s", grouping=Grouping(linger=timedelta(0))) as stream:
        first = stream.append(batch(0, 0))
        assert slow_commits.reached.wait(60)
        others = [stream.append(batch(0, number)) for number in range(1, 30)]
        assert not any(receipt.done() for receipt in [first, *others])
        slow_commits.set()
    assert first.result().snapshot_id == before + 1
    assert {receipt.result().snapshot_id for receipt in others} == {before + 2}


def test_a_group_ends_at_its_cap(platform, slow_commits):
    grouping = Grouping(linger=timedelta(0), segment_rows=10)
    with platform.stream("s", grouping=grouping) as stream:
        stream.append(batch(0, 4))
        assert slow_commits.reached.wait(60)
        receipts = [stream.append(batch(0, 4)) for _ in range(6)]  # five rows each
        slow_commits.set()
    ids = [receipt.result().snapshot_id for receipt in receipts]
    assert ids == [ids[0], ids[0], ids[0] + 1, ids[0] + 1, ids[0] + 2, ids[0] + 2]


def test_a_large_append_is_one_commit_in_order(platform):
    rows = pa.table({"writer": pa.array([1] * 500_000, pa.int32()), "batch": pa.array(range(500_000), pa.int32())})
    before = platform.lake.snapshot().id
    with platform.stream("s") as stream:
        assert stream.append(rows, wait=True).result().snapshot_id == before + 1
    assert platform.lake.read("s").column("batch").to_pylist() == list(range(500_000))


def test_a_full_buffer_fails_at_once_where_asked(platform, slow_commits):
    stream = platform.stream("s", when_full="fail", grouping=Grouping(buffer_rows=5, linger=timedelta(0)))
    taken = stream.append(batch(0, 4))
    start = time.monotonic()
    with pytest.raises(BufferFull, match="5 rows"):
        stream.append(batch(0, 4))
    assert time.monotonic() - start < 20
    slow_commits.set()
    taken.result()
    stream.append(batch(0, 4), wait=True)
    assert sum(counted(platform).values()) == 10


def test_a_full_buffer_makes_writers_wait_but_not_for_ever(platform, slow_commits):
    stream = platform.stream("s", timeout=timedelta(seconds=0.3), grouping=Grouping(buffer_rows=5, linger=timedelta(0)))
    stream.append(batch(0, 4))
    start = time.monotonic()
    with pytest.raises(BufferFull):
        stream.append(batch(0, 4))
    assert 0.3 <= time.monotonic() - start < 20
    threading.Timer(0.1, slow_commits.set).start()
    with platform.stream("s", grouping=Grouping(buffer_rows=5, linger=timedelta(0))) as patient:
        patient.append(batch(0, 4))  # room is made while it waits
    stream.close()
    assert sum(counted(platform).values()) == 10


def test_the_buffer_counts_bytes_and_refuses_what_never_fits(platform):
    stream = platform.stream("s", grouping=Grouping(buffer_bytes=100))
    with pytest.raises(InvalidValue, match="do not fit the buffer"):
        stream.append(pa.table({"writer": pa.array(range(100), pa.int32())}))
    assert stream.append(batch(0, 0), wait=True).result().row_count == 1


def test_a_failed_commit_is_told_to_everybody_and_leaves_nothing(platform, monkeypatch):
    def broken(*_, **__):
        raise InvalidValue("no", hint="try again")

    with monkeypatch.context() as patch:
        patch.setattr(platform.lake, "commit", broken)
        stream = platform.stream("s")
        receipts = [stream.append(batch(0, number)) for number in range(5)]
        with pytest.raises(InvalidValue):
            stream.flush()
        assert [str(receipt.exception()) for receipt in receipts] == ["no\n  hint: try again"] * 5
    stream.append(batch(0, 1), wait=True)
    stream.flush()
    assert list(counted(platform)) == [(0, 1)]
    assert len(list(platform.lake.storage.listing())) == 2, "the files of the failed group are still there"  # the mark and one file


def test_a_bug_is_told_and_the_committer_goes_on(platform, monkeypatch):
    stream = platform.stream("s")
    with monkeypatch.context() as patch:
        patch.setattr(platform.lake, "write", lambda *_: 1 / 0)
        with pytest.raises(PlatformError, match="could not be written") as raised:
            stream.append(batch(0, 1), wait=True)
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
    stream.append(batch(0, 2), wait=True)
    assert list(counted(platform)) == [(0, 2)]


def test_a_full_disk_is_told(platform, monkeypatch):
    from platform_plugin.errors import StorageError

    stream = platform.stream("s")
    with monkeypatch.context() as patch:

        def full(*_):
            raise StorageError("the disk is full", hint="make room")

        patch.setattr(platform.lake, "write", full)
        with pytest.raises(StorageError, match="disk is full"):
            stream.append(batch(0, 1), wait=True)
    stream.append(batch(0, 2), wait=True)
    assert list(counted(platform)) == [(0, 2)]


def test_a_cancelled_append_is_not_made(platform, slow_commits):
    stream = platform.stream("s", grouping=Grouping(linger=timedelta(0)))
    first = stream.append(batch(0, 0))
    assert slow_commits.reached.wait(60)
    second = stream.append(batch(0, 1))
    assert second.cancel()
    assert not first.cancel()
    slow_commits.set()
    stream.close()
    assert list(counted(platform)) == [(0, 0)]


def test_the_committer_thread_ends_when_nothing_comes(platform, monkeypatch):
    monkeypatch.setattr("platform_plugin.relations.streams.append._IDLE_SECONDS", 0.05)
    stream = platform.stream("s")
    for number in range(3):
        stream.append(batch(0, number), wait=True)
        for thread in threading.enumerate():
            if thread.name == "platform-append":
                thread.join(60)
                assert not thread.is_alive()
    assert len(counted(platform)) == 3


def test_columns_come_while_writers_run(platform):
    stop, written, failures = threading.Event(), [], []

    def work():
        try:
            with platform.stream("s") as stream:
                while not stop.is_set():
                    stream.append(batch(0, len(written)), wait=True)
                    written.append(1)
        except BaseException as error:  # noqa: BLE001  told below
            failures.append(error)

    writer = threading.Thread(target=work)
    writer.start()
    for number in range(5):
        time.sleep(0.1)
        platform.execute(f"ALTER STREAM s ADD COLUMN extra{number} STRING DEFAULT 'old'")
        with platform.stream("s") as other:
            other.append([{"writer": 9, f"extra{number}": "new"}], wait=True)
    stop.set()
    writer.join()
    assert failures == []
    rows = platform.lake.read("s")
    assert rows.column_names == ["writer", "batch", *(f"extra{number}" for number in range(5))]
    assert rows.num_rows == 5 + sum(1 + number % 5 for number in range(len(written)))
    for number in range(5):
        assert Counter(rows.column(f"extra{number}").to_pylist()) == {"new": 1, "old": rows.num_rows - 1}


def test_rows_in_the_shape_of_before_follow_their_columns(platform, slow_commits):
    """Waiting rows meet a stream that was altered: renamed columns keep their values, dropped ones go, new ones get defaults."""
    stream = platform.stream("s", grouping=Grouping(linger=timedelta(seconds=30)))
    receipt = stream.append(batch(7, 3))
    slow_commits.set()
    platform.execute("ALTER STREAM s RENAME COLUMN writer TO author")
    platform.execute("ALTER STREAM s ADD COLUMN extra INT DEFAULT 5")
    platform.execute("ALTER STREAM s DROP COLUMN batch")
    stream.close()
    assert platform.lake.read("s").to_pylist() == [{"author": 7, "extra": 5}] * receipt.row_count


def test_a_dropped_stream_is_told_and_a_new_one_of_that_name_gets_nothing(platform):
    stream = platform.stream("s")
    stream.append(batch(0, 0), wait=True)
    platform.execute("DROP STREAM s")
    platform.execute("CREATE STREAM s (writer INT, batch INT)")
    with pytest.raises(PlatformError, match="was dropped"):
        stream.append(batch(0, 1), wait=True)
    assert not counted(platform)


def _append_in_child(url):
    with Platform.open(url) as platform:
        platform.stream("s").append(batch(2, 0))  # neither flushed nor closed: the process's end does it
        platform._streams = None  # what a process does that never closes its platform


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_a_process_that_just_ends_has_committed(platform, lake_url, way):
    platform.lake.close()
    process = multiprocessing.get_context(way).Process(target=_append_in_child, args=(lake_url,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert list(counted(platform)) == [(2, 0)]


def test_an_interpreter_that_just_ends_has_committed(platform, lake_url):
    code = f"""
from platform_plugin import Platform
from tests.relations.streams.appending import batch

platform = Platform.open({lake_url!r})
platform.stream("s").append(batch(4, 4))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert list(counted(platform)) == [(4, 4)]


def test_a_forked_child_appends_its_own_and_leaves_the_parents_alone(platform, slow_commits):
    stream = platform.stream("s", grouping=Grouping(linger=timedelta(seconds=30)))
    waiting = stream.append(batch(1, 1))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            slow_commits.set()
            failed = "parent" in str(waiting.exception(timeout=60))
            stream.append(batch(1, 2), wait=True)
            os.write(write, b"good" if failed else b"the receipt of the parent was not refused")
        except BaseException as error:  # noqa: BLE001  told to the parent
            os.write(write, repr(error).encode()[:500])
        finally:
            os._exit(0)
    os.close(write)
    assert os.read(read, 500) == b"good"
    os.waitpid(child, 0)
    assert list(counted(platform)) == [(1, 2)]
    slow_commits.set()
    stream.close()
    assert waiting.result().row_count == 3
    assert set(counted(platform)) == {(1, 1), (1, 2)}


def test_an_outcome_that_nobody_knew_is_found_out(platform, monkeypatch):
    """The commit was made, its acknowledgement was lost: nothing is added twice."""
    from platform_plugin.errors import OutcomeUnknown
    from platform_plugin.lake.commit.commit import Commit

    plain, lost = Commit._run, []

    def forgetful(self):
        made = plain(self)
        if not lost:
            lost.append(made)
            raise OutcomeUnknown("gone", hint="look")
        return made

    monkeypatch.setattr(Commit, "_run", forgetful)
    with platform.stream("s") as stream:
        assert stream.append(batch(0, 4), wait=True).result().snapshot_id == lost[0].id
    assert counted(platform) == {(0, 4): 5}


def test_an_outcome_that_was_none_is_repeated(platform, monkeypatch):
    from platform_plugin.errors import OutcomeUnknown
    from platform_plugin.lake.commit.commit import Commit

    plain, lost = Commit._run, []

    def forgetful(self):
        if not lost:
            lost.append(1)
            raise OutcomeUnknown("gone", hint="look")
        return plain(self)

    monkeypatch.setattr(Commit, "_run", forgetful)
    with platform.stream("s") as stream:
        stream.append(batch(0, 4), wait=True)
    assert counted(platform) == {(0, 4): 5}


def test_a_catalogue_that_stays_away_fails_after_the_patience(platform, monkeypatch):
    def away():
        raise CatalogueError("away", hint="wait")

    stream = platform.stream("s", grouping=Grouping(patience=timedelta(seconds=0.5)))
    with monkeypatch.context() as patch:
        patch.setattr(platform.lake, "snapshot", away)
        with pytest.raises(CatalogueError, match="away"):
            stream.append(batch(0, 0), wait=True)
    stream.append(batch(0, 1), wait=True)
    assert list(counted(platform)) == [(0, 1)]


@pytest.mark.postgres
@pytest.mark.slow
def test_appending_goes_on_after_postgres_was_restarted(private_postgres, tmp_path):
    private_postgres.execute("CREATE DATABASE restarted")
    url = private_postgres.database("restarted").lake_url(tmp_path / "data")
    with Platform.create(url) as platform:
        platform.execute("CREATE STREAM s (writer INT, batch INT)")
        stream, receipts, stop = platform.stream("s"), [], threading.Event()

        def work():
            while not stop.is_set():
                receipts.append(stream.append(batch(0, len(receipts))))
                time.sleep(0.005)

        writer = threading.Thread(target=work)
        writer.start()
        time.sleep(0.5)
        private_postgres.kill()
        time.sleep(0.5)
        private_postgres.start()
        time.sleep(1)
        stop.set()
        writer.join()
        stream.close()
        assert counted(platform) == Counter({(0, n): 1 + n % 5 for n in range(len(receipts))})


@pytest.mark.slow
@pytest.mark.parametrize("ids", ["ids", "none"])
def test_killed_writers_leave_what_was_acknowledged(platform, lake_url, tmp_path, ids):
    """Afterwards there is every acknowledged batch, perhaps whole others, and with ids and retries every batch exactly once."""
    seed = random.Random(7)
    acknowledged: dict[int, set[int]] = {writer: set() for writer in range(3)}
    for turn in range(4):
        started = []
        for writer, known in acknowledged.items():
            # The first number that nobody acknowledged: with ids it is safe to send again what may have been taken.
            first = next(number for number in range(100_000) if number not in known) if ids == "ids" else max(known, default=-1) + 1000
            out = tmp_path / f"{writer}-{turn}"
            command = [sys.executable, "-m", "tests.relations.streams.appending", lake_url, str(writer), str(first), ids]
            with out.open("w") as file:
                started.append((writer, out, subprocess.Popen(command, stdout=file)))
        until = time.monotonic() + 60
        while not all(out.stat().st_size > 50 for _, out, _ in started) and time.monotonic() < until:
            time.sleep(0.05)
        for writer, out, process in started:
            time.sleep(seed.random() / 5)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            lines = out.read_text().splitlines(keepends=True)
            acknowledged[writer] |= {int(line) for line in lines if line.endswith("\n")}
    assert all(len(known) > 20 for known in acknowledged.values()), "the writers were killed before they wrote"
    found = counted(platform)
    for (writer, number), count in found.items():
        assert count == 1 + (writer + number) % 5, "a batch is torn or doubled"
    assert {(writer, number) for writer, known in acknowledged.items() for number in known} <= set(found)


def test_a_group_answers_everybody_whatever_happens(platform):
    entries = [
        group.Entry(rows=batch(0, n), table=platform.lake.table("s"), receipt=group.Receipt(1, batch_id), size_bytes=1)
        for n, batch_id in enumerate(["a", "b", "a", None, None])
    ]
    group.AppendGroup(platform.lake, entries, patience_seconds=1).run()
    assert [entry.receipt.result().is_repeat for entry in entries] == [False, False, True, False, False]
    assert set(counted(platform)) == {(0, 0), (0, 1), (0, 3), (0, 4)}
