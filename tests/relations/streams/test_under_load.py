"""Everything at once on one lake, in processes of their own: no read under a lease loses a file or counts a row twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from platform_plugin.lake.ring.segments import read_ring
from platform_plugin.platform import Platform
from tests.relations.streams import under_load

ROOT = Path(__file__).parents[3]
READERS = 3


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(7200)
def test_reads_beside_writers_and_every_kind_of_care_lose_no_file(tmp_path, spark_server):
    reads = int(os.environ.get("READS", "1000"))
    url = f"platform+local://{tmp_path}/lake"
    under_load.found(url)

    def start(role, place=0, number=0):
        command = [sys.executable, "-m", "tests.relations.streams.under_load", url, str(tmp_path), role, str(number), str(place)]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    others = [start(role) for role in ("write", "write", "care", "refresh", "update")]
    maintainer = subprocess.Popen([sys.executable, "-m", "platform_plugin.cli", "maintain", "--url", url], stdout=subprocess.DEVNULL)
    readers = [start("read", place, -(-reads // READERS)) for place in range(READERS)]
    try:
        read = [json.loads(reader.communicate()[0]) for reader in readers]
    finally:
        (tmp_path / "stop").touch()
        for reader in readers:
            reader.terminate()
        maintainer.terminate()
        maintainer.wait(timeout=120)
        told = [json.loads(other.communicate(timeout=120)[0] or "{}") for other in others]
    print(json.dumps([{**one, "failed": one["failed"][:3], "failures": len(one["failed"])} for one in (*read, *told)], indent=1))
    assert [reader["failed"] for reader in read] == [[]] * READERS
    assert [reader["wrong"] for reader in read] == [[]] * READERS
    assert sum(reader["turns"] for reader in read) >= reads
    with Platform.open(url) as platform, platform.lake.reading() as connection:
        ring = read_ring(connection, platform.lake.table("posts").uuid)
    assert ring.first_row_id > ring.row_count, "the ring went round, so that files left it under the readers"
    care = next(one for one in told if one["role"] == "care")
    assert care["turns"] - len(care["failed"]) > 10, "the lake was cared for meanwhile"
