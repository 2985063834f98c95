"""Endpoints, which a lake's URL names: which are refused, with the reason, and what is done where no control socket tells anything."""

from __future__ import annotations

from concurrent import futures

import grpc
import pyarrow as pa
import pytest
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from platform_plugin.engine.spark.server.attach import connect, status
from platform_plugin.engine.spark.session.session import check_endpoint_version
from platform_plugin.errors import ServerError
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform


class OtherSpark(base_pb2_grpc.SparkConnectServiceServicer):
    """It answers what its version is, and nothing else."""

    def __init__(self, version):
        self.version = version

    def AnalyzePlan(self, request, context):  # noqa: N802 - gRPC's name
        answer = base_pb2.AnalyzePlanResponse(session_id=request.session_id, server_side_session_id="s")
        answer.spark_version.version = self.version
        return answer


@pytest.fixture
def other_spark():
    server = grpc.server(futures.ThreadPoolExecutor(2))
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(OtherSpark("4.1.2"), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"sc://127.0.0.1:{port}"
    server.stop(None)


def test_an_endpoint_of_another_version_is_refused_before_anything_is_asked_of_it(other_spark):
    with pytest.raises(ServerError, match=r"has Spark 4\.1\.2, and this package works with 4\.3") as caught:
        connect(other_spark)
    assert "platform server" in caught.value.hint


@pytest.mark.parametrize("version", ["4.3.0", "4.3.1", "4.3.0-managed.2"])
def test_builds_of_the_same_version_are_taken(version):
    check_endpoint_version("host:1", version)


@pytest.mark.spark
def test_an_endpoint_runs_file_tasks_and_says_how_many_at_once(spark_server, tmp_path):
    port = status(runtime=spark_server).details["port"]
    url = f"platform+local://{tmp_path}/lake?spark=sc://127.0.0.1:{port}/;use_ssl=false;token={spark_server.token.read_text()}"
    with Platform.create(url, limits={"task_least_rows": 1}) as platform:
        platform.execute("CREATE STREAM calls (k BIGINT)")
        platform.execute("CREATE VIEW counts AS SELECT k, count(*) AS n FROM calls GROUP BY k")
        stream = platform.lake.table("calls")
        with platform.lake.commit("append") as commit:
            commit.append(stream, [platform.lake.write(stream, pa.table({"k": pa.array([1, 2, 1], pa.int64())})) for _ in range(2)])
        platform.work.engine = "executors"
        done = run_maintenance(platform.work)
        assert (dict(done.failed), dict(done.on_spark), done.tasks) == ({}, {}, 2)
        assert platform.work.session.control is None
        assert platform.work.session.read_task_slots() == 2
        assert sorted(tuple(row) for row in platform.execute("SELECT * FROM counts")) == [(1, 4), (2, 2)]
