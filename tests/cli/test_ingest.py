"""`platform ingest` as a process: it follows its source, ends when told to, shows failures and goes on."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import contextmanager

import pytest

from platform_plugin.platform import Platform
from tests.cli.conftest import COMMAND, ROOT


@pytest.fixture
def source(tmp_path, url):
    """A folder and a lake with a stream over its CSV files."""
    folder = tmp_path / "in"
    folder.mkdir()
    with Platform.create(url) as platform:
        platform.execute(f"CREATE STREAM s (id INT) FROM FILES '{folder}/*.csv'")
    return folder


def ids(url):
    with Platform.open(url) as platform:
        return sorted(platform.lake.read("s").column("id").to_pylist())


@contextmanager
def service(environment, *arguments):
    process = subprocess.Popen(
        [*COMMAND, "ingest", *arguments], env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_usage_and_what_can_not_be_ingested(platform, url, lake):
    assert "STREAM" in platform("ingest", check=2).stderr
    assert 'stream "main.nobody" does not exist' in platform("ingest", "nobody", "--once", check=1).stderr
    assert "has no feed" in platform("ingest", "posts", check=1).stderr


def test_once_with_nothing_to_do_needs_no_spark(platform, source):
    assert platform("ingest", "s", "--once", check=0).stdout == "0 rows in 0 batches\n"


@pytest.mark.spark
def test_once_reads_everything_in_batches_and_ends(platform, source, url):
    for number in range(5):
        (source / f"{number}.csv").write_text(f"{number}\nx{number}\n")
    done = platform("ingest", "s", "--once", "--max-files", "2", "--json", check=0)
    *batches, end = [json.loads(line) for line in done.stdout.splitlines()]
    assert [batch["files"] for batch in batches] == [2, 2, 1]
    assert [batch["waiting"] for batch in batches] == [3, 1, 0]
    assert end == {"stopped": True, "batches": 3, "rows": 5, "files": 5, "quarantined": 5, "failures": 0}
    assert ids(url) == [0, 1, 2, 3, 4]


@pytest.mark.spark
def test_it_follows_its_source_until_it_is_told_to_stop(environment, source, url):
    with service(environment, "s", "--interval", "100ms", "--json") as process:
        for number in range(3):
            (source / f".{number}").write_text(f"{number}\n")
            (source / f".{number}").rename(source / f"{number}.csv")
            assert json.loads(process.stdout.readline())["rows"] == 1
        process.send_signal(signal.SIGTERM)
        assert json.loads(process.stdout.readline())["rows"] == 3
        assert process.wait(60) == 0
    assert ids(url) == [0, 1, 2]


@pytest.mark.spark
def test_failures_are_shown_and_tried_again(environment, source, url):
    with Platform.open(url) as platform:
        platform.execute("ALTER STREAM s SET (on_malformed = 'fail')")
    (source / "a.csv").write_text("nonsense\n")
    with service(environment, "s", "--interval", "100ms", "--json") as process:
        failure = json.loads(process.stderr.readline())
        assert "1 malformed record" in failure["error"]["message"]
        assert failure["retry_seconds"] == 1.0
        (source / "a.csv").write_text("7\n")
        assert json.loads(process.stdout.readline())["rows"] == 1
        process.send_signal(signal.SIGINT)
        assert json.loads(process.stdout.readline())["failures"] >= 1
        assert process.wait(60) == 0
    assert ids(url) == [7]
