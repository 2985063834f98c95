import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import platform_plugin
from platform_plugin.engine.spark.server.attach import attach, connect, start, status, stop
from platform_plugin.engine.spark.server.java import java_home
from platform_plugin.engine.spark.server.runtime import RuntimeFolder, open_runtime
from platform_plugin.engine.spark.server.settings import ServerSettings
from platform_plugin.errors import QueryFailed, ServerError
from tests.standalone import StandaloneCluster

SETTINGS = ServerSettings(cores=2, driver_memory_mib=1024, idle_seconds=300)


def wait_until(true, seconds=30.0):
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds, f"not true after {seconds} seconds"
        time.sleep(0.1)


def heap_after_collection(runtime: RuntimeFolder) -> int:
    pid = status(runtime=runtime).details["jvm_pid"]
    subprocess.run(["jcmd", str(pid), "GC.run"], check=True, capture_output=True, timeout=30)
    return status(runtime=runtime).details["heap_bytes"]


def descriptors(pid: int | str) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.skipif(shutil.which("jcmd") is None, reason="asks the JVM for a collection with jcmd")
@pytest.mark.timeout(600)
def test_nothing_leaks_over_a_thousand_sessions(tmp_path: Path) -> None:
    runtime = open_runtime(tmp_path / "run")
    try:
        start(SETTINGS, runtime=runtime)

        def rounds(count: int) -> None:
            for _ in range(count):
                with attach(SETTINGS, runtime=runtime) as session:
                    assert session.arrow("SELECT 1").read_all().num_rows == 1

        rounds(150)
        details = status(runtime=runtime).details
        gc.collect()
        before = heap_after_collection(runtime), descriptors("self"), descriptors(details["pid"]), descriptors(details["jvm_pid"])
        threads = threading.active_count()
        rounds(1000)
        gc.collect()
        wait_until(lambda: status(runtime=runtime).details["sessions"] == 0)
        after = heap_after_collection(runtime), descriptors("self"), descriptors(details["pid"]), descriptors(details["jvm_pid"])
        print(f"heap, client, driver and JVM descriptors: {before} -> {after}")
        assert threading.active_count() <= threads + 2
        # The status store keeps the last 1000 jobs by design; that is what the heap may still grow by.
        assert after[0] - before[0] < 60 * 1024 * 1024
        assert all(late <= early + 8 for early, late in zip(before[1:], after[1:], strict=True))
    finally:
        stop(runtime=runtime)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A standalone master with two workers."""
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        yield cluster.master_url


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(240)
def test_the_same_server_on_a_cluster_of_two_workers(cluster: str, tmp_path: Path) -> None:
    runtime = open_runtime(tmp_path / "run")
    options = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.driver.host": "127.0.0.1"}
    settings = replace(SETTINGS, master=cluster, options=options)
    try:
        with attach(settings, runtime=runtime) as session:
            details = status(runtime=runtime).details
            assert details["master"] == cluster
            stream = session.arrow("SELECT id % 7 AS k, count(*) AS n FROM range(0, 2000000, 1, 8) GROUP BY 1 ORDER BY 1")
            assert sum(row["n"] for row in stream.read_all().to_pylist()) == 2_000_000
            assert stream.metrics().tasks >= 8

            def host(batches):
                import os

                import pyarrow as pa

                for _ in batches:
                    yield pa.RecordBatch.from_pydict({"pid": [os.getppid()]})

            wait_until(lambda: len(session.spark.range(0, 8, 1, 8).mapInArrow(host, "pid BIGINT").distinct().collect()) >= 2)
        token = runtime.token.read_text()
        with connect(f"sc://127.0.0.1:{details['port']}/;use_ssl=false;token={token}") as remote:
            assert remote.arrow("SELECT 1").read_all().num_rows == 1
    finally:
        stop(runtime=runtime)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(240)
def test_the_server_can_be_submitted(tmp_path: Path) -> None:
    import pyspark

    script = tmp_path / "serve.py"
    script.write_text("import sys\nfrom platform_plugin.engine.spark.server.server import main\nsys.exit(main(sys.argv[1:]))\n")
    runtime = open_runtime(tmp_path / "run")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PYTHONPATH"] = str(Path(platform_plugin.__file__).parents[1])
    command = [str(submit), "--master", "local[1]", "--driver-memory", "1g", str(script), str(runtime.path)]
    with (tmp_path / "submit.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(lambda: runtime.read_state().get("phase") == "ready" or process.poll() is not None, 90)
        assert process.poll() is None, (tmp_path / "submit.log").read_text()[-2000:]
        with attach(runtime=runtime) as session:
            assert session.arrow("SELECT 1").read_all().num_rows == 1
            assert status(runtime=runtime).details["master"] == "local[1]"
        with pytest.raises(ServerError, match="refuses"):
            connect(f"sc://127.0.0.1:{status(runtime=runtime).details['port']}")
        assert stop(runtime=runtime)
        assert process.wait(30) is not None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(240)
def test_a_query_that_needs_more_memory_than_there_is_is_told_within_seconds_of_the_end(tmp_path: Path) -> None:
    runtime = open_runtime(tmp_path / "run")
    try:
        with (
            attach(replace(SETTINGS, driver_memory_mib=512), runtime=runtime) as session,
            pytest.raises((ServerError, QueryFailed)) as caught,
        ):
            session.arrow("SELECT sum(length(s)) FROM (SELECT repeat(CAST(id AS STRING), 900000000) AS s FROM range(10))").read_all()
        assert "emory" in str(caught.value) or "too large" in str(caught.value).lower()
        with attach(SETTINGS, runtime=runtime) as session:
            assert session.arrow("SELECT 1").read_all().num_rows == 1
    finally:
        stop(runtime=runtime)


@pytest.mark.spark
def test_local_files_are_written_without_forks_and_checksum_files(spark_server: RuntimeFolder, tmp_path: Path) -> None:
    with attach(runtime=spark_server) as session:
        with session.job():
            session.spark.range(0, 10, 1, 2).write.parquet(str(tmp_path / "out"))
        found = session.arrow("SELECT count(*) AS n FROM parquet.`" + str(tmp_path / "out") + "`").read_all().to_pylist()
        in_use = session.arrow("SET spark.hadoop.fs.file.impl", is_small=True).read_all().to_pylist()
    assert found == [{"n": 10}]
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".parquet"}
    assert in_use[0]["value"] == "platform_plugin.UnforkedFileSystem"


@pytest.mark.spark
@pytest.mark.timeout(120)
def test_twenty_clients_at_once(spark_server: RuntimeFolder) -> None:
    failures = []

    def work(number: int) -> None:
        try:
            with attach(runtime=spark_server) as session:
                for _ in range(3):
                    answer = session.arrow(f"SELECT sum(id) + {number} AS s FROM range(0, 1000, 1, 2)").read_all().to_pylist()
                    assert answer == [{"s": 499500 + number}]
        except BaseException as error:  # noqa: BLE001 - a thread's failure is asserted on below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
