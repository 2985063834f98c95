import json
import signal
import subprocess
import sys
import time

import pytest
import sqlalchemy as sa

from platform_plugin.engine.spark.server.attach import status
from platform_plugin.lake.catalogue.catalogue import PLATFORM_LEASE
from platform_plugin.platform import Platform
from tests.cli.conftest import COMMAND, IN_THE_BACKGROUND, ROOT
from tests.cli.terminal import Terminal


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_script_comes_from_standard_input_a_file_or_the_command_line(platform, lake, tmp_path):
    file = tmp_path / "script.sql"
    file.write_text("\ufeffSHOW SCHEMAS;\nSHOW STREAMS")
    assert [row.get("schema") for row in lines(platform("sql", "--json", "-f", str(file), check=0))] == ["main", "main"]
    assert lines(platform("sql", "--json", stdin="SHOW SCHEMAS", check=0)) == [{"schema": "main"}]
    assert lines(platform("sql", "--json", "-f", "-", stdin="SHOW SCHEMAS", check=0)) == [{"schema": "main"}]
    assert platform("sql", "-c", "SHOW SCHEMAS", check=0).stdout.endswith("1 row at snapshot 5\n")


def test_each_c_is_a_statement_and_all_are_run_in_their_order(platform, lake):
    done = platform(
        "sql", "-c", "CREATE TABLE c1 (i INT) -- one", "-c", "INSERT INTO c1 VALUES (1);", "-c", "SELECT i FROM c1", "--csv", check=0
    )
    assert done.stdout.splitlines()[-2:] == ["i", "1"]


@pytest.mark.parametrize("script", ["", "  \n"])
def test_nothing_to_run_is_an_error(platform, lake, script):
    assert "no statement" in platform("sql", stdin=script, check=1).stderr


def test_a_file_that_is_no_text_or_not_there(platform, lake, tmp_path):
    (tmp_path / "raw").write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8" in platform("sql", "-f", str(tmp_path / "raw"), check=1).stderr
    assert "can't be read" in platform("sql", "-f", str(tmp_path / "none"), check=1).stderr


def test_parameters_are_bound_and_never_spliced(platform, lake):
    text = "x'); DROP TABLE users; --"
    done = platform(
        "sql", "--json", "-c", "INSERT INTO users VALUES (:i, :r, :d)", "--param", "i=9", "--param", f"r={text}", "--param", "d=1.25"
    )
    assert lines(done) == [{"message": "1 row written to main.users", "row_count": 1, "snapshot": 6}]
    assert "has no parameter" in platform("sql", "-c", "SHOW TABLES", "--param", "i=9", check=1).stderr


def test_what_came_before_a_failing_statement_stays_and_nothing_after_it_runs(platform, lake):
    script = "INSERT INTO users VALUES (9, 'x', 1); INSERT INTO users VALUES ('x', 'x', 1); INSERT INTO users VALUES (10, 'x', 1)"
    platform("sql", "-c", script, check=1)
    assert json.loads(platform("tables", "--json", check=0).stdout)[1]["rows"] == 5


def test_a_script_with_a_typo_runs_not_at_all(platform, lake):
    platform("sql", "-c", "INSERT INTO users VALUES (9, 'x', 1); SELEC 1", check=1)
    assert json.loads(platform("tables", "--json", check=0).stdout)[1]["rows"] == 4


def test_max_rows_says_that_there_is_more(platform, lake):
    assert "the first 2 rows at" in platform("sql", "--max-rows", "2", "-c", "SHOW TABLES", check=0).stdout
    assert "\n3 rows at" in platform("sql", "--max-rows", "3", "-c", "SHOW TABLES", check=0).stdout
    assert "\n3 rows at" in platform("sql", "--max-rows", "0", "-c", "SHOW TABLES", check=0).stdout


@pytest.mark.spark
def test_rows_in_every_form(platform, lake):
    query = ("-c", "SELECT id, region FROM users WHERE id <= :most ORDER BY id", "--param", "most=3")
    assert lines(platform("sql", "--json", *query, check=0)) == [
        {"id": 1, "region": "EU"},
        {"id": 2, "region": ""},
        {"id": 3, "region": None},
    ]
    assert platform("sql", "--csv", *query, check=0).stdout == 'id,region\n1,"EU"\n2,""\n3,\n'
    table = platform("sql", *query, check=0).stdout.splitlines()
    assert [row.split() for row in table[2:5]] == [["1", "EU"], ["2"], ["3", "NULL"]]


