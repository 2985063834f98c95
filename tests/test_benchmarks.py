"""What benchmarks measure by: the wall clock, or the processor time of this process, of those that it waited for and of the server."""

import subprocess
import sys
import time

import pytest

from tests.benchmarks import report
from tests.benchmarks.report import Report, clock, processor_seconds, seconds

_WORKS = "import time\nwhile time.process_time() < {}: pass\n"


@pytest.fixture(params=["wall", "processor", "client"])
def by(request, monkeypatch):
    monkeypatch.setattr(report, "CLOCK", request.param)
    monkeypatch.setattr(report, "_server", [])
    return request.param


def test_a_clock_of_processors_does_not_count_waiting(by):
    began = clock()
    time.sleep(0.3)
    assert (clock() - began >= 0.3) == (by == "wall")
    assert (seconds(lambda: time.sleep(0.1), times=2, warm_ups=0) >= 0.1) == (by == "wall")


def test_processes_that_were_waited_for_count(by):
    began = processor_seconds()
    subprocess.run([sys.executable, "-c", _WORKS.format(0.3)], check=True)
    assert processor_seconds() - began >= 0.3


def test_the_server_counts_unless_the_clock_is_the_clients(by):
    code = _WORKS.format(0.3) + "print('done', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        began = clock()
        assert server.stdout.readline() == b"done\n"
        if by != "wall":
            assert clock() - began < 0.3
            report._server.append(server.pid)
            assert (clock() - began >= 0.3) == (by == "processor")
        server.communicate(b"\n")
        report._server.clear()


def test_rows_show_the_processor_seconds_since_the_row_before(by, capsys):
    figures = Report("figures")
    subprocess.run([sys.executable, "-c", _WORKS.format(0.3)], check=True)
    figures.add(what="busy", value=1.0)
    figures.add(what="idle", value=1.0)
    busy, idle = (row["cpu"] for row in figures.rows)
    assert busy >= 0.3 > idle
    assert "what=busy  value=1  cpu=" in capsys.readouterr().out
