"""Lakes in a store that speaks S3, with a Spark that has no jar for it: all statements work, and credentials are nowhere to be read."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pickle
import socket
import threading
import time
import urllib.request
from datetime import timedelta

import fsspec
import pytest

from platform_plugin.engine.spark.server.attach import start, stop
from platform_plugin.engine.spark.server.runtime import open_runtime
from platform_plugin.engine.spark.server.settings import ServerSettings
from platform_plugin.errors import PlatformError, StorageError
from platform_plugin.platform import Platform
from tests.folder_store import FolderStore
from tests.statement_list import LIMITS, run_statements, write_sources

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYSECRETKEY"


def put(bucket):
    def write(name, content):
        with fsspec.open(f"{bucket}/in/{name}", "wb") as file:
            file.write(content)

    return write


@pytest.mark.spark
@pytest.mark.postgres
def test_what_the_kernel_refuses_is_read_by_tasks(postgres_database, s3_bucket, spark_server):
    with Platform.create(postgres_database.lake_url(f"{s3_bucket}/lake")) as platform:
        platform.work.limits = LIMITS
        platform.execute("CREATE TABLE t (id BIGINT, name STRING)")
        platform.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'a')")
        platform.execute("INSERT INTO t SELECT id + 10, sha2(name, 224) FROM t")
        query = (
            "SELECT sha2(name, 256) AS code, count(*) AS n, sum(id) AS s FROM t WHERE length(name) = 1 GROUP BY sha2(name, 256) ORDER BY s"
        )
        assert [(n, s) for _, n, s in platform.execute(query)] == [(1, 2), (2, 4)]
        platform.execute("UPDATE t SET name = concat(name, '!') WHERE id < 3 AND sha2(name, 256) IS NOT NULL")
        platform.execute("DELETE FROM t WHERE id > 12 AND sha2(name, 256) IS NOT NULL")
        assert list(platform.execute("SELECT id FROM t WHERE sha2(name, 256) <> '' ORDER BY id")) == [
            (number,) for number in (1, 2, 3, 11, 12)
        ]
        plan = [line for (line,) in platform.execute(f"EXPLAIN {query}")]
        (told,) = [line for line in plan if line.startswith("files are read by tasks in Python")]
        assert 'Spark has no file system for "s3": org.apache.hadoop:hadoop-aws:3.' in told


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.postgres
def test_all_statements_give_what_they_give_in_a_folder(postgres_database, s3_bucket, spark_server, tmp_path):
    write_sources(put(s3_bucket))
    with Platform.create(postgres_database.lake_url(f"{s3_bucket}/lake")) as platform:
        found = run_statements(platform, f"{s3_bucket}/in")
    with Platform.create(tmp_path / "lake") as platform:
        expected = run_statements(platform, f"{s3_bucket}/in")
    for (query, rows), (_, known) in zip(found, expected, strict=True):
        assert rows == known, query


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.postgres
def test_duckdb_reads_the_same_rows_in_the_same_store(postgres_database, folder_store, spark_server, duck):
    # A wheel as those of the other extensions, which `pip install duckdb-extension-httpfs` brings.
    pytest.importorskip("duckdb_extension_httpfs")
    with Platform.create(postgres_database.lake_url("s3://box/lake")) as platform:
        platform.work.limits = LIMITS
        platform.execute("CREATE TABLE t (id BIGINT NOT NULL, name STRING, paid DECIMAL(12, 2), day DATE, tags ARRAY<STRING>)")
        numbers = "(SELECT explode(sequence(1, 500)) AS id) AS n"
        day = "date_add(DATE'2000-01-01', cast(id AS INT))"
        values = f"id, sha2(cast(id AS STRING), 256), cast(id AS DECIMAL(12, 2)) / 4, {day}, array(hex(id), NULL)"
        platform.execute(f"INSERT INTO t SELECT {values} FROM {numbers}")
        platform.execute("UPDATE t SET name = concat(name, '!') WHERE id % 3 = 0 AND sha2(name, 256) <> ''")
        platform.execute("DELETE FROM t WHERE id % 7 = 0 AND sha2(name, 256) <> ''")
        lake = duck(platform.lake.location.text, read_only=True)
        endpoint = folder_store.endpoint.removeprefix("http://")
        lake.execute(f"CREATE SECRET (TYPE s3, KEY_ID 'x', SECRET 'y', ENDPOINT '{endpoint}', URL_STYLE 'path', USE_SSL false, REGION 'x')")
        for version in ("", " AT (VERSION => 2)", " AT (VERSION => 3)"):
            ours = sorted(platform.execute(f"SELECT id, name, paid, day, tags FROM t{version} WHERE sha2(name, 256) <> ''"))
            assert lake.rows(f"SELECT id, name, paid, day, tags FROM t{version} ORDER BY id") == ours
            assert len(ours) == 500 - (71 if not version else 0)


def shown(content):
    """Whether bytes have the secret, as it is or within base64."""
    coded = [base64.b64encode(b"\0" * pad + SECRET.encode())[4:-4] for pad in range(3)]
    return any(form in content for form in (SECRET.encode(), *coded))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.postgres
def test_credentials_reach_executors_and_stand_nowhere(postgres_database, s3_bucket, tmp_path, monkeypatch):
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION")
    known = {name: os.environ[name] for name in names}
    events = tmp_path / "events"
    events.mkdir()
    options = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), "spark.eventLog.compress": "false"}
    settings = ServerSettings(cores=2, driver_memory_mib=1024, ui=True, options=options)
    runtime = open_runtime(tmp_path / "run")
    monkeypatch.setenv("PLATFORM_RUNTIME_DIR", str(runtime.path))
    try:
        # A server that knows of no store: its workers learn of it from the client alone.
        for name in names:
            monkeypatch.delenv(name)
        start(settings, runtime=runtime)
        for name, value in known.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        with Platform.create(postgres_database.lake_url(f"{s3_bucket}/lake")) as platform:
            platform.work.limits = LIMITS
            platform.execute("CREATE TABLE t (id BIGINT, name STRING)")
            platform.execute("INSERT INTO t SELECT id, sha2(cast(id AS STRING), 256) FROM (SELECT explode(sequence(1, 100)) AS id) AS n")
            said = [str(row) for row in platform.execute("EXPLAIN EXTENDED SELECT sha2(name, 256) FROM t")]
            assert list(platform.execute("SELECT count(*), max(sha2(name, 256)) IS NOT NULL FROM t")) == [(100, True)]
            (file,) = [path for path, _ in platform.lake.storage.listing("main/t")][:1]
            platform.lake.storage.delete([file])
            with pytest.raises(PlatformError) as caught:
                list(platform.execute("SELECT max(sha2(name, 256)) FROM t"))
            assert "is missing" in str(caught.value)
            said += [str(caught.value), repr(caught.value.__cause__), repr(platform.lake.storage), repr(platform.lake)]
            page = platform.work.session.read_page()
            pages = [
                fetch(f"{page}/{path}")
                for path in ("jobs/", "stages/", "SQL/", "environment/", "executors/", "connect/", "SQL/execution/?id=1")
            ]
            (application,) = json.loads(fetch(f"{page}/api/v1/applications"))
            api = f"{page}/api/v1/applications/{application['id']}"
            pages += [
                fetch(f"{api}/{path}")
                for path in ("environment", "jobs", "stages", "allexecutors", "sql?details=true&planDescription=true")
            ]
            logs = [path.read_bytes() for path in (*events.rglob("*"), runtime.log) if path.is_file()]
            assert b"MapInArrow" in b"".join(logs)
            assert b"MapInArrow" in b"".join(pages)
            assert not any(shown(content) for content in (*pages, *logs, *(text.encode() for text in said)))
            assert SECRET in pickle.dumps(platform.lake.storage).decode(errors="replace"), "what is sent has it"
    finally:
        stop(runtime=runtime)


def fetch(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read()


@pytest.fixture
def folder_store(tmp_path, monkeypatch):
    """A store whose process can be killed, which is the store that the environment names."""
    import s3fs

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    store = FolderStore(tmp_path / "store", port)
    store.start()
    for name, value in (
        ("AWS_ENDPOINT_URL", store.endpoint),
        ("AWS_ACCESS_KEY_ID", "x"),
        ("AWS_SECRET_ACCESS_KEY", "y"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().mkdir("box")
    yield store
    store.kill()
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_a_store_that_fails_now_and_then_loses_nothing(postgres_database, folder_store, spark_server):
    with Platform.create(postgres_database.lake_url("s3://box/lake")) as platform:
        platform.work.limits = LIMITS
        platform.execute("CREATE TABLE t (id BIGINT, name STRING)")
        rows: dict[int, str] = {}
        for number, fault in enumerate(("503 3", "half 4", "slow 2 0.2")):
            folder_store.fail(fault)
            first = 100 * number
            numbers = f"(SELECT explode(sequence({first + 1}, {first + 100})) AS id) AS n"
            platform.execute(f"INSERT INTO t SELECT id, sha2(cast(id AS STRING), 256) FROM {numbers}")
            where = f"id % 3 = {number} AND sha2(name, 256) IS NOT NULL"
            platform.execute(f"UPDATE t SET name = concat(name, '{number}') WHERE {where}")
            platform.execute(f"DELETE FROM t WHERE id % 7 = {number} AND sha2(name, 256) IS NOT NULL")
            rows |= {id_: hashlib.sha256(str(id_).encode()).hexdigest() for id_ in range(first + 1, first + 101)}
            rows = {id_: f"{name}{number}" if id_ % 3 == number else name for id_, name in rows.items()}
            rows = {id_: name for id_, name in rows.items() if id_ % 7 != number}
            assert dict(platform.execute("SELECT id, name FROM t WHERE sha2(name, 256) <> ''")) == rows, fault
        folder_store.fail()
        named = {file.path for file in platform.lake.scan(platform.lake.table("t"), platform.lake.snapshot()).files}
        assert named <= {key.removeprefix("lake/") for key in folder_store.list_keys()}


def attempt(platform, statement, errors):
    try:
        platform.execute(statement)
    except PlatformError as error:
        errors.append(error)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_a_store_that_is_killed_leaves_all_or_nothing(postgres_database, folder_store, spark_server):
    statements = (
        "INSERT INTO t SELECT id + 1000, sha2(name, 256) FROM t WHERE id <= 400",
        "UPDATE t SET name = concat(name, '!') WHERE id % 3 = 0 AND sha2(name, 256) IS NOT NULL",
        "DELETE FROM t WHERE id % 5 = 0 AND sha2(name, 256) IS NOT NULL",
        "CREATE TABLE copy AS SELECT id, sha2(name, 256) AS code FROM t",
    )
    with Platform.create(postgres_database.lake_url("s3://box/lake")) as platform:
        platform.work.limits = LIMITS
        platform.execute("CREATE TABLE t (id BIGINT, name STRING)")
        for first in range(0, 400, 100):
            platform.execute(
                f"INSERT INTO t SELECT id, cast(id AS STRING) FROM (SELECT explode(sequence({first + 1}, {first + 100})) AS id) AS n"
            )
        failures = 0
        for number, statement in enumerate(statements):
            before = sorted(platform.execute("SELECT id, name FROM t WHERE sha2(name, 256) <> ''"))
            folder_store.fail("slow 1 0.15")
            errors: list[PlatformError] = []
            thread = threading.Thread(target=attempt, args=(platform, statement, errors))
            thread.start()
            time.sleep(0.6 + 0.3 * number)
            folder_store.kill()
            thread.join(240)
            assert not thread.is_alive()
            folder_store.fail()
            folder_store.start()
            for error in errors:
                failures += 1
                assert isinstance(error, StorageError), repr(error)
                assert "can't be read or written" in error.message
            now = sorted(platform.execute("SELECT id, name FROM t WHERE sha2(name, 256) <> ''"))
            if errors:
                assert now == before, statement
                platform.execute(statement)
        assert failures, "the store was never killed in time"
        rows = {id_: str(id_) for id_ in range(1, 401)}
        rows |= {id_ + 1000: hashlib.sha256(str(id_).encode()).hexdigest() for id_ in range(1, 401)}
        rows = {id_: name + "!" if id_ % 3 == 0 else name for id_, name in rows.items() if id_ % 5}
        assert dict(platform.execute("SELECT id, name FROM t")) == rows
        assert list(platform.execute("SELECT count(*) FROM copy WHERE length(code) = 64")) == [(len(rows),)]
        platform.lake.vacuum(grace=timedelta(0))
        platform.work.session.missing_stores.clear()
        assert dict(platform.execute("SELECT id, name FROM t WHERE sha2(name, 256) <> ''")) == rows
