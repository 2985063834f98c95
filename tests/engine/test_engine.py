"""What is offered to engines can be computed elsewhere: an engine that sends tasks and files to another process has the same answers."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from platform_plugin.engine.choose import choose_engine
from platform_plugin.engine.engine import Bid, Task, TaskInput, TaskResult
from platform_plugin.engine.limits import Limits
from platform_plugin.engine.local import LocalEngine
from platform_plugin.engine.refusal import Refusal
from platform_plugin.platform import Platform
from platform_plugin.relations.lookups import table_input
from tests.engine.plans import SUM, plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.engine.engine import Engine, Inputs, Values
    from platform_plugin.lake.lake import Lake

# It knows the kernel and files, and nothing of the lake: as a task on an executor would.
PROGRAM = """
import pickle, sys
import pyarrow as pa, pyarrow.parquet as pq
from platform_plugin.engine.kernel_run import compute
queries, files = pickle.load(sys.stdin.buffer)
tables = {name: pa.concat_tables([pq.read_table(path) for path in paths]) for name, paths in files.items()}
pickle.dump([compute(query, tables) for query in queries], sys.stdout.buffer)
"""


class ElsewhereEngine:
    """Runs each task in a process of its own, over the files of its inputs."""

    name = "elsewhere"

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def bid(self, task: Task, inputs: Inputs) -> Bid | Refusal:
        if all(isinstance(found, TaskInput) and found.scan is not None for found in inputs.values()):
            return Bid(engine=self.name, task=task, why="its files can be read from anywhere")
        return Refusal(why="rows in this process", for_good=False)

    def estimate(self, bids: Sequence[Bid], inputs: Inputs) -> float:
        return 0.0

    def run(self, bids: Sequence[Bid], inputs: Inputs, values: Values = ()) -> list[TaskResult | Refusal]:
        assert not values
        scans = {name: found.scan for name, found in inputs.items() if isinstance(found, TaskInput)}
        files = {
            name: [f"{self._lake.storage.root}/{file.path}" for file in scan.files] for name, scan in scans.items() if scan is not None
        }
        results: list[TaskResult | Refusal] = []
        for bid in bids:
            work = pickle.dumps(([found.query for found in bid.task.plans], files))
            done = subprocess.run([sys.executable, "-c", PROGRAM], input=work, capture_output=True, check=True)
            results.append(TaskResult(rows=tuple(pickle.loads(done.stdout))))
        return results


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE TABLE numbers (k INT, v BIGINT)")
        for _ in range(2):
            rows = pa.table({"k": pa.array([1, 1, 2], pa.int32()), "v": pa.array([10, 20, 30], pa.int64())})
            with made.lake.commit("rows") as commit:
                table = made.lake.table("numbers")
                commit.append(table, [made.lake.write(table, rows)])
        yield made


def test_a_task_that_runs_elsewhere_has_the_same_answer(platform):
    engines: list[Engine] = [ElsewhereEngine(platform.lake), LocalEngine(platform.lake, Limits())]
    snapshot = platform.lake.snapshot()
    inputs = {"main.numbers": table_input(platform.work, platform.lake.table("numbers"), snapshot)}
    task = Task.of(plan(f"{SUM} ORDER BY k"))
    answers = []
    for offered in (engines, engines[1:]):
        choice = choose_engine(task, inputs, offered)
        assert not isinstance(choice, Refusal)
        (result,) = choice.engine.run([choice.bid], inputs)
        assert isinstance(result, TaskResult)
        answers.append((choice.engine.name, result.rows[0].to_pylist()))
    assert answers == [(name, [{"k": 1, "s": 60}, {"k": 2, "s": 60}]) for name in ("elsewhere", "local")]


def test_rows_in_this_process_stay_here(platform):
    engines = [ElsewhereEngine(platform.lake), LocalEngine(platform.lake, Limits())]
    rows = pa.table({"k": pa.array([], pa.int32()), "v": pa.array([], pa.int64())})
    choice = choose_engine(Task.of(plan(SUM)), {"main.numbers": rows}, engines)
    assert choice.engine.name == "local"
