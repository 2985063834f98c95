import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from platform_plugin.engine.spark.server.attach import attach, interrupt, status
from platform_plugin.engine.spark.server.runtime import RuntimeFolder
from platform_plugin.engine.spark.session.session import Session
from platform_plugin.errors import InvalidValue, QueryFailed, QueryInterrupted
from tests.spark_fixture import server_of_its_own

if TYPE_CHECKING:
    from platform_plugin.engine.spark.session.job import Progress

pytestmark = pytest.mark.spark

ENDLESS = "SELECT count(*) FROM range(0, 4000000000000, 1, 64) WHERE hash(id, 'x') = 7 AND id % 3 = 5"


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory):
    """What runs on the shared server may be another test's, so these have one of their own."""
    with server_of_its_own(tmp_path_factory.mktemp("server") / "run") as runtime:
        yield runtime


@pytest.fixture
def session(spark_server: RuntimeFolder):
    with attach(runtime=spark_server) as session:
        yield session


def wait_until(true, seconds: float = 60.0) -> None:
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds, f"not true after {seconds} seconds"
        time.sleep(0.05)


def running(runtime: RuntimeFolder) -> int:
    details = status(runtime=runtime).details
    return max(details["running_queries"], details["running_jobs"])


def test_rows_arrive_as_arrow(session: Session) -> None:
    table = session.arrow("SELECT id, id * 2 AS twice FROM range(5) ORDER BY id").read_all()
    assert table.to_pydict() == {"id": [0, 1, 2, 3, 4], "twice": [0, 2, 4, 6, 8]}


def test_an_empty_result_has_its_schema(session: Session) -> None:
    stream = session.arrow("SELECT id, 'x' AS name FROM range(5) WHERE id > 10")
    assert stream.schema.names == ["id", "name"]
    assert stream.read_all().num_rows == 0


def test_parameters_are_bound_not_spliced(session: Session) -> None:
    hostile = "x' OR '1' = '1"
    table = session.arrow("SELECT :name AS name, :n + 1 AS n", parameters={"name": hostile, "n": 41}).read_all()
    assert table.to_pylist() == [{"name": hostile, "n": 42}]


def test_a_dataframe_streams_as_well(session: Session) -> None:
    reader = session.arrow(session.spark.range(1000, numPartitions=4)).reader()
    assert isinstance(reader, pa.RecordBatchReader)
    assert sum(batch.num_rows for batch in reader) == 1000


def test_conventions_of_the_server(session: Session) -> None:
    row = session.arrow("SELECT current_timezone() AS zone").read_all().to_pylist()[0]
    assert row["zone"] == "UTC"
    with pytest.raises(QueryFailed) as caught:
        session.arrow("SELECT 1 / 0").read_all()
    assert "zero" in str(caught.value)


def test_failures_are_platform_errors_and_the_session_lives(session: Session) -> None:
    with pytest.raises(QueryFailed, match="nowhere"):
        session.arrow("SELECT * FROM nowhere")
    with pytest.raises(QueryFailed, match="can't be parsed"), session.job():
        session.spark.sql("SELEC 1").collect()
    assert session.arrow("SELECT 1 AS one").read_all().to_pylist() == [{"one": 1}]


def test_metrics_count_jobs_tasks_and_rows(session: Session) -> None:
    stream = session.arrow("SELECT id % 10 AS k, sum(id) FROM range(0, 100000, 1, 4) GROUP BY 1")
    assert stream.read_all().num_rows == 10
    metrics = stream.metrics()
    assert metrics.jobs is not None
    assert metrics.jobs >= 1
    assert metrics.tasks >= 5
    assert metrics.rows_read == 100_000
    assert metrics.shuffle_bytes is not None
    assert metrics.shuffle_bytes > 0
    assert metrics.task_skew is not None
    assert metrics.task_skew >= 1
    assert 0 < metrics.seconds < 60


def test_metrics_of_one_job_leave_out_another(session: Session) -> None:
    with session.job("load") as first:
        session.spark.range(0, 1000, numPartitions=3).selectExpr("sum(id)").collect()
    with session.job("load") as second:
        session.spark.range(0, 10, numPartitions=1).selectExpr("sum(id)").collect()
    assert (first.metrics().rows_read, second.metrics().rows_read) == (1000, 10)


def test_skew_shows(session: Session) -> None:
    stream = session.arrow("SELECT count(*) FROM range(0, 8, 1, 8) WHERE id < 7 OR length(repeat('x', 1)) * (SELECT 1) = 1")
    stream.read_all()
    with session.job() as job:
        slow_last = "SELECT sum(n) FROM (SELECT explode(sequence(1, IF(id = 7, 6000000, 10))) AS n FROM range(0, 8, 1, 8))"
        session.spark.sql(slow_last).collect()
    assert job.metrics().task_skew > 1.5, "one task of nine does nearly all the work"


def test_time_out_interrupts_the_query(session: Session, spark_server: RuntimeFolder) -> None:
    began = time.monotonic()
    with pytest.raises(QueryInterrupted, match="after 1 seconds"):
        session.arrow(ENDLESS, timeout=timedelta(seconds=1)).read_all()
    assert time.monotonic() - began < 60
    wait_until(lambda: running(spark_server) == 0)


@pytest.mark.parametrize("milliseconds", [1, 5, 15, 40, 80, 150])
def test_time_out_during_planning_is_not_lost(session: Session, spark_server: RuntimeFolder, milliseconds: int) -> None:
    began = time.monotonic()
    with pytest.raises(QueryInterrupted):
        session.arrow(ENDLESS, timeout=timedelta(milliseconds=milliseconds)).read_all()
    assert time.monotonic() - began < 60
    wait_until(lambda: running(spark_server) == 0)


