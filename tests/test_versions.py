"""Two versions of the package side by side on one lake: both read, both write, and both maintain what the other one has made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import platform_plugin
from platform_plugin.platform import Platform

PACKAGE = Path(platform_plugin.__file__).parent
WORK = """
import sys
import platform_plugin
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform

assert platform_plugin.__version__ == sys.argv[2], platform_plugin.__file__
with Platform.open(sys.argv[1]) as platform:
    for number in range(20):
        platform.execute(f"INSERT INTO posts VALUES ({number % 3}, 1)")
        if number % 4 == 0:
            done = run_maintenance(platform.work)
            assert all("conflict" in type(error).__name__.lower() for error in done.failed.values()), done.failed
    print(sum(row[0] for row in platform.execute("SELECT n FROM counts")))
"""


def work_as(folder, version, url):
    environment = os.environ | {"PYTHONPATH": str(folder), "PLATFORM_RUNTIME_DIR": str(Path(__file__))}
    return subprocess.Popen([sys.executable, "-c", WORK, url, version], env=environment, cwd=folder, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_versions_write_to_and_maintain_one_lake(lake_url, tmp_path, duck):
    other = tmp_path / "other"
    shutil.copytree(PACKAGE, other / "platform_plugin", ignore=shutil.ignore_patterns("__pycache__"))
    init = other / "platform_plugin" / "__init__.py"
    init.write_text(init.read_text().replace(f'__version__ = "{platform_plugin.__version__}"', '__version__ = "99.0.0"'))
    with Platform.create(lake_url) as platform:
        platform.execute("CREATE STREAM posts (uid INT, n INT) WITH (retention_rows = 1000)")
        platform.execute("CREATE VIEW counts AS SELECT uid, count(*) AS n FROM posts GROUP BY uid")
    versions = [(PACKAGE.parent, platform_plugin.__version__), (other, "99.0.0")]
    processes = [work_as(folder, version, lake_url) for folder, version in versions]
    told = [process.communicate(timeout=200)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert max(int(count) for count in told) == 40, "the last one has read what both have written"
    with Platform.open(lake_url) as platform:
        found = sorted(tuple(row) for row in platform.execute("SELECT uid, n FROM counts"))
    assert found == [(0, 14), (1, 14), (2, 12)]
    assert duck(lake_url).rows("SELECT uid, count(*) FROM posts GROUP BY uid ORDER BY uid") == found
