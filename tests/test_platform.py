"""The one door under attack: readers overtaken, clients and servers killed, threads, forks, crowds, and what must not be left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_plugin.engine.spark.server.attach import start, status, stop
from platform_plugin.engine.spark.server.runtime import RUNTIME_VARIABLE, open_runtime
from platform_plugin.engine.spark.server.settings import ServerSettings
from platform_plugin.errors import PlatformError, QueryInterrupted
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.platform import Platform
from tests.spark_fixture import server_of_its_own

pytestmark = pytest.mark.spark

ENDLESS = "SELECT sum(a.id * b.id % 7) FROM range(3000000) a CROSS JOIN range(3000000) b"


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory):
    """What runs on the shared server may be another test's, so these have one of their own."""
    with server_of_its_own(tmp_path_factory.mktemp("server") / "run") as runtime:
        yield runtime


@pytest.fixture
def url(tmp_path):
    return f"platform+local://{tmp_path}/lake"


@pytest.fixture
def platform(url, spark_server):
    with Platform.create(url) as platform:
        yield platform


def leases(platform):
    with platform.lake.reading() as connection:
        if not sa.inspect(connection).has_table("platform_lease"):
            return 0
        return connection.execute(sa.select(sa.func.count()).select_from(c.PLATFORM_LEASE)).scalar_one()


def data_files(platform):
    return sorted(path for path in (platform.lake.location.folder).rglob("*.parquet"))