@pytest.mark.spark
def test_a_long_table_has_one_head_and_every_row(platform, lake):
    rows = platform("sql", "-c", "SELECT id AS n FROM range(2500)", check=0).stdout.splitlines()
    assert sorted(int(row) for row in rows[2:-1]) == list(range(2500))
    assert rows[-1] == "2,500 rows at snapshot 5"


@pytest.mark.spark
def test_a_large_result_needs_a_small_process(lake, environment):
    code = (
        "import sys\nfrom platform_plugin.cli import main\ncode = main(['sql', '--csv', '-c', 'SELECT * FROM range(10000000)'])\n"
        # Not getrusage: its peak is handed down from the parent, and a test runner may be large.
        "peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(code, peak, file=sys.stderr)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        rows = sum(1 for _ in process.stdout)
        code, kibibytes = process.stderr.read().split()
    assert (rows, code) == (10_000_001, "0")
    assert int(kibibytes) < 400 * 1024


@pytest.mark.spark
def test_a_reader_who_goes_away_ends_the_query_quietly(lake, environment):
    query = [*COMMAND, "sql", "--csv", "-c", "SELECT * FROM range(20000000)"]
    with subprocess.Popen(query, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"id\n"
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == b""


@pytest.mark.spark
@pytest.mark.parametrize("ended", [(signal.SIGINT, 130, "interrupted\n"), (signal.SIGTERM, 143, "terminated\n")], ids=["ctrl-c", "sigterm"])
def test_a_signal_ends_the_query_also_in_the_background(lake, environment, spark_server, ended):
    number, code, told = ended
    query = [*IN_THE_BACKGROUND, *COMMAND, "sql", "-c", "SELECT count(*) FROM range(1000000000000)"]
    with subprocess.Popen(query, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        _wait(lambda: status(runtime=spark_server).details["running_jobs"] > 0)
        process.send_signal(number)
        assert process.wait(60) == code
        assert process.stderr.read() == told
    _wait(lambda: status(runtime=spark_server).details["running_jobs"] == 0)
    with Platform.open(lake) as platform, platform.lake.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(PLATFORM_LEASE)).scalar() == 0


@pytest.mark.spark
def test_a_time_limit_ends_the_query(platform, lake):
    done = platform("sql", "--timeout", "1.5", "-c", "SELECT count(*) FROM range(1000000000000)", check=1)
    assert "interrupted after 1.5 seconds" in done.stderr


@pytest.mark.spark
def test_progress_is_drawn_on_a_terminal_and_taken_away(lake, environment):
    with Terminal([*COMMAND, "sql", "-c", "SELECT count(*) AS n FROM range(6000000000)"], cwd=ROOT, env=environment) as terminal:
        assert " tasks, " in terminal.read_until(" tasks, ")
        rest = terminal.read_until("at snapshot 5")
        _, cleared, table = rest.rpartition("\r\x1b[K")
        assert cleared
        assert "6000000000" in table
        assert "tasks" not in table


@pytest.mark.spark
def test_status_of_a_running_server(platform, lake, spark_server):
    server = json.loads(platform("status", "--json", check=0).stdout)["server"]
    assert server["running"]
    assert server["pid"] == status(runtime=spark_server).details["pid"]
    assert server["jvm_bytes"] > 100 << 20
    up = platform("up", "--cores", "1", check=0).stdout
    assert "runs already" in up
    assert "platform down" in up


def _wait(ready, seconds=40):
    until = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_parameter_without_a_value_is_given_on_the_command_line(platform, lake):
    assert "hint: give it with --param a=…" in platform("sql", "-c", "INSERT INTO users VALUES (:a, 'x')", check=1).stderr
    assert "write :name in place of ?" in platform("sql", "-c", "INSERT INTO users VALUES (?, 'x')", check=1).stderr
