"""The runner of DuckLake's own suite reads its files as DuckDB's runner does, and tells tables that differ."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.ducklake_suite import Tally, read_steps

FILE = """
# name: a file
require ducklake
test-env PLACE {TEST_DIR}/x
statement ok con1
ATTACH 'ducklake:{PLACE}.db' AS lake (DATA_PATH '{PLACE}/')

loop i 0 2
statement maybe
INSERT INTO t VALUES (${i})
----
an error that nobody looks at

foreach word a b
query I
SELECT '{word}'
----
a

endloop
endloop
mode skip
statement ok
not to be run

mode unskip
require httpfs
"""


def test_loops_are_unrolled_and_names_replaced():
    steps = list(read_steps(FILE.splitlines(), {"TEST_DIR": "/tmp/here"}))
    assert steps[0].text == "ATTACH 'ducklake:/tmp/here/x.db' AS lake (DATA_PATH '/tmp/here/x/')"
    assert steps[0].connection == "con1"
    insert, select = "INSERT INTO t VALUES ({})", "SELECT '{}'"
    wanted = [insert.format(0), select.format("a"), select.format("b"), insert.format(1), select.format("a"), select.format("b")]
    assert [step.text for step in steps[1:-1]] == wanted
    assert (steps[-1].verb, steps[-1].text) == ("leave", "require httpfs")


def test_a_difference_is_an_error(capsys):
    assert Tally(same=3).report() == 0
    assert Tally(different=["t"]).report() == Tally(broken=["t"]).report() == 1
    assert "DIFFERENT: 1" in capsys.readouterr().out


@pytest.mark.slow
def test_a_small_suite_runs(tmp_path):
    folder = tmp_path / "test" / "sql"
    folder.mkdir(parents=True)
    (folder / "one.test").write_text(
        "statement ok\nATTACH 'ducklake:{TEST_DIR}/a.db' AS lake (DATA_PATH '{TEST_DIR}/data/')\n\n"
        "statement ok\nCREATE TABLE lake.t AS SELECT range AS i FROM range(5)\n\nstatement ok\nDELETE FROM lake.t WHERE i = 2\n"
    )
    root = Path(__file__).parent.parent
    command = [sys.executable, "-m", "tests.ducklake_suite", str(tmp_path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "1 files, 1 lakes: 2 tables x snapshots are the same"), done.stderr