def wait_until(holds, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not so in time, among the threads {sorted(t.name for t in threading.enumerate())}"
        time.sleep(0.1)


def running(runtime):
    return status(runtime=runtime).details["running_queries"]


def child(code, *arguments, **options):
    """Another process with the same server, in which `code` runs."""
    return subprocess.Popen(
        [sys.executable, "-c", "import sys\nfrom platform_plugin.platform import Platform\n" + code, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
        **options,
    )


def test_a_result_that_is_read_outlives_its_table(platform):
    platform.execute("CREATE TABLE t AS SELECT id, repeat('x', 50) AS s FROM range(0, 400000, 1, 4)")
    result = platform.execute("SELECT * FROM t")
    first = next(result.batches()).num_rows
    platform.execute("DROP TABLE t")
    platform.lake.expire(datetime.now(UTC) + timedelta(days=1))
    platform.lake.vacuum(grace=timedelta(0))
    assert first + sum(batch.num_rows for batch in result.batches()) == 400_000
    assert leases(platform) == 0
    platform.lake.expire(datetime.now(UTC) + timedelta(days=1))
    platform.lake.vacuum(grace=timedelta(0))
    assert data_files(platform) == []


def test_a_result_that_is_closed_early_stops_its_job(platform, spark_server):
    result = platform.execute("SELECT id, repeat('x', 100) AS s FROM range(0, 200000000, 1, 200)")
    next(result.batches())
    result.close()
    wait_until(lambda: running(spark_server) == 0)
    assert leases(platform) == 0
    assert list(platform.execute("SELECT 1")) == [(1,)]


def test_a_time_out_ends_a_query_soon_and_leaves_nothing(platform, spark_server):
    began = time.monotonic()
    with pytest.raises(QueryInterrupted, match="after 1 seconds"):
        platform.execute(ENDLESS, timeout=timedelta(seconds=1))
    with pytest.raises(QueryInterrupted, match="after 1 seconds"):
        platform.execute(f"CREATE TABLE t AS {ENDLESS}", timeout=timedelta(seconds=1))
    assert time.monotonic() - began < 60
    wait_until(lambda: running(spark_server) == 0)
    assert leases(platform) == 0
    assert data_files(platform) == []
    assert list(platform.execute("SELECT 1")) == [(1,)]


def test_a_ctrl_c_ends_a_query_and_the_next_one_runs(platform, spark_server):
    timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises((KeyboardInterrupt, QueryInterrupted)):
        platform.execute(ENDLESS)
    timer.join()
    wait_until(lambda: running(spark_server) == 0)
    assert leases(platform) == 0
    assert list(platform.execute("SELECT 1")) == [(1,)]


def test_a_killed_client_leaves_no_job_and_no_lease(platform, url, spark_server):
    platform.execute("SELECT 1").close()
    other = child(f"p = Platform.open(sys.argv[1]); p.lake.lease(); p.execute({ENDLESS!r})", url)
    # Other tests use the same server: what runs there may be theirs.
    wait_until(lambda: leases(platform) > 1 and running(spark_server) > 0)
    other.kill()
    other.wait()
    wait_until(lambda: running(spark_server) == 0)
    assert leases(platform) > 0
    platform.lake.expire(datetime.now(UTC))
    assert leases(platform) == 0


@pytest.mark.slow
def test_a_server_that_ended_since_the_last_statement_is_replaced_without_a_word(platform, spark_server):
    platform.execute("CREATE TABLE t AS SELECT id FROM range(10)")
    details = status(runtime=spark_server).details
    os.kill(details["jvm_pid"], signal.SIGKILL)
    os.kill(details["pid"], signal.SIGKILL)
    wait_until(lambda: not status(runtime=spark_server).running)
    assert list(platform.execute("SELECT count(*) FROM t")) == [(10,)]
    assert status(runtime=spark_server).details["pid"] != details["pid"]
    stop(runtime=spark_server)
    assert platform.execute("INSERT INTO t SELECT id FROM range(5)").row_count == 5


def test_a_failed_statement_leaves_no_files_and_no_lease(platform):
    platform.execute("CREATE TABLE t (a INT, u UUID)")
    platform.execute("INSERT INTO t VALUES (1, NULL), (2, NULL)")
    platform.execute("CREATE TABLE plain AS SELECT id FROM range(100000)")
    before = data_files(platform)
    for sql in (
        "INSERT INTO plain SELECT id / (id - 99999) FROM plain",
        "INSERT INTO plain SELECT CASE WHEN id < 99999 THEN id ELSE raise_error('now') END FROM range(0, 100000, 1, 4)",
        "INSERT INTO t SELECT id, if(id < 90000, uuid(), 'nope') FROM plain",
        "CREATE TABLE z AS SELECT 1 / (id - 99999) AS x FROM plain",
        "UPDATE plain SET id = if(id < 99999, id, raise_error('now'))",
        "UPDATE t SET u = 'nope'",
        "DELETE FROM plain WHERE raise_error('now')",
        "SELECT id FROM plain; SELECT nope FROM plain",
    ):
        with pytest.raises(PlatformError):
            platform.execute(sql).arrow()
    assert data_files(platform) == before
    assert leases(platform) == 0
    assert platform.execute("SELECT count(*), sum(a) FROM t").arrow().to_pylist() == [{"count(1)": 2, "sum(a)": 3}]


def test_threads_share_one_platform_and_lakes_never_mix(platform, tmp_path):
    with Platform.create(tmp_path / "other") as other:
        for each, number in ((platform, 1), (other, 2)):
            each.execute(f"CREATE TABLE t AS SELECT {number} AS n, id FROM range(10)")

        def ask(place):
            each, number = ((platform, 1), (other, 2))[place % 2]
            if place % 5 == 0:
                each.execute("INSERT INTO t VALUES (:n, :i)", {"n": number, "i": 100 + place})
            found = each.execute("SELECT n, count(*), :p AS p FROM t GROUP BY n", {"p": place}).arrow().to_pydict()
            return found["n"] == [number] and found["p"] == [place]

        with ThreadPoolExecutor(6) as pool:
            assert all(pool.map(ask, range(24)))
        assert list(other.execute("SELECT DISTINCT n FROM t")) == [(2,)]
        assert list(other.execute("SELECT count(*) FROM t")) == [(12,)]
        assert leases(platform) == leases(other) == 0


def test_a_forked_child_has_a_session_of_its_own(platform, url):
    code = """
import os
p = Platform.open(sys.argv[1])
assert list(p.execute("SELECT 1")) == [(1,)]
pid = os.fork()
if pid == 0:
    print("child", list(p.execute("SELECT 2")), list(p.execute("SHOW TABLES")), flush=True)
    os._exit(0)
_, status = os.waitpid(pid, 0)
print("parent", status, list(p.execute("SELECT 3")), flush=True)
"""
    other = child(code, url)
    said, _ = other.communicate(timeout=60)
    assert said.splitlines() == ["child [(2,)] []", "parent 0 [(3,)]"]


NAMES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["'; DROP TABLE t; --", "\\'", "`", "/*", "${x}", ":a", "?"]
)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(name=NAMES, column=NAMES, value=VALUES)
def test_names_and_values_are_never_taken_for_sql(platform, name, column, value):
    quote = lambda text: "`" + text.replace("`", "``") + "`"  # noqa: E731
    platform.execute("CREATE TABLE IF NOT EXISTS t (a INT)")
    for relation in platform.lake.tables():
        if relation.name.relation != "t":
            platform.execute(f"DROP TABLE {quote(relation.name.relation)}")
    table, part = quote("n" + name), quote(column)
    platform.execute(f"CREATE TABLE {table} ({part} STRING, `k` INT)" if column.lower() != "k" else f"CREATE TABLE {table} ({part} STRING)")
    platform.execute(f"INSERT INTO {table} ({part}) VALUES (:v)", {"v": value})
    written = "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    platform.execute(f"INSERT INTO {table} ({part}) VALUES ({written})")
    platform.execute(f"INSERT INTO {table} ({part}) SELECT {written}")
    platform.execute(f"UPDATE {table} SET {part} = :v WHERE {part} = :v", {"v": value})
    assert list(platform.execute(f"SELECT {part}, x.{part}, {written} FROM {table} x WHERE {part} = ?", [value])) == [(value,) * 3] * 3
    assert platform.execute(f"DELETE FROM {table} WHERE {part} = {written}").row_count == 3
    platform.execute(f"DROP TABLE {table}")
    assert [row[1] for row in platform.execute("SHOW TABLES")] == ["t"]


def test_many_statements_leave_nothing_open(platform, spark_server):
    platform.execute("CREATE TABLE t (a INT)")
    platform.execute("SELECT 1").close()

    def some(count):
        for place in range(count):
            match place % 6:
                case 0:
                    platform.execute("INSERT INTO t VALUES (?)", [place])
                case 1:
                    list(platform.execute("SHOW TABLES"))
                case 2:
                    with pytest.raises(PlatformError):
                        platform.execute("SELECT nope FROM t")
                case 3:
                    with pytest.raises(PlatformError):
                        platform.execute("INSERT INTO t VALUES ('x')")
                case 4:
                    platform.execute("SELECT 1").close()
                case 5:
                    list(platform.execute("SELECT count(*) FROM range(3)"))

    def descriptors():
        return len(list(Path("/proc/self/fd").iterdir()))

    some(30)
    opened, threads = descriptors(), threading.active_count()
    sessions = status(runtime=spark_server).details["sessions"]
    some(126)
    assert leases(platform) == 0
    # Each kind of statement ran 21 times. gRPC's threads and their descriptors come and go late, a few at a time.
    wait_until(lambda: threading.active_count() <= threads + 8 and descriptors() <= opened + 16)
    wait_until(lambda: status(runtime=spark_server).details["sessions"] <= sessions and running(spark_server) == 0)


@pytest.mark.slow
def test_many_results_that_are_let_go_of_at_once_share_one_thread_that_ends(platform):
    platform.execute("SELECT 1").close()
    for _ in range(5):
        platform.execute("SELECT id FROM range(0, 200000000, 1, 200)").close()
    interrupting = [thread for thread in threading.enumerate() if thread.name == "platform-interrupts"]
    assert len(interrupting) == 1
    wait_until(lambda: not interrupting[0].is_alive())


@pytest.mark.slow
def test_ten_million_rows_pass_through_a_small_client(platform, url):
    # Not getrusage: its peak is handed down from the parent, and a test runner may be large.
    code = """
def memory(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
p = Platform.open(sys.argv[1])
list(p.execute("SELECT id, concat('text ', id) AS s FROM range(1000)"))
before = memory("VmRSS")
rows = sum(batch.num_rows for batch in p.execute("SELECT id, concat('text ', id) AS s FROM range(10000000)").batches())
print(rows, (memory("VmHWM") - before) // 1024, flush=True)
p.close()
"""
    other = child(code, url)
    said, _ = other.communicate(timeout=110)
    rows, mebibytes = map(int, said.split())
    assert rows == 10_000_000
    assert mebibytes < 256


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_twenty_clients_read_and_write_one_lake(platform, url, duck):
    platform.execute("CREATE TABLE t (who INT, n INT)")
    code = """
who = int(sys.argv[2])
with Platform.open(sys.argv[1]) as p:
    for n in range(5):
        p.execute("INSERT INTO t VALUES (?, ?)", [who, n])
        seen = [row[0] for row in p.execute("SELECT n FROM t WHERE who = :w ORDER BY n", {"w": who})]
        assert seen == list(range(n + 1)), seen
"""
    others = [child(code, url, str(who)) for who in range(20)]
    assert [other.wait(350) for other in others] == [0] * 20
    assert list(platform.execute("SELECT count(*), count(DISTINCT who), sum(n) FROM t")) == [(100, 20, 200)]
    assert duck(url).rows("SELECT count(*), count(DISTINCT who), sum(n) FROM t") == [(100, 20, 200)]
    assert leases(platform) == 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_killed_server_is_an_error_in_seconds_and_the_next_statement_runs_on_a_new_one(url, tmp_path, monkeypatch):
    monkeypatch.setenv(RUNTIME_VARIABLE, str(tmp_path / "runtime"))
    runtime = open_runtime(tmp_path / "runtime")
    try:
        with Platform.create(url) as platform:
            platform.execute("CREATE TABLE t AS SELECT id FROM range(1000)")
            before, newest = data_files(platform), platform.lake.snapshot().id
            for sql in (ENDLESS, f"INSERT INTO t {ENDLESS}", f"UPDATE t SET id = ({ENDLESS})", f"CREATE TABLE z AS {ENDLESS}"):
                details = status(runtime=runtime).details
                timer = threading.Timer(2.0, os.kill, (details["pid"], signal.SIGKILL))
                timer.start()
                began = time.monotonic()
                with pytest.raises(PlatformError, match=r"stopped answering|interrupted|server"):
                    platform.execute(sql)
                assert time.monotonic() - began < 15
                timer.join()
                assert list(platform.execute("SELECT count(*), sum(id) FROM t")) == [(1000, 499_500)]
            assert platform.lake.snapshot().id == newest
            assert leases(platform) == 0
            platform.lake.vacuum(grace=timedelta(0))
            assert data_files(platform) == before
    finally:
        stop(runtime=runtime)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_result_larger_than_the_server_passes_through_a_small_client(url, tmp_path, monkeypatch):
    monkeypatch.setenv(RUNTIME_VARIABLE, str(tmp_path / "runtime"))
    runtime = open_runtime(tmp_path / "runtime")
    start(ServerSettings(cores=2, driver_memory_mib=1024, idle_seconds=300), runtime=runtime)
    code = """
def memory(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
p = Platform.open(sys.argv[1])
list(p.execute("SELECT id, concat('text ', id) AS s FROM range(1000)"))
before = memory("VmRSS")
rows = size = 0
for batch in p.execute("SELECT id, concat(sha2(string(id), 512), repeat('x', 872)) AS s FROM range(0, 3000000, 1, 6)").batches():
    rows, size = rows + batch.num_rows, size + batch.nbytes
print(rows, size, (memory("VmHWM") - before) // 1024, flush=True)
p.close()
"""
    try:
        with Platform.create(url) as platform:
            pid = status(runtime=runtime).details["pid"]
            other = child(code, url)
            # Others are answered all the while.
            while other.poll() is None:
                began = time.monotonic()
                assert list(platform.execute("SELECT count(*) FROM range(1000)")) == [(1000,)]
                assert time.monotonic() - began < 20
                time.sleep(0.5)
            rows, size, mebibytes = map(int, other.stdout.read().split())
            assert rows == 3_000_000
            assert size > 3_000_000_000
            assert mebibytes < 256
            assert status(runtime=runtime).details["pid"] == pid
            assert not list((runtime.scratch / "platform-results").glob("*/*"))
    finally:
        stop(runtime=runtime)
