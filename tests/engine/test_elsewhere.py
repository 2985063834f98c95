"""The same work wherever Spark runs: on a cluster by a server of ours, by that server's endpoint, and on a Connect server of others."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from platform_plugin.engine.spark.server.attach import start, stop
from platform_plugin.engine.spark.server.runtime import open_runtime
from platform_plugin.engine.spark.server.settings import ServerSettings
from platform_plugin.platform import Platform
from tests.engine.pieces import PIECES, Place
from tests.standalone import ConnectServer, StandaloneCluster

pytest.importorskip("confluent_kafka")
_spec = importlib.util.spec_from_file_location("broker", Path(__file__).parents[1] / "relations" / "streams" / "broker.py")
broker_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(broker_module)

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def broker():
    broker = broker_module.Broker()
    yield broker
    broker.stop()


@pytest.fixture(scope="module", params=["cluster", "endpoint of the cluster", "other endpoint"])
def way(request, tmp_path_factory, s3_endpoint):
    """How Spark is reached: the runtime folder of a server of ours or none, and the option of a lake's URL."""
    folder = tmp_path_factory.mktemp("elsewhere")
    with ExitStack() as stack:
        if request.param == "other endpoint":
            yield None, stack.enter_context(ConnectServer(folder)).url
            return
        cluster = stack.enter_context(StandaloneCluster(folder / "cluster"))
        runtime = open_runtime(folder / "run")
        stack.callback(stop, runtime=runtime)
        settings = ServerSettings(
            master=cluster.master_url, cores=2, driver_memory_mib=768, executor_memory_mib=640, executor_cores=1, idle_seconds=0
        )
        port = start(settings, runtime=runtime).details["port"]
        token = runtime.token.read_text()
        yield (runtime.path, None) if request.param == "cluster" else (None, f"sc://127.0.0.1:{port}/;use_ssl=false;token={token}")


def read_with_duckdb(platform, folder, query):
    """The rows of a query over one relation, whose rows Arrow reads from wherever they are; this DuckDB has no file system for stores."""
    (name,) = set(re.findall(r"FROM (\w+)", query))
    pq.write_table(platform.lake.read(name), folder / "read.parquet")
    text = query.replace(f"FROM {name}", "FROM 'read.parquet'")
    code = f"import duckdb, json; print(json.dumps(duckdb.sql({text!r}).fetchall(), default=int))"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    return [tuple(row) for row in json.loads(done.stdout)]


@pytest.fixture(params=["folder", "s3"])
def place(request, way, broker, postgres_database, tmp_path):
    monkeypatch, duck = (request.getfixturevalue(name) for name in ("monkeypatch", "duck"))
    runtime, endpoint = way
    monkeypatch.setenv("PLATFORM_RUNTIME_DIR", str(runtime or Path(__file__)))
    root = str(tmp_path) if request.param == "folder" else request.getfixturevalue("s3_bucket")
    (tmp_path / "incoming" / "clicks").mkdir(parents=True)
    (tmp_path / "incoming" / "people").mkdir()
    url = postgres_database.lake_url(f"{root}/data")
    with Platform.create(f"{url}&spark={endpoint}" if endpoint else url, limits={"task_least_rows": 1}) as platform:

        def rows(query):
            return duck(url).rows(query) if request.param == "folder" else read_with_duckdb(platform, tmp_path, query)

        yield Place(platform=platform, incoming=f"{root}/incoming", broker=broker, rows=rows)


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece.__name__)
def test_a_piece_of_work_is_done_as_at_home(place, piece):
    piece(place)
