"""Readers in processes of their own, a ring that turns under them: every answer is one whole snapshot, or an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from platform_plugin.platform import Platform

ROOT = Path(__file__).parents[3]
KEPT = 20


def turn(url, reads):
    """Write while two readers read; what the readers told, and how many rows were written.

    The one that takes leases queues for the catalogue with the writer, which never pauses: it does a tenth of the reads.
    """
    written = 0
    with Platform.create(url) as platform:
        platform.execute(f"CREATE STREAM posts (n BIGINT) WITH (retention_rows = {KEPT})")
        lake = platform.lake
        table = lake.table("posts")

        def append(count):
            nonlocal written
            with lake.commit("append") as commit:
                commit.append(table, [lake.write(table, pa.table({"n": pa.array(range(written, written + count), pa.int64())}))])
            written += count

        append(5)
        command = [sys.executable, "-m", "tests.relations.streams.wraparound", url, "posts"]
        readers = [
            subprocess.Popen([*command, str(count), how, str(KEPT)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
            for how, count in (("leased", reads // 10), ("bare", reads))
        ]
        while any(reader.poll() is None for reader in readers):
            append(8 + written % 7)
        told = [json.loads(reader.communicate()[0]) for reader in readers]
        assert all(reader.returncode == 0 for reader in readers)
        held = lake.read("posts").column("n").to_pylist()
        assert held == list(range(held[0], written))
        assert KEPT <= len(held) < KEPT + 14
        lake.retain()
        files = [path for path, _ in lake.storage.listing() if path.endswith(".parquet")]
        assert len(files) <= KEPT + 1, "what readers held is gone with them"
    return told, written


def check(told, written, reads):
    for reader, fewest in zip(told, (reads // 10, reads), strict=True):
        assert reader["reads"] >= fewest
        assert reader["wrong"] == 0
        assert reader["last"] - reader["first"] > KEPT, "the ring has turned while it was read"
    leased, bare = told
    assert leased["overrun"] == 0, "who holds a lease is waited for"
    assert bare["overrun"] < bare["reads"]
    assert written > 10 * KEPT


def test_no_answer_is_torn(lake_url):
    told, written = turn(lake_url, 200)
    check(told, written, 200)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_no_answer_is_torn_in_very_many(tmp_path):
    reads = int(os.environ.get("READS", "20000"))
    told, written = turn(f"platform+local://{tmp_path}/lake", reads)
    print(f"{written} rows written, {told}")
    check(told, written, reads)
