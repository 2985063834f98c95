"""What every test may ask for: a place for a lake on either database, a private PostgreSQL, and the independent reader."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from platform_plugin.cache import BUDGET_VARIABLE, set_budget
from tests.independent_reader import Duck, DuckProcess
from tests.postgres import OLDEST, Database, PostgresServer, find_binaries
from tests.s3 import s3_bucket, s3_endpoint  # noqa: F401  fixtures
from tests.spark_fixture import no_server_left_behind, no_unasked_server, spark_server, spark_session  # noqa: F401  fixtures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A shell without job control (nohup, cron, some CI) lets what it starts in the background ignore Ctrl-C, and children inherit that.
# What this process handles they don't, so that tests of Ctrl-C mean the same whoever starts them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Two shared cores make every deadline a coin toss. In CI the same examples run each time, so that a red run can be repeated.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

_NO_POSTGRES = f"no PostgreSQL {OLDEST} or newer is installed (apt-get install postgresql)"


def pytest_report_header() -> str:
    binaries = find_binaries()
    return f"postgresql: {binaries}" if binaries else f"postgresql: its tests are SKIPPED: {_NO_POSTGRES}"


def pytest_unconfigure(config: pytest.Config) -> None:
    server = getattr(config, "platform_postgres", None)
    if server is None and not hasattr(config, "workerinput") and (folder := _shared_folder(config)) is not None:
        # The workers of this run share one server; whoever started them stops it.
        state = folder / "postgres.json"
        server = _read_server(state) if state.exists() else None
    if server is not None:
        server.remove()


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Caches of this process keep nothing during a test."""
    with monkeypatch.context() as patch:
        patch.setenv(BUDGET_VARIABLE, "0")
        set_budget()
        yield
    set_budget()


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PostgresServer:
    """The run's shared server. Do not stop it: `private_postgres` is for that."""
    if find_binaries() is None:
        pytest.skip(_NO_POSTGRES)
    if not hasattr(request.config, "workerinput"):
        server = PostgresServer.create(owner=os.getpid())
        request.config.platform_postgres = server  # type: ignore[attr-defined]
        return server
    folder = tmp_path_factory.getbasetemp().parent
    state = folder / "postgres.json"
    with (folder / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not state.exists():
            # A worker's parent is the pytest that the user started.
            server = PostgresServer.create(owner=os.getppid())
            state.write_text(json.dumps(asdict(server), default=str))
    return _read_server(state)


@pytest.fixture(scope="session")
def postgres_url(postgres_server: PostgresServer) -> str:
    """The administrator's SQLAlchemy URL on the shared server."""
    return postgres_server.database("postgres").sqlalchemy_url


@pytest.fixture
def postgres_database(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> Iterator[Database]:
    """A database that only this test sees."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    count = getattr(request.config, "platform_databases", 0)
    request.config.platform_databases = count + 1  # type: ignore[attr-defined]
    database = postgres_server.database(f"test_{worker}_{count}")
    postgres_server.execute(f'CREATE DATABASE "{database.name}"')
    yield database
    postgres_server.execute(f'DROP DATABASE IF EXISTS "{database.name}" WITH (FORCE)')


@pytest.fixture
def postgres_urls(postgres_server: PostgresServer) -> Iterator[Callable[[Path], str]]:
    """`postgres_urls(folder)`: the URL of one more lake that does not exist yet, with its files in a folder."""
    made: list[str] = []

    def url(folder: Path) -> str:
        made.append(f"one_of_many_{folder.name}")
        postgres_server.execute(f'CREATE DATABASE "{made[-1]}"')
        return postgres_server.database(made[-1]).lake_url(folder / "data")

    yield url
    for name in made:
        postgres_server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@pytest.fixture
def private_postgres() -> Iterator[PostgresServer]:
    """A server of this test's own, to be stopped, killed and started at will."""
    if find_binaries() is None:
        pytest.skip(_NO_POSTGRES)
    server = PostgresServer.create(owner=os.getpid())
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def lake_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a lake that does not exist yet, once on each database."""
    if request.param == "sqlite":
        return f"platform+local://{tmp_path}/lake"
    database: Database = request.getfixturevalue("postgres_database")
    return database.lake_url(tmp_path / "data")


@pytest.fixture(scope="session")
def duck_process() -> Iterator[DuckProcess]:
    """The DuckDB of this worker, in a process of its own; started when the first test asks for it."""
    process = DuckProcess()
    yield process
    process.stop()


@pytest.fixture
def duck(duck_process: DuckProcess) -> Iterator[Callable[..., Duck]]:
    """`duck(lake_url)` opens the lake with DuckDB 1.5.5 and its own DuckLake extension; see `DuckProcess.attach`."""
    opened: list[Duck] = []

    def attach(lake_url: str, **options: object) -> Duck:
        opened.append(duck_process.attach(lake_url, **options))
        return opened[-1]

    yield attach
    for connection in opened:
        connection.close()


def _read_server(state: Path) -> PostgresServer:
    known = json.loads(state.read_text())
    return PostgresServer(folder=Path(known["folder"]), port=known["port"], user=known["user"], binaries=Path(known["binaries"]))


def _shared_folder(config: pytest.Config) -> Path | None:
    factory = getattr(config, "_tmp_path_factory", None)
    return None if factory is None or factory._basetemp is None else factory._basetemp
