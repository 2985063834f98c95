"""The page on backups: what it prints is run, also while rows arrive and leave, and what is restored equals the lake at one snapshot."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from platform_plugin import Platform
from platform_plugin.lake.lake import Lake
from tests.postgres import find_binaries

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "backup.md"
RELATIONS = [
    "CREATE STREAM posts (uid INT, score INT) WITH (retention_rows = 200)",
    "CREATE TABLE old_posts AS HISTORY OF posts",
    "CREATE STREAM recent (uid INT, score INT) WITH (retention_rows = 200)",  # whose files are deleted, unless somebody holds a lease
]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def printed():
    names = {}
    for block in blocks("python"):
        exec(compile(block, str(PAGE), "exec"), names)
    yield names
    shutil.rmtree(names["folder"])


class Writer:
    """Appends rows whose sum is known from their number, until told to stop; two of three segments leave a stream again."""

    def __init__(self, url):
        self.platform = Platform.open(url)
        self.over = threading.Event()
        self.executor = ThreadPoolExecutor(1)

    def _write(self):
        with self.platform.stream("posts") as posts, self.platform.stream("recent") as recent:
            for number in range(100_000):
                rows = [{"uid": number, "score": row} for row in range(100)]
                posts.append(rows, wait=True)
                recent.append(rows, wait=True)
                if self.over.is_set():
                    break
            else:
                pytest.fail("nobody told the writer to stop")

    def __enter__(self):
        self.writing = self.executor.submit(self._write)
        return self

    def __exit__(self, *_):
        self.over.set()
        self.executor.shutdown()
        self.platform.close()
        self.writing.result()


def back_up(printed, url, data, backup, copy_catalogue, *, copy="copy_files"):
    """As the page says, and at least a dozen commits go by between its steps."""
    with Writer(url), Lake.open(url) as lake, lake.lease(holder="backup"):

        def let_arrive():
            newest, deadline = lake.newest_id(), time.monotonic() + 60
            while lake.newest_id() < newest + 8:
                assert time.monotonic() < deadline
                time.sleep(0.005)

        let_arrive()
        printed[copy](data, backup)
        let_arrive()
        before = lake.newest_id()
        copy_catalogue(backup)
        after = lake.newest_id()
        let_arrive()
        printed[copy](data, backup)
    return before, after


def check(printed, restored, source, before, after):
    """Whole, at a snapshot of the time of the copy, and with the rows that the lake itself has there."""
    assert printed["missing_files"](restored) == []
    version = restored.newest_id()
    assert before <= version <= after
    held, history = restored.read("posts"), restored.read("old_posts")
    assert held.num_rows in range(200, 400)
    assert history.num_rows > 0
    assert restored.read("recent").num_rows in range(200, 400)
    rows = sorted(zip(*(history.column(n).to_pylist() + held.column(n).to_pylist() for n in ("uid", "score")), strict=True))
    assert rows == [(uid, score) for uid in range(len(rows) // 100) for score in range(100)], "each row once, in the stream or its history"
    with Lake.open(source) as lake:
        assert lake.read("old_posts", snapshot=lake.snapshot(version)).num_rows == history.num_rows
    with Platform.open(restored.location.text) as platform, platform.stream("posts") as posts:
        posts.append([{"uid": -1, "score": 0}], wait=True)
        assert platform.lake.newest_id() == version + 1, "the restored lake goes on"


def test_the_page_runs(printed):
    assert printed["restored"].location.folder == printed["folder"] / "restored"


@pytest.mark.slow
def test_a_lake_on_sqlite_is_backed_up_while_rows_arrive(printed, tmp_path):
    source = tmp_path / "lake"
    with Platform.create(source) as platform:
        for statement in RELATIONS:
            platform.execute(statement)
    backup = tmp_path / "backup"
    before, after = back_up(printed, source, source / "data", backup, lambda to: printed["copy_sqlite"](source, to))
    shutil.copytree(backup, tmp_path / "restored")
    with Lake.adopt(tmp_path / "restored") as restored:
        check(printed, restored, source, before, after)


@pytest.mark.slow
@pytest.mark.postgres
def test_a_lake_on_postgres_is_backed_up_while_rows_arrive(printed, postgres_database, postgres_server, tmp_path, monkeypatch):
    binaries = find_binaries()
    monkeypatch.setenv("PATH", os.pathsep.join([str(binaries), str(Path(sys.executable).parent), os.environ["PATH"]]))
    source = postgres_database.lake_url(tmp_path / "data")
    with Platform.create(source) as platform:
        for statement in RELATIONS:
            platform.execute(statement)
    monkeypatch.setenv("PLATFORM_RUNTIME_DIR", str(tmp_path / "runtime"))
    backup = tmp_path / "backup"
    before, after = back_up(printed, source, tmp_path / "data", backup, lambda to: printed["copy_postgres"](postgres_database.dsn, to))

    (script,) = blocks("sh")
    name = f"{postgres_database.name}_restored"
    script = script.replace("shop_restored", name)
    place = {"PGHOST": postgres_database.host, "PGPORT": str(postgres_database.port), "PGUSER": postgres_database.user}
    try:
        done = subprocess.run(
            ["sh", "-euc", script], cwd=tmp_path, env=os.environ | place, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "posts" in done.stdout
        url = postgres_server.database(name).lake_url(tmp_path / "restored")
        with Lake.open(url) as restored:
            check(printed, restored, source, before, after)
    finally:
        postgres_server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@pytest.mark.slow
@pytest.mark.postgres
def test_a_lake_in_a_bucket_with_its_catalogue_on_postgres_is_backed_up_while_rows_arrive(
    printed, postgres_database, postgres_server, s3_bucket, tmp_path
):
    binaries, dump = find_binaries(), tmp_path / "catalogue.dump"
    source = postgres_database.lake_url(f"{s3_bucket}/lake")
    with Platform.create(source) as platform:
        for statement in RELATIONS:
            platform.execute(statement)
    before, after = back_up(
        printed,
        source,
        f"{s3_bucket}/lake",
        f"{s3_bucket}/backups/lake",
        lambda _: subprocess.run([binaries / "pg_dump", "--format=custom", f"--file={dump}", postgres_database.dsn], check=True),
        copy="copy_objects",
    )
    printed["copy_objects"](f"{s3_bucket}/backups/lake", f"{s3_bucket}/restored")
    name = f"{postgres_database.name}_restored"
    postgres_server.execute(f'CREATE DATABASE "{name}"')
    database = postgres_server.database(name)
    try:
        subprocess.run(
            [binaries / "pg_restore", f"--dbname={database.dsn}", "--no-owner", "--exit-on-error", dump],
            check=True,
            timeout=60,
        )
        url = database.lake_url(f"{s3_bucket}/restored")
        with Lake.adopt(url) as restored:
            check(printed, restored, source, before, after)
    finally:
        postgres_server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
