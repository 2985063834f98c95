"""Spark Connect endpoints that are nobody's of ours, whose executors lack the package, or packages that it needs."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from platform_plugin.engine.limits import Limits
from platform_plugin.errors import ServerError
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from tests.standalone import ConnectServer

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

PACKAGES = Path(sysconfig.get_paths()["purelib"])
# What Spark itself needs in a worker that passes Arrow on.
OF_SPARK = ("pyspark", "pyarrow", "pandas", "numpy", "numpy.libs", "grpc", "google", "dateutil", "pytz", "six.py", "typing_extensions.py")


def make_python(folder, packages):
    """A Python that has these packages and not ours."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    place = next((folder / "lib").glob("python3*/site-packages"))
    if packages is None:
        (place / "others.pth").write_text(f"{PACKAGES}\n")  # what is installed as a link to its source is not found so
    for name in packages or ():
        if (PACKAGES / name).exists():
            (place / name).symlink_to(PACKAGES / name)
    return folder / "bin" / "python"


def serve(folder, python):
    """A server whose workers run this Python, and find nothing by their environment."""
    return ConnectServer(folder, environment={"PYSPARK_PYTHON": str(python), "PYTHONPATH": ""})


@contextmanager
def lake_with_rows(folder, spark):
    with Platform.create(f"platform+local://{folder}/lake?spark={spark}", engine="executors") as platform:
        platform.work.limits = Limits(task_least_rows=1)
        platform.execute("CREATE STREAM calls (k BIGINT, v BIGINT) WITH (retention_rows = 1000000)")
        platform.execute("CREATE VIEW sums AS SELECT k, count(*) AS n, sum(v) AS s FROM calls GROUP BY k")
        table = platform.lake.table("calls")
        rows = pa.table({"k": pa.array([1, 2, 1], pa.int64()), "v": pa.array([1, 10, 100], pa.int64())})
        with platform.lake.commit("append") as commit:
            commit.append(table, [platform.lake.write(table, rows) for _ in range(2)])
        yield platform


def test_executors_without_the_package_get_it(tmp_path):
    with serve(tmp_path, make_python(tmp_path / "python", None)) as server, lake_with_rows(tmp_path, server.url) as platform:
        done = run_maintenance(platform.work)
        assert (done.failed, dict(done.on_spark)) == ({}, {})
        assert [run.engine for run in done.engine_runs] == ["executors"]
        assert sorted(platform.execute("SELECT k, n, s FROM sums")) == [(1, 4, 202), (2, 2, 20)]


def test_executors_without_packages_that_it_needs_are_told_of_in_one_error(tmp_path):
    with serve(tmp_path, make_python(tmp_path / "python", OF_SPARK)) as server, lake_with_rows(tmp_path, server.url) as platform:
        with pytest.raises(ServerError, match="an executor does not have this version of the package") as caught:
            run_maintenance(platform.work)
        assert "No module named" in str(caught.value.detail)
        assert "in the Python of the executors" in str(caught.value.hint)
        # Nothing is consumed: another engine takes all of it.
        assert not run_maintenance(platform.work, engine="local").failed
        assert sorted(platform.execute("SELECT k, n, s FROM sums")) == [(1, 4, 202), (2, 2, 20)]
