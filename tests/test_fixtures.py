"""The fixtures themselves: what other tests rest on."""

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.postgres import OLDEST

ROOT = Path(__file__).parents[1]


def test_the_independent_reader_creates_and_reads_a_lake_on_either_database(lake_url, duck, tmp_path):
    (tmp_path / "lake").mkdir(exist_ok=True)
    writer = duck(lake_url, data=tmp_path / "data")
    writer.execute("CREATE TABLE t AS SELECT range AS i FROM range(1000)")
    writer.close()
    assert duck(lake_url, read_only=True).execute("SELECT sum(i) FROM t").fetchone() == (499500,)


@pytest.mark.postgres
def test_the_server_is_durable_and_new_enough(postgres_database):
    with psycopg.connect(postgres_database.dsn) as connection:
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
        assert connection.info.server_version >= OLDEST * 10000


@pytest.mark.postgres
def test_each_test_has_a_database_of_its_own(postgres_database):
    with psycopg.connect(postgres_database.dsn) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
        connection.execute("CREATE TABLE left_behind (i INT)")


@pytest.mark.postgres
@pytest.mark.slow
def test_a_killed_server_starts_again_with_everything_committed(private_postgres):
    private_postgres.execute("CREATE TABLE t AS SELECT 1 AS i")
    private_postgres.kill()
    with pytest.raises(psycopg.OperationalError):
        private_postgres.execute("SELECT 1")
    private_postgres.start()
    with psycopg.connect(private_postgres.database("postgres").dsn) as connection:
        assert connection.execute("SELECT i FROM t").fetchone() == (1,)


def test_children_of_tests_obey_ctrl_c_however_the_tests_were_started():
    child = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    code = f"import subprocess, sys, tests.conftest; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    command = ["sh", "-c", 'trap "" INT; exec "$0" "$@"', sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