def test_interrupt_by_tag_from_another_process_or_session(session: Session, spark_server: RuntimeFolder) -> None:
    timer = threading.Timer(1.0, lambda: interrupt("run-17", runtime=spark_server))
    timer.start()
    with pytest.raises(QueryInterrupted, match="was interrupted"):
        session.arrow(ENDLESS, "view-x", "run-17").read_all()
    timer.join()
    assert interrupt("run-17", runtime=spark_server) == 0


def test_a_tag_with_a_comma_is_refused(session: Session) -> None:
    with pytest.raises(InvalidValue, match='tag "a,b"'):
        session.arrow("SELECT 1", "a,b")


def test_tags_do_not_outlive_their_job(session: Session) -> None:
    session.arrow("SELECT 1", "mine").read_all()
    with pytest.raises(QueryFailed):
        session.arrow("SELECT nowhere", "mine")
    assert session.spark.getTags() == set()


def test_two_streams_at_once_keep_their_own_cost(session: Session) -> None:
    with session.arrow("SELECT id FROM range(0, 200000, 1, 2)", "outer") as outer:
        next(iter(outer))
        inner = session.arrow("SELECT sum(id) FROM range(0, 10, 1, 1)", "inner")
        inner.read_all()
        outer.read_all()
        assert (outer.metrics().rows_read, inner.metrics().rows_read) == (200_000, 10)


def test_letting_go_of_a_stream_ends_its_query(session: Session, spark_server: RuntimeFolder) -> None:
    with session.arrow("SELECT id FROM range(0, 100000000000, 1, 1000)") as stream:
        assert next(iter(stream)).num_rows > 0
    wait_until(lambda: running(spark_server) == 0)


def test_progress_is_told(session: Session) -> None:
    seen: list[Progress] = []
    session.arrow("SELECT count(*) FROM range(0, 1000000000, 1, 16) WHERE hash(id) = 7", progress=seen.append).read_all()
    assert seen, "a query of seconds told nothing"
    assert seen[-1].tasks >= 16
    assert 0 <= seen[-1].tasks_done <= seen[-1].tasks
    assert [one.seconds for one in seen] == sorted(one.seconds for one in seen)


def start_client(spark_server: RuntimeFolder) -> subprocess.Popen[str]:
    code = (
        "import sys\n"
        "from platform_plugin.engine.spark.server.attach import attach\n"
        "session = attach()\n"
        "print('attached', flush=True)\n"
        f"session.arrow({ENDLESS!r}, 'client-test').read_all()\n"
    )
    environment = {**os.environ, "PLATFORM_RUNTIME_DIR": str(spark_server.path)}
    client = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert client.stdout is not None
        assert client.stdout.readline() == "attached\n"
        wait_until(lambda: running(spark_server) >= 1)
    except BaseException:
        client.kill()
        raise
    return client


@pytest.mark.parametrize("delay", [0.0, 0.1, 1.0])
def test_killed_client_stops_its_job_and_its_session(spark_server: RuntimeFolder, delay: float) -> None:
    before = status(runtime=spark_server).details["sessions"]
    client = start_client(spark_server)
    time.sleep(delay)
    client.kill()
    client.communicate()
    wait_until(lambda: running(spark_server) == 0)
    wait_until(lambda: status(runtime=spark_server).details["sessions"] == before)


@pytest.mark.parametrize("delay", [0.0, 1.0])
def test_control_c_interrupts_the_query(spark_server: RuntimeFolder, delay: float) -> None:
    client = start_client(spark_server)
    time.sleep(delay)
    client.send_signal(signal.SIGINT)
    try:
        _, errors = client.communicate(timeout=40)
    finally:
        client.kill()
    assert "KeyboardInterrupt" in errors.splitlines()[-1]
    wait_until(lambda: running(spark_server) == 0)


def test_a_ctrl_c_is_nothing_to_the_shared_server(spark_server: RuntimeFolder) -> None:
    """Spark's own handler would cancel everybody's jobs and end the server with a traceback."""
    state = Path(f"/proc/{status(runtime=spark_server).details['pid']}/status").read_text().splitlines()
    ignored, caught = (int(next(line for line in state if line.startswith(name)).split()[1], 16) for name in ("SigIgn", "SigCgt"))
    assert ignored >> (signal.SIGINT - 1) & 1
    assert caught >> (signal.SIGTERM - 1) & 1


def test_closed_session_is_forgotten_by_the_server(spark_server: RuntimeFolder) -> None:
    before = status(runtime=spark_server).details["sessions"]
    session = attach(runtime=spark_server)
    session.arrow("SELECT 1").read_all()
    session.close()
    session.close()
    wait_until(lambda: status(runtime=spark_server).details["sessions"] == before)
    assert session.closed
    assert "closed" in repr(session)


def test_ten_million_rows_through_a_small_client(spark_server: RuntimeFolder) -> None:
    code = (
        "from platform_plugin.engine.spark.server.attach import attach\n"
        "session = attach()\n"
        "stream = session.arrow('SELECT id, id * 2 AS a, CAST(id AS STRING) AS b FROM range(0, 10000000, 1, 8)')\n"
        "rows = sum(batch.num_rows for batch in stream)\n"
        "peak = next(int(line.split()[1]) // 1024 for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(rows, peak)\n"
    )
    environment = {**os.environ, "PLATFORM_RUNTIME_DIR": str(spark_server.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    rows, peak = map(int, done.stdout.split())
    assert rows == 10_000_000
    assert peak < 256
